"""The contract of a task: it provides problems and prompts, grades solutions, and optionally rates analyses."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import pyarrow as pa
from datasets import Dataset, Features, Value

from pvg_hf.config.fields import Asks
from pvg_hf.core.extensions import ExtensionError, running
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.core.stopwatch import GRADING, spending
from pvg_hf.core.threads import call_in_threads
from pvg_hf.tasks.answers import answers_equal, extract_answer, reference_answer

logger = logging.getLogger(__name__)

SHOWN = 80  # characters of a solution in a message
FAILURE = "grader_error"
"""Key of `Grade.detail` with the error of a grader that failed."""


@dataclass(frozen=True)
class Grade:
    """
    A task's grade of one solution.

    Args:
        answer (`str`, *optional*):
            The final answer; `None` if there is none or it cannot be parsed.
        correct (`bool`):
            Whether the solution is correct, free of label noise. Never True without an answer.
        certified (`bool`, *optional*):
            Whether the task's certificate (a proof checker, a test suite) holds; `None` if the task has none.
        test_pass_rate (`float`, *optional*):
            Share of tests passed, in [0, 1]; `None` if the task has no tests.
        detail (`dict[str, Any]`):
            A value for each of the task's `detail_columns`.
        abstains (`bool`, defaults to `False`):
            Whether nobody can say if the solution is correct, through no fault of its own, such as when a sandbox
            failed. It then gets neither a label nor a reward.
    """

    answer: str | None
    correct: bool
    certified: bool | None = None
    test_pass_rate: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    abstains: bool = False

    @property
    def label(self) -> int | None:
        """1 for a correct solution, 0 for an incorrect one, `None` if the grade abstains."""
        return None if self.abstains else int(self.correct)

    def signal(self, name: str) -> float:
        """
        Return `certified`, `test_pass_rate` or a number in `detail` as a float for rewards; NaN if it is missing.
        """
        stated = {"certified": self.certified, "test_pass_rate": self.test_pass_rate, **self.detail}
        value = stated.get(name)
        return math.nan if value is None else float(value)


def final_grade(grade: Grade, is_truncated: bool) -> Grade:
    """Return the grade of a text that may be truncated, and is then not correct and has no answer."""
    # The answer that a truncated text states may be the beginning of another one (`#### 1` of `#### 18`).
    return replace(grade, answer=None, correct=False) if is_truncated else grade


def outcome_of(grade: Grade, is_truncated: bool) -> Outcome:
    """Return the outcome of a graded solution, by the first rule that applies."""
    if is_truncated:
        return Outcome.TRUNCATED
    if grade.answer is None:
        return Outcome.NO_ANSWER
    if grade.certified is False or grade.abstains:
        return Outcome.UNCERTIFIED
    return Outcome.VERIFIED if grade.correct else Outcome.PROOF_INVALID


Grader = Callable[[Mapping[str, Any], str], Grade]


def call_grader(
    grader: Grader, problem: Mapping[str, Any], solution: str, *, name: str = "The grader", detail: Iterable[str] = ()
) -> Grade:
    """
    Grade a solution with code that may be the user's, and check the result.

    Raises `ExtensionError` if the grader raises any error or does not return a consistent [`Grade`]. The message has
        the problem's id and the beginning of the solution.
    """
    asked = f"{name}, asked about the problem `{problem.get('problem_id')}` and the solution {solution[:SHOWN]!r},"
    with running(asked):
        grade = grader(problem, solution)
    mistake = _find_mistake(grade, detail)
    if mistake is not None:
        raise ExtensionError(f"{asked} {mistake}")
    return grade


# A grader is broken if it fails on a larger share of the solutions, and on more of them.
MAX_FAILED_SHARE = 0.1
MAX_FAILED = 10


class TolerantGrader:
    """
    Grades solutions with code that may fail on some of them.

    A solution on which it fails has no answer, and its grade abstains, so that it gets neither a label nor a reward.
    The first failure is logged.

    Args:
        grader: Function `(problem, solution) -> Grade`, which several threads may call at the same time.
    """

    def __init__(self, grader: Grader, *, name: str = "The grader", detail: Iterable[str] = ()):
        self.grader = grader
        self.name = name
        self.detail = tuple(detail)
        self.num_graded = self.num_failed = 0

    @spending(GRADING)
    def __call__(self, asked: Sequence[tuple[Mapping[str, Any], str]], num_threads: int = 1) -> list[Grade]:
        """
        Grade solutions.

        Raises `ExtensionError` if it has failed on more than `MAX_FAILED_SHARE` of the solutions since
        [`take_counts`],
            and on more than `MAX_FAILED`.
        """
        grades = call_in_threads(self._grade, asked, num_threads)
        errors = [grade.detail[FAILURE] for grade in grades if FAILURE in grade.detail]
        if errors and not self.num_failed:
            logger.warning("%s Such a solution has no answer, and gets neither a label nor a reward.", errors[0])
        self.num_graded += len(grades)
        self.num_failed += len(errors)
        if errors and self.num_failed > max(MAX_FAILED, MAX_FAILED_SHARE * self.num_graded):
            raise ExtensionError(
                f"{errors[-1]} It failed on {self.num_failed:,} of {self.num_graded:,} solutions; repair it, or let it"
                " grade such solutions as incorrect."
            )
        return grades

    def take_counts(self) -> tuple[int, int]:
        """Return the numbers of solutions that were graded, and on which the grader failed; then count from 0."""
        counts = self.num_graded, self.num_failed
        self.num_graded = self.num_failed = 0
        return counts

    def _grade(self, problem: Mapping[str, Any], solution: str) -> Grade:
        try:
            return call_grader(self.grader, problem, solution, name=self.name, detail=self.detail)
        except ExtensionError as err:
            return Grade(None, correct=False, detail={**dict.fromkeys(self.detail), FAILURE: str(err)}, abstains=True)


def _find_mistake(grade: object, detail: Iterable[str]) -> str | None:
    """Describe what is wrong with a grade; `None` if nothing is."""
    if not isinstance(grade, Grade):
        return f"returns {grade!r:.80}, a {type(grade).__name__}; it must return a `pvg_hf.tasks.Grade`."
    if not isinstance(grade.correct, bool | np.bool_):
        return f"returns `correct={grade.correct!r:.80}`; it must be True or False."
    if not isinstance(grade.answer, str | None):
        return f"returns `answer={grade.answer!r:.80}`; it must be a text, or None if there is no final answer."
    # Votes and best-of-n choose among answers, so a correct solution needs one.
    if grade.correct and grade.answer is None:
        return "returns `correct=True` without an `answer`; a solution without a final answer is never correct."
    if grade.correct and grade.abstains:
        return "returns `correct=True` and `abstains=True`; a grade that abstains does not call a solution correct."
    if not isinstance(grade.certified, bool | np.bool_ | None):
        return (
            f"returns `certified={grade.certified!r:.80}`; it must be True, False, or None for a task without"
            " certificates."
        )
    rate = grade.test_pass_rate
    if rate is not None and not (isinstance(rate, Real) and 0 <= rate <= 1):
        return f"returns `test_pass_rate={rate!r:.80}`; it must lie in [0, 1], or be None for a task without tests."
    missing = [key for key in detail if key not in grade.detail]
    if missing:
        return (
            f"returns a `detail` without {', '.join(f'`{key}`' for key in missing)} of the task's `detail_columns`; it"
            f" has {list(grade.detail)}."
        )
    return None


Problem = Mapping[str, Any]

PROBLEM_COLUMNS = ("problem_id", "problem", "reference")
"""Text columns that the problems of every task have."""

PROOF_SCORE = "proof_score"
"""Name of the detail column with a proof's score. In tasks without it, a correct solution scores 1 and others 0."""

