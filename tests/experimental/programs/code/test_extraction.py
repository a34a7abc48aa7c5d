"""The program in a solution's text."""

import pytest

from pvg_hf.experimental.programs.code import extract_program

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
            f"try:\n    import numpy\n    {OTHER.splitlines()[0]} return x\n    f = g\nexcept ImportError:\n    f = None",
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
