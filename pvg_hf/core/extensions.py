"""Loads custom code that a recipe names as `package.module:Name`, and helps to word messages about unknown names."""

import importlib
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from textwrap import shorten
from typing import Any

from pvg_hf.core.commands import play_command

_SPEC = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")


class Effect(Enum):
    """An effect of a setting beyond the run's folder: a verb, which labels it in a plan, and the verb's object."""

    RUNS = "runs", "code with your rights"
    WEAKENS = "weakens", "the isolation of programs, which models and datasets write; they then run with your rights"
    READS = "reads", "files of this machine, or data that others publish"
    WRITES = "writes", "outside of the run's folder"
    SENDS = "sends", "prompts, figures or results away"
    PASSES = "passes", "on settings to code or libraries, some of which load code, read files or contact servers"

    def __init__(self, verb: str, what: str):
        self.verb, self.what = verb, what


@dataclass(frozen=True)
class AskedSetting:
    """A setting of a recipe that needs the user's consent if the recipe is somebody else's."""

    key: str  # in the recipe, e.g. noise.checker.command
    value: str  # as it is, e.g. package.module:Name; anything but a text as JSON
    effect: Effect = field(default=Effect.RUNS, compare=False)

    @classmethod
    def of(cls, key: str, value: object, effect: Effect = Effect.RUNS) -> "AskedSetting":
        """Make one from a value of YAML."""
        return cls(key, value if isinstance(value, str) else json.dumps(value, default=str), effect)

    def __str__(self) -> str:
        return f"`{_show_hidden(self.key)}`: {_show_hidden(self.value)}"


def _show_hidden(text: str) -> str:
    """Escape characters that a terminal might hide: the user decides by this text what to trust."""
    is_plain = text.isascii() and text.isprintable()
    return text if is_plain else text.encode("unicode_escape").decode("ascii")


class UntrustedCodeError(ValueError):
    """
    Error for the recipe of a run in `folder`, from somebody else, that runs code, reads or writes files or sends
    something away by `settings` which the user has not trusted yet.
    """

    def __init__(self, folder: Path, settings: Sequence[AskedSetting]):
        groups = {effect: [one for one in settings if one.effect is effect] for effect in Effect}
        listed = "\n".join(
            "\n".join([f"It {effect.verb} {effect.what}:", *(f"- {one}" for one in found)])
            for effect, found in groups.items()
            if found
        )
        super().__init__(
            f"The recipe in {folder} came with a run that was pulled, and needs your consent:\n{listed}\nNone of it"
            " was done. If you know what this is and trust it, say so once:"
            f" `{play_command(folder, '--plan', '--trust')}`. docs/reference/security.md says what a recipe can do."
        )
        self.folder = folder
        self.settings = tuple(settings)


# Code that a derived recipe or a lower layer names is known by its value alone. What else needs consent is known by
# `Recipe.origin`: a value such as `none` may be the user's own in one recipe and somebody else's in another.
_ALLOWED: set[str] = set()  # code that the user's own recipes name, or that the user trusts
_WITHHELD: dict[str, UntrustedCodeError] = {}


def allow_code(code: Iterable[AskedSetting]) -> None:
    """Allow code to run in this process: that of the user's own recipe, or code that the user trusts."""
    for named in code:
        _ALLOWED.add(named.value)
        _WITHHELD.pop(named.value, None)


def withhold_code(folder: Path, code: Sequence[AskedSetting]) -> None:
    """Forbid code that somebody else's recipe names to run in this process until it is allowed."""
    error = UntrustedCodeError(folder, code)
    _WITHHELD.update({named.value: error for named in code if named.value not in _ALLOWED})


def refuse_withheld(code: Iterable[AskedSetting]) -> None:
    """Check that code may run, else an `UntrustedCodeError` that lists all code of that run."""
    for named in code:
        _refuse_value(named.value)


def _refuse_value(value: str) -> None:
    if value in _WITHHELD:
        raise UntrustedCodeError(_WITHHELD[value].folder, _WITHHELD[value].settings)


