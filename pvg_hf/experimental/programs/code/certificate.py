"""Certificates: a valid input on which a program provably differs from references that agree."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pvg_hf.experimental.programs.sandbox import CallCase, Case, CaseOutcome, CaseResult, Limits, Sandbox, StdinCase
from pvg_hf.experimental.programs.sandbox.agreement import outputs_agree
from pvg_hf.experimental.programs.sandbox.cases import NOTHING
from pvg_hf.experimental.programs.sandbox.inside.values import decode_value, encode_value

MAX_TRIED = 3  # failed cases that are tried until one is certified
NUM_REPEATS = 2
MAX_SHOWN = 2000  # characters of an input or output in a certificate

DIFFERENCES = frozenset({CaseOutcome.WRONG, CaseOutcome.CRASHED})
"""Outcomes that are a difference. A timeout is none: a slow program may be right."""


@dataclass(frozen=True)
class Certificate:
    """
    A proof that a program is wrong.

    Args:
        case_input (`str`): The input: the arguments as JSON, or stdin.
        expected (`str`): What the references return or write.
        output (`str`): What the program returns or writes, or how it crashed.
    """

    case_input: str
    expected: str
    output: str


class Proposal(StrEnum):
    """
    Outcome of an input that a prover proposed.

    `MALFORMED` ones could not be read, `INVALID` ones are no input of the problem or one on which the references do
    not agree. The other two are valid: a `CERTIFYING` one proves that the program is wrong, an `UNPROVED` one does
    not.
    """

    MALFORMED = "malformed"
    INVALID = "invalid"
    UNPROVED = "unproved"
    CERTIFYING = "certifying"


def find_certificate(
    sandbox: Sandbox,
    program: str,
    cases: Sequence[Case],
    results: Sequence[CaseResult],
    references: Sequence[str],
    limits: Limits,
) -> Certificate | None:
    """
    Find a case on which a program differs from references that agree, at every repeat.

    At least two witnesses must agree about the case, and none may disagree: its expected value if it has one, and the
    outputs of the reference programs. A single reference without an expected value is run twice. The program is run
    again, in another process with other seeds, and must fail in the same way each time: a program whose output varies
    is not certified by one bad draw, nor is one whose output depends on earlier calls.

    Args:
        cases (`Sequence[Case]`), results (`Sequence[CaseResult]`):
            Cases with valid inputs, and the results of the program on them.
        references (`Sequence[str]`): Programs that are taken to be correct.
        limits ([`~pvg_hf.experimental.programs.sandbox.Limits`]): Limits of every run.

    Returns:
        [`Certificate`], *optional*: of the first such case, among the first few that failed; `None` if there is none.
    """
    failed = [index for index, result in enumerate(results) if result.outcome in DIFFERENCES]
    for index in failed[:MAX_TRIED]:
        expected = agreed_output(sandbox, list(cases), index, references, limits)
        if expected is None:
            continue
        case = _expecting(cases[index], expected)
        # In one process, which calls the program on nothing else before.
        repeats = sandbox.run(program, [case] * NUM_REPEATS, limits, repeat=1)
        if all(same_result(case, results[index], again) for again in repeats):
            output = results[index].output if results[index].output is not None else results[index].detail
            return Certificate(describe_input(case), expected[:MAX_SHOWN], output[:MAX_SHOWN])
    return None


def examine_input(
    sandbox: Sandbox, program: str, case: Case, references: Sequence[str], limits: Limits
) -> tuple[Proposal, Certificate | None]:
    """
    Run a program on an input that its writer proposed, by the rules of [`find_certificate`].

    Args:
        case: The input, with its expected output if that is known.
    Returns: `INVALID` if there are no two witnesses that agree, and otherwise whether the program is proved to be
        wrong, with the certificate if it is.
    """
    agreed = agreed_output(sandbox, [case], 0, references, limits)
    if agreed is None:
        return Proposal.INVALID, None
    cases = [case if _expected_text(case) is not None else expect_output(case, agreed)]
    certificate = find_certificate(sandbox, program, cases, sandbox.run(program, cases, limits), references, limits)
    return (Proposal.UNPROVED if certificate is None else Proposal.CERTIFYING), certificate


def expect_output(case: Case, output: str) -> Case:
    """Return a case that expects the output of a program, as the sandbox wrote it."""
    return replace(case, expected=output if isinstance(case, StdinCase) else decode_value(json.loads(output)))


def same_result(case: Case, first: CaseResult, second: CaseResult) -> bool:
    """Whether two runs on a case ended in the same way, with outputs that agree by its rules if they have any."""
    if first.outcome is not second.outcome:
        return False
    if first.output is None or second.output is None:
        return first.output is second.output
    return outputs_agree(case, first.output, second.output)


def agreed_output(
    sandbox: Sandbox, cases: list[Case], index: int, references: Sequence[str], limits: Limits
) -> str | None:
    """
    Return the output on which all witnesses of a case agree; `None` if they do not, or if there are fewer than two.

    The references run on all cases at once, so that a sandbox with a cache runs them once per problem.
    """
    case = cases[index]
    witnesses = [] if _expected_text(case) is None else [_expected_text(case)]
    open_cases = [_expecting(other, None) for other in cases]
    for reference in references:
        result = sandbox.run(reference, open_cases, limits)[index]
        if result.outcome is not CaseOutcome.PASSED:
            return None  # the reference itself fails: nobody knows
        witnesses.append(result.output)
    if len(witnesses) == 1 and references:
        again = sandbox.run(references[0], open_cases, limits, repeat=1)[index]
        if again.output is None:
            return None
        witnesses.append(again.output)
    if len(witnesses) < 2 or not all(outputs_agree(case, witnesses[0], other) for other in witnesses[1:]):
        return None
    return witnesses[0]


def describe_input(case: Case) -> str:
    """Return the input of a case as a text: its arguments as JSON, or stdin."""
    if isinstance(case, StdinCase):
        return case.stdin[:MAX_SHOWN]
    return json.dumps([encode_value(value) for value in case.arguments])[:MAX_SHOWN]


def _expected_text(case: Case) -> str | None:
    """Return the expected output as the sandbox would write it; `None` if the case has none."""
    if isinstance(case, StdinCase):
        return case.expected
    return None if case.expected is NOTHING else json.dumps(encode_value(case.expected))


def _expecting(case: Case, expected: str | None) -> Case:
    """
    Return a case that keeps its own expected output if `expected` is given, and one that expects nothing otherwise.
    """
    if expected is not None and _expected_text(case) is not None:
        return case
    return replace(case, expected=NOTHING if isinstance(case, CallCase) else None)
