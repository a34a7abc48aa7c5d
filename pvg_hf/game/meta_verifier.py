"""What judges the analyses of a game: its task, or the model that the round's verifier started from."""

from pathlib import Path

from pvg_hf.game.context import PhaseContext
from pvg_hf.game.players import open_score_verifier
from pvg_hf.trainers.meta_verification import MetaVerifier


def open_meta_verifier(context: PhaseContext) -> MetaVerifier | None:
    """R_meta of the verifier's analyses, and of a prover's that evaluates itself; `None` where the recipe has none."""
    kind = context.recipe.verifier.score_settings.meta_verifier
    if kind == "task":
        return context.world.task.rate_analyses
    if kind == "initial":
        source, revision = verifier_source(context)
        return open_score_verifier(context, source, revision=revision).rate_analyses
    return None


def verifier_source(context: PhaseContext) -> tuple[str, str | None]:
    """Whose weights the round's verifier that writes starts from: the initial ones, or the last round's."""
    last = last_verifier(context)
    return context.initial_model("verifier") if last is None else (str(last), None)


def last_verifier(context: PhaseContext) -> Path | None:
    """The last round's, where the round's verifier goes on from it."""
    if context.recipe.verifier.init == "full" or context.round_index == 0:
        return None
    return context.folder.verifier(context.round_index - 1)
