"""Checks of the texts that a verifier reads and of the scores that it returns."""

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import ArrayLike

_SHOWN = 60  # characters of a solution in a message


def check_texts(problems: Collection[str], solutions: Collection[str]) -> None:
    """
    Check that problems and solutions are two lists of texts, of equal length.

    Raises `ValueError` for a text instead of a list of texts, for lists of different lengths, and for an item that is
    not a text or cannot be encoded, with its index.
    """
    sides = {"problems": problems, "solutions": solutions}
    for name, texts in sides.items():
        if isinstance(texts, str) or not isinstance(texts, Collection):
            raise ValueError(f"`{name}` is {_shown(texts)}; pass a list of texts, such as [{name[:-1]}].")
    if len(problems) != len(solutions):
        raise ValueError(
            f"There are {len(problems)} problems and {len(solutions)} solutions; each solution needs its problem."
        )
    for name, texts in sides.items():
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise ValueError(f"`{name}[{index}]` is {_shown(text)}, a {type(text).__name__}; it must be a text.")
            if not text.isascii():
                try:
                    text.encode()
                except UnicodeEncodeError as err:
                    raise ValueError(
                        f"`{name}[{index}]` has a lone surrogate at {err.start}, which is not a character; remove it."
                    ) from err


def check_scores(scores: ArrayLike, solutions: Iterable[str] | None = None) -> None:
    """
    Check that the scores of solutions are finite.

    Raises `ValueError` with the index, from 0, of the first solution whose score is not, and its text if it is known.
    """
    values = np.asarray(scores, float)
    is_bad = ~np.isfinite(values)
    if is_bad.any():
        index = int(is_bad.argmax())
        text = "" if solutions is None else f" ({_shown(list(solutions)[index])})"
        raise ValueError(
            f"The score of solution {index}{text} is {values[index]}"
            f"; {is_bad.sum()} of {len(is_bad)} scores are not finite numbers. Check the verifier's weights for NaN,"
            " or load them in float32."
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
