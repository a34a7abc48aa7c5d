"""Finds recipes and runs by what a user writes for them: a path, a name, or an id on the Hub."""

import re
from pathlib import Path

from pvg_hf.core.extensions import suggest
from pvg_hf.core.shipped import shipped_folder
from pvg_hf.hub.locate import is_published_name
from pvg_hf.run.layout import RunFolder

RUNS = Path("runs")  # where games are played by default


def packaged_recipes() -> dict[str, Path]:
    """Recipes that come with the package, by name, such as `quickstart` and `noise/checker`."""
    root = shipped_folder("recipes")
    files = sorted(root.rglob("*.yaml"))
    return {
        file.relative_to(root).with_suffix("").as_posix(): file for file in files if file.parent.name != "accelerate"
    }


def find_recipe(source: str) -> Path:
    """
    Find a recipe: a YAML file, the folder of a run, or a packaged recipe by its name.

    Raises `ValueError` if there is none; the message suggests one.
    """
    path, packaged = Path(source), packaged_recipes()
    if path.is_file():
        return path
    if (path / "recipe.yaml").is_file():
        return path / "recipe.yaml"
    name = source.removeprefix("recipes/").removesuffix(".yaml")
    if name in packaged:
        return packaged[name]
    raise ValueError(f"There is no recipe `{source}`. {suggest(name, list(packaged))} `pvg recipes` lists them.")


def find_run(source: str) -> str:
    """
    Find a run: a folder, the name of a run in `runs`, or the name of a published run (`org/run`), which is returned as it is.

    Raises `ValueError` if there is none; the message lists the runs in `runs`.
    """
    if Path(source, "recipe.yaml").is_file() or is_published_name(source):
        return source
    place = RUNS / source
    return str(place if (place / "recipe.yaml").is_file() else RunFolder.find(Path(source)).root)


def find_local_folder(source: str) -> Path:
    """The folder of a run on this machine. Raises `ValueError` for a published run that must be pulled first."""
    found = find_run(source)
    if is_published_name(found):
        raise ValueError(f"`{found}` is a published run. Download it first: `pvg pull {found}`.")
    return Path(found)


def find_verifier(source: str) -> str:
    """
    Find a verifier: its folder, that of a run (`RUN`, its last one, or `RUN:ROUND`), or an id on the Hub, which is returned as it is.

    Raises `ValueError` if there is none.
    """
    if (Path(source) / "verifier_input.json").is_file():
        return source
    run, round_index = re.fullmatch(r"(.*?)(?::(\d+))?", source, re.DOTALL).groups()  # type: ignore[union-attr]
    is_run = (Path(run) / "recipe.yaml").is_file() or (RUNS / run / "recipe.yaml").is_file()
    if is_run:
        return str(RunFolder(Path(find_run(run))).player("verifier", int(round_index) if round_index else None))
    if is_published_name(source):
        return source
    raise ValueError(
        f"There is no verifier `{source}`: name the folder of one (with `verifier_input.json`), a run, or a verifier on the Hub."
    )


def check_new_folder(folder: Path) -> None:
    """Raise a `ValueError` if a folder to create has files."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ValueError(f"`{folder}` exists and is not empty; name a new folder.")
