"""Checks whether this machine, its disk, its launcher and its Hub settings can play the recipe."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from accelerate.utils import parse_flag_from_env
from huggingface_hub import constants, get_token

from pvg_hf.check.player_sizes import PlayerSize, read_sizes
from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.config.fields import default_of
from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.core.disk_names import TRIAL
from pvg_hf.core.hub_access import find_token_refusal
from pvg_hf.core.project import install_extra
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.units import show_bytes
from pvg_hf.data.problems import GameProblems
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.hub.layout import RunRepos
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.environment import script_line
from pvg_hf.run.layout import PhaseKey, RunFolder, partial_of, schedule, unfinished
from pvg_hf.sampling.engines import EngineChoice, choose_generation

_ROW_BYTES = 500  # of a solution, in addition to its texts
_NUM_ADAM = 3  # numbers in a checkpoint for each trained weight: the weight itself and Adam's two averages


def _existing_folder(recipe: Recipe) -> Path:
    """Return the run's folder, or the nearest folder above it that exists."""
    place = RunFolder.of(recipe).root
    return next(path for path in (place, *place.absolute().parents) if path.exists())


def check_machine(recipe: Recipe) -> Iterator[str]:
    """
    List an output folder that cannot be written to, missing or too many GPUs, and trackers that are not installed.
    """
    above = _existing_folder(recipe)
    if not above.is_dir():
        yield f"`output_dir` is `{recipe.output_dir}`, but {above} is not a folder; name another."
    else:
        if above != RunFolder.of(recipe).root:  # left by a process that was killed; in a run's folder, a start does it
            for left in above.glob(f"{TRIAL}*"):
                with suppress(OSError):  # not empty
                    left.rmdir()
        try:  # the permissions do not tell: root may write to a read-only disk or /proc, which takes no folder
            tempfile.TemporaryDirectory(dir=above, prefix=TRIAL).cleanup()
        except OSError as err:
            yield (
                f"`output_dir` is `{recipe.output_dir}`, but {above} cannot be written to ({err.strerror}); name"
                " another folder."
            )
    if recipe.device == "cuda" and not torch.cuda.is_available():
        yield "`device` is `cuda`, but torch finds no GPU here; `auto` uses one if there is one."
    num_gpus = torch.cuda.device_count()
    if recipe.device != "cpu" and num_gpus > 1 and os.environ.get("WORLD_SIZE", "1") == "1":
        yield (
            f"One process sees {num_gpus} GPUs, and the trainers would split each of its batches over all of them:"
            " restrict it to one (`CUDA_VISIBLE_DEVICES=0`), or start a process for each (`accelerate launch"
            f" --config_file recipes/accelerate/multi_gpu.yaml --num_processes {num_gpus} {script_line()}`)."
        )
    for name in recipe.logging.report_to:
        if find_spec(name) is None:
            yield f"`logging.report_to` has `{name}`, which is not installed: {install_extra('track')}."


