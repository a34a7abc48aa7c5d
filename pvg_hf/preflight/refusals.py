"""Turns what the code of a phase would raise into mistakes to be listed."""

from collections.abc import Callable

from huggingface_hub.errors import StrictDataclassError

from pvg_hf.core.extensions import cut_to_line


def refusals(where: str, action: Callable[[], object]) -> list[str]:
    """
    Args:
        where (`str`):
            The setting, e.g. `` `prover.reward` ``.
        action (`Callable`):
            What a phase will do with it, without side effects.

    Returns:
        `list[str]`: the message of the `ValueError` or `TypeError` that it raises (transformers refuses a configuration's
        values by an error of its own), with `where` in front; empty if it raises nothing.
    """
    try:
        action()
    except (ValueError, TypeError, OverflowError, StrictDataclassError) as err:
        return [f"{where}: {_join_lines(err)}"]
    except SystemExit as err:
        return [f"{where}: what it names ends the process (SystemExit: {err.code})."]
    return []


def _join_lines(err: Exception) -> str:
    return cut_to_line(str(err), 1000)
