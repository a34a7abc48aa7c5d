"""Loads the players that a phase needs, on its device."""

from pathlib import Path
from typing import TYPE_CHECKING

from accelerate import Accelerator
from transformers import PreTrainedModel

from pvg_hf.core.roles import Role
from pvg_hf.game.console import shows_progress
from pvg_hf.game.context import PhaseContext
from pvg_hf.models.adapters import share_base
from pvg_hf.models.prover_model import load_prover, merge_adapter
from pvg_hf.models.sources import is_adapter
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_verifier
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.engines import ContinuousSampler, VllmSampler
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer
from pvg_hf.trainers.arguments import TrainerRun, prover_arguments

if TYPE_CHECKING:
    from trl.generation.vllm_generation import VLLMGeneration


def open_sampler(
    context: PhaseContext,
    source: str | Path,
    *,
    revision: str | None = None,
    quantization: str = "none",
    base_owner: VerifierScorer | None = None,
) -> Sampler:
    """
    Open a sampler of the prover at `source`.

    With `verifier.shares_base`, it shares the base model of the scorer `base_owner`.
    """
    dtype = context.dtype("prover", is_precise=False)
    model, tokenizer = load_prover(source, revision=revision, dtype=dtype, quantization=quantization)
    if base_owner is None or not context.recipe.verifier.shares_base:
        model = merge_adapter(model)  # merged weights sample faster, but cannot share the base
    else:
        share_base(model, base_owner.model)
    return make_sampler(context, model.to(context.processes.device), tokenizer)


def make_sampler(context: PhaseContext, model, tokenizer, *, engine: "VLLMGeneration | None" = None) -> Sampler:
    """
    Make a sampler of a loaded prover with the recipe's settings.

    Args:
        context ([`PhaseContext`]):
            Context of the phase.
        model, tokenizer:
            Model and tokenizer of the prover.
        engine ([`~trl.generation.vllm_generation.VLLMGeneration`], *optional*):
            Engine that the prover is trained with. If the recipe uses vLLM and there is none, one is started.
    """
    config = context.recipe.prover
    settings = {
        "max_new_tokens": config.max_completion_length,
        "temperature": config.temperature,
        "prompts_per_batch": context.recipe.mint.problems_per_batch,
    }
    if config.generation == "continuous":
        return ContinuousSampler(model, tokenizer, **settings)
    if config.generation.startswith("vllm_"):
        return VllmSampler(model, tokenizer, engine=engine or _start_vllm(context, model, tokenizer), **settings)
    return Sampler(model, tokenizer, **settings)


def _start_vllm(context: PhaseContext, model, tokenizer) -> "VLLMGeneration":
    """Start a vLLM engine with the same settings as the trainer's."""
    from trl.generation.vllm_generation import VLLMGeneration

    args = prover_arguments(context.recipe, TrainerRun(context.folder.root, context.hardware))
    return VLLMGeneration(
        model,
        Accelerator(),
        tokenizer,
        mode=args.vllm_mode,
        server_base_url=args.vllm_server_base_url,
        server_host=args.vllm_server_host,
        server_port=args.vllm_server_port,
        group_port=args.vllm_group_port,
        server_timeout=args.vllm_server_timeout,
        tensor_parallel_size=args.vllm_tensor_parallel_size,
        gpu_memory_utilization=args.vllm_gpu_memory_utilization,
        max_model_length=args.vllm_max_model_length,
        model_impl=args.vllm_model_impl,
        temperature=args.temperature,
        max_completion_length=args.max_completion_length,
    )


def open_base_sampler(context: PhaseContext, *, base_owner: VerifierScorer | None = None) -> Sampler:
    """Open a sampler of the base prover."""
    source, revision = context.initial_model("prover")
    quantization = context.recipe.prover.quantization
    return open_sampler(context, source, revision=revision, quantization=quantization, base_owner=base_owner)


def open_role_sampler(context: PhaseContext, role: Role, *, base_owner: VerifierScorer | None = None) -> Sampler:
    """Open a sampler of the round's prover for `role`; of the base prover if this role is not trained."""
    roles, folder = context.recipe.prover.roles, context.folder.prover(context.round_index)
    if roles == f"{role}_only" or roles == "shared":
        return open_sampler(context, folder, base_owner=base_owner)
    if roles == "separate":
        assert is_adapter(folder / role)
        return open_sampler(context, folder / role, base_owner=base_owner)
    return open_base_sampler(context, base_owner=base_owner)


def open_pair_verifier(
    context: PhaseContext, folder: Path, *, base_owner: PreTrainedModel | None = None
) -> VerifierScorer:
    """
    Open a verifier with a score head.

    With `verifier.shares_base`, it shares the base model of the prover `base_owner`.
    """
    model, tokenizer = load_verifier(folder, dtype=context.dtype("verifier", is_precise=True))
    if base_owner is not None and context.recipe.verifier.shares_base:
        share_base(model, base_owner)
    return VerifierScorer(
        model.to(context.processes.device),
        tokenizer,
        VerifierInput.load(folder),
        tokens_per_batch=context.recipe.verifier.tokens_per_batch,
    )


def open_score_verifier(
    context: PhaseContext, source: str | Path, *, revision: str | None = None
) -> GenerativeVerifier:
    """Open a generative verifier, trained or not, with the scoring settings of the context's round."""
    config = context.recipe.verifier
    dtype = context.dtype("verifier", is_precise=True)
    model, tokenizer = load_prover(source, revision=revision, dtype=dtype, quantization=config.quantization)
    return GenerativeVerifier(
        merge_adapter(model).to(context.processes.device),
        tokenizer,
        config.score_settings.prompts_for(source, revision),
        num_analyses=config.score_settings.num_analyses,
        estimate=config.score_settings.estimate,
        seed=context.recipe.seed,
        show_progress=context.processes.is_main_process and shows_progress(context.recipe),
    )
