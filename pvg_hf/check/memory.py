"""The settings of a recipe that lower a phase's peak memory."""

from pvg_hf.config import Recipe

_SCORING = (("verifier.tokens_per_batch", "lower"),)

_WRITING = (("mint.problems_per_batch", "lower"), ("prover.max_completion_length", "lower"))

MEMORY_SETTINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "warmup": (("prover.warmup.batch_size", "lower"), ("verifier.warmup.batch_size", "lower")),
    "bootstrap": _WRITING,
    "verifier": (
        ("verifier.micro_batch_size", "lower"),
        ("verifier.gradient_checkpointing", "true"),
        ("verifier.lora", "add"),
        ("verifier.quantization", "4bit"),
        ("verifier.max_length", "lower"),
    ),
    "prover": (
        ("prover.micro_batch_size", "lower"),
        ("prover.gradient_checkpointing", "true"),
        ("prover.lora", "add"),
        ("prover.quantization", "4bit"),
        ("prover.prompts_per_step", "lower"),
        ("prover.max_completion_length", "lower"),
        *_SCORING,
    ),
    "mint": (*_WRITING, *_SCORING),
    "evaluate": _SCORING,
}
"""Keys by phase, with the change that lowers its peak, in order of effect for a phase that is typical of the GSM8K recipes."""

_CRITIC = (("prover.ppo.critic", "adapter"), ("prover.algorithm", "grpo"))


def list_memory_settings(recipe: Recipe, phase: str) -> str:
    """List the settings that lower a phase's peak memory, with their values, most effective first."""
    has_critic = phase == "prover" and recipe.prover.has_critic
    chosen = MEMORY_SETTINGS[phase] + (_CRITIC if has_critic else ())
    return "; ".join(f"`{key}` ({change}, now {_value(recipe, key)})" for key, change in chosen)


def _value(recipe: Recipe, key: str) -> object:
    """Value of a key, and for a section whether it is given."""
    value = recipe
    for name in key.split("."):
        value = None if value is None else vars(value)[name]
    return value if value is None or isinstance(value, bool | int | str) else True
