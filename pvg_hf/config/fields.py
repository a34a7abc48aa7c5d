"""What the sections of a recipe are made of: the dataclass, and types with their bounds."""

import os
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

# More of anything is a slip of the pen; these are no bounds of what can be afforded.
MAX_COUNT, MAX_BATCH, MAX_ROUNDS, MAX_RANK = 10**9, 10**6, 10**5, 10**4
_MAX_PATH, _MAX_PATH_PART = 4000, 255  # bytes that Linux takes
_MAX_NAME = 200  # bytes; scripts put a seed behind it


def _upper_bound(bound: int) -> AfterValidator:
    def check(number: int) -> int:
        if number > bound:
            raise ValueError(f"must be at most {bound:,}")
        return number

    return AfterValidator(check)


def _read_path(text: str) -> str:
    """A path, or a name on the Hub, with `~` replaced by the user's home."""
    path = os.path.expanduser(text) if text.startswith("~") else text
    if path.startswith(("~", "$")):
        raise ValueError(
            f"`{path.split('/')[0]:.40}` is not replaced in a path; write it in full (`~` alone is your home)"
        )
    if "\0" in path or not path.strip():
        raise ValueError("must be a path; it is empty or has a character that no path can have")
    size = max(len(part.encode(errors="replace")) for part in path.split("/"))
    if len(path.encode(errors="replace")) > _MAX_PATH or size > _MAX_PATH_PART:
        raise ValueError(f"is too long: a path may have {_MAX_PATH:,} bytes, and each part of it {_MAX_PATH_PART}")
    return path


def _read_run_name(name: str) -> str:
    if name.startswith("."):
        raise ValueError("must not begin with a dot, as it names a folder")
    if len(name.encode(errors="replace")) > _MAX_NAME:
        raise ValueError(f"must have at most {_MAX_NAME} bytes")
    return name


section = dataclass(config=ConfigDict(extra="forbid"), kw_only=True)

Count = Annotated[int, Field(ge=1), _upper_bound(MAX_COUNT)]
CountOrZero = Annotated[int, Field(ge=0), _upper_bound(MAX_COUNT)]
AtLeastTwo = Annotated[int, Field(ge=2), _upper_bound(MAX_COUNT)]
BatchSize = Annotated[int, Field(ge=1), _upper_bound(MAX_BATCH)]
GroupSize = Annotated[int, Field(ge=2), _upper_bound(MAX_BATCH)]
Rank = Annotated[int, Field(ge=1), _upper_bound(MAX_RANK)]
NumRounds = Annotated[int, Field(ge=1), _upper_bound(MAX_ROUNDS)]
Seed = Annotated[int, Field(ge=0)]
FilePath = Annotated[str, AfterValidator(_read_path)]
RunName = Annotated[str, Field(pattern=r"^[\w.-]+$"), AfterValidator(_read_run_name)]
Share = Annotated[float, Field(ge=0, le=1)]
ProperShare = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
FlipRate = Annotated[float, Field(ge=0, lt=1)]
