"""Findings of a pilot: what the base prover wrote before the game, whether the game can work, and what to change."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import median
from textwrap import shorten, wrap
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.core.figure import Figure, rate
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.data.schema import FAILED_OUTCOMES, OUTCOME_WORDS, describe_outcomes, list_outcomes
from pvg_hf.report.escaping import reveal

Row = dict[str, Any]

PILOT_ROLES = (Role.BASE, Role.HELPFUL, Role.SNEAKY)

MIN_SHARE = 0.05
"""Share of correct solutions, and of wrong ones, below which a game stops."""

MAX_FAILED = 1 / 3
"""Share of solutions without an answer, cut or uncertified above which a game stops."""

NOTABLE = 0.1
"""Share of solutions that failed in one way above which the pilot says what to change, even if the game can begin."""

LITTLE_SPREAD = 0.25
"""Share of groups with correct and other solutions below which the pilot says what to change."""

CALM = 0.7
"""Temperature that the pilot advises if a higher one gives few correct solutions, or many that failed."""

NUM_TEXTS = 2  # shown of each outcome
_WIDTH = 80
_LONG_LINE = 320  # characters, of which the middle is left out
_HEAD, _TAIL = 3, 4  # lines of a long text

_PROGRAM = re.compile(r"```|^(def |import |print\()", re.MULTILINE)


@dataclass(frozen=True)
class Pilot:
    """
    Solutions of the base prover to a few problems, one in each role, and groups of a trained role's solutions.

    Each of `rows` has `role`, `outcome`, `problem_id`, `problem`, `solution`, `answer` and `num_tokens`, and if the
    task has them `strict_answer`, `lenient_answer` and `lenient_correct`. Shares are of one solution per problem, the
    first (`sample_index` 0).
    """

    recipe: Recipe
    rows: list[Row]

    @property
    def firsts(self) -> list[Row]:
        return [row for row in self.rows if row.get("sample_index", 0) == 0]

    def counts(self, role: Role) -> Counter[Outcome]:
        return Counter(Outcome(row["outcome"]) for row in self.firsts if row["role"] == role)

    @property
    def outcomes(self) -> list[Outcome]:
        return list_outcomes(Counter(row["outcome"] for row in self.firsts))

    def lengths(self, role: Role) -> tuple[float, int]:
        """Median and greatest length of a role's solutions, in tokens."""
        lengths = [row["num_tokens"] for row in self.firsts if row["role"] == role]
        return median(lengths), max(lengths)

    def spread(self, role: Role) -> Figure:
        """
        Share of a role's groups (of `prover.num_generations` solutions of a problem) with correct and other solutions.

        Of the others, most rewards teach nothing, or only by differences of the verifier's score.
        """
        groups: dict[str, list[bool]] = {}
        for row in self.rows:
            if row["role"] == role:
                groups.setdefault(row["problem_id"], []).append(row["outcome"] == Outcome.VERIFIED)
        whole = [len(set(group)) > 1 for group in groups.values() if len(group) > 1]
        return rate(sum(whole), len(whole))

    def describe_role(self, role: Role) -> str:
        """Describe the outcomes of a role in a line."""
        counts = self.counts(role)
        outcomes = describe_outcomes({str(outcome): number for outcome, number in counts.items()})
        return f"{counts.total()} problems in the {role} role: {outcomes}"

    def examples(self) -> dict[Outcome, list[Row]]:
        """The first solutions of each outcome, of different roles if several have it."""
        chosen = {}
        for outcome in self.outcomes:
            found = [[r for r in self.firsts if (r["role"], r["outcome"]) == (role, outcome)] for role in PILOT_ROLES]
            firsts = [rows[0] for rows in found if rows]
            chosen[outcome] = (firsts + [row for rows in found for row in rows[1:]])[:NUM_TEXTS]
        return {outcome: rows for outcome, rows in chosen.items() if rows}

    def needed(self) -> dict[Role, tuple[Outcome, ...]]:
        """
        Outcomes of which the game needs enough, by role. Roles that it neither trains nor learns from are left out.
        """
        needs = {Role.HELPFUL: (Outcome.VERIFIED,), Role.SNEAKY: (Outcome.PROOF_INVALID,)}
        needed: dict[Role, tuple[Outcome, ...]] = {role: needs[role] for role in self.recipe.prover.trained_roles}
        if self.recipe.bootstrap.import_from is not None:
            return needed
        sides = (Outcome.VERIFIED, Outcome.PROOF_INVALID)  # of a pair
        has_references = self.recipe.data.correct_source != "prover"
        return {Role.BASE: sides[has_references:], **needed}

    def lacking(self, role: Role) -> list[Outcome]:
        """
        The needed outcomes of which a role has too few, unless all its solutions failed, which says nothing about
        them.
        """
        counts = self.counts(role)
        if counts[Outcome.VERIFIED] + counts[Outcome.PROOF_INVALID] == 0:
            return []
        return [o for o in self.needed().get(role, ()) if counts[o] < MIN_SHARE * counts.total()]

    def stops(self) -> list[str]:
        """
        Reasons why the game cannot work, one sentence each: shares whose 95 % interval is beyond what is needed.
        """
        return [reason for role in self.needed() for is_sure, reason in self._bad_shares(role) if is_sure]

    def doubts(self) -> list[str]:
        """Reasons why the game might not work: shares that are beyond what is needed, but whose interval is not."""
        return [reason for role in self.needed() for is_sure, reason in self._bad_shares(role) if not is_sure]

    def is_open(self, role: Role) -> bool:
        """Whether more solutions of a role would decide whether the game can work."""
        found = [is_sure for is_sure, _ in self._bad_shares(role)] if role in self.needed() else []
        return bool(found) and not any(found)

    def _bad_shares(self, role: Role) -> Iterator[tuple[bool, str]]:
        """Yield shares of a role that are beyond what is needed, and whether that is sure."""
        counts = self.counts(role)
        for outcome in self.lacking(role):
            purpose = f"{_purpose(role, outcome)} at least {100 * MIN_SHARE:.0f} %."
            share = _share(counts, [outcome])
            yield share.bounds[1] < MIN_SHARE, f"{role}: {_show_share(share)} {OUTCOME_WORDS[outcome]}; {purpose}"
        failed = [outcome for outcome in list_outcomes(counts) if outcome in FAILED_OUTCOMES and counts[outcome]]
        if sum(counts[outcome] for outcome in failed) > MAX_FAILED * counts.total():
            kinds = ", ".join(f"{counts[outcome]} {OUTCOME_WORDS[outcome]}" for outcome in failed)
            share = _share(counts, failed)
            reason = f"{role}: {_show_share(share)} failed: {kinds}; at most a third may."
            yield share.bounds[0] > MAX_FAILED, reason

    def advice(self) -> list[str]:
        """List changes of the recipe that would help, one for each weakness that was found."""
        judged = [row for row in self.firsts if row["role"] in self.needed()]
        advise = {
            Outcome.TRUNCATED: ("are cut", self._advice_on_cut),
            Outcome.NO_ANSWER: ("have no answer", self._advice_on_no_answer),
            Outcome.UNCERTIFIED: ("are uncertified", self._advice_on_uncertified),
        }
        failed = {outcome: [row for row in judged if row["outcome"] == outcome] for outcome in advise}
        notable = [outcome for outcome, rows in failed.items() if len(rows) > NOTABLE * len(judged)]
        lacking = {role: self.lacking(role) for role in self.needed()}
        temperature = self.recipe.prover.temperature
        items = []
        if temperature > CALM and (notable or any(Outcome.VERIFIED in outcomes for outcomes in lacking.values())):
            items.append(
                f"First try `prover.temperature={CALM}` ({temperature:g} now): small models lose the thread at high"
                " temperatures."
            )
        for outcome in notable:
            verb, advice_on = advise[outcome]
            rows = failed[outcome]
            items.append(f"{len(rows)} of {len(judged)} solutions {verb}. {' '.join(advice_on(rows))}")
        few = {Outcome.VERIFIED: self._advice_on_few_correct, Outcome.PROOF_INVALID: self._advice_on_few_wrong}
        for role, outcomes in lacking.items():
            # The advice for the base role is for all.
            items += [few[o](role) for o in outcomes if role == Role.BASE or o not in lacking.get(Role.BASE, ())]
        spread = {role: self.spread(role).value for role in self.recipe.prover.trained_roles}
        few_mixed = [role for role, share in spread.items() if share is not None and share < LITTLE_SPREAD]
        return items + [self._advice_on_spread(role) for role in few_mixed]

    def _advice_on_spread(self, role: Role) -> str:
        return (
            f"Few groups of the {role} role have correct and other solutions: raise `prover.temperature`"
            f" ({self.recipe.prover.temperature:g} now), end `prover.warmup` earlier if it has one, or let problems"
            " differ in difficulty (`task.options`)."
        )

    def _advice_on_cut(self, rows: list[Row]) -> Iterator[str]:
        longest = self.recipe.prover.max_completion_length
        others = [row for row in rows if not _repeats_itself(row["solution"])]
        num_loops = len(rows) - len(others)
        num_answered = sum(row.get("strict_answer") is not None for row in others)
        least = NOTABLE * len(rows)  # fewer are not worth a sentence
        if (number := len(others) - num_answered) > least:
            yield (
                f"Not finished at the {longest} tokens of `prover.max_completion_length`: {number}. Try"
                f" `prover.max_completion_length={2 * longest}`, and lower it later to the length that nine in ten"
                " need."
            )
        if num_answered > least:
            yield (
                f"Answered, but not ended: {num_answered}. A longer maximum does not help: train the prover to stop "
                "(`prover.warmup`), or take an instruct model, whose chat template ends its turn (`prover.model`)."
            )
        if num_loops > least:
            yield (
                f"Repeating the same words at the end: {num_loops}. A longer maximum does not help: try "
                "`prover.repetition_penalty=1.1`, or take a better `prover.model`."
            )

    def _advice_on_no_answer(self, rows: list[Row]) -> Iterator[str]:
        num_empty = sum(not row["solution"].strip() for row in rows)
        num_programs = sum("lenient_answer" in row and bool(_PROGRAM.search(row["solution"])) for row in rows)
        lenient = [row for row in rows if row.get("lenient_answer") is not None]
        least = NOTABLE * len(rows)
        if lenient and self.recipe.task.answer_format == "strict":
            yield (
                "`task.answer_format=lenient`, which reads the last number where no answer is marked, finds an answer"
                f" in {len(lenient)} of them, and the right one in {sum(row['lenient_correct'] for row in lenient)}."
            )
        if num_empty > least:
            yield (
                f"Empty: {num_empty}. The prover ends at once: check what its chat template makes of the prompt "
                "(`prover.chat_template_kwargs`, `task.prompts`)."
            )
        if num_programs > least:
            yield (
                f"Programs: {num_programs}. Ask for words and not for code in the prompt (`task.prompts`), or take a"
                " `prover.model` that was not made for code."
            )
        yield (
            "To have the prover keep the format, show it solved examples (`task.few_shot`), say in the prompt how the"
            " last line must look (`task.prompts`), or train it on references first (`prover.warmup`)."
        )

    def _advice_on_uncertified(self, rows: list[Row]) -> Iterator[str]:
        yield (
            'Nothing proves that they are wrong, so that they are in no pair: see "Certificates" in'
            " docs/reference/programs.md."
        )

    def _advice_on_few_correct(self, role: Role) -> str:
        if role != Role.BASE and (share := self._share_of_base(Outcome.VERIFIED)) >= MIN_SHARE:
            return (
                f"Few correct solutions in the {role} role, while {100 * share:.0f} % are correct in the base role,"
                f" whose prompt shows examples if the task has any: word the prompt of the {role} role like it"
                " (`task.prompts`)."
            )
        return (
            "Few correct solutions: take a larger or better trained `prover.model`, show more solved examples"
            " (`task.few_shot`), use easier problems (`task.options`), or train the prover on references first"
            " (`prover.warmup`)."
        )

    def _advice_on_few_wrong(self, role: Role) -> str:
        if role == Role.SNEAKY and self._share_of_base(Outcome.PROOF_INVALID) >= MIN_SHARE:
            return (
                "Few wrong solutions in the sneaky role: show it the answer that it must avoid"
                " (`task.sneaky_sees=reference_answer`), or say more clearly in its prompt that the answer must be"
                " wrong (`task.prompts`)."
            )
        return (
            "Few wrong solutions: use harder problems (`task.options`), a smaller `prover.model`, or a higher"
            f" `prover.temperature` ({self.recipe.prover.temperature:g} now)."
        )

    def _share_of_base(self, outcome: Outcome) -> float:
        counts = self.counts(Role.BASE)
        return counts[outcome] / max(1, counts.total())

    def figures(self) -> dict[str, Any]:
        """Number of solutions of each outcome by role, reasons why the game cannot work, and what would help."""
        roles = {str(role): {str(kind): number for kind, number in self.counts(role).items()} for role in PILOT_ROLES}
        spread = {str(role): self.spread(role).to_dict() for role in self.recipe.prover.trained_roles}
        found = {"stops": self.stops(), "doubts": self.doubts(), "advice": self.advice()}
        return {"outcomes": roles, "spread": spread, **found}

    def check(self) -> None:
        """Raise a `ValueError` if the game cannot work, which says why and what to change."""
        stops = self.stops()
        if stops:
            lines = ["The pilot stops the game, before anything expensive:", *(f"- {reason}" for reason in stops)]
            lines += ["What to change:", *(f"- {item}" for item in self.advice())]
            end = (
                "`pvg pilot` with other settings shows what they change, e.g. `prover.temperature=0.7`. To play all"
                " the "
            )
            raise ValueError("\n".join([*lines, f"{end}same: `bootstrap.pilot_problems=0`."]))

    def describe(self) -> str:
        """Describe shares, lengths, and texts of each kind, and what looks bad if the game can begin all the same."""
        num_problems = min(self.counts(role).total() for role in PILOT_ROLES)
        error = 98 / sqrt(num_problems)  # half of a 95 % interval of a share of a half
        lines = wrap(
            f"Pilot: the base prover ({self.recipe.prover.model}) solves {num_problems} problems or more, once in each"
            f" role. From so few, a share is known to within {error:.0f} percentage points.",
            _WIDTH,
        )
        lines += ["", *self._table()]
        for outcome, rows in self.examples().items():
            for row in rows:
                lines += ["", *_show(row, outcome)]
        if not self.stops():
            items = self.advice()
            lines += ["", "The game can begin."]
            lines += [line for doubt in self.doubts() for line in wrap(f"Not sure: {doubt}", _WIDTH)]
            lines += ["What could be better:"] if items else []
            lines += [line for item in items for line in wrap(f"- {item}", _WIDTH, break_on_hyphens=False)]
        return "\n".join(lines)

    def _table(self) -> Iterator[str]:
        outcomes = self.outcomes
        yield f"{'role':<9}{''.join(f'{OUTCOME_WORDS[o]:<12}' for o in outcomes)}{'median':>7}{'longest':>9}"
        for role in PILOT_ROLES:
            counts, (middle, longest) = self.counts(role), self.lengths(role)
            cells = (f"{counts[o]} ({100 * counts[o] / counts.total():.0f} %)" for o in outcomes)
            yield f"{role:<9}{''.join(f'{cell:<12}' for cell in cells)}{middle:>7.0f}{longest:>9}"
        for role in self.recipe.prover.trained_roles:
            if (share := self.spread(role)).value is not None:
                yield f"Groups of the {role} role with correct and other solutions: {_show_share(share)}"
        yield (
            f"Lengths are in tokens; the maximum is {self.recipe.prover.max_completion_length} "
            "(`prover.max_completion_length`)."
        )


