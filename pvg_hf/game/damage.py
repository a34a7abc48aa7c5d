"""What a disk or a person did to the folders of finished phases."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from pvg_hf.config import Recipe
from pvg_hf.game.folder import RunFolder, damaged_weights, replay_advice
from pvg_hf.game.schedule import PhaseKey, schedule

# What a finished phase has left at least, models aside.
_FILES = {
    "bootstrap": ("base.parquet", "test-helpful.parquet", "test-sneaky.parquet"),
    "verifier": ("calibration.json", "heldout.parquet"),
    "mint": ("sneaky.parquet", "test-helpful.parquet", "test-sneaky.parquet"),
    "evaluate": ("metrics.json", "problems.parquet"),
}
HOW_ASKED = ("verifier_input.json", "score_verifier.json")
"""How either kind of verifier is asked: in the folder of each that was trained."""

_WITH_MODELS = ("warmup", "verifier", "prover")
# A model's or adapter's configuration, and the names of which one holds its weights.
_WEIGHTS = {
    "config.json": ("model.safetensors", "model.safetensors.index.json"),
    "adapter_config.json": ("adapter_model.safetensors",),
}


def refuse_damage(recipe: Recipe, folder: RunFolder) -> None:
    """
    Raises:
        ValueError: if something is wrong with a finished phase's folder, naming it and what to do.
    """
    for key, damage in find_damage(recipe, folder).items():
        raise ValueError(f"{damage} {replay_advice(key.target(folder))}")


def find_damage(recipe: Recipe, folder: RunFolder) -> dict[PhaseKey, str]:
    """
    Look through the folders of finished phases. Every file that is there must be whole, as far as that can be seen
    without reading it all; that a file is missing counts where a phase to come reads it, so that the weights of rounds
    that are over may be deleted.

    Args:
        recipe ([`Recipe`]):
            The game.
        folder ([`RunFolder`]):
            Its run.

    Returns:
        `dict[PhaseKey, str]`: the phases with something wrong, in order, and what that is.
    """
    phases = schedule(recipe)
    finished = [key for key in phases if key.target(folder).exists()]
    needed = {earlier for key in phases if key not in finished for earlier in _read_by(recipe, key)}
    damage = {}
    for key in finished:
        target = key.target(folder)
        missing = _missing(key, target) if key in needed else _missing_files(target, ("metrics.jsonl",))
        found = next(_torn(target), None) or next(missing, None)
        if found:
            damage[key] = found
    return damage


def _read_by(recipe: Recipe, key: PhaseKey) -> Iterator[PhaseKey]:
    """The earlier phases whose folders a phase reads; earlier pools aside, whose files are looked for by name."""
    k = key.round_index
    yield PhaseKey("warmup")
    if k is None:
        return
    yield PhaseKey("bootstrap")
    config = recipe.for_round(k)
    if key.name == "verifier" and config.verifier.init == "warm":
        yield PhaseKey("verifier", k - 1)
    if key.name == "prover" and config.prover.init == "previous":
        yield PhaseKey("prover", k - 1)
    reads = {"prover": ("verifier",), "mint": ("verifier", "prover"), "evaluate": ("verifier", "mint")}
    yield from (PhaseKey(name, k) for name in reads.get(key.name, ()))


def _missing(key: PhaseKey, target: Path) -> Iterator[str]:
    yield from _missing_files(target, (*_FILES.get(key.name, ()), "metrics.jsonl"))
    if key.name == "verifier" and not any((target / name).exists() for name in HOW_ASKED):
        yield f"{target / HOW_ASKED[0]} is missing."
    if key.name not in _WITH_MODELS:
        return
    names = {*_WEIGHTS, *(weights for names in _WEIGHTS.values() for weights in names)}
    places = sorted({path.parent for path in target.rglob("*") if path.name in names})
    if not places:
        yield f"{target} holds no model."
    for place in places:
        yield from _missing_of_model(place)


def _missing_files(folder: Path, names: tuple[str, ...]) -> Iterator[str]:
    yield from (f"{folder / name} is missing." for name in names if not (folder / name).exists())


def _missing_of_model(folder: Path) -> Iterator[str]:
    is_adapter = any((folder / name).exists() for name in ("adapter_config.json", *_WEIGHTS["adapter_config.json"]))
    config = "adapter_config.json" if is_adapter else "config.json"
    yield from _missing_files(folder, (config, "tokenizer_config.json"))
    if not any((folder / name).exists() for name in _WEIGHTS[config]):
        yield f"{folder / _WEIGHTS[config][0]} is missing."
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = json.loads(index.read_bytes())["weight_map"].values()
        yield from _missing_files(folder, tuple(sorted(set(shards))))


def _torn(folder: Path) -> Iterator[str]:
    """Files that were cut short or hold something else than their name says."""
    weights = damaged_weights(folder)
    if weights is not None:
        yield f"{weights} is damaged or was cut short."
    for path in sorted(folder.rglob("*")):
        check = _CHECKS.get(path.suffix)
        if check is None or not path.is_file():
            continue
        try:
            check(path)
        except (ValueError, OSError) as err:  # pyarrow raises either
            yield f"{path} is damaged or was cut short ({str(err).strip()})."


def _check_lines(path: Path) -> None:
    for line in path.read_bytes().splitlines():
        json.loads(line)


_CHECKS: dict[str, Callable[[Path], object]] = {
    ".json": lambda path: json.loads(path.read_bytes()),
    ".jsonl": _check_lines,
    ".parquet": pq.read_metadata,
}
