"""The part of a model card that has the figures of `pvg bench`."""

from huggingface_hub import EvalResult, ModelCardData

from pvg_hf.experimental.bench.attack_sets import AttackSet
from pvg_hf.experimental.bench.bench_figures import BenchFigures


def write_card(name: str, attacks: AttackSet, figures: BenchFigures) -> str:
    """Write the metadata of a model card (`model-index`): the mean, each kind, and the AUC."""
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
            dataset_name=f"pvg bench, {attacks.name}",
            dataset_revision=attacks.digest,
            metric_type=key,
            metric_value=round(figure.known, 4),
        )
        for key, figure in values.items()
    ]
    return f"---\n{ModelCardData(model_name=name, eval_results=results).to_yaml()}\n---"
