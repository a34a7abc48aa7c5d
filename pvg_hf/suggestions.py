"""What to say of a name that is not known."""

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
