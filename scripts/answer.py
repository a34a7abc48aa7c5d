"""
Answer a problem with a game's players: the helpful prover writes several solutions, the verifier chooses the best one, and
says how likely it is to be correct:

    python scripts/answer.py runs/quickstart "Ana has 3 pens. On Monday Ana finds 2 pens. How many pens does Ana have?" -n 16
"""

import argparse
import sys

from pvg_hf.game.console import quiet_libraries, set_up_logging


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a run, or a published one (`org/run`)")
    parser.add_argument("problem", help="its text, or `-` for standard input")
    parser.add_argument("-n", "--num-samples", type=int, default=16, help="solutions to choose from (%(default)s)")
    parser.add_argument("--abstain-below", type=float, default=0.5, help="withhold less likely answers (%(default)s)")
    parser.add_argument("--round", type=int, dest="round_index", help="from 0; the last one by default")
    parser.add_argument("--seed", type=int, default=0, help="of the solutions (%(default)s)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let the code run that the recipe of a pulled run names (docs/security.md)",
    )
    parser.add_argument("--all", action="store_true", help="show every solution with its score")
    arguments = parser.parse_args()

    set_up_logging()
    quiet_libraries()
    from pvg_hf.config import load_recipe
    from pvg_hf.config.trust import trust_recipe
    from pvg_hf.game.answering import Answerer
    from pvg_hf.hub.locate import locate_run
    from pvg_hf.hub.retry import HubError

    problem = sys.stdin.read() if arguments.problem == "-" else arguments.problem
    try:
        run = locate_run(arguments.run)
        if arguments.trust:
            recipe = run / "recipe.yaml"
            for line in trust_recipe(recipe, load_recipe(recipe)):
                print(f"Trusted from now on: {line}", file=sys.stderr)
        answerer = Answerer.from_run(run, round_index=arguments.round_index, device=arguments.device)
        reply = answerer(
            problem,
            num_samples=arguments.num_samples,
            abstain_below=arguments.abstain_below,
            seed=arguments.seed,
        )
    except (ValueError, HubError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    for candidate in reply.candidates if arguments.all else reply.candidates[:1]:
        print(f"{candidate.solution}\n(score {candidate.score:.2f})\n")
    if reply.probability is None:
        print(f"No answer: none of {len(reply.candidates)} solutions comes to one.")
    else:
        likely = f"probability {reply.probability:.2f} of being correct"
        print(
            f"No answer: {likely}, below {arguments.abstain_below}."
            if reply.abstains
            else f"{reply.answer} ({likely})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
