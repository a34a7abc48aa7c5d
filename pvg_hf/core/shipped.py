"""Finds files that ship with the package: beside it in a clone, within it in a wheel and in a Space."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]

IN_A_CLONE = {"recipes": "recipes", "space_app": "space_app", "glossary": "docs/reference"}
"""Folders in a clone, by their names in the package. `setup.py` has the same."""


def shipped_folder(name: str) -> Path:
    """Return a folder of `IN_A_CLONE`, wherever the package is installed."""
    packed = PACKAGE / name
    return packed if packed.is_dir() else PACKAGE.parent / IN_A_CLONE[name]
