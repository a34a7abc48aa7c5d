"""The program in a solution's text."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pvg_hf.experimental.programs.code import extract_program
from pvg_hf.experimental.programs.code.parsing import parse_python

PROGRAM = "def f(x):\n    return x + 1"
OTHER = "def g(x):\n    return x"


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (PROGRAM, PROGRAM),
        (f"\n\n{PROGRAM}\n\n", PROGRAM),
        (f"Here it is:\n```python\n{PROGRAM}\n```\nIt adds one.", PROGRAM),
        (f"```\n{PROGRAM}\n```", PROGRAM),
        (f"~~~py\n{PROGRAM}\n~~~", PROGRAM),
        (f"```python\n{PROGRAM}", PROGRAM),  # cut, or never closed
        (f"```python\n{OTHER}\n```\nBetter:\n```python\n{PROGRAM}\n```", PROGRAM),
        (
            f"```python\n{PROGRAM}\n```\nFor example:\n```python\nprint(f(1))\n```",
            PROGRAM,
        ),  # the last does not define f
        (f"```python\n{PROGRAM}\n```\nOutput:\n```text\n2\n```", PROGRAM),
        (f"I add one.\n{PROGRAM}\nThis is right.", PROGRAM),
        (f"import math\n{PROGRAM}", f"import math\n{PROGRAM}"),
        ("f = lambda x: x + 1", "f = lambda x: x + 1"),
        (
            (
                f"try:\n    import numpy\n    {OTHER.splitlines()[0]} return x\n    f = g\nexcept ImportError:\n    f"
                " = None"
            ),
            "same",
        ),
    ],
    ids=[
        "bare",
        "blank lines",
        "fence",
        "fence without a language",
        "tildes",
        "open fence",
        "last of two fences",
        "an example after it",
        "output after it",
        "prose around it",
        "import",
        "lambda",
        "in a try",
    ],
)
def test_the_program_is_found(text, program):
    assert extract_program(text, "f") == (text if program == "same" else program)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "# only a comment",
        "The answer is 18.",
        "#### 18",
        "def f(x:\n    return x",
        "def f(x):\n  return x\n return",
        "return 3",
        OTHER,
        "def f(x):\n    return '\x00'",
        "\ud7ff",
        "(" * 5000,
        "def f(x):\n    return x\n" * 20_000,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_text_without_a_program_has_none(text):
    assert extract_program(text, "f") is None


def test_any_program_counts_without_the_name_of_a_function():
    assert extract_program(OTHER) == OTHER
    assert extract_program("print(input())") == "print(input())"


def test_a_method_is_a_function_of_its_class():
    program = "class Solution:\n    def add(self, x):\n        return x"
    assert extract_program(program, "Solution.add") == program
    assert extract_program(program, "Solution.other") is None
    assert extract_program(program, "add") is None


TESTS = "inputs = [" + ", ".join(f"[({number}, 1), [{number}, 'a']]" for number in range(300)) + "]"


class SleepsWhenCollected:
    """An object in a cycle, whose finalizer lets other threads continue."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        time.sleep(1e-5)


@pytest.fixture
def frequent_collection():
    """A collector that also runs within a call of `ast.parse`, so that threads take turns there."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100)
    yield
    gc.set_threshold(*thresholds)


def test_several_threads_parse_at_the_same_time(frequent_collection):
    """Up to Python 3.12.1 this raises without the lock."""

    def parse(_):
        lengths = set()
        for _ in range(40):
            _ = [SleepsWhenCollected() for _ in range(4)]
            lengths.add(len(parse_python(TESTS).body[0].value.elts))
        return lengths

    with ThreadPoolExecutor(4) as executor:
        assert set().union(*executor.map(parse, range(4))) == {300}


@pytest.mark.parametrize("text", ["x = (", "return 1", "x\0"])
def test_what_is_not_python_is_an_error(text):
    with pytest.raises((SyntaxError, ValueError)):
        parse_python(text)