Split = Literal["train", "test"]


def check_split(split: str) -> None:
    if split not in get_args(Split):
        raise ValueError(f"Unknown split {split!r}; allowed: {', '.join(f'`{name}`' for name in get_args(Split))}.")


class Task(ABC):
    """
    Base class of tasks. A recipe names a subclass as `package.module:Name`; it needs no registration.

    Class attributes:
        name (`str`):
            The task's name in recipes and in the pool.
        columns (`dict[str, Value]`):
            Columns of a problem in addition to `problem_id`, `problem` and `reference`; the pool contains them too.
        detail_columns (`dict[str, Value]`):
            Columns of `Grade.detail`; the pool contains them too.
        prompts (`dict[Role, str]`):
            Jinja templates of the prompt per role, over `problem`, `reference_answer`, `honest_solution` and the
            problem's own columns. What precedes the last blank line before the first variable is written once.
        few_shot_examples (`tuple[dict[str, str], ...]`):
            `problem` and `solution` texts, and the `wrong_solution` that the sneaky role is shown instead (an example
            without one is not shown to it). They must not occur in any split.
        default_few_shot (`int`, *optional*):
            Number of examples shown by default; all if `None`.
        example_separator (`str`):
            Text after the solution of an example, in a prompt without a chat template.
        stop_strings (`tuple[str, ...]`):
            Texts that end a solution in the role `base`, such as the separator between two examples: a base prover
            with examples in its prompt may continue with another problem. A solution is cut before the first of them.
            The other roles learn to stop: what they write is scored, graded and stored whole, as in their training.
        asked_options (`dict[str, Asks]`):
            Options of a built-in task that run code, weaken isolation or read files or datasets, with what they do: a
            pulled recipe needs the user's consent to set them. Of a custom task, every option needs it.
        references_are_correct (`bool`):
            Whether `grade` accepts every reference; this is checked on a few problems before a game begins. Set it to
            False if references are bare answers that `grade` does not read, or if some are known to be wrong.
    """

    name: ClassVar[str]
    columns: ClassVar[dict[str, Value]] = {}
    detail_columns: ClassVar[dict[str, Value]] = {}
    prompts: ClassVar[dict[Role, str]]
    few_shot_examples: ClassVar[tuple[dict[str, str], ...]] = ()
    default_few_shot: ClassVar[int | None] = None
    example_separator: ClassVar[str] = "\n\n"
    stop_strings: ClassVar[tuple[str, ...]] = ()
    asked_options: ClassVar[Mapping[str, Asks]] = {}
    references_are_correct: ClassVar[bool] = True

    @abstractmethod
    def problems(self, split: Split) -> Dataset | None:
        """
        Return the problems of a split.

        Returns:
            [`~datasets.Dataset`]: `problem_id` (unique), `problem` (text), `reference` (a correct solution's text, or
            at least its final answer) and `columns`. `None` for `"test"` if the task has no test split.

        Raises:
            ValueError: if the task's files are missing or unreadable.
        """

    @abstractmethod
    def grade(self, problem: Problem, solution: str) -> Grade:
        """Grade a solution text. A bad solution is data, never an exception."""

    def solution_in(self, text: str) -> str:
        """
        Return the part of a prover's text that is its solution: what verifiers read, pools store, and the other
        methods get.

        `grade` gets the whole text. The default is all of it.
        """
        return text

    def read_answer(self, solution: str) -> str | None:
        """
        Extract the final answer of a solution to a problem without a known reference; `None` if it has none.

        By default the answer after its mark counts (see [`~pvg_hf.tasks.answers.extract_answer`]).
        """
        return extract_answer(solution)

    def answers_equal(self, first: str | None, second: str | None) -> bool:
        """
        Whether two final answers, as returned by `read_answer`, are the same. Majority votes group answers by it.

        The default is [`~pvg_hf.tasks.answers.answers_equal`].
        """
        return answers_equal(first, second)

    def reference_answer(self, reference: str) -> str:
        """
        Return what the sneaky role sees of a reference with `sneaky_sees: reference_answer`.

        The default is [`~pvg_hf.tasks.answers.reference_answer`].

        Raises:
            ValueError: if the reference has no readable answer.
        """
        return reference_answer(reference)

    def shown_solution(self, solution: str) -> str:
        """
        Return what the sneaky role sees of one of the prover's correct solutions with `honest_source: prover`.

        The default is the whole solution.
        """
        return solution

    def problem_mistake(self, problem: str) -> str | None:
        """
        Explain in a sentence why a text is not a problem of this task; `None` if it is one or if the task cannot tell.

        By default a task cannot tell. A text that is not a problem of the task gets no probability of being correct.
        """
        return None

    def near_misses(self, problem: Problem, rng: np.random.Generator) -> dict[str, str]:
        """
        Draw solutions that each contain one mistake of a known kind, for attacks on verifiers.

        By default a task has none.

        Args:
            rng ([`~numpy.random.Generator`]):
                Source of every draw.

        Returns:
            `dict[str, str]`: texts by the kind of the mistake. A text may have the right answer in spite of it.
        """
        return {}

    @cached_property
    def tolerant_grader(self) -> TolerantGrader:
        """Grades what provers write; it counts the solutions on which `grade` fails."""
        return TolerantGrader(self.grade, name=f"The task `{self.name}`", detail=self.detail_columns)

    @property
    def grades_at_once(self) -> int:
        """Number of threads that may call `grade` at the same time; 1 unless a task gains by more."""
        return 1

    def take_use(self) -> dict[str, float]:
        """
        Return what the task's own processes have done since the last call, as numbers by name; nothing by default.

        The numbers are logged with each phase. They depend on the machine, and are therefore no part of a run's
        metrics.
        """
        return {}

    @property
    def isolation(self) -> str | None:
        """
        Description of how the programs in solutions are isolated while they run; `None` for a task that runs none.
        """
        return None


