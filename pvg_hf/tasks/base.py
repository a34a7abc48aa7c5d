"""The contract of a task: a named world of problems, prompts and grades."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from datasets import Dataset, Value

from pvg_hf.roles import Role
from pvg_hf.tasks.answers import extract_answer
from pvg_hf.tasks.grade import Grade

Problem = Mapping[str, Any]
Split = Literal["train", "test"]


def check_split(split: str) -> None:
    """
    Raises:
        ValueError: if `split` is neither `train` nor `test`.
    """
    if split not in get_args(Split):
        raise ValueError(f"Unknown split {split!r}; allowed: {', '.join(f'`{name}`' for name in get_args(Split))}.")


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

    def read_answer(self, solution: str) -> str | None:
        """
        The final answer of a solution to a problem whose reference nobody knows; `None` where it has none. By default the
        one by its mark (see [`~pvg_hf.tasks.answers.extract_answer`]).
        """
        return extract_answer(solution)
