"""Samplers for large models on a GPU, which generate with transformers' continuous batching or with vLLM."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.continuous_batching.requests import GenerationOutput

from pvg_hf.models.prover_model import kept_base
from pvg_hf.sampling.sampler import Completions, Sampler

if TYPE_CHECKING:
    from trl.generation.vllm_generation import VLLMGeneration


class ContinuousSampler(Sampler):
    """
    Generates with transformers' continuous batching: a finished row is replaced by the next one, so that no batch
    waits for its longest row.

    Draws are seeded by the rows' uniform numbers, but also depend on the other rows of the call.
    """

    def sample_ids(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> Completions:
        settings = GenerationConfig(
            do_sample=True,
            **self.distribution,
            max_new_tokens=self.max_new_tokens,
            eos_token_id=self.end_ids,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.random.fork_rng():
                # transformers draws from the global generator; seed it from the rows' numbers and restore it
                # afterwards.
                torch.manual_seed(int(uniforms[0, 0].item() * 2**53))
                outputs = self.model.generate_batch(list(rows), generation_config=settings, progress_bar=False)
        finally:
            self.model.train(was_training)
        return _written(list(outputs.values()), len(rows)), None


def _written(outputs: list[GenerationOutput], num_rows: int) -> list[list[int]]:
    """Return the tokens of each row. `generate_batch` only logs failures and omits rows that failed, so check here."""
    errors = [output.error for output in outputs if output.error is not None]
    if errors or len(outputs) < num_rows:
        raise RuntimeError(
            f"Continuous batching wrote {len(outputs) - len(errors)} of {num_rows} solutions: "
            f"{errors[0] if errors else 'its thread ended, and the log above says why'}. Lower "
            "`mint.problems_per_batch`, or set `prover.generation: transformers`."
        )
    return [output.generated_tokens for output in outputs]


class VllmSampler(Sampler):
    """
    Generates with vLLM through TRL's engine, which receives the prover's weights when the sampler is made.

    Draws come from the engine's own generator and are independent of the rows' uniform numbers: the seed of a call
    would apply to each row, so that rows of the same prompt would be equal.

    Args:
        model, tokenizer, settings:
            As for [`Sampler`].
        engine ([`~trl.generation.vllm_generation.VLLMGeneration`]):
            Engine made for this model, distribution and length.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, engine: "VLLMGeneration", **settings
    ):
        super().__init__(model, tokenizer, **settings)
        self.engine = engine
        with kept_base(model):
            engine.sync_weights()

    def sample_ids(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> Completions:
        _, completions, _, _ = self.engine.generate(prompts=list(rows), images=None, num_generations=1)
        return [list(tokens) for tokens in completions], None
