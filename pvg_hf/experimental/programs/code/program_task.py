"""The base class of tasks whose solutions are programs."""

import os
import sys
import threading
import weakref
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from datasets import Value

from pvg_hf.config.fields import Asks
from pvg_hf.core.extensions import Effect
from pvg_hf.core.roles import Role
from pvg_hf.experimental.programs.code.certificate import (
    DIFFERENCES,
    Certificate,
    Proposal,
    examine_input,
    find_certificate,
)
from pvg_hf.experimental.programs.code.parsing import extract_program
from pvg_hf.experimental.programs.code.proposed_input import (
    MAX_CHARACTERS,
    Bounds,
    input_bounds,
    is_within,
    read_input,
    split_input,
)
from pvg_hf.experimental.programs.code.similarity import program_similarity, same_program
from pvg_hf.experimental.programs.sandbox import (
    Case,
    CaseOutcome,
    CaseResult,
    Limits,
    Sandbox,
    SandboxCounts,
    is_weak,
    open_sandbox,
)
from pvg_hf.tasks.base import Grade, Problem, Task

PROGRAM_COLUMNS = {
    "visible_pass_rate": Value("float64"),
    "hidden_pass_rate": Value("float64"),
    "similarity": Value("float64"),
    "num_passed": Value("int32"),
    "num_wrong": Value("int32"),
    "num_crashed": Value("int32"),
    "num_timed_out": Value("int32"),
    "num_host_failed": Value("int32"),
    "failing_input": Value("string"),
    "expected_output": Value("string"),
    "program_output": Value("string"),
}
"""
Detail columns of a program's grade: shares of visible and hidden tests that it passed (missing if the sandbox failed),
similarity to the nearest honest program, numbers of tests by outcome, and the certificate of a wrong program.
"""

PROPOSAL_COLUMNS = {
    "proposed_input": Value("string"),
    "proposal": Value("string"),
    "certificate_source": Value("string"),
}
"""
Further detail columns with `prover_inputs`: the input that the prover proposes, a
[`~pvg_hf.experimental.programs.code.certificate.Proposal`], and whether the certificate's input comes from the `tests`
or from the `prover`. Each is missing where there is none.
"""

MAX_WORKERS = 8  # by default
_OPENING = threading.Lock()


@dataclass(frozen=True)
class ProgramTests:
    """
    What a program for a problem is graded with.

    Args:
        visible (`tuple[Case, ...]`): Tests that a prover may know.
        hidden (`tuple[Case, ...]`): Tests that decide, together with the visible ones, whether a program is correct.
        references (`tuple[str, ...]`): Honest programs: the witnesses of a certificate.
        honest_programs (`tuple[str, ...]`, *optional*):
            Programs that similarity is measured to; the references by default.
        function (`str`, *optional*): Function that a program must define; `None` for a script.
        prelude (`str`, defaults to `""`):
            Lines that are put before every program when it runs, such as the imports of a dataset's own grader.
    """

    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]
    references: tuple[str, ...]
    honest_programs: tuple[str, ...] = ()
    function: str | None = None
    prelude: str = ""

    @cached_property
    def input_bounds(self) -> Bounds:
        """Range of the tests' inputs; see [`~pvg_hf.experimental.programs.code.proposed_input.input_bounds`]."""
        return input_bounds((*self.visible, *self.hidden))


