"""Errors of the machine, not of the recipe: a full disk, and too little memory."""

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError

from pvg_hf.config import Recipe


class DiskFullError(OSError):
    """There is no room for what a phase was about to write."""


class OutOfMemory(RuntimeError):
    """A phase does not fit in the memory of its device."""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENAMETOOLONG})

_TOO_LITTLE = 2**20  # bytes; less is no room for anything


@contextmanager
def naming_full_disk(root: Path) -> Iterator[None]:
    """
    Tell a full disk, and one that cannot be written to, from whatever the library that met it makes of it.

    Raises:
        DiskFullError: in place of any error that comes of a full disk.
        ValueError: in place of any error about a file below `root` that says that nothing can be written there.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as err:
        if is_unwritable(err, root):
            raise ValueError(
                f"{root} cannot be written to: {err}. Everything that was finished is kept. Make it writable for this user, or "
                "name another `output_dir`; then start with the same command."
            ) from err
        if not is_disk_full(err, root):
            raise
        raise DiskFullError(
            f"No room is left to write to ({root}, or the folder for temporary files): {err}. Everything that was "
            "finished is kept. Make room, then continue the run with the same command."
        ) from err


def is_unwritable(err: Exception, root: Path) -> bool:
    """Whether an error says that `root`, or something in it, may not be written, or cannot be made."""
    if _number_of(err) not in _UNWRITABLE:
        return False
    if not isinstance(err, OSError):
        return True
    place = None if err.filename is None else Path(os.fsdecode(err.filename)).absolute()
    return place is not None and (place.is_relative_to(root.absolute()) or root.absolute().is_relative_to(place))


def _number_of(err: Exception) -> int | None:
    """The system's number of an error; safetensors says it in its text only."""
    if isinstance(err, OSError):
        return err.errno
    found = re.search(r"\(os error (\d+)\)", str(err)) if isinstance(err, SafetensorError) else None
    return int(found[1]) if found else None


def is_disk_full(err: Exception, root: Path) -> bool:
    """Whether an error comes of a full disk; `root`, a folder on it, need not be made yet."""
    number = _number_of(err)
    if number is not None:
        return number in _FULL
    # torch's archives fail alike for any reason, when they are written or read
    has_failed_to_write = "inline_container.cc" in str(err) and "StreamReader" not in str(err)
    existing = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    return has_failed_to_write or shutil.disk_usage(existing).free < _TOO_LITTLE


Knob = tuple[str, Callable[[Recipe], object], str]  # key, its value, what to make of it

_SCORING: tuple[Knob, ...] = (("verifier.tokens_per_batch", lambda recipe: recipe.verifier.tokens_per_batch, "lower"),)

_WRITING: tuple[Knob, ...] = (
    ("mint.problems_per_batch", lambda recipe: recipe.mint.problems_per_batch, "lower"),
    ("prover.max_completion_length", lambda recipe: recipe.prover.max_completion_length, "lower"),
)

# In order of effect for a phase that is typical of the GSM8K recipes.
KNOBS: dict[str, tuple[Knob, ...]] = {
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


_PPO_KNOBS: tuple[Knob, ...] = (
    ("prover.ppo.critic", lambda recipe: recipe.prover.ppo_settings.critic, "adapter"),
    ("prover.algorithm", lambda recipe: recipe.prover.algorithm, "grpo"),
)


@contextmanager
def naming_knobs(recipe: Recipe, phase: str) -> Iterator[None]:
    """
    Args:
        recipe ([`Recipe`]):
            Of the round.
        phase (`str`):
            Name of the phase, such as `prover`.

    Raises:
        OutOfMemory: in place of torch's error, with the settings that lower the phase's peak, in order of effect.
    """
    try:
        yield
    except torch.OutOfMemoryError as err:
        raise OutOfMemory(
            f"The {phase} phase does not fit in memory: {str(err).splitlines()[0]} In order of effect: "
            f"{list_knobs(recipe, phase)}. `--plan` estimates each phase's peak. Everything that was finished is kept; a changed "
            "recipe needs a `name` of its own."
        ) from err


def list_knobs(recipe: Recipe, phase: str) -> str:
    """The settings that lower a phase's peak, with their values, in order of effect."""
    has_critic = phase == "prover" and recipe.prover.algorithm == "ppo"
    chosen = KNOBS[phase] + (_PPO_KNOBS if has_critic else ())
    return "; ".join(f"`{key}` ({wish}, now {value(recipe)})" for key, value, wish in chosen)
