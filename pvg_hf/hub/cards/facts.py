"""What the cards of a round tell, from its recipe and its figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult

from pvg_hf.config import Recipe
from pvg_hf.config.sections import PlayerConfig
from pvg_hf.models.sources import PACKAGED

Figures = Mapping[str, Mapping[str, Any]]
# Heading, key after `round/`, the base prover's key if it has one, the Hub's name of the metric.
PROVER_COLUMNS = (
    ("helpful accuracy", "accuracy/helpful", "base_accuracy/helpful", "accuracy"),
    ("best helpful checkpoint", "accuracy/best_helpful", None, "accuracy"),
    ("sneaky accuracy", "accuracy/sneaky", "base_accuracy/sneaky", "accuracy"),
    ("sneaky valid mistakes", "valid_sneaky", "base_valid_sneaky", "rate"),
    ("sneaky mistakes accepted", "exploit_rate", None, "rate"),
)
VERIFIER_COLUMNS = (
    ("pair accuracy, held-out", "verifier_pair_accuracy", None, "accuracy"),
    ("AUC, held-out", "verifier_auc", None, "roc_auc"),
    ("pair accuracy, this round's prover", "test_pair_accuracy", None, "accuracy"),
    ("completeness", "completeness", None, "rate"),
    ("soundness", "soundness", None, "rate"),
)
COLUMNS = {"prover": PROVER_COLUMNS, "verifier": VERIFIER_COLUMNS}
TASK_TYPES = {"prover": "text-generation", "verifier": "text-classification"}


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; the first row has the headings."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def rounds_table(figures: Sequence[Figures], player: str) -> str:
    """A row for the base prover where it has figures, and one for each round."""
    columns = COLUMNS[player]
    rows = [["", *(heading for heading, *_ in columns)]]
    if any(base for _, _, base, _ in columns):
        rows.append(["base", *(_show(figures[0], base) for _, _, base, _ in columns)])
    for index, of_round in enumerate(figures):
        rows.append([f"round {index}", *(_show(of_round, key) for _, key, _, _ in columns)])
    return markdown_table(rows)


def eval_results(figures: Sequence[Figures], player: str, *, task: str, dataset: str) -> list[EvalResult]:
    """The last round's figures as the Hub's `model-index` has them."""
    return [
        EvalResult(
            task_type=TASK_TYPES[player],
            dataset_type=dataset,
            dataset_name=f"{task}, solutions of the game",
            dataset_config=f"round-{len(figures) - 1:03d}",
            metric_type=metric,
            metric_name=heading,
            metric_value=round(figures[-1][f"round/{key}"]["value"], 4),
        )
        for heading, key, _, metric in COLUMNS[player]
        if figures[-1].get(f"round/{key}", {}).get("value") is not None
    ]


def hub_base(config: PlayerConfig) -> str | None:
    """The Hub id of the model that a player starts from; `None` where it is another's, or a folder."""
    model = config.model
    is_folder = Path(model).is_absolute() or model.startswith(".") or Path(model).is_dir()
    return None if config.scratch or model in PACKAGED or is_folder else model


def describe_base(config: PlayerConfig) -> str:
    """The model that a player starts from, in words; a folder's path is nobody's business."""
    if config.scratch:
        return f"a new {config.scratch.model_type}, made from a configuration"
    if config.model in PACKAGED:
        return f"the model for the {config.model} world that ships with pvg_hf"
    base = hub_base(config)
    return f"[{base}](https://huggingface.co/{base})" if base else "a model that is not on the Hub"


def license_of(recipe: Recipe, stated: str | None) -> str | None:
    """The licence that the cards name."""
    is_built_in = all(player.scratch or player.model in PACKAGED for player in (recipe.prover, recipe.verifier))
    return stated or ("apache-2.0" if is_built_in and recipe.task.name in PACKAGED else None)


def _show(figures: Figures, key: str | None) -> str:
    figure = figures.get(f"round/{key}") if key else None
    if figure is None or figure["value"] is None:
        return "\N{EN DASH}"
    interval = "" if figure["low"] is None else f" [{figure['low']:.3f}, {figure['high']:.3f}]"
    return f"{figure['value']:.3f}{interval}, n={figure['n']:,}"
