"""The model cards of a round's prover and verifier, and of the base weights of their adapters."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from huggingface_hub import ModelCard, ModelCardData

from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import CRITIC_FOLDER
from pvg_hf.core.integrity import read_json
from pvg_hf.core.markdown import hub_link
from pvg_hf.core.project import CARD_VALUES
from pvg_hf.core.templates import outside_variables, split_instructions
from pvg_hf.hub.cards.facts import (
    describe_base,
    describe_sandbox,
    describe_versions,
    eval_results,
    figures_markdown,
    findings_markdown,
    hub_base,
    license_of,
    training_table,
    write_card,
)
from pvg_hf.hub.cards.highlights import card_highlights
from pvg_hf.hub.layout import BASES
from pvg_hf.hub.publication import Files, Publication
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.tasks import Task
from pvg_hf.tasks.prompts import shown_examples
from pvg_hf.tasks.registry import find_task_class
from pvg_hf.trainers.common.model_card import CITATION, PAPER, TAGS

PROVER_CARD = ("prover.md.jinja", "text-generation")  # template, and the task under which the Hub lists the model


def player_card(publication: Publication, player: str) -> str:
    """Write the model card of `prover` or `verifier`."""
    recipe, repos = publication.recipe.for_round(publication.round_index), publication.repos
    config, figures = publication.player(player), publication.figures()
    kind = recipe.verifier.traits
    template, pipeline = (kind.card, kind.pipeline) if player == "verifier" else PROVER_CARD
    base_id = repos.base(player) if publication.has_base_repo(player) else hub_base(config)
    results = publication.results(player)
    table, terms = figures_markdown(figures, player)
    data = ModelCardData(
        model_name=f"{repos.run}-{player}",
        license=license_of(recipe, publication.license),
        library_name="peft" if config.lora else "transformers",
        base_model=base_id,
        datasets=[repos.solutions],
        pipeline_tag=pipeline,
        tags=[*TAGS, player],
        eval_results=eval_results(figures, player, task=recipe.task.name, dataset=repos.solutions),
    )
    card = ModelCard.from_template(
        data,
        template_path=str(Path(__file__).with_name(template)),
        repos=repos,
        repo=repos.repo_id(player),
        tag=publication.tag,
        recipe=recipe,
        config=config,
        base=_describe_start(publication, player),
        base_id=base_id,
        base_revision=publication.tag if publication.has_base_repo(player) else config.revision,
        license=license_of(recipe, publication.license),
        roles=[role.value for role in recipe.prover.trained_roles],
        is_separate=publication.is_separate,
        prompts=role_prompts(recipe)["roles"],
        example=_example(publication, recipe),
        has_chat=_has_chat_template(results),
        appends_end=_appends_end(results),
        has_best_helpful=any("best-helpful/" in path for path in results),
        critic=_critic_in(results),
        critic_folder=CRITIC_FOLDER.as_posix(),
        table=table,
        terms=terms,
        findings=findings_markdown(figures),
        **card_highlights(publication),
        training=training_table(recipe, player),
        versions=describe_versions(publication.folder),
        sandbox=describe_sandbox(publication.folder),
        hub_link=hub_link,
        **CARD_VALUES,
        paper=PAPER,
        citation=CITATION,
    )
    return write_card(card)


def _appends_end(files: Files) -> bool:
    """Whether a verifier's tokenizer appends the end token by itself, as it does if that is its own."""
    stored = files.get("verifier_input.json")
    return isinstance(stored, Path) and VerifierInput.load(stored.parent).end_token is None


def base_card(publication: Publication, kind: str) -> str:
    """Write the model card of the base weights of a player's adapters; `kind` is `prover-base` or `verifier-base`."""
    player = next(player for player, base in BASES.items() if base == kind)
    recipe, repos = publication.recipe, publication.repos
    card = ModelCard.from_template(
        ModelCardData(
            model_name=f"{repos.run}-{kind}",
            license=license_of(recipe, publication.license),
            library_name="transformers",
            base_model=hub_base(publication.player(player)),
            tags=TAGS,
        ),
        template_path=str(Path(__file__).with_name("base.md.jinja")),
        repo=repos.base(player),
        player=player,
        player_repo=repos.repo_id(player),
        base=describe_base(publication.player(player)),
        is_warmed_up=bool(publication.player(player).warmup),
        recipe=recipe,
        hub_link=hub_link,
        **CARD_VALUES,
        paper=PAPER,
    )
    return write_card(card)


def role_prompts(recipe: Recipe) -> dict[str, Any]:
    """
    Prompts of the prover, as published in `prompts.json`, from a round's recipe.

    They are `roles`, which has for each trained role its `instructions`, `turn`, the Jinja template of a problem, and
    `examples` with their `solution`; `separator`, which follows an example in a text; and `chat_template_kwargs`. If
    its custom task cannot be imported, only the templates in the recipe are included.
    """
    templates, separator = dict(recipe.task.prompts), Task.example_separator
    examples: Sequence[dict[str, str]] = ()
    with suppress(ValueError):
        task = find_task_class(recipe.task.name)
        number = task.default_few_shot if recipe.task.few_shot is None else recipe.task.few_shot
        templates, examples = {**task.prompts, **templates}, task.few_shot_examples[:number]
        separator = task.example_separator
    roles = {}
    for role in recipe.prover.trained_roles:
        if role in templates:
            shown = [{**example, "solution": solution} for example, solution in shown_examples(examples, role)]
            instructions, turn = split_instructions(templates[role])
            roles[role.value] = {"instructions": instructions, "turn": turn, "examples": shown}
    return {"roles": roles, "separator": separator, "chat_template_kwargs": recipe.prover.chat_template_kwargs}


def _describe_start(publication: Publication, player: str) -> str:
    """Describe the model that a player starts from, with its repository if this run publishes it."""
    base = describe_base(publication.player(player))
    if not publication.has_base_repo(player):
        return base
    return f"{base}, in {hub_link(publication.repos.base(player))}"


def _example(publication: Publication, recipe: Recipe) -> dict[str, Any]:
    """A test problem of the round, with the columns that the prompt templates use."""
    turns = [prompt["turn"] for prompt in role_prompts(recipe)["roles"].values()]
    used = {"problem"}.union(*map(outside_variables, turns))
    file = min(publication.folder.pool(publication.round_index).glob("test-*.parquet"))
    columns = [name for name in pq.read_schema(file).names if name in used]
    return pq.read_table(file, columns=columns).slice(0, 1).to_pylist()[0]


def _has_chat_template(files: Files) -> bool:
    names = {Path(path).name: source for path, source in files.items()}
    if names.keys() & {"chat_template.jinja", "chat_template.json"}:
        return True
    settings = names.get("tokenizer_config.json")
    return isinstance(settings, Path) and "chat_template" in read_json(settings, dict[str, Any])


def _critic_in(paths: Iterable[str]) -> str | None:
    """Form of the published PPO critic, `adapter` or `whole` (full weights); `None` if there is no critic."""
    names = {Path(path).name for path in paths if CRITIC_FOLDER.as_posix() in path}
    if not names:
        return None
    return "adapter" if "adapter_config.json" in names else "whole"
