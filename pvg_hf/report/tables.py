"""The tables of the report."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure, rate
from pvg_hf.core.roles import ABSTENTIONS, ACCEPTING, GAME_ROLES, Role
from pvg_hf.core.stopwatch import PAST_PARTICIPLES, Spent
from pvg_hf.core.units import show_percent
from pvg_hf.data.schema import OUTCOME_WORDS
from pvg_hf.evaluation.acceptance import BY_ANSWER, BY_FLAWS
from pvg_hf.evaluation.intervals import share_by_problem
from pvg_hf.evaluation.selective import THRESHOLDS
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED
from pvg_hf.noise.telemetry import NOISE_TYPES
from pvg_hf.report.pilot_findings import PILOT_ROLES, Pilot
from pvg_hf.run.read import RoundData, RunData, name_phase

MISSING = "\N{EN DASH}"

MAX_WIDTH = 126
"""Maximum table width in characters: fits on A4 at 7.25 points, and on screens wider than a tablet's."""

MIN_COLUMN = 8
"""Minimum column width in characters, as in the page's style sheet."""


@dataclass(frozen=True)
class TableCell:
    """
    A figure in a table.

    Args:
        value (`str`), interval (`str`), n (`str`):
            Formatted texts; `interval` and `n` may be empty.
    """

    value: str
    interval: str = ""
    n: str = ""


@dataclass(frozen=True)
class Table:
    """
    A table with one heading per row and per column.

    Args:
        headers (`list[str]`):
            Column headings, including the first column's.
        rows (`list[tuple[str, list[TableCell]]]`):
            Heading and cells of each row.
    """

    headers: list[str]
    rows: list[tuple[str, list[TableCell]]]

    def parts(self) -> list["Table"]:
        """
        Split the table into tables that fit a page of A4.

        A table that is too wide is transposed if that makes it narrower. If it is still too wide, its columns are split
        into groups, and each group repeats the first column.
        """
        if not self.rows:
            return []
        turned = self._transposed()
        table = self if self._width <= MAX_WIDTH or turned._width >= self._width else turned
        # Greedy: a column that does not fit any more starts the next group.
        groups: list[list[int]] = [[]]
        for column in range(len(table._widths)):
            if groups[-1] and not table._fits([*groups[-1], column]):
                groups.append([])
            groups[-1].append(column)
        # As many groups of equal size, if these fit too, so that no column is left alone.
        even = [part.tolist() for part in np.array_split(np.arange(len(table._widths)), len(groups))]
        return [table._columns(group) for group in (even if all(map(table._fits, even)) else groups)]

    def _fits(self, columns: list[int]) -> bool:
        return self._heading_width + sum(self._widths[column] for column in columns) <= MAX_WIDTH

    def _transposed(self) -> "Table":
        columns = zip(*(cells for _, cells in self.rows))
        headers = [self.headers[0], *(heading for heading, _ in self.rows)]
        return Table(headers, [(name, list(cells)) for name, cells in zip(self.headers[1:], columns)])

    def _columns(self, wanted: list[int]) -> "Table":
        headers = [self.headers[0], *(self.headers[1 + column] for column in wanted)]
        return Table(headers, [(heading, [cells[column] for column in wanted]) for heading, cells in self.rows])

    @property
    def _width(self) -> int:
        return self._heading_width + sum(self._widths)

    @property
    def _heading_width(self) -> int:
        return 2 + max(len(heading) for heading, _ in self.rows)

    @property
    def _widths(self) -> list[int]:
        """Width of each column after the first, in characters: the longest word of its heading, or the longest line of its cells."""
        widths = [max(map(len, header.split()), default=0) for header in self.headers[1:]]
        for _, cells in self.rows:
            lines = (max(len(cell.value), len(cell.interval), len(cell.n)) for cell in cells)
            widths = [max(width, line) for width, line in zip(widths, lines)]
        return [2 + max(MIN_COLUMN, width) for width in widths]


