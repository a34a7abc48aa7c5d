"""Parts of messages: what to say of a name that is not known, and a value in one line."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(name: str, known: Iterable[str]) -> str:
    """
    Args:
        name (`str`):
            What somebody wrote; upper and lower case count alike.
        known (`Iterable[str]`):
            What there is, in the order in which it is to be listed.

    Returns:
        `str`: a sentence: ``Did you mean `prover`?`` where a known name is close, and otherwise all that is known.
    """
    known = list(known)
    closest = get_close_matches(name.lower(), [other.lower() for other in known], n=1)
    if closest:
        return f"Did you mean `{next(other for other in known if other.lower() == closest[0])}`?"
    return f"Known are {', '.join(f'`{other}`' for other in known) or 'none'}."


def show_value(value: object, limit: int = 100) -> str:
    """
    A value as a message shows it: text as it is, anything else as Python writes it; in one line of at most `limit` characters,
    where what is left out is counted.
    """
    text = value if isinstance(value, str) else _representation(value)
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return f"{line[:limit]}... ({len(line):,} characters)"


def _representation(value: object) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of too many digits
        return f"a {type(value).__name__} that is too large to be shown"
