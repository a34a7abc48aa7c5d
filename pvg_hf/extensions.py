"""Finds what a user names as `package.module:Name`: a task, a reward, a stop rule, a mixture."""

import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

from pvg_hf.suggestions import suggest

_SPEC = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")


def load_extension(spec: str, kind: str) -> object:
    """
    Import the object that `spec` names.

    Args:
        spec (`str`):
            `package.module:Name`.
        kind (`str`):
            What it is wanted as, for messages: `"task"`, `"reward"`, ...

    Returns:
        `object`: whatever stands under that name; the caller checks that it is of the kind.

    Raises:
        ValueError: if `spec` is not of this form, there is no such module, or no such name in it. An error that the
            module raises while it is imported, a missing import of its own included, passes through.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ValueError(f"Cannot load the {kind} `{spec}`: it must be of the form `package.module:Name`.")
    module = _import_module(match["module"], spec, kind)
    try:
        return getattr(module, match["name"])
    except AttributeError as err:
        public = sorted(name for name in vars(module) if not name.startswith("_"))
        raise ValueError(
            f"Cannot load the {kind} `{spec}`: module `{match['module']}` has no `{match['name']}`. "
            f"{suggest(match['name'], public)}"
        ) from err


def _import_module(module: str, spec: str, kind: str) -> object:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as err:
        is_missing_itself = err.name is not None and f"{module}.".startswith(f"{err.name}.")
        if not is_missing_itself:
            raise
        raise ValueError(
            f"Cannot load the {kind} `{spec}`: there is no module `{err.name}`. It must be installed or stand in a "
            "folder on PYTHONPATH."
        ) from err


class ExtensionError(ValueError):
    """The user's code raised an error, or returned something that its interface does not allow."""


def load_function(spec: str, kind: str, interface: str) -> Callable[..., Any]:
    """
    Import a function that `spec` names.

    Args:
        spec (`str`), kind (`str`):
            As [`load_extension`] takes them.
        interface (`str`):
            How the function is called and what it returns, for messages: `"(means, config) -> bool"`.

    Raises:
        ValueError: as [`load_extension`], and if it is a class or cannot be called.
    """
    found = load_extension(spec, kind)
    if inspect.isclass(found) or not callable(found):
        what = "class" if inspect.isclass(found) else type(found).__name__
        raise ValueError(f"The {kind} `{spec}` is a {what}; it must be a function `{interface}`.")
    return found


def check_arguments(function: Callable[..., Any], what: str, interface: str, *args: object, **kwargs: object) -> None:
    """
    Check that `function` can be called with these arguments, without calling it.

    Args:
        function (`Callable`):
            Of the user.
        what (`str`):
            Its name in the message, e.g. ``The stop rule `my_rules:late` ``.
        interface (`str`):
            How it should be called.

    Raises:
        ExtensionError: if an argument is missing or unknown.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin that does not say
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as err:
        raise ExtensionError(f"{what} must be a function `{interface}`, but takes `{signature}`: {err}.") from err


@contextmanager
def running(what: str) -> Iterator[None]:
    """
    Replace any error that the user's code raises inside this block.

    Args:
        what (`str`):
            What is called, and with what, e.g. ``The stop rule `my_rules:late`, asked at step 12,``.

    Raises:
        ExtensionError: with the type, message, file and line of the error.
    """
    try:
        yield
    except ExtensionError:
        raise
    except Exception as err:
        raise ExtensionError(f"{what} ends with {_describe(err)}.") from err


def _describe(err: Exception) -> str:
    """An error of the user's code in one line: type, message, and the last place in the file that was called."""
    frames = traceback.extract_tb(err.__traceback__)[2:]  # the first are `running` and its caller
    places = [frame for frame in frames if frame.filename == frames[0].filename]
    place = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    message = shorten(str(err), 200, placeholder=" ...")
    return f"{type(err).__name__}{f': {message}' if message else ''}{place}"
