"""`pvg score`, `choose` and `calibrate`: a verifier for solutions of your own."""

import json
import logging
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pvg_hf.cli.results import add_json, as_asked, check_output
from pvg_hf.cli.solutions import SOURCE, add_data_options, read_solutions
from pvg_hf.cli.sources import find_verifier, local_verifier
from pvg_hf.core.acceptance import COMPLETENESS
from pvg_hf.core.files import write_text
from pvg_hf.core.integrity import DIGESTS
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging

if TYPE_CHECKING:
    import pandas as pd

    from pvg_hf.scoring import VerifierScorer

logger = logging.getLogger(__name__)

NUM_READ = 20  # solutions whose texts the verifier's tokenizer must cover
COMPLETENESSES = (0.5, 0.8, 0.9, COMPLETENESS, 0.98)
FEW_PROBLEMS = 50


def score(words: Sequence[str]) -> int:
    """
    Score solutions with a verifier. Higher is more convincing.

        pvg score quickstart solutions.jsonl
        pvg score org/run-verifier solutions.jsonl --output scores.jsonl

    The file has a `problem` and a `solution` in each line. Each is written with its `score` and, if the verifier is
    calibrated, the `probability` of being correct and whether it is `accepted` at the threshold for --completeness.
    """
    options = _parse("score", score, words)

    def work() -> str:
        check_output(options.output)
        if not 0 < options.completeness < 1:
            raise ValueError(f"`--completeness` is {options.completeness:g}; it must be inside (0, 1).")
        rows, scorer, _ = _score(options, ("problem", "solution"))
        if scorer.calibration is not None:
            rows["probability"] = rows["score"].map(scorer.calibration.probability_of)
            rows["accepted"] = scorer.calibration.acceptance(options.completeness).accepts(rows["score"])
        return _write(rows.to_dict("records"), options)

    return run_command(work)


def choose(words: Sequence[str]) -> int:
    """
    Choose among several answers to each problem, by the verifier, by a vote, and by both.

        pvg choose quickstart answers.jsonl
        pvg choose org/run-verifier answers.jsonl --output chosen.jsonl

    The file has a `problem` and a `solution` in each line, several lines to a problem. A vote compares final answers,
    as marked by `####`, `Answer:` or `\\boxed{}`; --no-vote leaves it out. With a column `correct` (0 or 1) it also
    says how often each rule is right.
    """
    parser = _parser("choose", choose)
    parser.add_argument(
        "--no-vote", action="store_true", help="the solutions have no final answers that can be compared"
    )
    add_json(parser, "how often the rules differ and are right, in place of the choices,")
    options = _parse("choose", choose, words, parser)

    def work() -> str:
        check_output(options.output)
        rows, scorer, _ = _score(options, ("problem", "solution"))
        from pvg_hf.evaluation.chosen_answers import choose_answers, compare_rules, describe_rules

        chosen = choose_answers(rows, scorer.calibration, with_votes=not options.no_vote)
        figures = compare_rules(rows, chosen)
        if options.json and options.output is None:
            return as_asked(options, "", figures)
        sys.stderr.write(describe_rules(figures) + "\n")
        return as_asked(options, _write(chosen, options), figures)

    return run_command(work)


def calibrate(words: Sequence[str]) -> int:
    """
    Fit a verifier's thresholds and probabilities to solutions with known correctness, and keep them beside its
    weights.

        pvg calibrate my-verifier labelled.jsonl

    The file has a `problem`, a `solution` and `correct` (0 or 1) in each line. The verifier must not have been trained
    on these problems. Prints, for several shares of correct solutions accepted, the threshold and the share of
    incorrect ones that it accepts, each measured on one half of the problems with the threshold of the other.
    """
    options = _parse("calibrate", calibrate, words)

    def work() -> str:
        _check_writable(find_verifier(options.verifier))
        rows, _, folder = _score(options, ("problem", "solution", "correct"))
        from pvg_hf.evaluation.verifier_quality import calibrate as fit
        from pvg_hf.evaluation.verifier_quality import threshold_table

        calibration = fit(rows, rows["correct"].to_numpy())
        for doubt in _doubts(rows):
            sys.stderr.write(f"warning: {doubt}\n")
        table = threshold_table(rows, COMPLETENESSES)
        calibration.save(folder)
        return as_asked(
            options, f"{table.to_string(index=False)}\n{folder}", json.loads(table.to_json(orient="records"))
        )

    return run_command(work)


