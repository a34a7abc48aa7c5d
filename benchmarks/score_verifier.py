"""
Effect of the reward on a generative verifier, on the built-in task of proofs, starting from the model that ships with
pvg_hf:

    python benchmarks/score_verifier.py --workers 2    # three seeds: 75 minutes on two cores
    python benchmarks/score_verifier.py --seeds 0 --steps 6 --every 3 --proofs 24    # two minutes

The variants are the default reward (.125 for the form, .875 for the score), the same times the task's exact
meta-verifier (R_meta), equal weights, the multiplicative form, and a meta-verifier, which is trained on analyses
instead of proofs. Each checkpoint writes one analysis of each of the same fresh proofs, and one evaluation of an
analysis of each ("judged right": the share of analyses with a correct quality score). The last checkpoint with R_meta
then labels these proofs by scaled verification, with checks of its own analyses. Finished verifiers are not trained
again. Prints Markdown tables; the figures are means over the seeds with 95 % t-intervals.
"""

import argparse
import json
import statistics
from itertools import product
from math import nan
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from scipy.stats import t

VARIANTS: dict[str, dict[str, Any]] = {
    "additive": {},
    "additive, R_meta": {"has_meta": True},
    "equal weights": {"format_weight": 0.5, "score_weight": 0.5},
    "multiplicative": {"combination": "multiplicative"},
    "meta-verifier": {"judges": True},
}
LABELLER = "additive, R_meta"
COLUMNS = (
    "evaluations/format_rate",
    "evaluations/accuracy",
    "evaluations/false_positive_rate",
    "evaluations/hallucinated",
    "quality",
    "judged right",
)
TEST_SEED = 1_000  # seed of the test proofs, which differ from all training proofs


def run_cell(arguments: argparse.Namespace, variant: str, seed: int) -> None:
    """Train one verifier and write its figures at every checkpoint, unless they exist."""
    import torch

    torch.set_num_threads(1)
    folder = arguments.output_dir / f"{variant.replace(', ', '-').replace(' ', '-')}-seed-{seed}"
    if (folder / "figures.json").exists():
        return
    train(arguments, variant, seed, folder)
    places = {int(path.name.rpartition("-")[2]): path for path in folder.glob("checkpoint-*")}
    places[0] = start_model()
    figures = {step: measure(places[step], arguments.proofs) for step in sorted(places)}
    found = {"variant": variant, "seed": seed, "figures": figures}
    if variant == LABELLER:
        found["labels"] = label(places[max(places)], arguments, seed, folder / "labels")
    (folder / "figures.json").write_text(json.dumps(found, indent=2))


def start_model() -> Path:
    from pvg_hf.models.sources import resolve_model

    return Path(resolve_model("proofs", "verifier"))


def train(arguments: argparse.Namespace, variant: str, seed: int, folder: Path) -> None:
    from pvg_hf import ScoreVerifierConfig, ScoreVerifierTrainer
    from pvg_hf.game.training import newest_checkpoint
    from pvg_hf.tasks.proofs import ProofsTask
    from pvg_hf.tasks.proofs.language import PROOF_SETTINGS

    task, settings = ProofsTask(num_train=arguments.steps * 16, num_test=1, seed=seed), dict(VARIANTS[variant])
    meta = task.rate_analyses if settings.pop("has_meta", False) else None
    rows = task.rated_analyses("train") if settings.pop("judges", False) else task.rated_proofs("train")
    args = ScoreVerifierConfig(
        str(folder),
        max_steps=arguments.steps,
        per_device_train_batch_size=64,  # 16 proofs, 4 evaluations each
        learning_rate=arguments.learning_rate,
        lr_scheduler_type="constant",
        max_completion_length=PROOF_SETTINGS.max_new_tokens,
        save_steps=arguments.every,
        save_total_limit=None,
        seed=seed,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        **settings,
    )
    trainer = ScoreVerifierTrainer(str(start_model()), args=args, train_dataset=rows, meta_verifier=meta)
    checkpoint = newest_checkpoint(folder)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))


def measure(model: Path, num_proofs: int) -> dict[str, float | None]:
    """
    Measure a verifier on test proofs.

    The figures are those of one analysis per test proof, the mean quality of the analyses with the right form, and the
    share of given analyses to which the verifier assigns the right quality.
    """
    import pandas as pd

    from pvg_hf.analyses.form import read_evaluation
    from pvg_hf.evaluation.verifier_quality import evaluation_figures
    from pvg_hf.scoring import GenerativeVerifier
    from pvg_hf.tasks.proofs import ProofsTask

    task = ProofsTask(num_train=1, num_test=num_proofs, seed=TEST_SEED)
    rows = task.rated_proofs("test").to_pandas()
    texts = rows["problem"].tolist(), rows["proof"].tolist()
    verifier = GenerativeVerifier.from_pretrained(model, device="cpu")
    read = [read_evaluation(s.text, is_cut=s.is_truncated) for (s,) in verifier.evaluate(*texts, 1)]
    told = [
        "[]" if e.analysis is None else json.dumps(task.named_issues(problem, proof, e.analysis))
        for problem, proof, e in zip(*texts, read, strict=True)
    ]
    table = pd.DataFrame(
        {
            "problem_id": rows["problem_id"],
            "reference": rows["score"],
            "predicted": [e.score if e.score is not None else nan for e in read],
            "has_form": [e.has_form for e in read],
            "issues": told,
        }
    )
    kept = [(*pair, e.analysis) for pair, e in zip(zip(*texts, strict=True), read, strict=True) if e.has_form]
    qualities = task.rate_analyses(*map(list, zip(*kept, strict=True))) if kept else []
    analyses = task.rated_analyses("test")
    said = verifier.rate_analyses(*(analyses[name][:] for name in ("problem", "proof", "analysis")))
    return {
        **{key: figure.value for key, figure in evaluation_figures(table).items()},
        "quality": statistics.mean(qualities) if qualities else None,
        "judged right": statistics.mean(q == s for q, s in zip(said, analyses["score"], strict=True)),
    }


