"""Whether a recipe can be played with weights in parts, as the launcher's configuration asks."""

import os
from collections.abc import Iterator

from accelerate.utils import parse_flag_from_env

from pvg_hf.game.context import PhaseContext

_LAUNCHERS = "see `recipes/accelerate/`"
# Of FSDP's settings: what accelerate passes on, the value that a game needs, and why.
_FSDP = {
    "FSDP_VERSION": ("fsdp_version", "2", "only its second version gathers weights to generate with"),
    "FSDP_STATE_DICT_TYPE": ("fsdp_state_dict_type", "FULL_STATE_DICT", "a round's folder holds whole weights"),
    "FSDP_CPU_RAM_EFFICIENT_LOADING": (
        "fsdp_cpu_ram_efficient_loading",
        "false",
        "frozen players are loaded whole by every process",
    ),
}


def check_sharding(context: PhaseContext) -> Iterator[str]:
    """The mistakes of a launcher that shards, and of what cannot be sharded; nothing where it does not."""
    is_fsdp = parse_flag_from_env("ACCELERATE_USE_FSDP")
    if not is_fsdp and not parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"):
        return
    recipe, launcher = context.recipe, "FSDP" if is_fsdp else "DeepSpeed"
    if is_fsdp:
        yield from _check_fsdp()
    for player, config in (("prover", recipe.prover), ("verifier", recipe.verifier)):
        if config.quantization != "none":
            yield f"`{player}.quantization` is `{config.quantization}`, and weights in 4 bits are not sharded by {launcher}."
        if (config.warmup or config.scratch) and not context.folder.models.exists():
            yield (
                f"`{player}` is made by the phase `warmup`, which does not shard: play that first, by `--phase warmup` with "
                "`recipes/accelerate/multi_gpu.yaml`."
            )
    if recipe.prover.algorithm == "ppo":
        yield f"`prover.algorithm` is `ppo`, whose critic is not sharded by {launcher}; take `grpo`."
    if recipe.verifier.shares_base:
        yield f"`verifier.shares_base` is true, and {launcher} shards the prover's base while the verifier reads with it."
    if recipe.watchdogs.collapse_recovery == "supervised":
        yield f"`watchdogs.collapse_recovery` is `supervised`, which trains the prover before {launcher} shards it."


def _check_fsdp() -> Iterator[str]:
    for variable, (name, needed, reason) in _FSDP.items():
        value = os.environ.get(variable, "")
        if value.lower() != needed.lower():
            yield f"The launcher has `{name}: {value or 'unset'}`, and a game needs `{needed}` ({reason}); {_LAUNCHERS}."