def _parser(name: str, command: Any) -> ScriptParser:
    parser = ScriptParser(command.__doc__, f"pvg {name}")
    parser.add_argument(
        "verifier",
        help="folder of a verifier, a run (its last verifier, or RUN:ROUND), or the id of either on the Hub",
    )
    parser.add_argument("file", help=SOURCE)
    add_data_options(parser)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="(default: %(default)s)")
    if name == "calibrate":
        add_json(parser, "the table")
    else:
        parser.add_argument(
            "--output", type=Path, help="write JSON Lines to this file, and print its path (default: print them)"
        )
    if name == "score":
        parser.add_argument(
            "--completeness",
            type=float,
            default=COMPLETENESS,
            help="accept at least this share of correct solutions, by the calibration (default: %(default)s)",
        )
    return parser


def _parse(name: str, command: Any, words: Sequence[str], parser: ScriptParser | None = None) -> Namespace:
    options = (parser or _parser(name, command)).parse_args(words)
    set_up_logging()
    return options


def _score(options: Namespace, columns: Sequence[str]) -> "tuple[pd.DataFrame, VerifierScorer, Path]":
    """Score a user's solutions. Returns them with their `score`, the verifier, and its folder."""
    verifier = find_verifier(options.verifier)  # refuses a wrong one before libraries are loaded
    rows = read_solutions(options, needs_correct="correct" in columns)
    quiet_libraries()
    import torch

    from pvg_hf.models.vocabulary import describe_lost
    from pvg_hf.scoring import VerifierScorer

    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("`--device cuda` needs a GPU, but torch finds none; omit `--device`.")
    folder = local_verifier(verifier)
    device = None if options.device == "auto" else options.device
    scorer = VerifierScorer.from_pretrained(folder, device=device)
    problems, solutions = rows["problem"].tolist(), rows["solution"].tolist()
    lost = describe_lost(scorer.tokenizer, [*problems[:NUM_READ], *solutions[:NUM_READ]])
    if lost is not None:
        logger.warning("The verifier cannot read the texts: %s. Its scores say little; use one for such texts.", lost)
    return rows.assign(score=scorer(problems, solutions)), scorer, Path(folder)


def _write(rows: list[dict[str, Any]], options: Namespace) -> str:
    text = "\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    if options.output is None:
        return text
    write_text(options.output, text + "\n")
    return str(options.output)


def _check_writable(verifier: str) -> None:
    if not Path(verifier).is_dir():
        raise ValueError(
            "A calibration is written beside the weights. Download them first: "
            f"`pvg export {verifier} --player verifier --output VERIFIER`."
        )
    if (Path(verifier) / DIGESTS).is_file():
        raise ValueError(
            f"{verifier} belongs to a run, whose finished files do not change; its calibration is that of the run. For"
            " another one: `pvg export RUN --player verifier --output VERIFIER`, and calibrate that."
        )
    check_output(Path(verifier), is_folder=True)


def _doubts(rows: "pd.DataFrame") -> list[str]:
    """Reasons not to trust a calibration on these solutions."""
    from pvg_hf.evaluation.verifier_quality import roc_auc

    doubts, num_problems, auc = [], rows["problem_id"].nunique(), roc_auc(rows)
    if num_problems < FEW_PROBLEMS:
        doubts.append(f"There are {num_problems} problems only; intervals are wide below {FEW_PROBLEMS}.")
    if auc.low is not None and auc.low <= 0.5:
        doubts.append(f"The verifier does not clearly tell correct from incorrect solutions: AUC {auc}.")
    return doubts