def is_custom(task: Task) -> bool:
    """Whether a task is the user's own code."""
    return not type(task).__module__.startswith("pvg_hf.")


def grade_solution(task: Task, problem: Problem, solution: str) -> Grade:
    """
    Grade a solution with its task.

    Raises `ExtensionError` if the task's `grade` raises any error, or does not return a [`Grade`] with the task's
        `detail_columns`.
    """
    return call_grader(task.grade, problem, solution, name=f"The task `{task.name}`", detail=task.detail_columns)


def grade_solutions(task: Task, asked: Sequence[tuple[Problem, str]]) -> list[Grade]:
    """
    Grade several solutions with their task, as many at a time as the task allows. Those on which it fails abstain.

    Raises `ExtensionError` if the task fails on too many of them (see [`~pvg_hf.tasks.base.TolerantGrader`]).
    """
    return task.tolerant_grader(asked, task.grades_at_once)


def read_problems(task: Task, split: Split) -> Dataset | None:
    """
    Load the problems of a split and check their columns.

    Returns: [`~datasets.Dataset`], or `None` for a task without a test split.
    Raises `ValueError` if the task does not return a dataset, a column is missing, or values do not fit a column's
        type. Errors that the task raises with this type pass unchanged.
    """
    what = f"`problems({split!r})` of the task `{task.name}`"
    with running(what, passes=(ValueError,)):
        problems = task.problems(split)
    # Only the test split is optional: it can be split off the training problems.
    if problems is None and split == "test":
        return None
    if not isinstance(problems, Dataset):
        raise ExtensionError(
            f"{what} returns a {type(problems).__name__}; it must return a `datasets.Dataset`, such as "
            "`Dataset.from_list(rows)`."
        )
    missing = [name for name in (*PROBLEM_COLUMNS, *task.columns) if name not in problems.column_names]
    if missing:
        raise ExtensionError(
            f"{what} lacks the columns {missing}; it has {problems.column_names}. A task's problems must have"
            f" {list(PROBLEM_COLUMNS)} and the columns that its `columns` declare."
        )
    for name in PROBLEM_COLUMNS:
        _check_text(problems, name, what)
    for name, feature in task.columns.items():
        check_values(problems[name][:], feature, f"{what}: the column `{name}`")
    return problems


