"""The model card of a round's prover or verifier."""

from collections.abc import Iterable
from pathlib import Path

from huggingface_hub import ModelCard, ModelCardData

from pvg_hf.hub.cards.facts import describe_base, eval_results, hub_base, license_of, rounds_table
from pvg_hf.hub.publication import Publication
from pvg_hf.models.value_model import CRITIC_FOLDER

PIPELINES = {"prover": "text-generation", "verifier": "text-classification", "score-verifier": "text-generation"}


def player_card(publication: Publication, player: str) -> str:
    """
    Args:
        publication ([`Publication`]):
            The round.
        player (`str`):
            `prover` or `verifier`.
    """
    recipe, repos = publication.recipe.for_round(publication.round_index), publication.repos
    config, figures = publication.player(player), publication.figures()
    kind = "score-verifier" if player == "verifier" and recipe.verifier.kind == "score" else player
    data = ModelCardData(
        model_name=f"{repos.run}-{player}",
        license=license_of(recipe, publication.license),
        library_name="peft" if config.lora else "transformers",
        base_model=hub_base(config),
        datasets=[repos.solutions],
        pipeline_tag=PIPELINES[kind],
        tags=["pvg_hf", "prover-verifier-game", player],
        eval_results=eval_results(figures, player, task=recipe.task.name, dataset=repos.solutions),
    )
    card = ModelCard.from_template(
        data,
        template_path=str(Path(__file__).with_name(f"{kind}.md.jinja")),
        repos=repos,
        repo=repos.player(player),
        tag=publication.tag,
        recipe=recipe,
        config=config,
        base=describe_base(config),
        base_id=hub_base(config),
        has_base=bool(publication.base_of(player)),
        license=license_of(recipe, publication.license),
        roles=[role.value for role in recipe.prover.trained_roles],
        is_separate=recipe.prover.roles == "separate",
        has_best_helpful=any("best-helpful/" in path for path in publication.results(player)),
        critic=_critic_in(publication.results(player)),
        critic_folder=CRITIC_FOLDER.as_posix(),
        table=rounds_table(figures, player),
    )
    return str(card)


def _critic_in(paths: Iterable[str]) -> str | None:
    """What is published of PPO's critic: an `adapter`, or `whole` weights; `None` where there is none."""
    names = {Path(path).name for path in paths if CRITIC_FOLDER.as_posix() in path}
    if not names:
        return None
    return "adapter" if "adapter_config.json" in names else "whole"
