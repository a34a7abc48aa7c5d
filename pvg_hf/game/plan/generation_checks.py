"""Whether the engine that writes solutions can do so for this recipe, on this machine."""

from collections.abc import Iterator
from importlib.util import find_spec

from pvg_hf.game.context import PhaseContext


def check_generation(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `prover.generation`."""
    config = context.recipe.prover
    where = f"`prover.generation` is `{config.generation}`"
    if not config.generation.startswith("vllm_"):
        return
    if find_spec("vllm") is None and not context.is_elsewhere:
        yield f"{where}, and vLLM is not installed: `pip install 'pvg_hf[vllm]'`, or `generation: transformers`."
    if config.quantization != "none":
        yield (
            f"{where}, and `prover.quantization` is `{config.quantization}`: vLLM is handed merged weights at every step, "
            "and in 4 bits an adapter is rounded away in the sum. Use `quantization: none`, or `generation: transformers`."
        )
    if config.generation == "vllm_server" and context.processes.num_processes > 1:
        yield (
            f"{where} with {context.processes.num_processes} processes: the server waits for as many prompts from each, and "
            "minting shares them out in batches. Use one process, or `vllm_colocate`."
        )
    if context.recipe.verifier.shares_base:
        yield f"{where}, and `verifier.shares_base` is true: vLLM holds weights of its own, so that nothing is spared."
