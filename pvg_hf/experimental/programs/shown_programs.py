"""Prepares a program for a page: the honest program next to it, its tests, and the input on which it fails."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import pandas as pd
from markupsafe import Markup

from pvg_hf.experimental.programs.code import PROGRAM_COLUMNS, Certificate, program_similarity
from pvg_hf.report.escaping import MAX_CHARACTERS, MAX_LINES, show_text

NUM_CONTEXT = 6  # equal lines that are shown around a difference


@dataclass(frozen=True)
class ShownProgram:
    """
    A program as pages show it.

    Args:
        program: The program, as extracted from the solution.
        is_whole: Whether the solution has nothing else, except blank space at its ends.
        visible_pass_rate, hidden_pass_rate: Shares of tests passed, in [0, 1]; `None` if the sandbox failed.
        similarity: Similarity to the task's nearest honest program, in [0, 1].
        honest: For an incorrect program, the most similar of the honest programs that are known.
        certificate: An input on which the program is proved to be wrong, with both outputs.
    """

    program: str
    is_whole: bool
    visible_pass_rate: float | None
    hidden_pass_rate: float | None
    similarity: float | None
    honest: str | None
    certificate: Certificate | None


def prepare_program(row: Mapping[str, Any], honest: Iterable[str]) -> ShownProgram | None:
    """
    Prepare the program of a solution.

    Args:
        honest: Honest programs for the same problem, such as its reference and correct programs of the helpful role.
    Returns: [`ShownProgram`], *optional*: `None` if the task's solutions are no programs, or if this one has none.
    """
    program = row.get("answer")
    if not set(PROGRAM_COLUMNS) <= set(row.keys()) or pd.isna(program):
        return None
    return ShownProgram(
        program=program,
        is_whole=row["solution"].strip() == program.strip(),
        visible_pass_rate=_number(row["visible_pass_rate"]),
        hidden_pass_rate=_number(row["hidden_pass_rate"]),
        similarity=_number(row["similarity"]),
        honest=None if row["correct"] else nearest_program(program, honest),
        certificate=_certificate(row),
    )


def nearest_program(program: str, others: Iterable[str]) -> str | None:
    """Return the most similar of some other programs, the first of several; `None` if there is none."""
    return max(others, key=lambda other: program_similarity(program, [other]), default=None)


def show_difference(honest: str, program: str) -> Markup:
    """
    Render the lines in which a program differs from an honest one.

    Lines of the honest program alone begin with `-`, those of the other one with `+`; equal lines around them begin
    with a space, and equal lines further away are left out. Spaces at the ends of lines are ignored.

    Args:
        honest, program: The two programs. If one is long, a note is returned instead.
    """
    if _is_long(honest) or _is_long(program):
        return Markup('<p class="soft">The programs are too long to be compared line by line.</p>')
    first, second = ([line.rstrip() for line in _lines(text)] for text in (honest, program))
    shown, others = list(map(show_text, first)), list(map(show_text, second))
    groups = list(SequenceMatcher(None, first, second, autojunk=False).get_grouped_opcodes(NUM_CONTEXT))
    if not groups:
        return Markup('<p class="soft">The programs are the same.</p>')
    parts = []
    for group in groups:
        lines = []
        for tag, start, end, other_start, other_end in group:
            if tag == "equal":
                lines += [Markup("  {}").format(line) for line in shown[start:end]]
                continue
            lines += [Markup("<del>- {}</del>").format(line) for line in shown[start:end]]
            lines += [Markup("<ins>+ {}</ins>").format(line) for line in others[other_start:other_end]]
        parts.append(Markup("\n").join(lines))
    return Markup('<pre class="program">{}</pre>').format(Markup("\n  \N{VERTICAL ELLIPSIS}\n").join(parts))


def _certificate(row: Mapping[str, Any]) -> Certificate | None:
    if pd.isna(row["failing_input"]):
        return None
    return Certificate(row["failing_input"], row["expected_output"], row["program_output"])


def _number(value: float | None) -> float | None:
    return None if pd.isna(value) else float(value)


def _lines(program: str) -> list[str]:
    return program.replace("\r\n", "\n").split("\n")


def _is_long(program: str) -> bool:
    return len(program) > MAX_CHARACTERS or program.count("\n") >= MAX_LINES