def check_generation(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    """List mistakes in `prover.generation`."""
    where = f"`prover.generation` is `{recipe.prover.generation}`"
    if recipe.prover.generation.startswith("vllm_"):
        if find_spec("vllm") is None and hardware.is_here:
            yield f"{where}, and vLLM is not installed: {install_extra('vllm')}, or `generation: transformers`."
        yield from (f"{where}, and {obstacle}." for obstacle in _vllm_obstacles(recipe, hardware))


def choose_engine_for_game(recipe: Recipe, hardware: Hardware, *, is_one_phase: bool) -> EngineChoice:
    """
    Choose the engine of a round's `prover.generation: auto`.

    vLLM does not release its memory before its process ends, so that the process must play a single phase
    (`is_one_phase`).
    """
    as_vllm = replace(recipe, prover=replace(recipe.prover, generation="vllm_colocate"))
    obstacles = list(_vllm_obstacles(as_vllm, hardware))
    lora = recipe.prover.lora
    if lora is not None and lora.target_modules != default_of(LoraConfig, "target_modules"):
        obstacles.append("`prover.lora.target_modules` is set, and vLLM receives merged weights")
    if not is_one_phase:
        obstacles.append("each phase needs a separate process with it (`pvg play --launcher`)")
    return choose_generation(recipe.prover.generation, hardware.device, vllm_obstacle=next(iter(obstacles), None))


def _vllm_obstacles(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    """List settings that vLLM does not support."""
    config = recipe.prover
    if config.quantization != "none":
        yield (
            f"`prover.quantization` is `{config.quantization}`: vLLM receives merged weights at every step, and"
            " rounding to 4 bits would erase the adapter's changes. Use `quantization: none`, or `generation:"
            " transformers`"
        )
    if config.generation == "vllm_server" and hardware.num_processes > 1:
        yield (
            f"there are {hardware.num_processes} processes: the server expects equally many prompts from each, but"
            " minting distributes them in batches. Use one process, or `vllm_colocate`"
        )
    if config.generation == "vllm_colocate" and recipe.task.shows_own_solutions:
        yield (
            "`task.honest_source` is `prover`: the solutions are written before the training, and vLLM does not"
            " release its memory between the two. Use `vllm_server`, or `transformers`"
        )
    if recipe.verifier.shares_base:
        yield "`verifier.shares_base` is true: vLLM keeps a separate copy of the weights, so that no memory is saved"


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
    for variable, (name, needed, reason) in _FSDP.items() if is_fsdp else ():
        value = os.environ.get(variable, "")
        if value.lower() != needed.lower():
            yield (
                f"The launcher has `{name}: {value or 'unset'}`, and a game needs `{needed}` ({reason}); see"
                " `recipes/accelerate/`."
            )
    for player, config in recipe.players.items():
        if config.quantization != "none":
            yield (
                f"`{player}.quantization` is `{config.quantization}`, and weights in 4 bits are not sharded by"
                f" {launcher}."
            )
        if config.is_made and not RunFolder.of(recipe).models.exists():
            yield (
                f"`{player}` is made by the phase `warmup`, which does not shard: play that first, by `accelerate"
                f" launch --config_file recipes/accelerate/multi_gpu.yaml {script_line('--phase', 'warmup')}`."
            )
    if recipe.prover.has_critic:
        yield f"`prover.algorithm` is `ppo`, whose critic is not sharded by {launcher}; take `grpo`."
    if recipe.verifier.shares_base:
        yield (
            f"`verifier.shares_base` is true, and {launcher} shards the prover's base while the verifier reads"
            " with it."
        )
    if recipe.watchdogs.collapse_recovery == "supervised":
        yield f"`watchdogs.collapse_recovery` is `supervised`, which trains the prover before {launcher} shards it."


def check_hub(recipe: Recipe) -> Iterator[str]:
    """List mistakes in `hub`: invalid names, a missing token, and an offline client."""
    hub = recipe.hub
    for key in recipe.unpublished_paths():
        if not key.startswith("bootstrap."):  # `bootstrap` is needed only until it is finished
            yield (
                f"`{key}` was a path on the machine that published the run; set the path on this machine, `{key}=...`."
            )
    if recipe.resume_from_hub is not None:
        yield from refusals("`resume_from_hub`", partial(RunRepos.parse, recipe.resume_from_hub))
    if hub.space and not hub.push:
        yield (
            "`hub.space` is true, and `hub.push` is not: a Space shows a run that is published. Set `hub.push: true`"
            " too."
        )
    if not hub.push:
        return
    if hub.space and find_spec("duckdb") is None:
        yield f"`hub.space` needs the app, which is not installed: {install_extra('app')}."
    key = "`hub.run_name`" if hub.run_name else "`hub.namespace`, `name`"
    namespace = hub.namespace or "x"  # by default the token's owner, who is asked for only when a round is published
    yield from refusals(key, partial(RunRepos, namespace, hub.run_name or recipe.name))
    if get_token() is None:
        yield (
            "`hub.push` needs a token that may write: `hf auth login`, or set HF_TOKEN. The recipe has no place for"
            " one."
        )
    elif unfinished(recipe) and (refusal := find_token_refusal()) is not None:
        yield f"`hub.push` needs a token that may write: {refusal}."
    if constants.HF_HUB_OFFLINE:
        yield "`hub.push` is set, and so is HF_HUB_OFFLINE, with which nothing can be published; unset one of them."


def check_disk(recipe: Recipe, problems: GameProblems, hardware: Hardware) -> Iterator[str]:
    """List a mistake if the disk of the run's folder has less free space than the run will take."""
    needed = disk_bytes(recipe, problems, hardware)
    free = shutil.disk_usage(_existing_folder(recipe)).free
    if needed is not None and needed > free:
        yield (
            f"`output_dir` is `{recipe.output_dir}`, whose disk has {show_bytes(free)} free, and the run will take"
            f" about {show_bytes(needed)} more (weights, checkpoints and solutions): free some space, name another"
            " folder, or write less: adapters (`lora`), or no checkpoints (`save_steps: null`)."
        )


def disk_bytes(recipe: Recipe, problems: GameProblems, hardware: Hardware) -> float | None:
    """
    Estimate the bytes that a run will still write: what its unfinished phases keep, and the largest set of
    checkpoints, which are deleted after their phase.

    Unfinished phases reuse the space that they take already. Compression of texts is left out. `None` if the
    configuration of a model is unknown.
    """
    kept, temporary = 0.0, [0.0]
    sizes: dict[int | None, dict[str, PlayerSize]] = {}
    rows = problems.sample("verifier", 64)
    row_bytes = _ROW_BYTES + sum(len(row["problem"] + row["reference"]) for row in rows) / max(1, len(rows))
    for key in unfinished(recipe):
        index = key.round_index if key.round_index in recipe.rounds else None  # rounds without overrides are equal
        of_round = recipe if index is None else recipe.for_round(index)
        if index not in sizes:
            found = read_sizes(of_round, hardware)
            sizes[index] = {name: size for name, size in found.items() if size is not None}
            if len(sizes[index]) < len(found):
                return None
        kept += _num_rows(of_round, key, problems) * row_bytes + _weight_bytes(of_round, key, sizes[index])
        temporary.append(_checkpoint_bytes(of_round, key, sizes[index]))
    folder = RunFolder.of(recipe)
    begun = [path for key in schedule(recipe) for path in partial_of(key.target(folder)).rglob("*") if path.is_file()]
    return max(0.0, kept + max(temporary) - sum(path.stat().st_size for path in begun))


def _num_rows(recipe: Recipe, key: PhaseKey, problems: GameProblems) -> int:
    """
    Number of solutions that a phase stores; those of `bootstrap` and `mint` exist twice while the phase is played.
    """
    num_problems = {name: len(part) for name, part in problems.parts.items()}
    num_learned, mint = sum(num_problems[part] for part in VERIFIER_PARTS), recipe.mint
    num_test = num_problems["test"] * mint.test_solutions_per_problem
    if key.name == "bootstrap":
        return 2 * (num_learned * recipe.bootstrap.solutions_per_problem + len(GAME_ROLES) * num_test)
    if key.name == "mint":
        heldout = num_problems["verifier_heldout"] * mint.test_solutions_per_problem
        return 2 * (len(GAME_ROLES) * (num_learned * mint.solutions_per_problem + num_test) + num_test + heldout)
    if key.name == "prover" and recipe.logging.log_completions:
        return recipe.prover.planned_steps * recipe.prover.rows_per_step
    return 0


def _weight_bytes(recipe: Recipe, key: PhaseKey, sizes: dict[str, PlayerSize]) -> float:
    """Bytes of the weights that a phase keeps."""
    if key.name == "warmup":
        made = [name for name, config in recipe.players.items() if config.is_made]
        return sum(sizes[name].num_parameters * sizes[name].weight_bytes for name in made)
    if key.name not in sizes:
        return 0.0
    prover = recipe.prover
    has_best = key.name == "prover" and Role.HELPFUL in prover.trained_roles
    return _trained_bytes(key.name, sizes) * ((prover.num_trainings if key.name == "prover" else 1) + has_best)


def _checkpoint_bytes(recipe: Recipe, key: PhaseKey, sizes: dict[str, PlayerSize]) -> float:
    """Bytes of the checkpoints that exist at a time: those that are kept, and the one that is being written."""
    if key.name == "warmup":  # one is kept
        tuned = [name for name, config in recipe.players.items() if config.warmup]
        return (
            2 * _NUM_ADAM * max((sizes[name].num_parameters * sizes[name].weight_bytes for name in tuned), default=0.0)
        )
    if key.name not in sizes:
        return 0.0
    config = recipe.player(key.name)
    is_validated = key.name == "verifier" and recipe.verifier.validation_steps is not None
    if config.checkpoint_steps is None and not is_validated:
        return 0.0
    return (4 if is_validated else 3) * _NUM_ADAM * _trained_bytes(key.name, sizes)


def _trained_bytes(player: str, sizes: dict[str, PlayerSize]) -> float:
    members = [player, "critic"] if player == "prover" and "critic" in sizes else [player]
    return sum(sizes[name].num_trained * sizes[name].trained_bytes for name in members)
