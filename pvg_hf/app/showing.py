"""Prepares a pair of solutions to a problem, and the problem's solutions of all rounds, for a page."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from markupsafe import Markup

from pvg_hf.app.index import ListedSolution, Query, SolutionIndex
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.evaluation.solution_kinds import ShownText, show_text_of
from pvg_hf.evaluation.verifiers_by_pools import own_verifier
from pvg_hf.report.escaping import Line
from pvg_hf.report.examples import mark_flaw

MAX_COMPARED_CHARACTERS = 20_000
"""Length of the longest text whose words are compared: the time grows with the square of the length."""


@dataclass(frozen=True)
class ShownSolution:
    """A solution, ready to be shown."""

    listed: ListedSolution
    lines: list[Line]  # the first flaw is marked
    answer: str | None
    percentile: float | None  # percentage in [0, 100] of the round's solutions with a lower score
    knows_flaws: bool  # whether the task has a checker of steps
    special: ShownText | None = None  # how a solution of a registered kind, such as a program, is shown instead
    believed_from: int | None = None  # first line from which on the verifier accepts the text so far


@dataclass(frozen=True)
class ShownPair:
    """A problem with one solution per role, if any, ready to be shown."""

    problem: str
    reference: str
    solutions: dict[Role, ShownSolution]
    choices: dict[Role, list[ListedSolution]]  # all solutions of each role, the most convincing first

    @property
    def special_reference(self) -> Markup | None:
        """The reference of a problem whose solutions are of a registered kind, as it is shown."""
        shown = (solution.special.reference for solution in self.solutions.values() if solution.special)
        return next(shown, None)


def show_pair(index: SolutionIndex, opened: ListedSolution, other_key: str | None = None) -> ShownPair:
    """
    Prepare a solution and one of the other role to the same problem in the same round, with words that differ marked.

    `other_key` names the other one; by default it is the most convincing valid mistake, or correct helpful solution.
    """
    choices = {role: _solutions_of(index, opened, role) for role in GAME_ROLES}
    chosen = {role: _best(choices[role]) for role in GAME_ROLES if choices[role]}
    named = (index.find_key(other_key or ""), opened)
    chosen |= {one.role: one for one in named if one is not None and one in choices.get(one.role, ())}
    rows = dict(zip(chosen, index.read([one.place for one in chosen.values()])))
    honest = _honest_answers(index, choices[Role.HELPFUL]) if any(map(_may_be_special, rows.values())) else []
    shown = {role: _show(index, chosen[role], row, honest) for role, row in rows.items()}
    if len(shown) == len(GAME_ROLES) and not any(solution.special for solution in shown.values()):
        first, second = mark_differences(*(solution.lines for solution in shown.values()))
        shown = {role: replace(shown[role], lines=lines) for role, lines in zip(shown, (first, second))}
    row = rows[opened.role]
    return ShownPair(row["problem"], row["reference"], shown, choices)


def _solutions_of(index: SolutionIndex, opened: ListedSolution, role: Role) -> list[ListedSolution]:
    query = Query(opened.round_index, opened.is_test, role=role, problem_id=opened.problem_id)
    return index.find(query)


def _best(listed: Sequence[ListedSolution]) -> ListedSolution:
    """Most convincing solution that plays its role, else the most convincing one."""
    playing = [one for one in listed if one.accepted is not None and one.correct == (one.role == Role.HELPFUL)]
    return next(iter([*playing, *listed]))


def _may_be_special(row: Mapping[str, Any]) -> bool:
    return show_text_of(row, []) is not None


def _honest_answers(index: SolutionIndex, helpful: Sequence[ListedSolution]) -> list[str]:
    return [row["answer"] for row in index.read([one.place for one in helpful if one.correct])]


def _show(
    index: SolutionIndex, listed: ListedSolution, row: Mapping[str, Any], honest: Sequence[str]
) -> ShownSolution:
    return ShownSolution(
        listed=listed,
        lines=mark_flaw(row["solution"], row.get("first_flaw_step"), row.get("first_flaw_kind")),
        answer=row["answer"],
        percentile=percentile(listed.score, *index.scores(listed.round_index, is_test=listed.is_test).values()),
        knows_flaws="first_flaw_kind" in row,
        special=show_text_of(row, honest),
    )


def mark_differences(first: Sequence[Line], second: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Mark the words of two texts that the other one does not have at that place."""
    texts = ["\n".join(line.text for line in lines) for lines in (first, second)]
    if max(map(len, texts)) > MAX_COMPARED_CHARACTERS:
        return list(first), list(second)
    words = [list(re.finditer(r"\w+|[^\w\s]", text)) for text in texts]
    first_words, second_words = ([word[0] for word in found] for found in words)
    matcher = SequenceMatcher(None, first_words, second_words, autojunk=False)
    marked: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for kind, *ends in matcher.get_opcodes():
        for found, spans, (start, end) in zip(words, marked, (ends[:2], ends[2:])):
            if kind != "equal" and end > start:
                spans.append((found[start].start(), found[end - 1].end()))
    return _with_spans(first, marked[0]), _with_spans(second, marked[1])