# Heading, key, key for the base prover (if it has one), digits.
ROUND_COLUMNS = (
    ("helpful accuracy", "accuracy/helpful", "base_accuracy/helpful", 3),
    ("best helpful checkpoint", "accuracy/best_helpful", None, 3),
    ("sneaky accuracy", "accuracy/sneaky", "base_accuracy/sneaky", 3),
    ("sneaky valid mistakes", "valid_sneaky", "base_valid_sneaky", 3),
    ("sneaky failed", "failed/sneaky", "base_failed/sneaky", 3),
    ("pair accuracy, own mixture", "verifier_mixture_pair_accuracy", None, 3),
    ("pair accuracy, held-out", "verifier_pair_accuracy", None, 3),
    ("pair accuracy, this prover", "test_pair_accuracy", None, 3),
    ("authors told apart, held-out", "author_separability", None, 3),
    ("AUC, held-out", "verifier_auc", None, 3),
    ("Youden J, held-out", "verifier_youden_j", None, 3),
    ("calibration error", "verifier_calibration_error", None, 3),
    ("own prover's mistakes accepted at 95 % completeness", OWN_ACCEPTED, None, 3),
    ("completeness, own threshold", "completeness", None, 3),
    ("soundness, own threshold", "soundness", None, 3),
    ("score gap", "score_gap", None, 2),
    ("parity at step", "parity_step", None, 0),
    ("gap to parity", "parity_gap", None, 2),
)

# The verifier's ROC curve on the test solutions of the round's prover.
ROC_COLUMNS = (
    ("AUC", "test_auc"),
    ("partial AUC, FPR up to .1", "test_partial_auc"),
    ("TPR at FPR .01", "test_tpr_at_0.01"),
    ("TPR at FPR .05", "test_tpr_at_0.05"),
    ("g-mean", "test_g_mean"),
    ("monitor: partial AUC, FPR up to .1", "test_monitor_partial_auc"),
    ("monitor: recall at FPR .01", "test_monitor_recall_at_0.01"),
)

NEW_TEXT_COLUMNS = tuple(
    (f"new texts, {role} {kind}", f"new_texts/{role}_{kind}")
    for role in GAME_ROLES
    for kind in ("correct", "incorrect")
)

ROLE_PREFIX = "accepted_role/"  # of the figures of `role_recognition`

ONLY_IF_KNOWN = ("author_separability",)  # of runs whose verifiers learn from reference solutions

SOURCE_COLUMNS = (
    ("pair accuracy", "pair_accuracy"),
    ("AUC", "auc"),
    ("accuracy", "accuracy"),
    ("true positive rate", "tpr"),
    ("false positive rate", "fpr"),
    ("Youden J", "youden_j"),
    ("calibration error", "calibration_error"),
)

DIVERSITY_COLUMNS = (
    ("distinct texts", "distinct", 3),
    ("duplicates per problem", "duplicates", 2),
    ("correct texts per problem", "distinct_correct", 2),
    ("tokens per solution", "num_tokens", 1),
    ("answered", "answered", 3),
    ("truncated", "truncated", 3),
    ("failed", "failed", 3),
    ("strict accuracy", "accuracy_strict", 3),
    ("lenient accuracy", "accuracy_lenient", 3),
    ("valid steps", "step_validity", 3),
    ("flawed though correct", "flawed_correct", 3),
    ("implicit share", "implicit_share", 3),
)


# Heading, and the prefix of its counts after `pairs/` or `heldout_pairs/`.
PAIR_COUNT_COLUMNS = (
    ("pairs", "num_pairs"),
    ("solutions read", "num_solutions"),
    ("outside the mixture", "dropped/outside_mixture"),
    ("failed", "dropped/failed"),
    ("without a label", "dropped/abstained"),
    ("same as the reference", "dropped/same_as_reference"),
    ("same as another", "dropped/duplicate_text"),
    ("no partner", "unused/no_partner/"),
    ("replaced by the reference", "unused/replaced_by_reference/"),
    ("more than the slots", "unused/not_chosen/"),
    ("in pairs as correct, with references", "correct/"),
    ("in pairs as incorrect", "incorrect/"),
    ("slots that a round could not fill", "short/"),
    ("of them, filled by another", "refilled/"),
    ("of them, left empty", "unfilled"),
    ("problems without a pair", "without_pair/"),
    ("pairs over the maximum length", "over_max_length"),
)

