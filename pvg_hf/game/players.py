"""Loads the players that a phase needs, on its device."""

from pathlib import Path

from pvg_hf.game.context import PhaseContext
from pvg_hf.models.prover import load_prover, merge_adapter
from pvg_hf.models.verifier import load_verifier
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.sampling import Sampler
from pvg_hf.scoring import VerifierScorer


def open_sampler(
    context: PhaseContext, source: str | Path, *, revision: str | None = None, quantization: str = "none"
) -> Sampler:
    """A sampler of the prover at `source`."""
    dtype = context.dtype("prover", is_precise=False)
    model, tokenizer = load_prover(source, revision=revision, dtype=dtype, quantization=quantization)
    return make_sampler(context, merge_adapter(model).to(context.processes.device), tokenizer)


def make_sampler(context: PhaseContext, model, tokenizer) -> Sampler:
    """A sampler of a loaded prover, with the recipe's settings."""
    return Sampler(
        model,
        tokenizer,
        max_new_tokens=context.recipe.prover.max_completion_length,
        temperature=context.recipe.prover.temperature,
        prompts_per_batch=context.recipe.mint.problems_per_batch,
    )


def open_base_sampler(context: PhaseContext) -> Sampler:
    """A sampler of the base prover."""
    source, revision = context.initial_model("prover")
    return open_sampler(context, source, revision=revision, quantization=context.recipe.prover.quantization)


def open_scorer(context: PhaseContext, folder: Path) -> VerifierScorer:
    """The verifier of a round as a scorer."""
    model, tokenizer = load_verifier(folder, dtype=context.dtype("verifier", is_precise=True))
    return VerifierScorer(
        model.to(context.processes.device),
        tokenizer,
        VerifierInput.load(folder),
        tokens_per_batch=context.recipe.verifier.tokens_per_batch,
    )
