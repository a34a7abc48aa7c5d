"""The kinds of verifiers: how a game trains, loads, stores and evaluates each of them."""

from pathlib import Path
from typing import Protocol

from transformers import PreTrainedModel

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.figure import Figure
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.phases.verifier import train_pair_verifier, train_score_verifier
from pvg_hf.game.players import PlayerLoader
from pvg_hf.game.proof_evaluations import label_new_proofs, record_test_evaluations
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer


class VerifierKind(Protocol):
    """Protocol of a kind of verifier, with one implementation for each value of `verifier.kind`."""

    def train(self, context: PhaseContext, output: Path) -> str:
        """Write the round's verifier and its scores of held-out solutions, and return the phase's one-line summary."""

    def open(
        self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None
    ) -> VerifierScorer | GenerativeVerifier:
        """Load the verifier in `folder` as a scorer. With `verifier.shares_base`, it shares the base model of `base_owner`."""

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        """Copy settings stored with the model at `source`, such as prompts, to the folder of its fine-tuned weights."""

    def label_solutions(
        self, context: PhaseContext, scorer: VerifierScorer | GenerativeVerifier, output: Path
    ) -> dict[str, float]:
        """Label the new solutions in `output`, and return figures on the labels; empty if the kind assigns no labels."""

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        """Figures of a round that only this kind has."""


class PairVerifier:
    """A verifier trained on pairs: a language model with a score head, or one that scores by likelihood."""

    def train(self, context: PhaseContext, output: Path) -> str:
        return train_pair_verifier(context, output)

    def open(self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None) -> VerifierScorer:
        return players.pair_verifier(folder, base_owner=base_owner)

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        """Store nothing: the input template comes from the recipe and is saved with the trained verifier."""

    def label_solutions(self, context: PhaseContext, scorer: VerifierScorer, output: Path) -> dict[str, float]:
        return {}  # the task itself labels solutions

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        return {}


class ScoreVerifier:
    """A language model that writes an analysis and predicts a score, trained on single proofs."""

    def train(self, context: PhaseContext, output: Path) -> str:
        return train_score_verifier(context, output)

    def open(self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None) -> GenerativeVerifier:
        return players.score_verifier(folder)

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        config.score_settings.prompts_for(source, config.revision).save(output)

    def label_solutions(self, context: PhaseContext, scorer: GenerativeVerifier, output: Path) -> dict[str, float]:
        if context.recipe.verifier.score_settings.labels != "auto":
            return {}
        return label_new_proofs(context, scorer, output)

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        return record_test_evaluations(context, output)


KINDS: dict[str, VerifierKind] = {
    "bradley_terry": PairVerifier(),
    "likelihood": PairVerifier(),
    "score": ScoreVerifier(),
}


def verifier_kind(recipe: Recipe) -> VerifierKind:
    return KINDS[recipe.verifier.kind]


def run_verifier(context: PhaseContext, output: Path) -> str:
    """Write the verifier with its tokenizer, input format and calibration, and its scores of held-out solutions."""
    return verifier_kind(context.recipe).train(context, output)


def open_scorer(
    players: PlayerLoader, round_index: int, *, base_owner: PreTrainedModel | None = None
) -> VerifierScorer | GenerativeVerifier:
    """Load a round's verifier as a scorer. With `verifier.shares_base`, it shares the base model of `base_owner`."""
    folder = players.folder.verifier(round_index)
    return verifier_kind(players.recipe).open(players, folder, base_owner=base_owner)
