"""Decorators, types and marks for the sections of a recipe, and checks of single values against a section's fields."""

import ast
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass as plain_dataclass
from dataclasses import fields, is_dataclass
from functools import cache, reduce
from inspect import getsource
from itertools import pairwise
from operator import or_
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass, is_pydantic_dataclass
from pydantic.fields import FieldInfo

from pvg_hf.core.extensions import AskedSetting, Effect, cut_to_line, show_value, suggest

# Larger values are surely mistakes; these bounds do not say what is affordable.
MAX_COUNT, MAX_STEPS, MAX_BATCH, MAX_ROUNDS, MAX_REPEATS, MAX_RANK = 10**9, 10**7, 10**6, 10**5, 10**4, 10**4
MAX_NUMBER, MAX_FACTOR, MAX_WEIGHT, MAX_TEMPERATURE, MAX_LEARNING_RATE = 10**9, 10**6, 1000, 100, 10
_MAX_PATH, _MAX_PATH_PART = 4000, 255  # bytes, the limits of Linux
_MAX_NAME = 200  # bytes; scripts append a seed to the name


def _upper_bound(bound: int) -> AfterValidator:
    def check(number: float) -> float:
        if number > bound:
            raise ValueError(f"must be at most {bound:,}")
        return number

    return AfterValidator(check)


def _read_path(text: str) -> str:
    """Read a path or a name on the Hub, with `~` replaced by the user's home."""
    path = os.path.expanduser(text) if text.startswith("~") else text
    if path.startswith(("~", "$")):
        raise ValueError(
            f"`{path.split('/')[0]:.40}` is not replaced in a path; write it in full (`~` alone is your home)"
        )
    if re.match(r"[\w+.-]+://", path):
        raise ValueError("must be a path on this machine, or a name on the Hub where one is allowed; a URL is neither")
    if "\0" in path or not path.strip():
        raise ValueError("must be a path; it is empty or has a character that a path cannot have")
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


_T = TypeVar("_T")


@dataclass_transform(kw_only_default=True)
def section(cls: type[_T]) -> type[_T]:
    """Make a class a section of a recipe; the text below a field is its description."""
    _prepare_fields(cls)
    return cast(type[_T], dataclass(config=ConfigDict(extra="forbid"), kw_only=True)(cls))


@dataclass_transform(frozen_default=True)
def value_section(cls: type[_T]) -> type[_T]:
    """Make a class a section that is also a public class: it is immutable, and its fields can be positional."""
    _prepare_fields(cls)
    return cast(type[_T], dataclass(config=ConfigDict(extra="forbid"), frozen=True)(cls))


def _prepare_fields(cls: type) -> None:
    """
    Make the types of fields strict, and describe fields by the text below them: pydantic's
    `use_attribute_docstrings` loses those of inherited fields.
    """
    cls.__annotations__.update({name: _strict(kind) for name, kind in cls.__annotations__.items()})
    for name, text in _texts_below(cls.__module__).get(cls.__name__, {}).items():
        described: Any = Annotated[cls.__annotations__[name], Field(description=" ".join(text.split()))]
        cls.__annotations__[name] = described
        default = vars(cls)[name]
        if not isinstance(default, FieldInfo):  # pydantic would place a plain default after those by `Field`
            setattr(cls, name, Field(default))


def _strict(kind: Any) -> Any:
    """
    Return a type that takes no truth value for a number, no number for a truth value and no bytes for text.

    pydantic's own strict mode would refuse a mapping for a section.
    """
    if get_origin(kind) is Annotated:
        form, *metadata = get_args(kind)
    else:
        form, metadata = kind, []
    if form in (int, float):
        return Annotated[(form, Strict(), *metadata, BeforeValidator(_read_number))]
    if form in (bool, str):
        return Annotated[(form, Strict(), *metadata)]
    inner = tuple(map(_strict, get_args(form)))
    if get_origin(form) in (Union, UnionType):
        form = reduce(or_, inner)
    elif get_origin(form) in (list, tuple, dict):
        form = get_origin(form)[inner]
    return Annotated[(form, *metadata)] if metadata else form


