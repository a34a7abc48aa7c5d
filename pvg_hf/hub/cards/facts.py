"""Facts for a round's cards, from its recipe and its figures: tables, metadata and descriptions."""

from collections.abc import Sequence

from huggingface_hub import EvalResult, RepoCard

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig
from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.markdown import hub_link, hub_url, markdown_table
from pvg_hf.core.versions import show_versions
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.evaluation.verifier_verdict import verifier_statements
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED
from pvg_hf.hub.local_paths import is_local_path
from pvg_hf.models.sources import PACKAGED
from pvg_hf.report.escaping import reveal
from pvg_hf.report.tables import TableCell, figures_table, round_reader
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import RoundData

# Figures of each player's card, with the name of the metric on the Hub, if any.
CARD_FIGURES = {
    "prover": {
        "accuracy/helpful": "accuracy",
        "accuracy/best_helpful": "accuracy",
        "accuracy/sneaky": "accuracy",
        "valid_sneaky": None,
        OWN_ACCEPTED: None,
    },
    "verifier": {
        "verifier_pair_accuracy": "accuracy",
        "verifier_auc": "roc_auc",
        "test_pair_accuracy": "accuracy",
        OWN_ACCEPTED: None,
        "completeness": None,
        "soundness": None,
    },
}
TASK_TYPES = {"prover": "text-generation", "verifier": "text-classification"}


def figures_markdown(rounds: Sequence[RoundData], player: str) -> tuple[str, str]:
    """
    Return a Markdown table of figures, one row per round and one for the base prover if it has any, and their
    meanings.
    """
    base = ("base", round_reader(rounds[0], prefix="base_"))
    rows = [base, *((f"round {data.round_index}", round_reader(data)) for data in rounds)]
    table = figures_table(list(CARD_FIGURES[player]), rows)
    cells = [[name, *(_show(cell) for cell in row)] for name, row in table.rows]
    terms = "\n".join(f"- **{heading}:** {meaning}" for heading, meaning in table.terms.items())
    return markdown_table([table.headers, *cells]), terms


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
            metric_name=heading_of(key),
            metric_value=round(figure.value, 4),
            metric_args={"interval": 0.95, "low": figure.low, "high": figure.high, "n": figure.n},
            source_name=f"evaluation of {tag}",
            source_url=f"{hub_url(dataset, 'datasets')}/blob/{tag}/evaluation/{tag}/metrics.json",
        )
        for key, metric in CARD_FIGURES[player].items()
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
    return hub_link(base) if base else "a model that is not on the Hub"


def license_of(recipe: Recipe, stated: str | None) -> str | None:
    """Licence that the cards state: `stated`, or Apache-2.0 if all weights and problems ship with pvg_hf."""
    is_built_in = all(player.scratch or player.model in PACKAGED for player in (recipe.prover, recipe.verifier))
    return stated or ("apache-2.0" if is_built_in and recipe.task.name in PACKAGED else None)


def write_card(card: RepoCard) -> str:
    """Return the text of a card; in what others wrote, characters that are invisible or reorder text are shown."""
    return reveal(str(card).replace("\r\n", "\n"))


def _show(cell: TableCell) -> str:
    return f"{cell.value} {cell.interval}".strip() + (f", {cell.n}" if cell.n else "")
