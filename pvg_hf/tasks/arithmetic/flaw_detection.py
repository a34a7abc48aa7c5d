"""Reads a solution: the flaws of its lines, and how much of the reasoning it leaves to the reader."""

from collections.abc import Iterator
from dataclasses import replace

from pvg_hf.tasks.arithmetic.flaw import Flaw, FlawKind, Reading
from pvg_hf.tasks.arithmetic.grammar import Clue, Puzzle, Relation
from pvg_hf.tasks.arithmetic.lines import Calculation, SolutionLine, read_conclusion, read_line

COMMUTATIVE = "+*"


def check_solution(puzzle: Puzzle, solution: str) -> Reading:
    """
    Check a solution line by line.

    Each line is judged given the lines before it, so a number carried on correctly from an earlier mistake is not
    another flaw. A number that the solution has not stated yet is calculated from those that it has: what is left out
    is implicit, and a flaw only if the number is wrong.
    """
    reader = _Reader(puzzle)
    lines = solution.strip().split("\n")
    kinds = [reader.check(line, is_last=index == len(lines) - 1) for index, line in enumerate(lines)]
    if read_conclusion(lines[-1]) is None and kinds[-1] is None:
        kinds[-1] = FlawKind.MALFORMED
    flaws = tuple(Flaw(index, kind) for index, kind in enumerate(kinds) if kind is not None)
    stated = sum(len(reader.stated.get(owner, ())) for owner in puzzle.calculated)
    return Reading(flaws, 1 - stated / (3 * len(puzzle.calculated)) if puzzle.calculated else 0.0)


class Claims:
    """The numbers that a solution has stated so far."""

    def __init__(self, puzzle: Puzzle):
        self.puzzle = puzzle
        self.numbers: dict[str, int] = {}

    def number(self, owner: str) -> int:
        """Somebody's number: the stated one, else calculated from those that are stated."""
        if owner in self.numbers:
            return self.numbers[owner]
        clue = self.puzzle.by_owner[owner]
        return clue.apply({source: self.number(source) for source in clue.sources})

    def is_stated(self, owner: str) -> bool:
        """Whether a number is stated, by the solution or as a given number by the problem."""
        return owner in self.numbers or not self.puzzle.by_owner[owner].sources

    def calculations(self, owner: str) -> Iterator[Calculation]:
        """Yield the valid ways to calculate somebody's number: in one step, or with one source's step inside."""
        clue = self.puzzle.by_owner[owner]
        yield from self.steps(clue)  # none for a given number
        for inner, source in enumerate(clue.sources):
            if self.puzzle.by_owner[source].sources:
                other = clue.amount if clue.amount is not None else self.number(clue.sources[1 - inner])
                for step in self.steps(self.puzzle.by_owner[source]):
                    if len(step.numbers) == 2:
                        yield Calculation((*step.numbers, other), (*step.operators, clue.relation.operator))

    def steps(self, clue: Clue) -> Iterator[Calculation]:
        """Yield the ways to write one comparison's calculation; the first is the plain one."""
        if clue.relation is Relation.GIVEN:
            return
        operator = clue.relation.operator
        numbers = tuple(self.number(source) for source in clue.sources)
        if clue.amount is not None:
            numbers = (*numbers, clue.amount)
        yield Calculation(numbers, (operator,))
        if operator in COMMUTATIVE:
            yield Calculation(numbers[::-1], (operator,))
        if clue.relation is Relation.TIMES:
            yield Calculation(numbers[:1] * numbers[1], ("+",) * (numbers[1] - 1))


