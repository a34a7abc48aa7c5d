"""Chooses what samples solutions: vLLM, transformers' compiled `generate`, or the package's own loop."""

import logging
from importlib.util import find_spec
from typing import NamedTuple

import torch
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.sampling.sampler import Sampler
from pvg_hf.sampling.static_sampler import StaticSampler

logger = logging.getLogger(__name__)


class EngineChoice(NamedTuple):
    """
    What samples solutions, and why.

    Args:
        name (`str`):
            A value of `prover.generation` other than `auto`.
        reason (`str`):
            Reason for the choice, to be printed.
    """

    name: str
    reason: str


def choose_generation(wanted: str, device: torch.device, *, vllm_obstacle: str | None = None) -> EngineChoice:
    """
    Choose an engine for `prover.generation`.

    Args:
        wanted (`str`):
            The recipe's `prover.generation`; everything but `auto` is kept.
        device (`torch.device`):
            Device of the prover.
        vllm_obstacle (`str`, *optional*):
            Why vLLM cannot be used for this prover, apart from a missing GPU or package.
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
    """
    Choose the sampler for a model that generates with transformers, and say why.

    Args:
        model ([`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            The prover, on its device.
        is_sharded (`bool`, defaults to `False`):
            Whether its weights are sharded between processes.
    """
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
    """
    Make the sampler that is fastest for a model that generates with transformers.

    Args:
        model, is_sharded:
            As for [`choose_sampler`].
        leaves_room:
            As for [`StaticSampler`].
        tokenizer, settings:
            As for [`Sampler`].
    """
    sampler, reason = choose_sampler(model, is_sharded=is_sharded)
    if sampler is Sampler and model.device.type == "cuda":
        logger.warning("Solutions are sampled with %s.", reason)
    if sampler is StaticSampler:
        settings["leaves_room"] = leaves_room
    return sampler(model, tokenizer, **settings)