def label(model: Path, arguments: argparse.Namespace, seed: int, folder: Path) -> dict[str, float | None]:
    """Coverage and precision of scaled verification of the test proofs."""
    from pvg_hf.analyses.scaled import ScaledVerification
    from pvg_hf.evaluation.verifier_quality import label_figures
    from pvg_hf.scoring import GenerativeVerifier
    from pvg_hf.scoring.auto_label import label_proofs
    from pvg_hf.tasks.proofs import ProofsTask

    proofs = ProofsTask(num_train=1, num_test=arguments.proofs, seed=TEST_SEED).rated_proofs("test")
    verifier = GenerativeVerifier.from_pretrained(model, device="cpu", seed=seed)
    labelled = label_proofs(
        proofs.remove_columns("score").add_column("score", [None] * len(proofs)),
        evaluate=verifier.evaluate,
        check=verifier.check_analyses,
        rule=ScaledVerification(),
        folder=folder,
        show_progress=False,
    )
    table = proofs.to_pandas().rename(columns={"score": "reference"}).assign(label=labelled["score"])
    return {key: figure.value for key, figure in label_figures(table.astype({"label": "float64"})).items()}


def show(values: list[float | None]) -> str:
    """Mean over seeds with its 95 % t-interval."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return "\N{EN DASH}" if not known else f"{known[0]:.3f}"
    half = t.ppf(0.975, len(known) - 1) * statistics.stdev(known) / len(known) ** 0.5
    return f"{statistics.mean(known):.3f} [{statistics.mean(known) - half:.3f}, {statistics.mean(known) + half:.3f}]"


def choose_equal_accuracy(plain: dict, with_meta: dict) -> tuple[dict, dict]:
    """Choose a checkpoint of each verifier, with score accuracies nearest to the lower of their best accuracies."""
    sides = [list(found["figures"].values()) for found in (plain, with_meta)]
    target = min(max(point["evaluations/accuracy"] for point in side) for side in sides)
    first, second = (min(side[1:], key=lambda point: abs(point["evaluations/accuracy"] - target)) for side in sides)
    return first, second


def print_tables(cells: list[dict]) -> None:
    print(f"\n| variant | step | {' | '.join(COLUMNS)} |\n|{'---|' * (2 + len(COLUMNS))}")
    by_variant = {name: [cell for cell in cells if cell["variant"] == name] for name in VARIANTS}
    by_variant = {name: of_variant for name, of_variant in by_variant.items() if of_variant}
    for name, of_variant in by_variant.items():
        for step in of_variant[0]["figures"]:
            shown = [show([cell["figures"][step][key] for cell in of_variant]) for key in COLUMNS]
            print(f"| {name} | {step} | {' | '.join(shown)} |")
    if not {"additive", LABELLER} <= by_variant.keys():
        return
    pairs = [choose_equal_accuracy(*pair) for pair in zip(by_variant["additive"], by_variant[LABELLER], strict=True)]
    print("\n| at equal score accuracy | score accuracy | hallucinated | quality |\n|---|---|---|---|")
    for index, name in enumerate(("without R_meta", "with R_meta")):
        points = [pair[index] for pair in pairs]
        keys = ("evaluations/accuracy", "evaluations/hallucinated", "quality")
        print(f"| {name} | {' | '.join(show([point[key] for point in points]) for key in keys)} |")
    labels = [cell["labels"] for cell in by_variant[LABELLER]]
    shown = (show([found[key] for found in labels]) for key in ("labels/coverage", "labels/precision"))
    print("\n| auto-labels | coverage | precision |\n|---|---|---|\n| n=8, m=3, k=3 | {} | {} |".format(*shown))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="all of them by default"
    )
    parser.add_argument("--steps", type=int, default=120, help="optimiser steps of each verifier (%(default)s)")
    parser.add_argument("--every", type=int, default=30, help="steps between checkpoints (%(default)s)")
    parser.add_argument("--proofs", type=int, default=300, help="fresh proofs to be evaluated (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="constant (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="verifiers trained at once (%(default)s)")
    parser.add_argument("--output-dir", type=Path, default=Path("runs/score-verifier"))
    arguments = parser.parse_args()
    cells = [(arguments, variant, seed) for seed, variant in product(arguments.seeds, arguments.variants)]
    with get_context("spawn").Pool(arguments.workers) as pool:
        pool.starmap(run_cell, cells, chunksize=1)
    print_tables([json.loads(path.read_text()) for path in sorted(arguments.output_dir.glob("*/figures.json"))])


if __name__ == "__main__":
    main()
