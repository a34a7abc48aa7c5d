"""Extracts final answers from solution texts, compares and grades them."""

from pvg_hf.tasks.answers.final_answers import (
    ANSWER_COLUMNS,
    ANSWER_FORMATS,
    answers_equal,
    check_answer_format,
    extract_answer,
    extract_last_number,
    grade_answer,
    normalize_answer,
    read_answer,
    reference_answer,
)

__all__ = [
    "ANSWER_COLUMNS",
    "ANSWER_FORMATS",
    "answers_equal",
    "check_answer_format",
    "extract_answer",
    "extract_last_number",
    "grade_answer",
    "normalize_answer",
    "read_answer",
    "reference_answer",
]
