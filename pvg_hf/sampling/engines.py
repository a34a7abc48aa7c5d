"""Samplers that leave the writing to transformers' continuous batching or to vLLM: for large models on a GPU."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.continuous_batching.requests import GenerationOutput

from pvg_hf.sampling.sampler import Sampler

if TYPE_CHECKING:
    from trl.generation.vllm_generation import VLLMGeneration


class ContinuousSampler(Sampler):
    """
    Transformers' continuous batching: a row that ends makes room for the next one, so that no batch waits for its longest
    row. Draws follow from the numbers that the rows come with, and depend on what else is in the call.
    """

    def sample_ids(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> list[list[int]]:
        settings = GenerationConfig(
            do_sample=True,
            temperature=self.temperature,
            top_k=0,
            top_p=1.0,
            max_new_tokens=self.max_new_tokens,
            eos_token_id=self.end_ids,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.random.fork_rng():
                torch.manual_seed(int(uniforms[0, 0].item() * 2**53))
                outputs = self.model.generate_batch(list(rows), generation_config=settings, progress_bar=False)
        finally:
            self.model.train(was_training)
        return _written(list(outputs.values()), len(rows))


def _written(outputs: list[GenerationOutput], num_rows: int) -> list[list[int]]:
    """Tokens of each row; `generate_batch` logs what failed, and leaves rows out that never came back."""
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
    vLLM, by TRL's own engine, which gets the prover's weights when the sampler is made. Draws come from the engine's
    generator and do not follow from the numbers that the rows come with: a seed of a call would be each row's, and rows of
    one prompt would be alike.

    Args:
        model, tokenizer, max_new_tokens, temperature, prompts_per_batch:
            As [`Sampler`]'s.
        engine ([`~trl.generation.vllm_generation.VLLMGeneration`]):
            Made for this model, temperature and length.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, engine: "VLLMGeneration", **settings
    ):
        super().__init__(model, tokenizer, **settings)
        self.engine = engine
        engine.sync_weights()

    def sample_ids(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> list[list[int]]:
        _, completions, _, _ = self.engine.generate(prompts=list(rows), images=None, num_generations=1)
        return [list(tokens) for tokens in completions]