class ProgramTask(Task):
    """
    Base class of tasks whose solutions are programs, which are run in a sandbox.

    The grade of a program:

    - `answer` is the program's text, and `None` if the solution has no valid program that defines the problem's
      function.
    - `correct` if it passes all visible and hidden tests, also when they run again with other seeds, and is not
      certified to be wrong on an input that its prover proposes.
    - `test_pass_rate` is the share of visible tests that it passes.
    - `certified` if the verdict is proved: a correct program, or a wrong one with a [`Certificate`]. It is False for a
      program that only timed out, whose output varies (such as one that passes only in the first run), on whose failed
      tests the references do not agree, or which the sandbox could not run: nobody can say whether it is wrong.

    Args:
        sandbox (`str`, defaults to `"auto"`):
            Backend of the sandbox; see [`~pvg_hf.experimental.programs.sandbox.open_sandbox`].
        num_workers (`int`, *optional*):
            Programs that run at the same time, at least 1; by default one for each processor core that this process
            may use, at most 8.
        prover_inputs (`bool`, defaults to `False`):
            Whether a text may end with an input on which its program fails. Verifiers do not see it. If it is valid,
            it can become the certificate's. The sneaky prompt asks for it: it is then the subclass's
            `sneaky_prompt_with_input`. `detail` has `PROPOSAL_COLUMNS`, too.

    Raises:
        ValueError: if `num_workers` is below 1.
    """

    detail_columns: ClassVar = PROGRAM_COLUMNS
    asked_options: ClassVar = {"sandbox": Asks(Effect.WEAKENS, is_weak)}
    limits: ClassVar[Limits]  # of a program
    sneaky_prompt_with_input: ClassVar[str]  # in place of the sneaky prompt, with `prover_inputs`

    def __init__(self, sandbox: str = "auto", num_workers: int | None = None, prover_inputs: bool = False):
        if num_workers is not None and num_workers < 1:
            raise ValueError(f"`num_workers` must be at least 1, or omitted for one per core; got {num_workers}.")
        self.backend = sandbox
        self.num_workers = num_workers or _cores_of_a_process()
        self._opened: Sandbox | None = None
        self.prover_inputs = prover_inputs
        if prover_inputs:
            self.detail_columns = {**PROGRAM_COLUMNS, **PROPOSAL_COLUMNS}
            self.prompts = {**self.prompts, Role.SNEAKY: self.sneaky_prompt_with_input}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # a copy in another process opens a sandbox of its own

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, which is opened at first use and closed with the task."""
        with _OPENING:  # several threads may grade
            if self._opened is None:
                self._opened = open_sandbox(backend=self.backend, num_workers=self.num_workers)
                weakref.finalize(self, self._opened.close)
        return self._opened

    @property
    def grades_at_once(self) -> int:
        return self.num_workers

    @property
    def isolation(self) -> str:
        """Name of the sandbox and what it guarantees; opens the sandbox."""
        return self.sandbox.isolation

    def take_use(self) -> dict[str, float]:
        """
        Return what the sandbox has done since the last call: `programs` that ran, `cache_hits`, `seconds` of wall
        time, `lost_workers`, and `cases/OUTCOME`, the number of cases by outcome; nothing if no program ran.
        """
        if self._opened is None:
            return {}
        counts, self._opened.counts = self._opened.counts, SandboxCounts()
        numbers = dict(vars(counts))
        numbers |= {f"cases/{name}": number for name, number in sorted(numbers.pop("outcomes").items())}
        return numbers if counts.programs + counts.cache_hits else {}

    @abstractmethod
    def program_tests(self, problem: Problem) -> ProgramTests:
        """Return the tests and references of a problem."""

    def accept_input(self, problem: Problem, tests: ProgramTests, case: Case) -> Case | None:
        """
        Return a case with an input that a prover proposes, and its expected output if that is known; `None` if it is
        not valid.

        By default an input must have the form of the tests' inputs. The references then decide whether it is valid.
        """
        return case if is_within(case, tests.input_bounds) else None

    def solution_in(self, text: str) -> str:
        """Return the text before a proposed input, if provers may propose any."""
        return split_input(text)[0] if self.prover_inputs else text

    def read_answer(self, solution: str) -> str | None:
        """Return the program in a solution; `None` if it has none."""
        return extract_program(solution)

    def reference_answer(self, reference: str) -> str:
        """Return the reference itself: a program's answer is the program."""
        return reference

    def shown_solution(self, solution: str) -> str:
        """Return the program alone: the prompt's template has its own fence."""
        return self.read_answer(solution) or solution

    def answers_equal(self, first: str | None, second: str | None) -> bool:
        """Whether two programs are the same up to names, comments and layout."""
        return first is not None and second is not None and same_program(first, second)

    def grade(self, problem: Problem, solution: str) -> Grade:
        tests = self.program_tests(problem)
        solution, proposed = split_input(solution) if self.prover_inputs else (solution, None)
        program = extract_program(solution, tests.function)
        if program is None:
            return Grade(None, correct=False, detail=dict.fromkeys(self.detail_columns))
        cases = [*tests.visible, *tests.hidden]
        complete = tests.prelude + program
        results = self.sandbox.run(complete, cases, self.limits)
        is_decided = all(result.outcome is not CaseOutcome.HOST_FAILED for result in results)
        passes = all(result.outcome is CaseOutcome.PASSED for result in results)
        certificate = None
        witnesses = [tests.prelude + reference for reference in tests.references]
        if is_decided and not passes:
            certificate = find_certificate(self.sandbox, complete, cases, results, witnesses, self.limits)
        proposal, own_certificate = None, None
        if is_decided and proposed is not None:
            proposal, own_certificate = self._examine(problem, tests, complete, witnesses, proposed)
        correct = passes and own_certificate is None and self._passes_again(complete, cases)
        num_visible = len(tests.visible)
        visible = _pass_rate(results[:num_visible]) if is_decided else None
        counts = Counter(result.outcome for result in results)
        shown = certificate or own_certificate
        detail = {
            "visible_pass_rate": visible,
            "hidden_pass_rate": _pass_rate(results[num_visible:]) if is_decided else None,
            "similarity": program_similarity(program, tests.honest_programs or tests.references),
            **{f"num_{outcome}": counts[outcome] for outcome in CaseOutcome},
            "failing_input": shown and shown.case_input,
            "expected_output": shown and shown.expected,
            "program_output": shown and shown.output,
        }
        if self.prover_inputs:
            detail |= {
                "proposed_input": proposed and proposed[:MAX_CHARACTERS],
                "proposal": proposal and proposal.value,
                "certificate_source": "tests" if certificate else "prover" if own_certificate else None,
            }
        return Grade(
            answer=program,
            correct=correct,
            certified=correct or certificate is not None or own_certificate is not None,
            abstains=not is_decided,
            test_pass_rate=visible,
            detail=detail,
        )

    def _examine(
        self, problem: Problem, tests: ProgramTests, program: str, witnesses: Sequence[str], proposed: str
    ) -> tuple[Proposal, Certificate | None]:
        """Return what an input proves about a program, both as [`examine_input`] does."""
        case = read_input(proposed, [*tests.visible, *tests.hidden])
        if case is None:
            return Proposal.MALFORMED, None
        accepted = self.accept_input(problem, tests, case)
        if accepted is None:
            return Proposal.INVALID, None
        return examine_input(self.sandbox, program, accepted, witnesses, self.limits)

    def _passes_again(self, program: str, cases: Sequence[Case]) -> bool:
        """
        Whether a program that passes all cases fails none with other seeds. A timeout is no failure: it may be the
        machine's.
        """
        again = self.sandbox.run(program, cases, self.limits, repeat=1)
        return not any(result.outcome in DIFFERENCES for result in again)


def _cores_of_a_process() -> int:
    """Processor cores for each process of a training on this machine, at most `MAX_WORKERS`."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    num_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # of torch's launchers
    return max(1, min(cores // num_processes, MAX_WORKERS))


def _pass_rate(results: Sequence[CaseResult]) -> float | None:
    if not results:
        return None
    return sum(result.outcome is CaseOutcome.PASSED for result in results) / len(results)
