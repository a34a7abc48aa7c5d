"""Valid inputs of specified functions, and their visible and hidden tests."""

from functools import lru_cache
from typing import Any

import numpy as np

from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.programs.functions.specification import FUNCTION, Specification, evaluate, specification_of
from pvg_hf.experimental.programs.sandbox import CallCase

NUM_VISIBLE = 3
NUM_HIDDEN = 45

MAX_LENGTH = 8  # elements of a list
MAX_NUMBER = 20  # absolute value of an element
MAX_N = 15  # last number of a range
MAX_DIGITS = 99_999
MAX_LETTERS = 12

_ALPHABET = "aabbeeooxyzABEX129 "
_WORD_ALPHABET = "abeoxz"


def is_valid_input(specification: Specification, argument: Any) -> bool:
    """
    Whether an argument is a valid input of a specification's function.

    Valid are lists of at most 8 integers in [-20, 20], integers in [0, 15] (or [0, 99999] for digits), and texts of at
    most 12 letters, digits and spaces; a text of words has words of lower-case letters that are separated by one
    space.
    """
    match specification.source:
        case "xs":
            is_list = isinstance(argument, list) and len(argument) <= MAX_LENGTH
            return is_list and all(type(x) is int and abs(x) <= MAX_NUMBER for x in argument)
        case "range":
            return type(argument) is int and 0 <= argument <= MAX_N
        case "digits":
            return type(argument) is int and 0 <= argument <= MAX_DIGITS
        case "letters":
            return isinstance(argument, str) and len(argument) <= MAX_LETTERS and set(argument) <= set(_ALPHABET)
        case _:
            is_text = isinstance(argument, str) and len(argument) <= MAX_LETTERS
            words = argument.split(" ") if is_text and argument else []
            return is_text and all(word and set(word) <= set(_WORD_ALPHABET) for word in words)


def sample_input(rng: np.random.Generator, specification: Specification, *, is_typical: bool = False) -> Any:
    """
    Draw a valid input.

    Args:
        is_typical: Whether to avoid corner cases: empty inputs, and numbers at the specification's constants.
            Otherwise both are more frequent than in a uniform draw.
    """
    constants = specification.constants
    match specification.source:
        case "xs":
            length = int(rng.integers(3, 6)) if is_typical else _sample_length(rng, constants, MAX_LENGTH)
            return [_sample_number(rng, constants, -MAX_NUMBER, MAX_NUMBER, is_typical) for _ in range(length)]
        case "range":
            return _sample_number(rng, constants, 4 if is_typical else 0, MAX_N, is_typical)
        case "digits":
            length = int(rng.integers(3, 5) if is_typical else rng.integers(1, 6))
            return int("".join(str(rng.integers(10)) for _ in range(length)))
        case "letters":
            length = int(rng.integers(5, 9)) if is_typical else _sample_length(rng, constants, MAX_LETTERS)
            return "".join(_ALPHABET[int(rng.integers(len(_ALPHABET)))] for _ in range(length))
        case _:
            num_words = int(rng.integers(2, 4)) if is_typical else int(rng.integers(0, 5))
            words = (_sample_word(rng, is_typical) for _ in range(num_words))
            return " ".join(words)[:MAX_LETTERS].strip(" ")


def _sample_length(rng: np.random.Generator, constants: list[int], highest: int) -> int:
    if constants and rng.random() < 0.3:
        near = constants[int(rng.integers(len(constants)))] + int(rng.integers(-1, 2))
        return min(max(near, 0), highest)
    return int(rng.integers(0, highest + 1))


def _sample_number(rng: np.random.Generator, constants: list[int], lowest: int, highest: int, is_typical: bool) -> int:
    corners = {corner for constant in (0, *constants) for corner in (constant - 1, constant, constant + 1)}
    corners = sorted(corner for corner in corners if lowest <= corner <= highest)
    if not is_typical:
        if rng.random() < 0.3:
            return corners[int(rng.integers(len(corners)))]
        return int(rng.integers(lowest, highest + 1))
    number = int(rng.integers(lowest, highest + 1))
    return number if number not in corners else _sample_number(rng, constants, lowest, highest, is_typical)


def _sample_word(rng: np.random.Generator, is_typical: bool) -> str:
    length = int(rng.integers(2 if is_typical else 1, 6))
    return "".join(_WORD_ALPHABET[int(rng.integers(len(_WORD_ALPHABET)))] for _ in range(length))


@lru_cache(maxsize=100_000)
def function_tests(text: str) -> tuple[tuple[CallCase, ...], tuple[CallCase, ...]]:
    """
    Return the visible and the hidden tests of a specification, given its sentence.

    They depend on the sentence only. Visible tests have typical inputs; hidden ones include corner cases, first of all
    the smallest input.

    Raises `ValueError` if the text is not a sentence of the grammar.
    """
    specification = specification_of(text)
    rng = derive_rng("functions", "tests", text)
    visible = [sample_input(rng, specification, is_typical=True) for _ in range(NUM_VISIBLE)]
    smallest = {"xs": [], "range": 0, "digits": 0, "letters": "", "words": ""}[specification.source]
    hidden = [smallest, *(sample_input(rng, specification) for _ in range(NUM_HIDDEN - 1))]
    return tuple(
        tuple(CallCase(FUNCTION, (argument,), evaluate(specification, argument)) for argument in arguments)
        for arguments in (visible, hidden)
    )
