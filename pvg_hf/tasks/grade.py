"""What a task says of one solution."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Grade:
    """
    What a task says of one solution text.

    Args:
        answer (`str`, *optional*):
            The final answer that was read; `None` when there is none or it cannot be parsed.
        correct (`bool`):
            Clean correctness. Never True without an answer.
        certified (`bool`, *optional*):
            Whether the task's certificate (a proof checker, a test suite) holds; `None` where the task has none.
        test_pass_rate (`float`, *optional*):
            Share of tests passed, in [0, 1]; `None` where the task has no tests.
        detail (`dict[str, Any]`):
            A value for each of the task's `detail_columns`.
    """

    answer: str | None
    correct: bool
    certified: bool | None = None
    test_pass_rate: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
