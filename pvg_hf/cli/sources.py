"""Finds recipes and runs by what a user writes for them: a path, a name, or an id on the Hub."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pvg_hf.cli.results import check_output
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.extensions import suggest
from pvg_hf.core.integrity import RECIPE_FILE
from pvg_hf.core.shipped import shipped_folder
from pvg_hf.hub.locate import is_published_name, locate_run
from pvg_hf.run.layout import ENVIRONMENT, RunFolder

RUNS = Path("runs")  # where games are played by default
RECIPE_FILES = (RECIPE_FILE, "message-recipe.yaml")  # in the folder of a game, and of a message game


def packaged_recipes() -> dict[str, Path]:
    """Recipes that come with the package, by name, such as `quickstart` and `noise/checker`."""
    root = shipped_folder("recipes")
    files = sorted(root.rglob("*.yaml"))
    return {
        file.relative_to(root).with_suffix("").as_posix(): file for file in files if file.parent.name != "accelerate"
    }


def find_recipe(source: str, *, prefers_run: bool = False) -> Path:
    """
    Find a recipe: a YAML file, the folder of a run, a packaged recipe or a run in `runs` by its name, or a published
    run (`org/run`), which is downloaded without its provers.

    Args:
        prefers_run: Whether a name is rather that of a run than of a packaged recipe.
    Raises `ValueError` if there is none; the message suggests one.
    """
    path, packaged = Path(source), packaged_recipes()
    if path.is_file():
        return path
    name = source.removeprefix("recipes/").removesuffix(".yaml")
    of_run = [file for place in (path, RUNS / source) for kind in RECIPE_FILES if (file := place / kind).is_file()]
    if of_run and (prefers_run or of_run[0].parent == path or name not in packaged):
        return of_run[0]
    if name in packaged:
        return packaged[name]
    is_misspelled = name != source or any(known.startswith(f"{source.partition('/')[0]}/") for known in packaged)
    if is_published_name(source) and not is_misspelled:
        return locate_run(source, with_provers=False) / RECIPE_FILES[0]
    known = [*packaged, *(place.parent.name for place in RUNS.glob(f"*/{RECIPE_FILES[0]}"))]
    raise ValueError(
        f"There is no recipe `{source}`, and no run of this name. {suggest(name, known)} `pvg recipes` lists the"
        " recipes."
    )


def is_kept(path: Path) -> bool:
    """Whether a recipe is that of a run, which was written when the run began."""
    return path.name == RECIPE_FILE and (path.parent / ENVIRONMENT).is_file()


def moved_to(source: str, recipe: Path, overrides: Sequence[str]) -> list[str]:
    """
    Return the overrides, with those of `output_dir` and `name` if `source` is a run: a moved or renamed run is where
    it is, and not where it was.
    """
    is_run = recipe.name in RECIPE_FILES and not Path(source).is_file()
    if not is_run or any(text.startswith("output_dir=") for text in overrides):
        return list(overrides)
    has_other_name = recipe.parent.name in ("", "..") or recipe.parent.is_symlink()
    folder = recipe.parent.resolve() if has_other_name else recipe.parent
    place = {"output_dir": str(folder.parent), "name": folder.name}
    return [*(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in place.items()), *overrides]


def find_run(source: str) -> str:
    """
    Find a run: a folder, the name of a run in `runs`, or the name of a published run (`org/run`), which is returned as
    it is.

    Raises `ValueError` if there is none; the message lists the runs in `runs`.
    """
    if Path(source, "recipe.yaml").is_file() or is_published_name(source):
        return source
    is_name = Path(source).name == source and not Path(source).exists()
    return str(
        RunFolder.find(RUNS / source if is_name or (RUNS / source / RECIPE_FILE).is_file() else Path(source)).root
    )


def find_folder(source: str) -> Path:
    """Find the folder of a run; the last round of a published one is downloaded."""
    return locate_run(find_run(source))


def find_verifier(source: str) -> str:
    """
    Find a verifier: its folder, that of a run (`RUN`, its last one, or `RUN:ROUND`), or one on the Hub (`org/model`,
    or that of a published run, `org/run` or `org/run:ROUND`), which is returned as it is; see [`local_verifier`].

    Raises `ValueError` if there is none.
    """
    if any((Path(source) / name).is_file() for name in ("verifier_input.json", "score_verifier.json")):
        return source
    run, round_index = _split_round(source)
    if any((place / RECIPE_FILE).is_file() for place in (Path(run), RUNS / run)):
        return str(RunFolder(Path(find_run(run))).player("verifier", round_index))
    if is_published_name(run):
        return source
    raise ValueError(
        f"There is no verifier `{source}`: name the folder of one (with `verifier_input.json`), a run, or a verifier"
        " on the Hub. `pvg train verifier` trains one."
    )


def local_verifier(found: str) -> str:
    """
    Return the folder of what [`find_verifier`] has found; a verifier on the Hub is downloaded.

    Raises `ValueError` if the Hub has none of this name or cannot be reached.
    """
    if Path(found).is_dir():
        return found
    from pvg_hf.models.sources import local_folder

    name, round_index = _split_round(found)
    of_run = name if name.endswith("-verifier") else f"{name}-verifier"
    if round_index is not None:
        return local_folder(of_run, round_name(round_index))
    if of_run != name:
        with suppress(ValueError):
            return local_folder(name)
    return local_folder(of_run)


def _split_round(source: str) -> tuple[str, int | None]:
    """Split `RUN:ROUND`; a name without a round has `None`."""
    run, colon, index = source.rpartition(":")
    return (run, int(index)) if colon and index.isdecimal() else (source, None)


def check_new_folder(folder: Path) -> None:
    """Raise a `ValueError` if a folder to create has files, or cannot be written."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ValueError(f"`{folder}` exists and is not empty; name a new folder.")
    check_output(folder, is_folder=True)