class _Reader:
    """Checks line after line."""

    def __init__(self, puzzle: Puzzle):
        self.puzzle = puzzle
        self.claims = Claims(puzzle)
        self.stated: dict[str, set[str]] = {}  # for each person, which facts are stated

    def check(self, text: str, *, is_last: bool) -> FlawKind | None:
        """Return the line's flaw, if any, and keep what it states."""
        conclusion = read_conclusion(text)
        if conclusion is not None:
            return self._check_conclusion(conclusion) if is_last else FlawKind.MALFORMED
        line = read_line(text)
        if line is None:
            return FlawKind.MALFORMED
        if line.is_remark:
            is_unneeded = line.owner in self.puzzle.by_owner and line.owner not in self.puzzle.needed
            return None if is_unneeded else FlawKind.INVENTED_STEP
        is_named = line.owner is not None
        if not is_named:
            line = replace(line, owner=self._owner_of(line))
        if line.owner not in self.puzzle.by_owner:
            return FlawKind.INVENTED_STEP
        kind = self._check_numbers(line)
        self._keep(line, is_named=is_named)
        return kind

    def _owner_of(self, line: SolutionLine) -> str | None:
        """Find whose number a line without a name calculates: the first person whom it fits, else fits nearly."""
        order = [*self.puzzle.needed, *self.puzzle.by_owner]
        free = [owner for owner in dict.fromkeys(order) if not self.claims.is_stated(owner)]
        exact = [owner for owner in free if any(one == line.calculation for one in self.claims.calculations(owner))]
        ready = [owner for owner in free if all(map(self.claims.is_stated, self.puzzle.by_owner[owner].sources))]
        operator = line.calculation.operators[-1] if line.calculation else ""
        near = [owner for owner in ready if self.puzzle.by_owner[owner].relation.operator == operator]
        return next(iter([*exact, *near, *ready]), None)

    def _check_numbers(self, line: SolutionLine) -> FlawKind | None:
        truth = self.puzzle.by_owner[line.owner or ""]
        if line.comparison is not None and line.comparison != truth:
            kind = _difference(line.comparison, truth)
            if kind is not None:
                return kind
        if line.calculation is None:
            return self._check_bare_number(line.result or 0, truth)
        sums_up = line.calculation.value == line.result
        return self._check_calculation(line.calculation, truth) or (None if sums_up else FlawKind.WRONG_SUM)

    def _check_bare_number(self, number: int, truth: Clue) -> FlawKind | None:
        if number == self.claims.number(truth.owner):
            return None
        if self.claims.is_stated(truth.owner):
            return FlawKind.WRONG_OPERAND
        if number in [self.claims.number(source) for source in truth.sources]:
            return FlawKind.DROPPED_STEP
        return FlawKind.WRONG_SUM

    def _check_calculation(self, calculation: Calculation, truth: Clue) -> FlawKind | None:
        if not truth.sources:
            return FlawKind.INVENTED_STEP
        valid = list(self.claims.calculations(truth.owner))
        if calculation in valid:
            return None
        allowed = [v for v in valid if v.operators == calculation.operators]
        if not allowed:
            return FlawKind.WRONG_OPERATION
        # The number that is wrong in the most similar valid calculation.
        nearest = min(allowed, key=lambda v: sum(a != b for a, b in zip(v.numbers, calculation.numbers, strict=True)))
        wrong = next(b for a, b in zip(nearest.numbers, calculation.numbers, strict=True) if a != b)
        return self._wrong_number(wrong, *truth.sources)

    def _wrong_number(self, number: int, *sources: str) -> FlawKind:
        """Name the flaw of a number that stands where the number of one of `sources` should stand."""
        before = [
            s for source in sources if not self.claims.is_stated(source) for s in self.puzzle.by_owner[source].sources
        ]
        if number in [self.claims.number(source) for source in before]:
            return FlawKind.DROPPED_STEP
        others = [self.claims.number(owner) for owner in self.puzzle.by_owner if self.claims.is_stated(owner)]
        return FlawKind.WRONG_SOURCE if number in others else FlawKind.WRONG_OPERAND

    def _check_conclusion(self, answer: int) -> FlawKind | None:
        asked = self.puzzle.asked
        if answer == self.claims.number(asked):
            return None
        if not self.claims.is_stated(asked) and answer in self.claims.numbers.values():
            return FlawKind.DROPPED_STEP
        return FlawKind.CONTRADICTED_CONCLUSION

    def _keep(self, line: SolutionLine, *, is_named: bool) -> None:
        owner = line.owner or ""
        truth = self.puzzle.by_owner[owner]
        facts = self.stated.setdefault(owner, set())
        facts |= {"name"} if is_named else set()
        facts |= {"comparison"} if line.comparison else set()
        facts |= {"calculation"} if line.calculation else set()
        calculation = line.calculation
        if calculation and len(calculation.numbers) == 3 and calculation not in self.claims.steps(truth):
            inner = next((source for source in truth.sources if not self.claims.is_stated(source)), None)
            if inner is not None:
                self.stated.setdefault(inner, set()).add("calculation")
        self.claims.numbers[owner] = line.result or 0


def _difference(cited: Clue, truth: Clue) -> FlawKind | None:
    """Name what is wrong with a cited comparison; `None` for `Ben and Ana together` in place of `Ana and Ben`."""
    if cited.relation is not truth.relation:
        return FlawKind.WRONG_OPERATION
    if set(cited.sources) != set(truth.sources):
        return FlawKind.WRONG_SOURCE
    return FlawKind.WRONG_OPERAND if cited.amount != truth.amount else None
