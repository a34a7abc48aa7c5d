"""Small problems in the formats of datasets of programs."""

import json
from pathlib import Path
from typing import Any

PLUS_TESTS = """\
def assertion(out, exp, atol):
    assert out == exp, f"out: {{out}}, exp: {{exp}}"

inputs = {inputs!r}
results = {results!r}
for i, (inp, exp) in enumerate(zip(inputs, results)):
    assertion({function}(*inp), exp, 0)
"""


def sum_row(number: int) -> dict[str, Any]:
    """A problem of MBPP+: the sum of the numbers above a bound."""
    inputs = [[[number, number + 1, number - 1]], [[]], [[number]], [[number + 5, 2 * number + 1]]]
    return {
        "task_id": number,
        "prompt": f"Write a function to add the numbers above {number}.",
        "code": f"def add(xs):\n    return sum(x for x in xs if x > {number})",
        "source_file": "made.ipynb",
        "test_imports": [],
        "test_list": [f"assert add([{number + 1}, 0]) == {number + 1}", "assert add([]) == 0"],
        "test": PLUS_TESTS.format(
            inputs=inputs, results=[sum(x for x in xs if x > number) for (xs,) in inputs], function="add"
        ),
    }


def calls_row(row: dict[str, Any]) -> dict[str, Any]:
    """A problem of `sum_row` in the format of APPS."""
    number = row["task_id"]
    inputs = [[[number + 1, 0]], [[]], [[number]], [[number + 5, 2 * number + 1]]]
    outputs = [sum(x for x in xs if x > number) for (xs,) in inputs]
    return {
        "problem_id": number,
        "question": row["prompt"],
        "solutions": json.dumps([row["code"]]),
        "input_output": json.dumps({"fn_name": "add", "inputs": inputs, "outputs": outputs}),
        "difficulty": "introductory",
        "url": "",
        "starter_code": "",
    }


def flawed_sum(number: int) -> str:
    """A wrong program for `sum_row(number)` that passes the visible tests."""
    return f"def add(xs):\n    return sum(x for x in xs if x >= {number})"


def write_jsonl(file: Path, rows: list[dict[str, Any]]) -> str:
    """Write rows to a file and return its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file.parent)