def _purpose(role: Role, outcome: Outcome) -> str:
    if role == Role.BASE:
        return "the verifier's first pairs need"
    return f"the {role} role is rewarded for {OUTCOME_WORDS[outcome]} solutions and needs"


def _share(counts: Counter[Outcome], outcomes: list[Outcome]) -> Figure:
    return rate(sum(counts[outcome] for outcome in outcomes), counts.total())


def _show_share(figure: Figure) -> str:
    """Describe a share by its numbers, e.g. `2 of 32 (6 % [2, 20])`."""
    low, high = figure.bounds
    number = round(figure.known * figure.n)
    return f"{number} of {figure.n} ({100 * figure.known:.0f} % [{100 * low:.0f}, {100 * high:.0f}])"


def _repeats_itself(text: str) -> bool:
    """Whether the end of a text occurs in it three times."""
    return text.count(text.rstrip()[-30:]) >= 3


def _show(row: Row, outcome: Outcome) -> Iterator[str]:
    answer = f", answer {reveal(shorten(row['answer'], 30))}" if row["answer"] is not None else ""
    yield f"{OUTCOME_WORDS[outcome].upper()} in the {row['role']} role, {row['num_tokens']} tokens{answer}"
    yield from wrap("Problem: " + shorten(reveal(row["problem"]), 240, placeholder=" [...]"), _WIDTH)
    lines = [line.rstrip() for line in reveal(row["solution"]).splitlines() if line.strip()] or ["(empty)"]
    if len(lines) > _HEAD + _TAIL:
        lines = [*lines[:_HEAD], "[...]", *lines[-_TAIL:]]
    for line in lines:
        if len(line) > _LONG_LINE:
            line = f"{line[: _LONG_LINE // 2]} [...] {line[-_LONG_LINE // 2 :]}"
        yield from wrap(line, _WIDTH, initial_indent="  | ", subsequent_indent="  | ")
