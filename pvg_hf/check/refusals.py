"""Converts errors that a phase's code would raise into a list of mistakes."""

from collections.abc import Callable

from huggingface_hub.errors import StrictDataclassError

from pvg_hf.core.extensions import cut_to_line


def refusals(where: str, action: Callable[[], object]) -> list[str]:
    """
    Run an action of a phase, and return the error that it raises as a mistake.

    Args:
        where (`str`):
            The setting, e.g. `` `prover.reward` ``.
        action (`Callable`):
            What a phase will do with the setting; it must have no side effects.

    Returns:
        `list[str]`: the message of the `ValueError` or `TypeError` (or transformers' own error for invalid configurations), with
        `where` in front; empty if nothing is raised.
    """
    try:
        action()
    except (ValueError, TypeError, OverflowError, StrictDataclassError) as err:
        return [f"{where}: {_join_lines(err)}"]
    except SystemExit as err:
        return [f"{where}: the code that it names calls `sys.exit({err.code!r})`."]
    return []


def _join_lines(err: Exception) -> str:
    return cut_to_line(str(err), 1000)
