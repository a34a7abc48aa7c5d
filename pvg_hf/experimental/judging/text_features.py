"""
Features of a solution's text that do not say whether it is correct: its length, its form and its wording.

No feature sees the problem, the value of a number or which operation stands beside which word. A reader who knows only
these features has checked nothing.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import HashingVectorizer

FEATURE_GROUPS = ("length", "form", "wording")

NUM_WORDING_FEATURES = 512  # hashed words

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)|\n+")
_OPERATION = re.compile(r"[-+*/\u00d7\u00f7](?=\s*\$?\d)")


def length_features(texts: Sequence[str]) -> pd.DataFrame:
    """Return the length of each text in characters, words, numbers and lines, as logarithms of 1 plus the count."""
    counts = {
        "num_characters": [len(text) for text in texts],
        "num_words": [len(_WORD.findall(text)) for text in texts],
        "num_numbers": [len(_NUMBER.findall(text)) for text in texts],
        "num_lines": [len(_lines(text)) for text in texts],
    }
    return np.log1p(pd.DataFrame(counts, dtype=float))


def form_features(texts: Sequence[str]) -> pd.DataFrame:
    """
    Return how each text is laid out, whatever its length and its content.

    Columns: `words_per_line` and `longest_line` (words), `numbers_per_line`, `operations_per_line`, `equation_lines`
    and `merged_lines` (shares of lines with one or more, and with several equality signs), `repeated_lines` (share),
    `digits`, `capitals` and `punctuation` (shares of the characters), `word_length` (characters), `distinct_words`
    (share), and `ends_with_number` (0 or 1).
    """
    return pd.DataFrame([_form(text) for text in texts])


def wording_features(texts: Sequence[str]) -> np.ndarray:
    """
    Return which words each text uses: hashed counts of single words, without numbers and signs, of unit length.

    Words are counted alone, because a word beside an operation can show that a step is wrong.

    Returns: `np.ndarray` of shape `(num_texts, NUM_WORDING_FEATURES)`.
    """
    vectorizer = HashingVectorizer(n_features=NUM_WORDING_FEATURES, token_pattern=_WORD.pattern, norm="l2")
    return vectorizer.transform(texts).toarray()


def group_features(texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the features of each group in `FEATURE_GROUPS`, as arrays with a row per text."""
    return {
        "length": length_features(texts).to_numpy(),
        "form": form_features(texts).to_numpy(),
        "wording": wording_features(texts),
    }


def readability_index(text: str) -> float:
    """
    Return the automated readability index of a text, about the school grade that reads it (Smith & Senter 1967).

    It is `4.71 characters / words + 0.5 words / sentences - 21.43`. Numbers count as words; a line break ends a
    sentence.

    Args:
        text: A solution; NaN if it has no word.
    """
    words = [*_WORD.findall(text), *_NUMBER.findall(text)]
    if not words:
        return float("nan")
    sentences = [part for part in _SENTENCE_END.split(text) if _WORD.search(part) or _NUMBER.search(part)]
    return 4.71 * sum(map(len, words)) / len(words) + 0.5 * len(words) / max(1, len(sentences)) - 21.43


def _form(text: str) -> dict[str, float]:
    lines, words = _lines(text), _WORD.findall(text)
    num_lines, num_characters = max(1, len(lines)), max(1, len(text))
    signs = [line.count("=") for line in lines]
    words_of_lines = [len(_WORD.findall(line)) for line in lines]
    return {
        "words_per_line": len(words) / num_lines,
        "longest_line": float(max(words_of_lines, default=0)),
        "numbers_per_line": len(_NUMBER.findall(text)) / num_lines,
        "operations_per_line": len(_OPERATION.findall(text)) / num_lines,
        "equation_lines": sum(number > 0 for number in signs) / num_lines,
        "merged_lines": sum(number > 1 for number in signs) / num_lines,
        "repeated_lines": 1 - len(set(lines)) / num_lines if lines else 0.0,
        "digits": sum(character.isdigit() for character in text) / num_characters,
        "capitals": sum(character.isupper() for character in text) / num_characters,
        "punctuation": sum(character in ".,;:!?" for character in text) / num_characters,
        "word_length": float(np.mean([len(word) for word in words])) if words else 0.0,
        "distinct_words": len(set(words)) / len(words) if words else 0.0,
        "ends_with_number": float(ends_with_number(text)),
    }


def ends_with_number(text: str) -> bool:
    """Whether the last word of a text is a number, possibly with a full stop, a unit sign or a percent sign."""
    words = text.split()
    return bool(words) and _NUMBER.search(words[-1]) is not None and not _WORD.search(words[-1])


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