def load_extension(spec: str, kind: str) -> Any:
    """
    Import the object that `spec` (`package.module:Name`) names; the caller checks its type.

    Messages name what it is used as by `kind`: `"task"`, `"reward"`, ...

    Raises:
        UntrustedCodeError: if somebody else's recipe names it and the user has not trusted it.
        ExtensionError: if importing the module raises an error; the message gives the file and line.
        ValueError: if `spec` has another form, the module does not exist or does not have the name, or the module ends
            the process when it is imported.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ValueError(
            f"Cannot load the {kind} `{cut_to_line(spec)}`: it must be of the form `package.module:Name`."
        )
    _refuse_value(spec)
    module = _import_module(match["module"], spec, kind)
    try:
        found = getattr(module, match["name"])
    except AttributeError as err:
        public = sorted(name for name in vars(module) if not name.startswith("_"))
        raise ValueError(
            f"Cannot load the {kind} `{spec}`: module `{match['module']}` has no `{match['name']}`. "
            f"{suggest(match['name'], public)}"
        ) from err
    home = inspect.getmodule(found)
    is_elsewhere = callable(found) if home is None else not _is_ours(home.__name__)
    if _is_ours(match["module"]) and is_elsewhere:
        # Code of this package needs no consent, and what it imports from elsewhere is none of it.
        raise ValueError(f"Cannot load the {kind} `{spec}`: `{match['name']}` is not defined in `pvg_hf`.")
    return found


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "pvg_hf"


def _import_module(module: str, spec: str, kind: str) -> object:
    try:
        return importlib.import_module(module)
    except SystemExit as err:
        raise ValueError(
            f"Cannot load the {kind} `{spec}`: the module `{module}` ends the process when it is imported "
            f'(SystemExit: {err.code}). Guard what it runs with `if __name__ == "__main__":`.'
        ) from err
    except UntrustedCodeError:
        raise
    except Exception as err:  # the user's code may raise anything
        name = err.name if isinstance(err, ModuleNotFoundError) else None
        if name is not None and f"{module}.".startswith(f"{name}."):
            raise ValueError(
                f"Cannot load the {kind} `{spec}`: there is no module `{name}`. It must be installed or be in a folder"
                " on PYTHONPATH."
            ) from err
        raise ExtensionError(
            f"Cannot load the {kind} `{spec}`: importing the module `{module}` ends with {_short_error(err)}"
            f"{_place_of_import(err)}."
        ) from err


def _place_of_import(err: Exception) -> str:
    """Locate an import error: the line of a syntax error, or else the innermost line of the user's own code."""
    if isinstance(err, SyntaxError) and err.filename is not None:
        return f" ({err.filename}, line {err.lineno})"
    # Frames of Python itself, of installed packages and of pvg_hf say nothing about the user's mistake.
    installed = (sys.prefix, sys.base_prefix, "<frozen", str(Path(__file__).parents[1]))
    frames = traceback.extract_tb(err.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(installed)] or frames
    return f" ({own[-1].filename}, line {own[-1].lineno})"


class ExtensionError(ValueError):
    """The user's code raised an error, or returned something that its interface does not allow."""


def load_function(spec: str, kind: str, interface: str) -> Callable[..., Any]:
    """
    Import the function that `spec` names, see [`load_extension`].

    Messages say by `interface` how it is called and what it returns: `"(means, config) -> bool"`.

    Raises `ValueError` as for [`load_extension`], and if the object is a class or not callable.
    """
    found = load_extension(spec, kind)
    if inspect.isclass(found) or not callable(found):
        what = "class" if inspect.isclass(found) else type(found).__name__
        raise ValueError(f"The {kind} `{spec}` is a {what}; it must be a function `{interface}`.")
    return found


def check_arguments(function: Callable[..., Any], what: str, interface: str, *args: object, **kwargs: object) -> None:
    """
    Check that a user's function can be called with these arguments, without calling it.

    The message names it by `what`, e.g. ``The stop rule `my_rules:late` ``, and its proper form by `interface`.

    Raises `ExtensionError` if an argument is missing or unknown.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # some builtins have no signature
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as err:
        raise ExtensionError(f"{what} must be a function `{interface}`, but takes `{signature}`: {err}.") from err


@contextmanager
def running(what: str, passes: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """
    Convert any error that the user's code raises inside this block to an `ExtensionError` with its type, message, file
    and line.

    `what` says what is called, and when, e.g. ``The stop rule `my_rules:late`, asked at step 12,``. Errors of the
    types `passes`, which have messages for the user, pass unchanged.
    """
    unchanged: tuple[type[Exception], ...] = (ExtensionError, *passes)
    try:
        yield
    except unchanged:
        raise
    except (Exception, SystemExit) as err:
        raise ExtensionError(f"{what} ends with {_describe(err)}.") from err


def _describe(err: BaseException) -> str:
    """
    Describe an error of the user's code in one line: type, message, and the last line reached in the file called.
    """
    frames = traceback.extract_tb(err.__traceback__)[2:]  # without `running` and its caller
    places = [frame for frame in frames if frame.filename == frames[0].filename]
    place = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    return f"{_short_error(err)}{place}"


def _short_error(err: BaseException) -> str:
    """Return type and message of an error in one line; a syntax error's message without the repeated location."""
    message = shorten(str(err.msg if isinstance(err, SyntaxError) else err), 200, placeholder=" ...")
    return f"{type(err).__name__}{f': {message}' if message else ''}"


def suggest(name: str, known: Iterable[str]) -> str:
    """
    Suggest a known name in place of an unknown one: ``Did you mean `prover`?`` if one is close, else a list of all of
    them.

    Case is ignored; the known names are listed in their order.
    """
    name, known = name[:200], list(known)
    closest = get_close_matches(name.lower(), [other.lower() for other in known], n=1)
    # A name of which only the beginning was written is also a match, if it is the only one.
    begun = [other.lower() for other in known if len(name) > 2 and other.lower().startswith(name.lower())]
    closest = closest or (begun if len(begun) == 1 else [])
    if closest:
        return f"Did you mean `{next(other for other in known if other.lower() == closest[0])}`?"
    return f"Known are {', '.join(f'`{other}`' for other in known) or 'none'}."


def cut_to_line(text: str, limit: int = 100) -> str:
    """Shorten a text for a message: one line of about `limit` characters, with the full length if it is cut."""
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text):,} characters)"
    return " ".join(text.split())


def show_value(value: object, limit: int = 100) -> str:
    """Format a value for a message: its `repr` in one line of about `limit` characters."""
    try:
        return cut_to_line(repr(value), limit)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of too many digits
        return f"a {type(value).__name__} that is too large to show"
