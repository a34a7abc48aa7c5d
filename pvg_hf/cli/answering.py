"""`pvg answer` (experimental): answer a problem with a game's players."""

import sys
from collections.abc import Sequence
from dataclasses import replace

from pvg_hf.config.load import load_kept_recipe
from pvg_hf.config.trust import trust_recipe
from pvg_hf.game.cli import ENDING_ERRORS, report_error
from pvg_hf.hub.locate import find_local_run, locate_run
from pvg_hf.run.console import ScriptParser, print_result, quiet_libraries, set_up_logging

ABSTAIN_BELOW = 0.5
WITHHELD = 1  # exit status


def answer(words: Sequence[str]) -> int:
    """
    Answer a problem with a game's players.

    The helpful prover writes several solutions, the verifier helps to choose an answer, and the probability that it is
    correct is estimated on the run's held-out problems:

        pvg answer quickstart - < problem.txt
        pvg answer org/run "How many pens are 3 and 4?" --all

    The exit status is 0 with an answer, 1 if it is withheld or no solution has one, and 2 after an error.
    """
    parser = ScriptParser(answer.__doc__, "pvg answer")
    parser.add_argument("run", help="a run: its folder, its name in `runs`, or `org/run` on the Hub")
    parser.add_argument("problem", help="text of the problem, or `-` for standard input")
    parser.add_argument(
        "-n",
        "--num-samples",
        type=int,
        help="solutions to choose from (default: the number that the run's probabilities were fitted for)",
    )
    parser.add_argument(
        "--choose",
        choices=["best", "vote", "weighted-vote"],
        help=(
            "the highest score, the most frequent answer, or a vote weighted by score (default: the rule with the"
            " highest accuracy on the run's held-out problems)"
        ),
    )
    parser.add_argument(
        "--abstain-below",
        type=float,
        help=(
            f"withhold answers with a lower probability of being correct (default: {ABSTAIN_BELOW}); if set, answers"
            " of unknown probability are withheld, too"
        ),
    )
    parser.add_argument("--round", type=int, dest="round_index", help="round, from 0 (default: the last one)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the solutions (default: %(default)s)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="consent to what the recipe of a pulled run does beyond its run (docs/reference/security.md)",
    )
    parser.add_argument("--all", action="store_true", help="show every solution with its score")
    arguments = parser.parse_args(words)

    set_up_logging()
    problem = sys.stdin.read() if arguments.problem == "-" else arguments.problem
    threshold = ABSTAIN_BELOW if arguments.abstain_below is None else arguments.abstain_below
    try:
        find_local_run(arguments.run)  # refuses a wrong folder
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.experimental.answering.answerer import Answerer

        run = locate_run(arguments.run)
        if arguments.trust:
            recipe = run / "recipe.yaml"
            for line in trust_recipe(recipe, load_kept_recipe(recipe)):
                sys.stderr.write(f"Trusted from now on: {line}\n")
        answerer = Answerer.from_run(run, round_index=arguments.round_index, device=arguments.device)
        reply = answerer(
            problem.strip(),
            num_samples=arguments.num_samples,
            rule=arguments.choose,
            abstain_below=threshold,
            seed=arguments.seed,
        )
    except ENDING_ERRORS as err:
        return report_error(err)
    if arguments.abstain_below is None and reply.probability is None and reply.best is not None:
        reply = replace(reply, abstains=False)
    for candidate in reply.candidates if arguments.all else reply.candidates[:1]:
        print_result(f"{candidate.solution}\n(score {candidate.score:.2f})\n")
    if reply.why_unknown is not None:
        sys.stderr.write(f"warning: {reply.why_unknown}\n")
    print_result(_sum_up(reply, threshold))
    return WITHHELD if reply.answer is None else 0


def _sum_up(reply, threshold: float) -> str:
    num = len(reply.candidates)
    if reply.best is None:
        return f"No answer: none of {num} solutions has one."
    how = f"{reply.rule}, {reply.votes} of {num} solutions"
    if reply.probability is None:
        known = f"no probability of being correct; {how}"
        return f"No answer: {known}." if reply.abstains else f"{reply.answer} ({known})"
    likely = f"probability {reply.probability:.2f} of being correct; {how}"
    return f"No answer: {likely}; below {threshold}." if reply.abstains else f"{reply.answer} ({likely})"
