"""The settings of a recipe that lower a phase's peak of memory."""

from collections.abc import Callable

from pvg_hf.config import Recipe

MemorySetting = tuple[str, Callable[[Recipe], object], str]  # key, its value, what to make of it

_SCORING: tuple[MemorySetting, ...] = (
    ("verifier.tokens_per_batch", lambda recipe: recipe.verifier.tokens_per_batch, "lower"),
)

_WRITING: tuple[MemorySetting, ...] = (
    ("mint.problems_per_batch", lambda recipe: recipe.mint.problems_per_batch, "lower"),
    ("prover.max_completion_length", lambda recipe: recipe.prover.max_completion_length, "lower"),
)

# In order of effect for a phase that is typical of the GSM8K recipes.
MEMORY_SETTINGS: dict[str, tuple[MemorySetting, ...]] = {
    "warmup": (
        ("prover.warmup.batch_size", lambda recipe: recipe.prover.warmup and recipe.prover.warmup.batch_size, "lower"),
        (
            "verifier.warmup.batch_size",
            lambda recipe: recipe.verifier.warmup and recipe.verifier.warmup.batch_size,
            "lower",
        ),
    ),
    "bootstrap": _WRITING,
    "verifier": (
        ("verifier.pairs_per_step", lambda recipe: recipe.verifier.pairs_per_step, "halve"),
        (
            "verifier.gradient_accumulation_steps",
            lambda recipe: recipe.verifier.gradient_accumulation_steps,
            "and double",
        ),
        ("verifier.gradient_checkpointing", lambda recipe: recipe.verifier.gradient_checkpointing, "true"),
        ("verifier.lora", lambda recipe: bool(recipe.verifier.lora), "add"),
        ("verifier.quantization", lambda recipe: recipe.verifier.quantization, "4bit"),
        ("verifier.max_length", lambda recipe: recipe.verifier.max_length, "lower"),
    ),
    "prover": (
        ("prover.micro_batch_size", lambda recipe: recipe.prover.micro_batch_size, "lower"),
        ("prover.gradient_checkpointing", lambda recipe: recipe.prover.gradient_checkpointing, "true"),
        ("prover.lora", lambda recipe: bool(recipe.prover.lora), "add"),
        ("prover.quantization", lambda recipe: recipe.prover.quantization, "4bit"),
        ("prover.prompts_per_step", lambda recipe: recipe.prover.prompts_per_step, "lower"),
        ("prover.max_completion_length", lambda recipe: recipe.prover.max_completion_length, "lower"),
        *_SCORING,
    ),
    "mint": (*_WRITING, *_SCORING),
    "evaluate": _SCORING,
}


_PPO_SETTINGS: tuple[MemorySetting, ...] = (
    ("prover.ppo.critic", lambda recipe: recipe.prover.ppo_settings.critic, "adapter"),
    ("prover.algorithm", lambda recipe: recipe.prover.algorithm, "grpo"),
)


def list_memory_settings(recipe: Recipe, phase: str) -> str:
    """List the settings that lower a phase's peak memory, with their values, most effective first."""
    has_critic = phase == "prover" and recipe.prover.has_critic
    chosen = MEMORY_SETTINGS[phase] + (_PPO_SETTINGS if has_critic else ())
    return "; ".join(f"`{key}` ({wish}, now {value(recipe)})" for key, value, wish in chosen)
