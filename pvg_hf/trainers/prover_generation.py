"""Which engine writes a prover's solutions while it is trained."""

from typing import Literal, get_args

from trl import GRPOConfig

from pvg_hf.suggestions import suggest

Generation = Literal["transformers", "continuous", "vllm_colocate", "vllm_server"]
GENERATIONS: tuple[str, ...] = get_args(Generation)


def choose_engine(args: GRPOConfig, generation: str) -> str:
    """
    Set TRL's own switches for an engine, or read them where they say another one than the default.

    Returns:
        `str`: the engine.

    Raises:
        ValueError: for an unknown engine, or switches of TRL's that contradict it.
    """
    if generation not in GENERATIONS:
        raise ValueError(
            f"`generation` is `{generation}`, which is none of its values. {suggest(generation, GENERATIONS)}"
        )
    switched = _switched_on(args)
    if generation == "transformers":
        return switched or generation
    if switched not in (None, generation):
        raise ValueError(
            f"`generation` is `{generation}`, but TRL's own switches (`use_vllm`, `vllm_mode`, "
            f"`use_transformers_continuous_batching`) say `{switched}`. Leave those out."
        )
    args.use_transformers_continuous_batching = generation == "continuous"
    args.use_vllm = generation.startswith("vllm_")
    if args.use_vllm:
        args.vllm_mode = generation.removeprefix("vllm_")
    return generation


def samples_plainly(args: GRPOConfig) -> bool:
    """
    Whether solutions are drawn by transformers from the model's own distribution at a temperature, and no more is asked: what
    [`~pvg_hf.sampling.Sampler`] does.
    """
    is_cut = args.top_p != 1.0 or args.top_k not in (0, None) or args.min_p not in (0, None)
    has_more = args.repetition_penalty != 1.0 or args.generation_kwargs or args.cache_implementation
    return args.generation == "transformers" and args.temperature > 0 and not (is_cut or has_more)


def _switched_on(args: GRPOConfig) -> str | None:
    if args.use_vllm:
        return f"vllm_{args.vllm_mode}"
    return "continuous" if args.use_transformers_continuous_batching else None
