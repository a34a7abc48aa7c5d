"""Finds what a user names as `package.module:Name`: a task, a reward, a stop rule, a mixture."""

import importlib
import re

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
