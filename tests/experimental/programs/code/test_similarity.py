"""Similarity of programs."""

import os
import subprocess
import sys

import pytest

from pvg_hf.experimental.programs.code import program_similarity, same_program

# Its tokens: def f ( x ) : NEWLINE INDENT return x + 1, which are 12 (the line break at the end does not count).
PROGRAM = "def f(x):\n    return x + 1"


@pytest.mark.parametrize(
    ("other", "similarity"),
    [
        (PROGRAM, 1.0),
        ("def g(number):\n  # adds one\n\n  return (number+1)\n".replace("(number+1)", "number+1"), 1.0),
        ("def f(x):\n    return x + 2", 22 / 24),  # 11 tokens of 12 in common
        ("def f(x):\n    return x", 20 / 22),  # 10 tokens of 12 and of 10 in common
        ("def f(x, y):\n    return y + 1", 22 / 26),  # `, y` is new and `y` is not `x`: 11 of 12 and of 14
        ("print", 0.0),  # nothing in common
        ("def f(x:", 0.0),  # not Python
    ],
    ids=["itself", "names, comments and layout", "a number", "a shorter one", "a name", "another one", "not Python"],
)
def test_similarity_worked_by_hand(other, similarity):
    assert program_similarity(PROGRAM, [other]) == pytest.approx(similarity)
    assert program_similarity(other, [PROGRAM]) == pytest.approx(similarity)


def test_the_nearest_program_counts():
    assert program_similarity(PROGRAM, ["print", "def f(x):\n    return x + 2", "pass"]) == pytest.approx(22 / 24)
    assert program_similarity(PROGRAM, []) == 0.0


def test_names_of_builtins_attributes_and_keywords_are_not_exchanged():
    assert not same_program("max(x)", "min(x)")
    assert not same_program("x.append(y)", "x.remove(y)")
    assert same_program("x.append(y)", "out.append(value)")
    assert not same_program("x - y", "y - y")


def test_a_formatted_string_is_one_token_in_every_version():
    """In Python 3.11 an f-string is one token and since 3.12 several; tokens: print ( F )."""
    first, second = "print(f'{x:>{width}} {y}')", "print(f'{x:>{width}} {z}')"
    assert program_similarity(first, [second]) == pytest.approx(6 / 8)


def test_built_in_names_are_the_same_in_every_version():
    """`PythonFinalizationError` is built in since Python 3.13, and `sum` in all versions."""
    helper = "def f(x):\n    return helper(x)"
    assert program_similarity("def f(x):\n    return PythonFinalizationError(x)", [helper]) == 1.0
    assert program_similarity("def f(x):\n    return sum(x)", [helper]) < 1.0


@pytest.mark.parametrize("hash_seed", ["0", "1", "2"])
def test_the_similarity_does_not_depend_on_the_hash_seed(hash_seed):
    other = "def h(values):\n    return sum(v for v in values if v % 2 == 0) + 1"
    code = (
        f"from pvg_hf.experimental.programs.code import program_similarity; print(program_similarity({PROGRAM!r},"
        f" [{other!r}]).hex())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert float.fromhex(run.stdout) == program_similarity(PROGRAM, [other])