def _check_text(problems: Dataset, name: str, what: str) -> None:
    kind = problems.features.arrow_schema.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ExtensionError(f"{what} has `{name}` of type {kind}; it must be text, such as `str(number)`.")
    values = problems[name][:]  # a slice, as iteration over a column converts row by row
    if None in values:
        raise ExtensionError(f"{what} has no `{name}` in row {values.index(None)}; every problem needs one.")


def check_values(values: Sequence[object], feature: Value, what: str) -> None:
    """Raise `ExtensionError`, with `what` and both types in the message, if values cannot be stored as `feature`."""
    # Arrow's own conversion decides what fits, since it will write the pool.
    kind = Features({"column": feature}).arrow_schema.field("column").type
    try:
        pa.array(values, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as err:
        raise ExtensionError(f"{what} is declared as {kind}, and its values are not: {err!s:.200}.") from err


@runtime_checkable
class RatesAnalyses(Protocol):
    """A task with an exact meta-verifier, such as [`~pvg_hf.tasks.proofs.ProofsTask`]."""

    def rate_analyses(self, problems: list[str], proofs: list[str], analyses: list[str]) -> list[float]:
        """Return the quality of each analysis, in [0, 1]."""
        ...

    def named_issues(self, problem: str, proof: str, analysis: str) -> list[tuple[str, bool]]:
        """Return each issue that an analysis names, as a line of the analysis, and whether the proof has it."""
        ...

    def analysis_of(self, problem: Problem, proof: str, index: int) -> tuple[str, float]:
        """
        Write an analysis of a proof, possibly with errors, and return its quality; `index` selects one of several.
        """
        ...
