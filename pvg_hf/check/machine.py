"""Checks whether this machine, its launcher and its Hub settings can play the recipe."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from accelerate.utils import parse_flag_from_env
from huggingface_hub import constants, get_token

from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.config.fields import default_of
from pvg_hf.config.player_sections import LoraConfig, ProverConfig
from pvg_hf.core.hub_access import find_token_refusal
from pvg_hf.core.project import install_extra
from pvg_hf.hub.layout import RunRepos
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.environment import script_line
from pvg_hf.run.layout import RunFolder, unfinished
from pvg_hf.sampling.engines import EngineChoice, choose_generation


def check_generation(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    """List mistakes in `prover.generation`."""
    generation = recipe.prover.generation
    where = f"`prover.generation` is `{generation}`"
    if generation == "continuous":
        penalty = recipe.prover.repetition_penalty
        if penalty != default_of(ProverConfig, "repetition_penalty"):
            yield (
                f"{where}, which ignores `prover.repetition_penalty`, here {penalty}: leave it out, or use `generation: "
                "transformers`."
            )
    if not generation.startswith("vllm_"):
        return
    if find_spec("vllm") is None and hardware.is_here:
        yield f"{where}, and vLLM is not installed: {install_extra('vllm')}, or `generation: transformers`."
    yield from (f"{where}, and {obstacle}." for obstacle in _vllm_obstacles(recipe, hardware))


def choose_engine_for_game(recipe: Recipe, hardware: Hardware, *, is_one_phase: bool) -> EngineChoice:
    """
    Choose the engine of `prover.generation: auto`.

    Args:
        recipe ([`Recipe`]):
            Recipe with the round's overrides.
        hardware ([`Hardware`]):
            The machine.
        is_one_phase (`bool`):
            Whether the process plays a single phase, since vLLM does not release its memory before its process ends.
    """
    as_vllm = replace(recipe, prover=replace(recipe.prover, generation="vllm_colocate"))
    obstacles = list(_vllm_obstacles(as_vllm, hardware))
    if recipe.prover.lora is not None and recipe.prover.lora.target_modules != default_of(
        LoraConfig, "target_modules"
    ):
        obstacles.append("`prover.lora.target_modules` is set, and vLLM receives merged weights")
    if not is_one_phase:
        obstacles.append("each phase needs a separate process with it (`scripts/run_phases.py`)")
    return choose_generation(recipe.prover.generation, hardware.device, vllm_obstacle=next(iter(obstacles), None))


def _vllm_obstacles(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    """List settings that vLLM does not support."""
    config = recipe.prover
    if config.quantization != "none":
        yield (
            f"`prover.quantization` is `{config.quantization}`: vLLM receives merged weights at every step, and rounding to 4 "
            "bits would erase the adapter's changes. Use `quantization: none`, or `generation: transformers`"
        )
    if config.generation == "vllm_server" and hardware.num_processes > 1:
        yield (
            f"there are {hardware.num_processes} processes: the server expects equally many prompts from each, but minting "
            "distributes them in batches. Use one process, or `vllm_colocate`"
        )
    if config.generation == "vllm_colocate" and recipe.task.shows_own_solutions:
        yield (
            "`task.honest_source` is `prover`: the solutions are written before the training, and vLLM does not release its "
            "memory between the two. Use `vllm_server`, or `transformers`"
        )
    if recipe.verifier.shares_base:
        yield "`verifier.shares_base` is true: vLLM keeps a separate copy of the weights, so that no memory is saved"


_LAUNCHERS = "see `recipes/accelerate/`"

# FSDP settings that a game needs: accelerate's environment variable, the setting, the value, and the reason.
_FSDP = {
    "FSDP_VERSION": ("fsdp_version", "2", "only its second version gathers weights to generate with"),
    "FSDP_STATE_DICT_TYPE": ("fsdp_state_dict_type", "FULL_STATE_DICT", "a round's folder holds whole weights"),
    "FSDP_CPU_RAM_EFFICIENT_LOADING": (
        "fsdp_cpu_ram_efficient_loading",
        "false",
        "frozen players are loaded whole by every process",
    ),
}


def check_sharding(recipe: Recipe) -> Iterator[str]:
    """List mistakes in a sharding launcher's settings, and settings that cannot be sharded."""
    is_fsdp = parse_flag_from_env("ACCELERATE_USE_FSDP")
    if not is_fsdp and not parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"):
        return
    launcher = "FSDP" if is_fsdp else "DeepSpeed"
    if is_fsdp:
        yield from _check_fsdp()
    for player, config in recipe.players.items():
        if config.quantization != "none":
            yield f"`{player}.quantization` is `{config.quantization}`, and weights in 4 bits are not sharded by {launcher}."
        if config.is_made and not RunFolder.of(recipe).models.exists():
            yield (
                f"`{player}` is made by the phase `warmup`, which does not shard: play that first, by "
                f"`accelerate launch --config_file recipes/accelerate/multi_gpu.yaml {script_line('--phase', 'warmup')}`."
            )
    if recipe.prover.has_critic:
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


ANYBODY = "x"  # placeholder for the token's owner, whose name is requested only when a round is published


def check_hub(recipe: Recipe) -> Iterator[str]:
    """List mistakes in `hub`: invalid names, a missing token, and an offline client."""
    hub = recipe.hub
    for key in recipe.unpublished_paths():
        if not key.startswith("bootstrap."):  # `bootstrap` is needed only until it is finished
            yield f"`{key}` was a path on the machine that published the run; set the path on this machine, `{key}=...`."
    if recipe.resume_from_hub is not None:
        yield from refusals("`resume_from_hub`", partial(RunRepos.parse, recipe.resume_from_hub))
    if hub.space and not hub.push:
        yield "`hub.space` is true, and `hub.push` is not: a Space shows a run that is published. Set `hub.push: true` too."
    if not hub.push:
        return
    if hub.space and find_spec("duckdb") is None:
        yield f"`hub.space` needs the app, which is not installed: {install_extra('app')}."
    key = "`hub.run_name`" if hub.run_name else "`hub.namespace`, `name`"
    yield from refusals(key, partial(RunRepos, hub.namespace or ANYBODY, hub.run_name or recipe.name))
    if get_token() is None:
        yield "`hub.push` needs a token that may write: `hf auth login`, or set HF_TOKEN. The recipe has no place for one."
    elif unfinished(recipe) and (refusal := find_token_refusal()) is not None:
        yield f"`hub.push` needs a token that may write: {refusal}."
    if constants.HF_HUB_OFFLINE:
        yield "`hub.push` is set, and so is HF_HUB_OFFLINE, with which nothing can be published; unset one of them."