SCORING_PHASES = ("verifier", "prover", "mint", "evaluate")


def rounds_table(run: RunData) -> Table:
    """Main figures: one row for the base prover, and one per evaluated round."""
    rounds = run.evaluated
    columns = [c for c in ROUND_COLUMNS if c[1] not in ONLY_IF_KNOWN or any(c[1] in data.figures for data in rounds)]
    rows = [
        (f"round {data.round_index}", [figure_cell(data.figure(key), d) for _, key, _, d in columns])
        for data in rounds
    ]
    if rounds:
        base = [figure_cell(rounds[0].figure(key), d) if key else TableCell(MISSING) for _, _, key, d in columns]
        rows.insert(0, ("base prover", base))
    return Table(["", *(column[0] for column in columns)], rows)


def roc_table(run: RunData) -> Table:
    """Figures of each verifier's ROC curve on its own prover's test solutions, one row per round."""
    return _figures_table(run, ROC_COLUMNS)


def new_texts_table(run: RunData) -> Table:
    """Shares of texts that no earlier prover wrote, and of pair slots that stayed empty, one row per round."""
    table = _figures_table(run, NEW_TEXT_COLUMNS)
    headers = [*table.headers, "slots left empty"]
    rounds = {data.round_index: data for data in run.evaluated}
    rows = [
        (heading, [*cells, _empty_slots(run, rounds[index])]) for (heading, cells), index in zip(table.rows, rounds)
    ]
    return Table(headers, rows if any("new_texts/helpful_correct" in data.figures for data in run.evaluated) else [])


def _figures_table(run: RunData, columns: Sequence[tuple[str, str]]) -> Table:
    rows = [
        (f"round {data.round_index}", [figure_cell(data.figure(key), 3) for _, key in columns])
        for data in run.evaluated
        if any(key in data.figures for _, key in columns)
    ]
    return Table(["", *(heading for heading, _ in columns)], rows)


def roles_table(run: RunData) -> Table:
    """Shares that each verifier accepts of earlier provers' test solutions, by role and kind; one row per round."""
    known = [data for data in run.evaluated if any(key.startswith(ROLE_PREFIX) for key in data.figures)]
    kinds = BY_FLAWS if known and f"{ROLE_PREFIX}helpful/{BY_FLAWS[0]}" in known[0].figures else BY_ANSWER
    columns = [
        (f"{role}, {kind.replace('_', ' ')}", f"{ROLE_PREFIX}{role}/{kind}") for kind in kinds for role in GAME_ROLES
    ]
    return _figures_table(run, columns)


def acceptance_tables(run: RunData) -> dict[str, Table]:
    """Shares accepted by kind of the first flaw and by form, with a row per kind or form and a column per round."""
    tables = {
        "Sneaky mistakes accepted, by the first flaw": _by_round(run, "accepted_flaw/"),
        "Solutions accepted, by form": _by_round(run, "accepted_form/"),
    }
    return {heading: table for heading, table in tables.items() if table.rows}


def _by_round(run: RunData, prefix: str) -> Table:
    names = sorted(
        {key.removeprefix(prefix) for data in run.evaluated for key in data.figures if key.startswith(prefix)}
    )
    rows = [
        (
            name.replace("_", " ").replace("/", ", "),
            [figure_cell(data.figure(prefix + name), 3) for data in run.evaluated],
        )
        for name in names
    ]
    return Table(["", *(f"round {data.round_index}" for data in run.evaluated)], rows)


def _empty_slots(run: RunData, data: RoundData) -> TableCell:
    """Number of slots of the training pairs that stayed empty, and their share if prover's solutions fill all slots."""
    if "pairs/unfilled" not in data.counts:
        return TableCell(MISSING)
    config, empty = run.recipe.for_round(data.round_index).data, data.counts["pairs/unfilled"]
    num_problems = data.counts["pairs/num_problems"] + sum(
        count for key, count in data.counts.items() if key.startswith("pairs/without_pair/")
    )
    slots = num_problems * config.solutions_per_problem
    if config.correct_source != "prover" or not slots:
        return TableCell(f"{empty:,}")
    return TableCell(f"{empty / slots:.3f}", n=f"{empty:,} of {slots:,}")