def _read_number(value: Any) -> Any:
    """Return the number that a text is: YAML 1.1 reads `1e-5` as text, and so are the keys of JSON."""
    if not isinstance(value, str) or not re.fullmatch(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?", value):
        return value
    return int(value) if value.lstrip("+-").isdigit() else float(value)


@cache
def _texts_below(module: str) -> dict[str, dict[str, str]]:
    """Texts below the fields of a module's classes, by class and field."""
    classes = [node for node in ast.parse(getsource(sys.modules[module])).body if isinstance(node, ast.ClassDef)]
    texts: dict[str, dict[str, str]] = {node.name: {} for node in classes}
    for node in classes:
        for field, below in pairwise(node.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[node.name][name] = text
    return texts


Count = Annotated[int, Field(ge=1), _upper_bound(MAX_COUNT)]
CountOrZero = Annotated[int, Field(ge=0), _upper_bound(MAX_COUNT)]
AtLeastTwo = Annotated[int, Field(ge=2), _upper_bound(MAX_COUNT)]
Steps = Annotated[int, Field(ge=1), _upper_bound(MAX_STEPS)]
Repeats = Annotated[int, Field(ge=1), _upper_bound(MAX_REPEATS)]  # for each problem or solution
BatchSize = Annotated[int, Field(ge=1), _upper_bound(MAX_BATCH)]
GroupSize = Annotated[int, Field(ge=2), _upper_bound(MAX_BATCH)]
Rank = Annotated[int, Field(ge=1), _upper_bound(MAX_RANK)]
NumRounds = Annotated[int, Field(ge=1), _upper_bound(MAX_ROUNDS)]
Seed = Annotated[int, Field(ge=0)]
FilePath = Annotated[str, AfterValidator(_read_path)]
RunName = Annotated[str, Field(pattern=r"^[\w.-]+$"), AfterValidator(_read_run_name)]
Share = Annotated[float, Field(ge=0, le=1)]
ProperShare = Annotated[float, Field(gt=0, lt=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), _upper_bound(MAX_NUMBER)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), _upper_bound(MAX_NUMBER)]
LearningRate = Annotated[Positive, _upper_bound(MAX_LEARNING_RATE)]
LearningRateOrZero = Annotated[NonNegative, _upper_bound(MAX_LEARNING_RATE)]
Temperature = Annotated[Positive, _upper_bound(MAX_TEMPERATURE)]
Weight = Annotated[NonNegative, _upper_bound(MAX_WEIGHT)]
PositiveWeight = Annotated[Positive, _upper_bound(MAX_WEIGHT)]
Factor = Annotated[Positive, _upper_bound(MAX_FACTOR)]
FactorOrZero = Annotated[NonNegative, _upper_bound(MAX_FACTOR)]
FlipRate = Annotated[float, Field(ge=0, lt=1)]


class Mark:
    """A fact about a key of a recipe, in the metadata of the key's type."""


class MayChange(Mark):
    """Marks a key that may change when a run is resumed: no random draw and no gradient depends on it."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), MAY_CHANGE: True}


MAY_CHANGE = "x-may-change-on-resume"
"""Property of such a key in the JSON schema."""


def names_code(value: object) -> bool:
    """Whether a value names code outside of this package as `package.module:Name`."""
    return isinstance(value, str) and ":" in value and value.split(":")[0].split(".")[0] != "pvg_hf"


def always(value: object) -> bool:
    """Whether a value needs consent that needs it whatever it is."""
    return True


def is_outside(value: object) -> bool:
    """
    Whether a model is named by a path, or by something that exists here, and not by its id on the Hub or in this
    package.

    A model of the Hub is read as data: its weights as safetensors, and none of its code.
    """
    return isinstance(value, str) and (re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", value) is None or os.path.exists(value))


def leaves_machine(trackers: object) -> bool:
    """Whether trackers send figures away; TensorBoard writes them into the run."""
    return trackers != ["tensorboard"]


def is_structured(value: object) -> bool:
    """Whether a value is a text, list or mapping, and so may name code, a file or a server."""
    return value is not None and not isinstance(value, (int, float))


@plain_dataclass(frozen=True)
class Asks(Mark):
    """
    Marks a key that needs the user's consent in a pulled recipe, unless it has its default or a false value.

    Args:
        concerns: Which values need it: those of a mapping one by one, as the names of code in a list.
        beside: Only if the key of this name in the same section names code.
    """

    effect: Effect
    concerns: Callable[[Any], bool] = bool
    beside: str | None = None

    def settings(self, key: str, value: object) -> Iterator[AskedSetting]:
        """Yield what needs consent of the value of a key."""
        of_code = self.concerns is names_code
        if isinstance(value, dict):
            entries = [(f"{key}.{name}", entry) for name, entry in value.items()]
        else:
            entries = [(key, entry) for entry in (value if isinstance(value, list) and of_code else [value])]
        for name, entry in entries:
            # Of `balanced+package.module:Name`, what is behind the sign is loaded.
            loaded = entry.rpartition("+")[2] if of_code and isinstance(entry, str) else entry
            if self.concerns(loaded):
                yield AskedSetting.of(name, loaded, self.effect)


class WholeGame(Mark):
    """Marks a key that holds for the whole game, so that no round can override it."""


@plain_dataclass(frozen=True)
class AfterBootstrap(Mark):
    """
    Marks a key without influence on the results of warm-up and bootstrap.

    Args:
        phase: The first phase of a round that it influences; by default the verifier's for keys of `verifier`, and the
            prover's for all others.
    """

    phase: str | None = None


@plain_dataclass(frozen=True)
class LowersMemory(Mark):
    """
    Marks a key that lowers the peak memory of phases.

    Args:
        change: The change of its value, e.g. `lower`.
        rank: Its place among the keys of a phase, the most effective first, for a phase typical of the GSM8K recipes.
        phases: The phases; by default the one with the name of the key's player.
        needs_critic: Whether it only does so if the prover has a critic.
    """

    change: str
    rank: int
    phases: tuple[str, ...] = ()
    needs_critic: bool = False


class ArgumentMark(Mark):
    """
    Marks a key with the trainer arguments that it sets.

    Args:
        *arguments: Names of the arguments; by default the name of the key.
        player: Player whose trainer has the arguments: `"verifier"` or `"prover"`; both by default.
    """

    def __init__(self, *arguments: str, player: str | None = None):
        self.arguments = arguments
        self.player = player


class Sets(ArgumentMark):
    """Marks a key whose value the arguments take."""


class Decides(ArgumentMark):
    """Marks a key from which `pvg_hf.trainers.arguments` computes the arguments."""


def fields_of(section: type) -> dict[str, FieldInfo]:
    """Return the fields of a section by name, without those that are no key of a recipe."""
    assert is_pydantic_dataclass(section)
    return {name: info for name, info in section.__pydantic_fields__.items() if not info.exclude}


def marks_of(config: type, kind: type[Mark]) -> Iterator[tuple[str, Any]]:
    """Yield the marks of one kind in a section, and in the sections in it, each with its key as `section.key`."""
    for name, info in fields_of(config).items():
        yield from ((name, mark) for mark in info.metadata if isinstance(mark, kind))
    for name, inner in sections_of(config):
        yield from ((f"{name}.{key}", mark) for key, mark in marks_of(inner, kind))


def marked_keys(config: type, kind: type[Mark]) -> list[str]:
    """Return the keys with a mark of one kind, as [`marks_of`]."""
    return [key for key, _ in marks_of(config, kind)]


def marked_arguments(section: type, key: str, player: str, kind: type[ArgumentMark] = ArgumentMark) -> list[str]:
    """Return the arguments of a player's trainer that a key is marked with, by all marks or those of one kind."""
    marks = [mark for mark in fields_of(section)[key].metadata if isinstance(mark, kind)]
    return [name for mark in marks if mark.player in (None, player) for name in mark.arguments or (key,)]


def sections_of(config: type) -> Iterator[tuple[str, type]]:
    """Yield the keys of a section that are sections themselves, or a mapping or list of them, with their classes."""
    for name, info in fields_of(config).items():
        options = (info.annotation, *get_args(info.annotation))
        yield from [(name, one) for one in options if isinstance(one, type) and is_dataclass(one)][:1]


def without_keys(values: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return nested mappings without some keys, which are given as `section.key`."""
    for key in keys:
        name, _, rest = key.partition(".")
        if not rest:
            values = {other: value for other, value in values.items() if other != name}
        elif isinstance(values.get(name), dict):
            values = {**values, name: without_keys(values[name], [rest])}
    return values


def check_option(section: type, key: str, value: object, *, name: str | None = None) -> None:
    """
    Check a value by the field of a section, which is the only definition of its type, range and choices.

    Args:
        name: Name in the error; by default the key, in backticks.
    Raises `ValueError` if the field does not allow the value.
    """
    try:
        _adapter(section, key).validate_python(value)
    except ValidationError as err:
        shown = f"`{cut_to_line(value)}`" if isinstance(value, str) else show_value(value)
        message = err.errors()[0]["msg"].removeprefix("Value error, ").removeprefix("Input ")
        choices = _choices(section, key)
        reason = f". {suggest(value, choices)}" if isinstance(value, str) and choices else f"; it {message}."
        raise ValueError(f"{name or f'`{key}`'} is {shown}{reason}") from err


def default_of(section: type, key: str) -> Any:
    """Return the default of a section's key, including defaults from a factory, which the JSON schema omits."""
    return fields_of(section)[key].get_default(call_default_factory=True)


def stated_values(config: Any) -> dict[str, Any]:
    """Return the fields of a section that are not `None`, by name."""
    return {field.name: vars(config)[field.name] for field in fields(config) if vars(config)[field.name] is not None}


@cache
def _adapter(section: type, key: str) -> TypeAdapter:
    info = fields_of(section)[key]
    form: Any = Annotated[(info.annotation, info)]  # known at run time only
    return TypeAdapter(form)


def _choices(section: type, key: str) -> list[str]:
    """Return the choices of a `Literal` field; empty for other fields."""
    annotation = fields_of(section)[key].annotation
    return [choice for choice in get_args(annotation) if isinstance(choice, str)]
