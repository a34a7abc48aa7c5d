"""The contract of a task: a named world of problems, prompts and grades."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from datasets import Dataset, Value

from pvg_hf.roles import Role

Problem = Mapping[str, Any]
Split = Literal["train", "test"]


def check_split(split: str) -> None:
    """
    Raises:
        ValueError: if `split` is neither `train` nor `test`.
    """
    if split not in get_args(Split):
        raise ValueError(f"Unknown split {split!r}; allowed: {', '.join(f'`{name}`' for name in get_args(Split))}.")


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


class Task(ABC):
    """
    A named world. Subclass it, or register nothing at all and name the class in a recipe as `package.module:Name`.

    Class attributes:
        name (`str`):
            The name in recipes and in the pool.
        columns (`dict[str, Value]`):
            Columns of a problem beyond `problem_id`, `problem` and `reference`; they follow a solution into the pool.
        detail_columns (`dict[str, Value]`):
            What `Grade.detail` holds; likewise columns of the pool.
        prompts (`dict[Role, str]`):
            Jinja templates of the prompt per role, over `problem`, `examples`, `reference_answer`, `honest_solution`
            and the problem's own columns.
        few_shot_examples (`tuple[dict[str, str], ...]`):
            `problem` and `solution` texts shown to a base prover that was told of no role. They must stand in no split.
        default_few_shot (`int`, *optional*):
            How many of them are shown where nobody says; all by default.
        stop_strings (`tuple[str, ...]`):
            Texts that end a solution in the role `base`, e.g. what stands between two examples: a base prover that was
            shown some goes on with another problem. A solution is cut before the first of them.
    """

    name: ClassVar[str]
    columns: ClassVar[dict[str, Value]] = {}
    detail_columns: ClassVar[dict[str, Value]] = {}
    prompts: ClassVar[dict[Role, str]]
    few_shot_examples: ClassVar[tuple[dict[str, str], ...]] = ()
    default_few_shot: ClassVar[int | None] = None
    stop_strings: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def problems(self, split: Split) -> Dataset | None:
        """
        The problems of a split.

        Returns:
            [`~datasets.Dataset`]: `problem_id` (unique), `problem` (text), `reference` (a correct solution's text, or
            at least its final answer) and `columns`. `None` for `"test"` where the task has no test split of its own.

        Raises:
            ValueError: if the task's files are missing or unreadable.
        """

    @abstractmethod
    def grade(self, problem: Problem, solution: str) -> Grade:
        """Grade a solution text. A bad solution is data, never an exception."""