def sources_table(run: RunData) -> Table:
    """Held-out figures of the last evaluated verifier, one row per source (prover and role) of the solutions."""
    prefix = "verifier_pair_accuracy"
    data = run.evaluated[-1] if run.evaluated else None
    # A source's figures have its name as a suffix, e.g. `verifier_auc/round-000-sneaky`; without one they are over all sources.
    suffixes = [] if data is None else [key.removeprefix(prefix) for key in data.figures if key.startswith(prefix)]
    rows = [
        (
            _source(suffix.removeprefix("/")),
            [figure_cell(data.figure(f"verifier_{name}{suffix}"), 3) for _, name in SOURCE_COLUMNS],
        )
        for suffix in sorted(suffixes)
    ]
    return Table(["", *(heading for heading, _ in SOURCE_COLUMNS)], rows)


def _source(name: str) -> str:
    """Heading of a source, e.g. `round 0, helpful` for `round-000-helpful`."""
    return re.sub(r"^round-(\d+)-", lambda found: f"round {int(found[1])}, ", name) or "all"


def pairs_table(run: RunData) -> Table:
    """Counts of used and left-out solutions in each round's pairs; one row for training pairs, one for held-out pairs."""
    rows = [
        (f"round {data.round_index}, {name}", [_count_cell(data, f"{prefix}/{key}") for _, key in PAIR_COUNT_COLUMNS])
        for data in run.rounds
        for name, prefix in (("training", "pairs"), ("held-out", "heldout_pairs"))
        if f"{prefix}/num_pairs" in data.counts
    ]
    return Table(["", *(heading for heading, _ in PAIR_COUNT_COLUMNS)], rows)


def scoring_counts_table(run: RunData, name: str) -> Table:
    """
    Counts of scoring problems by round and phase.

    Args:
        run ([`~pvg_hf.run.read.RunData`]):
            A run.
        name (`str`):
            `num_cut`: inputs over the verifier's maximum length. `num_unreadable`: evaluations without a readable score.
    """
    rows = [
        (f"round {data.round_index}", [_count_cell(data, f"{phase}/{name}") for phase in SCORING_PHASES])
        for data in run.rounds
        if any(data.counts[f"{phase}/{name}"] for phase in SCORING_PHASES)
    ]
    return Table(["", *SCORING_PHASES], rows)


def diversity_table(run: RunData) -> Table:
    """Diversity and validity of solutions, one row per role and round, the base prover first; empty columns are left out."""
    rounds = run.evaluated
    sources = [(data, "") for data in rounds]
    if rounds:
        sources.insert(0, (rounds[0], "base_"))
    columns = [
        column for column in DIVERSITY_COLUMNS if any(f"{column[1]}/helpful" in data.figures for data in rounds)
    ]
    rows = [
        (f"{role}, {'base' if prefix else f'round {data.round_index}'}", _role_cells(data, prefix, role, columns))
        for role in GAME_ROLES
        for data, prefix in sources
    ]
    return Table(["", *(column[0] for column in columns)], rows)


def difficulty_table(run: RunData) -> Table | None:
    """Figures of the last evaluated round by difficulty; `None` if the task defines no difficulty."""
    problems = run.evaluated[-1].problems if run.evaluated else None
    if problems is None or "difficulty" not in problems:
        return None
    columns = (
        ("helpful accuracy", "accuracy_helpful"),
        ("sneaky accuracy", "accuracy_sneaky"),
        ("problems fooled", "fooled"),
    )
    rows = [
        (f"difficulty {difficulty}", [_problem_cell(group, column) for _, column in columns])
        for difficulty, group in problems.groupby("difficulty")
    ]
    return Table(["", *(heading for heading, _ in columns)], rows)


