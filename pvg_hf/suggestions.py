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
    name, known = name[:200], list(known)
    closest = get_close_matches(name.lower(), [other.lower() for other in known], n=1)
    begun = [other.lower() for other in known if len(name) > 2 and other.lower().startswith(name.lower())]
    closest = closest or (begun if len(begun) == 1 else [])
    if closest:
        return f"Did you mean `{next(other for other in known if other.lower() == closest[0])}`?"
    return f"Known are {', '.join(f'`{other}`' for other in known) or 'none'}."


def cut_to_line(text: str, limit: int = 100) -> str:
    """A text as a message shows it: in one line of about `limit` characters; what is left out is counted."""
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text):,} characters)"
    return " ".join(text.split())


def show_value(value: object, limit: int = 100) -> str:
    """A value as Python writes it, in one line of about `limit` characters."""
    try:
        return cut_to_line(repr(value), limit)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of too many digits
        return f"a {type(value).__name__} that is too large to be shown"
