"""Trainer arguments that a recipe's section defines: their defaults, help texts and ranges are those of its keys."""

from dataclasses import field, fields
from typing import Any, cast

from pvg_hf.config.fields import check_option, default_of


def option(section: Any, key: str) -> Any:
    """Return a dataclass field with the default and the description of a section's key."""
    description = section.__pydantic_fields__[key].description
    return field(default=default_of(section, key), metadata={"help": description})


def parsed_dict(argument: dict[str, Any] | str | None) -> dict[str, Any]:
    """Return an argument that may be text on a command line, after transformers has parsed it; `{}` for `None`."""
    return cast("dict[str, Any]", argument or {})


def check_options(args: Any, section: type, *keys: str, **renamed: str) -> None:
    """
    Check trainer arguments by the section that defines them.

    Args:
        *keys: Arguments that have the name of a key; by default all that share one with the section.
        **renamed: Keys of the section by the name of their argument.
    Raises `ValueError` naming the first argument whose value is not allowed.
    """
    if not keys and not renamed:
        keys = tuple(key.name for key in fields(section) if key.name in vars(args))
    for argument, key in {**{key: key for key in keys}, **renamed}.items():
        check_option(section, key, vars(args)[argument], name=f"`{argument}`")
