"""Converts errors that a phase's code would raise into a list of mistakes."""

from collections.abc import Callable

from huggingface_hub.errors import StrictDataclassError

from pvg_hf.core.extensions import cut_to_line


def refusals(where: str, action: Callable[[], object]) -> list[str]:
    """
    Run what a phase will do with a setting, which must have no side effects, and return its error as a mistake.

    `where` is the setting, e.g. `` `prover.reward` ``. Errors are `ValueError` and `TypeError`, and transformers' own.
    """
    try:
        action()
    except (ValueError, TypeError, OverflowError, StrictDataclassError) as err:
        return [f"{where}: {cut_to_line(str(err), 1000)}"]
    except SystemExit as err:
        return [f"{where}: the code that it names calls `sys.exit({err.code!r})`."]
    return []
