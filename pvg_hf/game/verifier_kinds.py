"""The kinds of verifiers: how a game trains, loads, stores and evaluates each."""

from pathlib import Path
from typing import Protocol

from transformers import PreTrainedModel

from pvg_hf.config.players import VerifierConfig
from pvg_hf.core.figure import Figure
from pvg_hf.game.analyses import evaluate_score_verifier
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.phases.score_verifier import train_score_verifier
from pvg_hf.game.phases.verifier import train_pair_verifier
from pvg_hf.game.players import open_pair_verifier, open_score_verifier
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer


class VerifierKind(Protocol):
    """What a game asks of its verifier; one implementation for each value of `verifier.kind`."""

    def train(self, context: PhaseContext, output: Path) -> str:
        """Write the round's verifier and its scores on D_V's held-out part; return the phase's line."""

    def open(
        self, context: PhaseContext, folder: Path, *, beside: PreTrainedModel | None
    ) -> VerifierScorer | GenerativeVerifier:
        """Load the verifier in `folder` as a scorer; `beside` is a prover whose base it may share."""

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        """Store beside fine-tuned initial weights what the model at `source` states besides them."""

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        """Return the figures of a round that only this kind has."""


class BradleyTerryVerifier:
    """A head on a language model gives a score; learns from pairs."""

    def train(self, context: PhaseContext, output: Path) -> str:
        return train_pair_verifier(context, output)

    def open(self, context: PhaseContext, folder: Path, *, beside: PreTrainedModel | None) -> VerifierScorer:
        return open_pair_verifier(context, folder, beside=beside)

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        """The input template is the recipe's, and is stored with the trained verifier."""

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        return {}


class ScoreVerifier:
    """A language model writes an evaluation and predicts a score; learns from single proofs."""

    def train(self, context: PhaseContext, output: Path) -> str:
        return train_score_verifier(context, output)

    def open(self, context: PhaseContext, folder: Path, *, beside: PreTrainedModel | None) -> GenerativeVerifier:
        return open_score_verifier(context, folder)

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        config.score_settings.prompts_for(source, config.revision).save(output)

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        return evaluate_score_verifier(context, output)


KINDS: dict[str, VerifierKind] = {"bradley_terry": BradleyTerryVerifier(), "score": ScoreVerifier()}


def verifier_kind(context: PhaseContext) -> VerifierKind:
    return KINDS[context.recipe.verifier.kind]


def run_verifier(context: PhaseContext, output: Path) -> str:
    """Write the verifier with its tokenizer, its input format and calibration, and its scores on D_V's held-out part."""
    return verifier_kind(context).train(context, output)


def open_scorer(
    context: PhaseContext, folder: Path, *, beside: PreTrainedModel | None = None
) -> VerifierScorer | GenerativeVerifier:
    """The verifier of a round as a scorer, on the base of the prover `beside` where the recipe lets the players share it."""
    return verifier_kind(context).open(context, folder, beside=beside)