def pilot_table(pilot: Pilot) -> Table:
    """Shares of outcomes and lengths of the pilot's solutions, one row per role."""
    rows = []
    for role in PILOT_ROLES if pilot.rows else ():
        counts, lengths = pilot.counts(role), pilot.lengths(role)
        shares = [figure_cell(rate(counts[outcome], counts.total()), 2) for outcome in pilot.outcomes]
        rows.append((role, [*shares, *(TableCell(f"{length:,.0f}") for length in lengths)]))
    return Table(["", *(OUTCOME_WORDS[outcome] for outcome in pilot.outcomes), "median tokens", "longest"], rows)


def times_table(run: RunData) -> Table:
    """Duration of each phase, one row per round."""
    seconds = run.phase_seconds()
    phases = list(dict.fromkeys(phase for _, phase in seconds))
    rounds = sorted({index for index, _ in seconds})
    rows = []
    for index in rounds:
        times = [seconds.get((index, phase)) for phase in phases]
        total = sum(time for time in times if time is not None)
        cells = [TableCell(MISSING if time is None else duration(time)) for time in [*times, total]]
        rows.append(("before round 0" if index == BASE_ROUND else f"round {index}", cells))
    return Table(["", *phases, "all"], rows)


def rates_table(run: RunData) -> Table:
    """Tokens per second by kind of work, with their MFU on a known GPU, one row per finished phase that had any."""
    rows = []
    for key, split in run.phase_splits().items():
        cells = [_rate_cell(split.get(kind, Spent()), run.peak_flops[key]) for kind in PAST_PARTICIPLES]
        if any(cell.value != MISSING for cell in cells):
            rows.append((name_phase(*key), cells))
    return Table(["", *(f"tokens {done} a second" for done in PAST_PARTICIPLES.values())], rows)


def _rate_cell(spent: Spent, peak_flops: float | None) -> TableCell:
    if spent.tokens_per_second is None:
        return TableCell(MISSING)
    mfu = spent.mfu(peak_flops)
    return TableCell(f"{spent.tokens_per_second:,.0f}", "" if mfu is None else f"MFU {show_percent(mfu)}")


