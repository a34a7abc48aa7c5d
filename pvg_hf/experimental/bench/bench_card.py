"""The part of a model card that has the figures of `pvg bench`."""

from huggingface_hub import EvalResult, ModelCardData

from pvg_hf.experimental.bench.attack_sets import AttackSet
from pvg_hf.experimental.bench.bench_figures import BenchFigures


def write_card(name: str, attacks: AttackSet, figures: BenchFigures, *, num_problems: int | None = None) -> str:
    """
    Write the metadata of a model card (`model-index`): the mean, each kind, and the AUC, with their intervals and n.

    `num_problems` is given if only the set's first ones were used: a figure on a part is another figure.
    """
    part = "" if num_problems is None else f", first {num_problems} problems"
    values = {
        "mistakes_accepted": figures.mistakes_accepted,
        **{f"mistakes_accepted/{kind}": figure for kind, figure in figures.accepted.items()},
        "auc": figures.auc,
    }
    results = [
        EvalResult(
            task_type="text-classification",
            task_name="verification of solutions",
            dataset_type=f"pvg-bench-{attacks.name}",
            dataset_name=f"pvg bench, {attacks.name}{part}",
            dataset_revision=attacks.digest,
            metric_type=key,
            metric_value=round(figure.known, 4),
            metric_args={"low": figure.low, "high": figure.high, "n": figure.n, "interval": "95 %, over problems"},
        )
        for key, figure in values.items()
    ]
    return f"---\n{ModelCardData(model_name=name, eval_results=results).to_yaml()}\n---"