def _with_spans(lines: Sequence[Line], spans: Sequence[tuple[int, int]]) -> list[Line]:
    """
    Give each line the parts of the spans that are within it; spans are places in the lines joined by line breaks.
    """
    marked, begin = [], 0
    for line in lines:
        end = begin + len(line.text)
        own = [(max(start, begin) - begin, min(stop, end) - begin) for start, stop in spans]
        marked.append(replace(line, spans=tuple((start, stop) for start, stop in own if start < stop)))
        begin = end + 1
    return marked


def with_steps(solution: ShownSolution, scores: Sequence[float], accepted: Sequence[bool | None]) -> ShownSolution:
    """
    Add the score of the text so far to each line that is not blank, and the line from which on it is accepted, if this
    is known.
    """
    left = iter(scores)
    lines = [replace(line, so_far=f"{next(left):+.2f}") if line.text.strip() else line for line in solution.lines]
    num_believed = next((place for place, one in enumerate(reversed(accepted)) if not one), len(accepted))
    places = [place for place, line in enumerate(lines) if line.so_far]
    return replace(solution, lines=lines, believed_from=places[-num_believed] if num_believed else None)


@dataclass(frozen=True)
class ShownRound:
    """
    The solutions that a page shows of one problem in one round, with their scores by each verifier and acceptance.
    """

    round_index: int
    solutions: dict[Role, ShownSolution]
    scores: dict[Role, dict[int, tuple[float, bool | None]]]


def show_every_round(index: SolutionIndex, problem_id: str) -> list[ShownRound]:
    """
    Prepare the most convincing solution of each role to a test problem in each round, as scored by all verifiers.
    """
    listed = index.find(Query(is_test=True, problem_id=problem_id))
    crossed = index.crossed_scores(problem_id)
    shown = []
    for round_index in sorted({one.round_index for one in listed}):
        of_round = {
            role: [one for one in listed if (one.round_index, one.role) == (round_index, role)] for role in GAME_ROLES
        }
        chosen = {role: _best(found) for role, found in of_round.items() if found}
        rows = index.read([one.place for one in chosen.values()])
        solutions = {role: _show(index, one, row, []) for (role, one), row in zip(chosen.items(), rows)}
        scores = {role: _judged(index, one, crossed) for role, one in chosen.items()}
        shown.append(ShownRound(round_index, solutions, scores))
    return shown


def _judged(
    index: SolutionIndex, listed: ListedSolution, crossed: Mapping[tuple[int, Role, int], Mapping[int, float]]
) -> dict[int, tuple[float, bool | None]]:
    found = crossed.get((listed.round_index, listed.role, listed.sample_index), {})
    own = own_verifier(listed.round_index)
    scores = {own: listed.score, **found} if listed.score is not None else dict(found)
    return {
        verifier: (score, index.accepts(listed.round_index, score, verifier))
        for verifier, score in sorted(scores.items())
    }


def percentile(score: float | None, *scores: np.ndarray) -> float | None:
    """
    Percentage in [0, 100] of all `scores` (each array sorted in ascending order) below `score`; `None` if either is
    missing.
    """
    num_scores = sum(map(len, scores))
    if score is None or not num_scores:
        return None
    return 100 * sum(int(np.searchsorted(some, score)) for some in scores) / num_scores
