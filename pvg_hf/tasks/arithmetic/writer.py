"""Writes solutions in many forms, with or without flaws."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pvg_hf.tasks.arithmetic.flaw import FlawKind, nearby_number
from pvg_hf.tasks.arithmetic.flaw_detection import Claims
from pvg_hf.tasks.arithmetic.grammar import MAX_NUMBER, Clue, Puzzle, Relation
from pvg_hf.tasks.arithmetic.lines import LINKS, Calculation, SolutionLine, write_conclusion


@dataclass(frozen=True)
class Style:
    """
    How much a solution states.

    Args:
        cited, named, bare, result: Weights of the forms of a line: with the comparison, with the person's name and the
            calculation, with the calculation only, with the name and the result only.
        merged: Probability that a step is written inside the next one's calculation, where that is possible.
        restated: Probability that a number is stated, or stated again, in a line of its own before it is used.
        remark: Probability of a remark that somebody is not needed, if there is such a person.
    """

    cited: float
    named: float
    bare: float
    result: float
    merged: float
    restated: float
    remark: float


STYLES = {
    "explicit": Style(cited=0.8, named=0.2, bare=0.0, result=0.0, merged=0.0, restated=0.4, remark=0.3),
    "mixed": Style(cited=0.3, named=0.4, bare=0.15, result=0.15, merged=0.2, restated=0.2, remark=0.1),
    "terse": Style(cited=0.0, named=0.35, bare=0.35, result=0.3, merged=0.4, restated=0.05, remark=0.0),
}

STEP_FLAWS = (
    FlawKind.WRONG_SUM,
    FlawKind.WRONG_OPERAND,
    FlawKind.WRONG_OPERATION,
    FlawKind.WRONG_SOURCE,
    FlawKind.DROPPED_STEP,
)
FLAW_KINDS = (*STEP_FLAWS, FlawKind.CONTRADICTED_CONCLUSION)
OPPOSITE = {
    Relation.MORE: Relation.FEWER,
    Relation.FEWER: Relation.MORE,
    Relation.TIMES: Relation.SHARE,
    Relation.SHARE: Relation.TIMES,
}


def reference_solution(puzzle: Puzzle) -> str:
    """Write the flawless solution that states everything, in the order of calculation."""
    claims, lines = Claims(puzzle), []
    for owner in puzzle.needed:
        truth = puzzle.by_owner[owner]
        calculation = next(iter(claims.calculations(owner)), None)
        lines.append(SolutionLine(owner, truth if truth.sources else None, calculation, puzzle.values[owner]))
        claims.numbers[owner] = puzzle.values[owner]
    return "\n".join([*map(str, lines), write_conclusion(puzzle.answer)])


def sample_solution(
    rng: np.random.Generator, puzzle: Puzzle, flaw: FlawKind | None = None, styles: Sequence[str] = tuple(STYLES)
) -> str:
    """
    Draw a solution in a style drawn at random, flawless or with one flaw at a random place.

    Its final answer can be right in spite of the flaw, by chance.

    Args:
        flaw: One of `FLAW_KINDS`; none for a flawless solution. A place where the kind is impossible gets another
            kind.
        styles: Keys of `STYLES` to draw from.
    """
    while True:  # ends, because a flawless solution's numbers are always in range
        text = _Writer(rng, puzzle, flaw, STYLES[styles[int(rng.integers(len(styles)))]]).write()
        if text is not None:
            return text


class _Writer:
    """Writes one solution."""

    def __init__(self, rng: np.random.Generator, puzzle: Puzzle, flaw: FlawKind | None, style: Style):
        self.rng, self.puzzle, self.flaw, self.style = rng, puzzle, flaw, style
        self.claims = Claims(puzzle)
        self.lines: list[SolutionLine] = []
        self.flawed = None  # the person in whose line the flaw is
        if flaw is not None and flaw is not FlawKind.CONTRADICTED_CONCLUSION:
            self.flawed = puzzle.calculated[rng.integers(len(puzzle.calculated))]

    def write(self) -> str | None:
        """Return the solution; `None` if a number is outside [0, MAX_NUMBER]."""
        owners = self._order()
        for index, owner in enumerate(owners):
            self._write_step(owner, owners[index + 1 :])
        unneeded = [owner for owner in self.puzzle.by_owner if owner not in self.puzzle.needed]
        if unneeded and self._happens(self.style.remark):
            self.lines.insert(int(self.rng.integers(len(self.lines) + 1)), SolutionLine(unneeded[0]))
        answer = self.claims.number(self.puzzle.asked)
        if self.flaw is FlawKind.CONTRADICTED_CONCLUSION:
            answer = self._contradict(answer)
        numbers = [answer]
        for line in self.lines:
            numbers += [*(line.calculation.numbers if line.calculation else ()), line.result or 0]
        if not all(0 <= number <= MAX_NUMBER for number in numbers):
            return None
        return "\n".join([*map(str, self.lines), write_conclusion(answer)])

    def _happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def _order(self) -> list[str]:
        """Draw an order of the needed people in which each comes after its sources."""
        waiting, order = list(self.puzzle.needed), []
        while waiting:
            ready = [owner for owner in waiting if not set(self.puzzle.by_owner[owner].sources) & set(waiting)]
            order.append(ready[self.rng.integers(len(ready))])
            waiting.remove(order[-1])
        return order

    def _write_step(self, owner: str, later: list[str]) -> None:
        truth = self.puzzle.by_owner[owner]
        if not truth.sources:
            return
        flaw = self.flaw if owner == self.flawed else None
        if flaw is FlawKind.DROPPED_STEP:  # a source's number is taken for the owner's
            self.claims.numbers[owner] = self.claims.number(truth.sources[0])
            return
        if flaw is None and owner in self._inner(later) and self._happens(self.style.merged):
            return  # written inside a later calculation, or left out
        for source in truth.sources:
            if self.claims.is_stated(source) and self._happens(self.style.restated):
                self.lines.append(SolutionLine(source, None, None, self.claims.number(source)))
        line = self._draw_line(owner, truth)
        if flaw is not None:
            line = self._spoil(line, truth, flaw)
        self.claims.numbers[owner] = line.result or 0
        self.lines.append(line)

    def _inner(self, later: list[str]) -> list[str]:
        """The people whose step may be written inside the next one's calculation."""
        return [source for owner in later[:1] for source in self.puzzle.by_owner[owner].sources]

    def _draw_line(self, owner: str, truth: Clue) -> SolutionLine:
        every = list(self.claims.calculations(owner))
        valid = [one for one in every if len(one.numbers) == 2 or one.is_sum_of_equals]
        if not all(map(self.claims.is_stated, truth.sources)):  # show the hidden step, if it fits into one calculation
            valid = [one for one in every if one not in valid] or every
        calculation = valid[0] if self._happens(0.6) else valid[self.rng.integers(len(valid))]
        names = ("cited", "named", "bare", "result")
        form = names[self.rng.choice(len(names), p=np.array([getattr(self.style, name) for name in names]))]
        result = calculation.value
        if form == "cited":
            return SolutionLine(owner, truth, calculation, result, LINKS[self.rng.integers(len(LINKS))])
        if form == "bare":
            return SolutionLine(None, None, calculation, result)
        return SolutionLine(owner, None, None if form == "result" else calculation, result)

    def _spoil(self, line: SolutionLine, truth: Clue, flaw: FlawKind) -> SolutionLine:
        if line.calculation is None or flaw is FlawKind.WRONG_SUM:
            return replace(line, result=nearby_number(self.rng, line.result or 0))
        numbers, operators = list(line.calculation.numbers), list(line.calculation.operators)
        if flaw is FlawKind.WRONG_OPERATION and truth.relation in OPPOSITE:
            opposite = OPPOSITE[truth.relation]
            operators[-1] = opposite.operator
            # The comparison is misread, or it is cited rightly and another operation applied.
            cited = replace(truth, relation=opposite) if line.comparison and self._happens(0.5) else line.comparison
            return self._recalculated(replace(line, comparison=cited), numbers, operators)
        place = int(self.rng.integers(len(numbers)))
        rest = [name for name in self.puzzle.by_owner if name not in (truth.owner, *truth.sources)]
        others = [name for name in rest if self.claims.is_stated(name)]
        if flaw is FlawKind.WRONG_SOURCE and others and len(truth.sources) == 1:
            other = others[self.rng.integers(len(others))]
            value, number = self.claims.number(truth.sources[0]), self.claims.number(other)
            place = numbers.index(value) if value in numbers else 0
            cited = replace(truth, sources=(other,)) if line.comparison and self._happens(0.5) else line.comparison
            numbers[place] = number
            return self._recalculated(replace(line, comparison=cited), numbers, operators)
        wrong = nearby_number(self.rng, numbers[place])
        cited = line.comparison
        is_amount = cited and cited.relation in (Relation.MORE, Relation.FEWER) and numbers[place] == cited.amount
        if cited and is_amount and self._happens(0.5):
            cited = replace(cited, amount=wrong)
        numbers[place] = wrong
        return self._recalculated(replace(line, comparison=cited), numbers, operators)

    def _recalculated(self, line: SolutionLine, numbers: list[int], operators: list[str]) -> SolutionLine:
        calculation = Calculation(tuple(numbers), tuple(operators))
        return replace(line, calculation=calculation, result=calculation.value)

    def _contradict(self, answer: int) -> int:
        """Conclude with another person's number, or with one that is easily confused with the answer."""
        stated = self.claims.numbers.items()
        others = [number for owner, number in stated if owner != self.puzzle.asked and number != answer]
        if others and self._happens(0.5):
            return others[self.rng.integers(len(others))]
        return nearby_number(self.rng, answer)
