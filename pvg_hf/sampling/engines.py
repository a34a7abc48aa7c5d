"""The engines with which a prover samples, and which one a prover gets."""

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from peft import PeftModel
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.continuous_batching.requests import GenerationOutput

from pvg_hf.models.prover_model import kept_base
from pvg_hf.sampling.sampler import Completions, Sampler
from pvg_hf.sampling.static_sampler import StaticSampler

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
        model: Any = self.model  # the type of a model has no methods that generate
        was_training = model.training
        model.eval()
        try:
            with torch.random.fork_rng():
                # transformers draws from the global generator; seed it from the rows' numbers and restore it
                # afterwards.
                torch.manual_seed(int(uniforms[0, 0].item() * 2**53))
                outputs = model.generate_batch(list(rows), generation_config=settings, progress_bar=False)
        finally:
            model.train(was_training)
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


logger = logging.getLogger(__name__)


ENGINE_WORDS = {
    "transformers": "in this process, without vLLM",
    "continuous": "by transformers' continuous batching",
    "vllm_colocate": "by vLLM in this process",
    "vllm_server": "by a vLLM server",
}
"""Says where solutions are sampled, by the value of `prover.generation`."""


class EngineChoice(NamedTuple):
    """What samples solutions, and why."""

    name: str
    reason: str


def choose_generation(wanted: str, device: torch.device, *, vllm_obstacle: str | None = None) -> EngineChoice:
    """
    Choose an engine for `prover.generation`.

    Args:
        wanted: The recipe's `prover.generation`; everything but `auto` is kept.
        vllm_obstacle: Why vLLM cannot be used for this prover, apart from a missing GPU or package.
    """
    if wanted != "auto":
        return EngineChoice(wanted, "the recipe names it")
    if device.type != "cuda":
        return EngineChoice("transformers", "there is no GPU")
    if find_spec("vllm") is None:
        return EngineChoice("transformers", "vLLM is not installed")
    if vllm_obstacle is not None:
        return EngineChoice("transformers", f"vLLM is installed, but {vllm_obstacle}")
    return EngineChoice("vllm_colocate", "there is a GPU, and vLLM is installed")


def choose_sampler(model: PreTrainedModel | PeftModel, *, is_sharded: bool = False) -> tuple[type[Sampler], str]:
    """Choose the sampler for a model that generates with transformers, and say why."""
    inner = model.get_base_model() if isinstance(model, PeftModel) else model
    quantizer = getattr(inner, "hf_quantizer", None)  # transformers sets it for quantised models only
    if inner.device.type != "cuda":
        obstacle = "there is no GPU"
    elif is_sharded:
        obstacle = "the weights are sharded"
    elif not inner._can_compile_fullgraph:
        obstacle = f"{type(inner).__name__} cannot be compiled"
    elif torch._dynamo.config.disable:
        obstacle = "compilation is switched off (TORCH_COMPILE_DISABLE)"
    elif quantizer is not None and not quantizer.is_compileable:
        obstacle = "the quantised weights cannot be compiled"
    else:
        return StaticSampler, "compiled `generate` with a static cache"
    return Sampler, f"the package's own loop, because {obstacle}"


def open_sampler(
    model: PreTrainedModel | PeftModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    is_sharded: bool = False,
    leaves_room: bool = False,
    **settings,
) -> Sampler:
    """Make the sampler that is fastest for a model that generates with transformers."""
    sampler, reason = choose_sampler(model, is_sharded=is_sharded)
    if sampler is Sampler and model.device.type == "cuda":
        logger.warning("Solutions are sampled with %s.", reason)
    if sampler is StaticSampler:
        settings["leaves_room"] = leaves_room
    return sampler(model, tokenizer, **settings)