def count_noun(number: int, noun: str) -> str:
    """Number with its noun in singular or plural, e.g. `1 round` or `2 rounds`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Duration as text, e.g. `5.2 s`, `3 min 07 s` or `2 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _count_cell(data: RoundData, prefix: str) -> TableCell:
    found = [count for key, count in data.counts.items() if key.startswith(prefix)]
    return TableCell(f"{sum(found):,}" if found else MISSING)


def _role_cells(data: RoundData, prefix: str, role: Role, columns: list[tuple[str, str, int]]) -> list[TableCell]:
    return [figure_cell(data.figure(f"{prefix}{name}/{role}"), digits) for _, name, digits in columns]


def _problem_cell(problems: pd.DataFrame, column: str) -> TableCell:
    """Mean of a column of the problem table, which holds one share per problem."""
    known = problems[problems[column].notna()]
    return figure_cell(share_by_problem(known[column].astype(float), known["problem_id"]), 3)


def figure_cell(figure: Figure, digits: int) -> TableCell:
    """Format a figure as value, interval and n; a dash if it has no value."""
    if figure.value is None:
        return TableCell(MISSING, n=f"n={figure.n}")
    interval = "" if figure.low is None else f"[{figure.low:.{digits}f}, {figure.high:.{digits}f}]"
    return TableCell(f"{figure.value:.{digits}f}", interval, f"n={figure.n:,}")


_COLUMNS = (
    ("the first solution", "answers/first"),
    ("the most frequent answer", "answers/majority"),
    ("the vote weighted by score", "answers/weighted"),
    ("the verifier's choice", "answers/best"),
    ("choice less first", "answers/gain"),
)


def answers_table(run: RunData) -> Table:
    """Accuracy of answer selection, one row per round that was evaluated with a calibration."""
    columns = list(_COLUMNS)
    for threshold in THRESHOLDS:
        columns.append((f"answered at {threshold}", f"answers/coverage_{threshold}"))
        columns.append((f"correct of these, at {threshold}", f"answers/accuracy_{threshold}"))
    rows = [
        (f"round {data.round_index}", [figure_cell(data.figure(key), 3) for _, key in columns])
        for data in run.evaluated
        if "answers/best" in data.figures
    ]
    return Table(["", *(heading for heading, _ in columns)], rows)


DIGITS_OF_DIGEST = 12


def calls_table(run: RunData) -> Table:
    """Calls, verdicts and costs of the checker, one row per phase."""
    headers = ["", "calls", "accepted", "rejected", "no label", "flagged", "cost", "waited, s", "digest"]
    return Table(headers, [(_place(calls), _counts(calls)) for calls in run.call_summaries])


def noise_table(run: RunData) -> Table:
    """Realized and configured rates of injected noise, one row per phase, tier and slice."""
    found = {
        (_place(calls), one["tier"], one["slice"], one["noise"]): one
        for calls in run.call_summaries
        for one in calls["rates"]
    }
    places = dict.fromkeys(key[:3] for key in found)
    rows = [(", ".join(place), [_rate(found.get((*place, noise))) for noise in NOISE_TYPES]) for place in places]
    return Table(["", *(noise.replace("_", " ") for noise in NOISE_TYPES)], rows)


def false_positive_table(run: RunData) -> Table:
    """Share of wrong solutions accepted before and early in each prover phase, one row per round, role and checker."""
    rows = [
        (
            f"round {phase['round']}, {one['role']}, by the {one['checker']}",
            [figure_cell(Figure.from_dict(one[name]), 3) for name in ("before", "early", "rise")],
        )
        for phase in run.false_positives
        for one in phase["rises"]
    ]
    return Table(["", "before", "early", "rise"], rows)


def escalation_table(run: RunData) -> Table:
    """Escalations, one row per phase and transition: further calls, and the share of them that accepted."""
    rows = [
        (f"{_place(calls)}, {transition}", [TableCell(f"{figure['n']:,}"), _share(figure)])
        for calls in run.call_summaries
        for transition, figure in calls["escalations"].items()
    ]
    return Table(["", "further calls", "of them, accepting"], rows)


def channel_table(run: RunData) -> Table:
    """End-to-end channel of the last phase that called the checker, one row per slice; computed from the settings, not counted."""
    channels = run.call_summaries[-1]["channels"] if run.call_summaries else {}
    headers = [
        "",
        "false accept",
        "false reject",
        "no label, correct",
        "no label, incorrect",
        "calls, correct",
        "calls, incorrect",
    ]
    rows = []
    for name, channel in channels.items():
        correct, incorrect = channel["correct"], channel["incorrect"]
        rates = (incorrect["accept"], correct["reject"], correct["abstain"], incorrect["abstain"])
        calls = (correct["num_calls"], incorrect["num_calls"])
        rows.append(
            (name, [TableCell(f"{value:.4f}") for value in rates] + [TableCell(f"{value:.2f}") for value in calls])
        )
    return Table(headers, rows)


def _place(calls: dict[str, Any]) -> str:
    return calls["phase"] if calls["round"] < 0 else f"round {calls['round']} {calls['phase']}"


def _counts(calls: dict[str, Any]) -> list[TableCell]:
    codes = calls["codes"]
    accepted = sum(number for code, number in codes.items() if code in ACCEPTING)
    rejected = sum(number for code, number in codes.items() if code not in ACCEPTING | ABSTENTIONS)
    numbers = (calls["calls"], accepted, rejected, calls["abstained"], calls["flagged"])
    cells = [TableCell(f"{number:,}") for number in numbers]
    cells += [TableCell(f"{calls['cost']:,g}"), TableCell(f"{calls['duration_ms'] / 1000:,.0f}")]
    return [*cells, TableCell(calls["digest"][:DIGITS_OF_DIGEST])]


def _rate(one: dict[str, Any] | None) -> TableCell:
    if one is None:
        return TableCell(MISSING)
    cell = _share(one)
    return TableCell(f"{cell.value} (set to {one['configured']:g})", cell.interval, cell.n)


def _share(figure: dict[str, Any]) -> TableCell:
    interval = f"[{figure['low']:.4f}, {figure['high']:.4f}]"
    return TableCell(f"{figure['value']:.4f}", interval, f"n={figure['n']:,}")
