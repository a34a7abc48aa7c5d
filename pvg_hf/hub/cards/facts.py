"""Facts for a round's cards, from its recipe and its figures: tables, metadata and descriptions."""

from collections.abc import Sequence

from huggingface_hub import EvalResult

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig
from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.figure import EMPTY
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.versions import show_versions
from pvg_hf.evaluation.verifier_verdict import verifier_statements
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED
from pvg_hf.hub.local_paths import is_local_path
from pvg_hf.models.sources import PACKAGED
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import RoundData

# Heading, key after `round/`, key of the base prover (if any), name of the metric on the Hub (if any).
PROVER_COLUMNS = (
    ("helpful accuracy", "accuracy/helpful", "base_accuracy/helpful", "accuracy"),
    ("best helpful checkpoint", "accuracy/best_helpful", None, "accuracy"),
    ("sneaky accuracy", "accuracy/sneaky", "base_accuracy/sneaky", "accuracy"),
    ("sneaky valid mistakes", "valid_sneaky", "base_valid_sneaky", None),
    ("sneaky mistakes accepted at 95 % completeness", OWN_ACCEPTED, None, None),
)
VERIFIER_COLUMNS = (
    ("pair accuracy, held-out", "verifier_pair_accuracy", None, "accuracy"),
    ("AUC, held-out", "verifier_auc", None, "roc_auc"),
    ("pair accuracy, this round's prover", "test_pair_accuracy", None, "accuracy"),
    ("its sneaky mistakes accepted at 95 % completeness", OWN_ACCEPTED, None, None),
    ("completeness, own threshold", "completeness", None, None),
    ("soundness, own threshold", "soundness", None, None),
)
CARD_COLUMNS = {"prover": PROVER_COLUMNS, "verifier": VERIFIER_COLUMNS}
TASK_TYPES = {"prover": "text-generation", "verifier": "text-classification"}


def rounds_markdown(rounds: Sequence[RoundData], player: str) -> str:
    """Markdown table of figures: one row per round, and one for the base prover if it has figures."""
    columns = CARD_COLUMNS[player]
    rows = [["", *(heading for heading, *_ in columns)]]
    if any(base for _, _, base, _ in columns):
        rows.append(["base", *(_show(rounds[0], base) for _, _, base, _ in columns)])
    rows += [[f"round {data.round_index}", *(_show(data, key) for _, key, _, _ in columns)] for data in rounds]
    return markdown_table(rows)


def findings_markdown(rounds: Sequence[RoundData]) -> str:
    """Markdown list of the report's statements on the last round's verifier."""
    return "\n".join(
        f"- **{found.subject}:** {found.text}{f' ({found.tag})' if found.tag else ''}"
        for found in verifier_statements(rounds)
    )


def eval_results(rounds: Sequence[RoundData], player: str, *, task: str, dataset: str) -> list[EvalResult]:
    """Figures of the last round for the Hub's `model-index`; only those with a metric that the Hub knows."""
    tag = round_name(rounds[-1].round_index)
    return [
        EvalResult(
            task_type=TASK_TYPES[player],
            dataset_type=dataset,
            dataset_name=f"{task}, solutions of the game",
            dataset_config=tag,
            dataset_revision=tag,
            metric_type=metric,
            metric_name=heading,
            metric_value=round(figure.value, 4),
            metric_args={"interval": 0.95, "low": figure.low, "high": figure.high, "n": figure.n},
            source_name=f"evaluation of {tag}",
            source_url=f"https://huggingface.co/datasets/{dataset}/blob/{tag}/evaluation/{tag}/metrics.json",
        )
        for heading, key, _, metric in CARD_COLUMNS[player]
        if metric and (figure := rounds[-1].figure(key)).value is not None
    ]


def training_table(recipe: Recipe, player: str) -> str:
    """Markdown table of a player's most important training settings."""
    config = recipe.player(player)
    of_player = {
        "prover": ("algorithm", "reward", "prompts_per_step", "num_generations", "beta", "temperature"),
        "verifier": ("loss", "correction", "pairs_per_step", "max_length"),
    }
    names = (*of_player[player], "max_steps", "learning_rate", "lr_scheduler_type", "weight_decay")
    rows = [[f"`{player}.{name}`", f"{vars(config)[name]}"] for name in names]
    if config.lora:
        rows += [
            [f"`{player}.lora.{name}`", f"{vars(config.lora)[name]}"] for name in ("r", "alpha", "target_modules")
        ]
    return markdown_table([["Setting", "Value"], *rows, ["`seed`", str(recipe.seed)]])


def describe_versions(folder: RunFolder) -> str:
    """Package versions that a run was last played with, as one line."""
    return show_versions(folder.read_environment().get("versions", {})) or "not recorded"


def describe_sandbox(folder: RunFolder) -> str | None:
    """Sandbox in which a run's programs ran, and what it guarantees; `None` for tasks without programs."""
    return folder.read_environment().get("sandbox")


def hub_base(config: PlayerConfig) -> str | None:
    """Hub id of the model that a player starts from; `None` if the model is not on the Hub."""
    is_elsewhere = config.scratch or config.model in PACKAGED or is_local_path(config.model, "model")
    return None if is_elsewhere or config.model == NOT_PUBLISHED else config.model


def describe_base(config: PlayerConfig) -> str:
    """Describe the model that a player starts from, without revealing a local path."""
    if config.scratch:
        return f"a new {config.scratch.model_type}, made from a configuration"
    if config.model in PACKAGED:
        return f"the model `{config.model}` that ships with pvg_hf"
    base = hub_base(config)
    return f"[{base}](https://huggingface.co/{base})" if base else "a model that is not on the Hub"


def license_of(recipe: Recipe, stated: str | None) -> str | None:
    """Licence that the cards state: `stated`, or Apache-2.0 if all weights and problems ship with pvg_hf."""
    is_built_in = all(player.scratch or player.model in PACKAGED for player in (recipe.prover, recipe.verifier))
    return stated or ("apache-2.0" if is_built_in and recipe.task.name in PACKAGED else None)


def _show(data: RoundData, key: str | None) -> str:
    figure = data.figure(key) if key else EMPTY
    if figure.value is None:
        return "\N{EN DASH}"
    interval = "" if figure.low is None else f" [{figure.low:.3f}, {figure.high:.3f}]"
    return f"{figure.value:.3f}{interval}, n={figure.n:,}"
