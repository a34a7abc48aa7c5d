"""The tables of the report: figures of the catalogue, counts and times."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pandas as pd

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.core.disk_names import BASE_ROUND, ROUND_NAME, round_index_of, round_name
from pvg_hf.core.figure import Figure, rate
from pvg_hf.core.roles import ABSTENTIONS, ACCEPTING, GAME_ROLES, Role
from pvg_hf.core.stopwatch import PAST_PARTICIPLES, Spent
from pvg_hf.core.units import show_percent
from pvg_hf.data.schema import OUTCOME_WORDS
from pvg_hf.evaluation.catalogue import CATALOGUE, explain, find_kind, heading_of
from pvg_hf.evaluation.intervals import share_by_problem
from pvg_hf.evaluation.role_figures import BY_ANSWER, BY_FLAWS
from pvg_hf.evaluation.verifier_quality import confusion_columns
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED
from pvg_hf.noise.telemetry import NOISE_TYPES, NoiseRate
from pvg_hf.report.pilot_findings import PILOT_ROLES, Pilot
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.read import RoundData, RunData, name_phase
from pvg_hf.run.stored import CallSummary

MISSING = "\N{EN DASH}"

MAX_COLUMNS = 8
"""Columns from which a table with fewer rows is turned."""


@dataclass(frozen=True)
class TableCell:
    """A figure in a table, as formatted texts; `interval` and `n` may be empty."""

    value: str
    interval: str = ""
    n: str = ""


@dataclass(frozen=True)
class Table:
    """A table with one heading per row and per column; `terms` explains headings and is shown below it."""

    headers: list[str]
    rows: list[tuple[str, list[TableCell]]]
    terms: dict[str, str] = field(default_factory=dict)
    title: str = ""

    def turned(self) -> "Table":
        """Return the table as it is shown: with rows and columns swapped if it has many columns and fewer rows."""
        if len(self.headers) - 1 <= max(MAX_COLUMNS, len(self.rows)):
            return self
        headers = [self.headers[0], *(heading for heading, _ in self.rows)]
        columns = zip(*(cells for _, cells in self.rows))
        return Table(headers, [(name, list(cells)) for name, cells in zip(self.headers[1:], columns)], self.terms)


Reader = Callable[[str], Figure | None]  # returns a figure by its key

# Figures of the main table.
MAIN = (
    "accuracy/helpful",
    "accuracy/best_helpful",
    "accuracy/sneaky",
    "valid_sneaky",
    "failed/sneaky",
    "verifier_mixture_pair_accuracy",
    "verifier_pair_accuracy",
    "test_pair_accuracy",
    "author_separability",
    "verifier_auc",
    "verifier_youden_j",
    "verifier_calibration_error",
    OWN_ACCEPTED,
    "completeness",
    "soundness",
    "score_gap",
    "parity_step",
    "parity_gap",
)

ROC = (
    "test_auc",
    "test_partial_auc",
    "test_tpr_at_0.01",
    "test_tpr_at_0.05",
    "test_g_mean",
    "test_monitor_partial_auc",
    "test_monitor_recall_at_0.01",
)

_ENVIRONMENT = "[/{environment}]"
SOURCES = tuple(kind.key.removesuffix(_ENVIRONMENT) for kind in CATALOGUE if kind.key.endswith(_ENVIRONMENT))
"""Figures by source of the solutions, which ends the key."""

ANSWERS, WRITTEN = (
    tuple(kind.key for kind in CATALOGUE if kind.of == group and "{" not in kind.key)
    for group in ("answers", "evaluations")
)

DIVERSITY = (
    "distinct/{role}",
    "duplicates/{role}",
    "distinct_correct/{role}",
    "num_tokens/{role}",
    "answered/{role}",
    "truncated/{role}",
    "failed/{role}",
    "accuracy_strict/{role}",
    "accuracy_lenient/{role}",
    "step_validity/{role}",
    "flawed_correct/{role}",
    "implicit_share/{role}",
)

NEW_TEXTS = tuple(f"new_texts/{role}_{kind}" for role in GAME_ROLES for kind in ("correct", "incorrect"))

POOL_MEASURES = ("accepted", "accepted_change", "auc", "pair_accuracy")

_POOL_KEY = re.compile(rf"pools/(\w+)/({ROUND_NAME})/(base|{ROUND_NAME})")


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

_SCORING_TERMS = {
    "num_cut": {"cut": "inputs longer than verifier.max_length, by phase; the verifier did not see their end."},
    "num_unreadable": {
        "without a score": (
            "evaluations that were cut or have no boxed 0, 0.5 or 1 after the required sentence, by phase; they count "
            "as 0."
        )
    },
}


def figures_table(keys: Sequence[str], rows: Iterable[tuple[str, Reader]], *, names_role: bool = True) -> Table:
    """
    Return a table of figures with the headings, digits and meanings of the catalogue.

    `keys` are those of the columns, after `round/`. Each row has a heading and what returns its figures by their keys,
    `None` for one that it does not have. Columns without any figure, and rows without any, are left out. `names_role`
    says whether headings name the role, which ends the keys.
    """
    found = [(heading, [read(key) for key in keys]) for heading, read in rows]
    found = [(heading, figures) for heading, figures in found if any(figure is not None for figure in figures)]
    shown = [place for place in range(len(keys)) if any(figures[place] is not None for _, figures in found)]
    kinds = [find_kind(keys[place]) for place in shown]
    headers = [kind.heading_of(keys[place], names_role=names_role) for kind, place in zip(kinds, shown)]
    cells = [
        (heading, [figure_cell(figures[place], kind.digits) for kind, place in zip(kinds, shown)])
        for heading, figures in found
    ]
    return Table(["", *headers], cells, explain((keys[place] for place in shown), names_role=names_role))


def round_reader(data: RoundData, *, prefix: str = "", suffix: str = "", role: str = "") -> Reader:
    """Return what reads a round's figures: `{round}` in a key is the round's name, and `{role}` the role."""
    return lambda key: data.figures.get(prefix + key.format(round=round_name(data.round_index), role=role) + suffix)


def rounds_figures(run: RunData, *, keys: Sequence[str]) -> Table:
    """Return a table of figures with one row per evaluated round that has any."""
    return figures_table(keys, _by_round(run))


def rounds_table(run: RunData) -> Table:
    """Main figures: one row for the base prover, and one per evaluated round."""
    base = [("base prover", round_reader(data, prefix="base_")) for data in run.evaluated[:1]]
    return figures_table(MAIN, [*base, *_by_round(run)])


def answers_table(run: RunData) -> Table:
    """Accuracy of answer selection, one row per round that was evaluated with a calibration."""
    prefix = "answers/coverage_"
    levels = sorted(
        {key.removeprefix(prefix) for data in run.evaluated for key in data.figures if key.startswith(prefix)}
    )
    pairs = [(f"{prefix}{level}", f"answers/accuracy_{level}") for level in levels]
    return rounds_figures(run, keys=[*ANSWERS, *(key for pair in pairs for key in pair)])


def confusion_table(run: RunData) -> Table:
    """Confusion matrix of the last round with written evaluations: rows are true scores, columns predicted ones."""
    figures = next((data.figures for data in reversed(run.evaluated) if WRITTEN[0] in data.figures), {})
    columns, rows = confusion_columns(), []
    for true in ALLOWED_SCORES if figures else ():
        found = (figures.get(f"evaluations/confusion/{true:g}_as_{name}") for name in columns)
        rows.append((f"truly {true:g}", [figure_cell(figure, 3) for figure in found]))
    headers = ["", *(f"predicted {name}" for name in columns[:-1]), "no score"]
    return Table(headers, rows, title="True and predicted scores, last round")


def roles_table(run: RunData) -> Table:
    """Shares that each verifier accepts of earlier provers' test solutions, by role and kind; one row per round."""
    marks_flaws = any(f"accepted_role/{Role.HELPFUL}/{BY_FLAWS[0]}" in data.figures for data in run.evaluated)
    kinds = BY_FLAWS if marks_flaws else BY_ANSWER
    keys = [f"accepted_role/{role}/{kind}" for kind in kinds for role in GAME_ROLES]
    return rounds_figures(run, keys=keys)


def new_texts_table(run: RunData) -> Table:
    """Shares of texts that no earlier prover wrote, and of pair slots that stayed empty, one row per round."""
    table = rounds_figures(run, keys=NEW_TEXTS)
    if not table.rows:
        return table
    rounds = [data for data in run.evaluated if NEW_TEXTS[0] in data.figures]
    rows = [(name, [*cells, _empty_slots(run, data)]) for (name, cells), data in zip(table.rows, rounds, strict=True)]
    empty = "solutions of training pairs that no source could fill, of all that data.solutions_per_problem asks for."
    terms = {**table.terms, "slots left empty": empty}
    return Table([*table.headers, "slots left empty"], rows, terms, "What a round adds")


def acceptance_tables(run: RunData) -> list[Table]:
    """Shares accepted by kind of the first flaw and by form, with a row per kind or form and a column per round."""
    titles = {
        "accepted_flaw/": "Sneaky mistakes accepted, by the first flaw",
        "accepted_form/": "Solutions accepted, by form",
    }
    return [table for prefix, title in titles.items() if (table := _prefix_table(run, prefix, title)).rows]


def _prefix_table(run: RunData, prefix: str, title: str) -> Table:
    """Table of all figures with a prefix: a row per figure and a column per round."""
    keys = sorted({key for data in run.evaluated for key in data.figures if key.startswith(prefix)})
    names = (key.removeprefix(prefix).replace("_", " ").replace("/", ", ") for key in keys)
    cells = ([figure_cell(data.figure(key), find_kind(key).digits) for data in run.evaluated] for key in keys)
    terms = {"accepted": f"{find_kind(keys[0]).meaning}."} if keys else {}
    return Table(["", *_round_headings(run)], list(zip(names, cells)), terms, title)


def pool_cells(run: RunData, measure: str) -> dict[tuple[int, int], Figure]:
    """Figures of one measure of `POOL_MEASURES` by the rounds of verifier and pool."""
    found = [(_POOL_KEY.fullmatch(key), figure) for data in run.evaluated for key, figure in data.figures.items()]
    return {(_pool_round(key[2]), _pool_round(key[3])): figure for key, figure in found if key and key[1] == measure}


def pool_heading(pool: int) -> str:
    """Return `base prover`, or `prover 0` for that of round 0."""
    return "base prover" if pool == BASE_ROUND else f"prover {pool}"


def pools_tables(run: RunData) -> list[Table]:
    """Tables of verifiers x pools: one row per verifier, one column per pool; empty ones are left out."""
    tables = [_pools_table(pool_cells(run, measure), f"pools/{measure}/verifier/pool") for measure in POOL_MEASURES]
    return [table for table in tables if table.rows]


def _pools_table(cells: dict[tuple[int, int], Figure], key: str) -> Table:
    verifiers, pools = (sorted({places[index] for places in cells}) for index in (0, 1))
    kind = find_kind(key)
    rows = [
        (f"verifier {verifier}", [figure_cell(cells.get((verifier, pool)), kind.digits) for pool in pools])
        for verifier in verifiers
    ]
    title = kind.heading[0].upper() + kind.heading[1:]
    return Table(["", *map(pool_heading, pools)], rows, explain([key]), title)


def _pool_round(name: str) -> int:
    index = round_index_of(name)
    return BASE_ROUND if index is None else index


def judgement_tables(run: RunData) -> dict[str, Table]:
    """Return a table by name of each evaluation that followed the rounds: a row per figure and a column per round."""
    by_name: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in run.judgements:
        by_name[judgement.name].append(judgement)
    return {name: _judgement_table(found) for name, found in sorted(by_name.items())}


def _judgement_table(found: list[Judgement]) -> Table:
    keys = dict.fromkeys(key for judgement in found for key in judgement.figures)
    rows = [(key.replace("_", " "), [figure_cell(judgement.figure(key), 3) for judgement in found]) for key in keys]
    headers = ["", *(f"round {judgement.round_index}" for judgement in found)]
    return Table(headers, rows, found[-1].terms, found[-1].title)  # the newest explanations


def sources_table(run: RunData) -> Table:
    """Held-out figures of the last evaluated verifier, one row per source (prover and role) of the solutions."""
    if not run.evaluated:
        return Table([""], [])
    data, prefix = run.evaluated[-1], SOURCES[0]
    # A source's figures have its name as a suffix, e.g. `verifier_auc/round-000-sneaky`; without one they are over all
    # sources.
    suffixes = sorted(key.removeprefix(prefix) for key in data.figures if key.startswith(prefix))
    table = figures_table(SOURCES, [(_source(suffix), round_reader(data, suffix=suffix)) for suffix in suffixes])
    of_source = (
        "held-out solutions by who wrote them; reference, if any, is the correct side that pairs took from the"
        " problems. Pair accuracy, AUC and Youden J compare a source's incorrect solutions with all correct ones to"
        " the same problems, from any source."
    )
    return replace(table, terms={"rows": of_source, **table.terms})


def _source(suffix: str) -> str:
    """Heading of a source, e.g. `round 0, helpful` for `/round-000-helpful`."""
    return re.sub(r"^round-(\d+)-", lambda found: f"round {int(found[1])}, ", suffix.removeprefix("/")) or "all"


def diversity_table(run: RunData) -> Table:
    """Diversity and validity of solutions, one row per role and round, the base prover first."""
    sources = [("base", data, "base_") for data in run.evaluated[:1]]
    sources += [(f"round {data.round_index}", data, "") for data in run.evaluated]
    rows = [
        (f"{role}, {name}", round_reader(data, prefix=prefix, role=role))
        for role in GAME_ROLES
        for name, data, prefix in sources
    ]
    return figures_table(DIVERSITY, rows, names_role=False)


def _round_headings(run: RunData) -> list[str]:
    return [f"round {data.round_index}" for data in run.evaluated]


def _by_round(run: RunData) -> list[tuple[str, Reader]]:
    """Rows of evaluated rounds."""
    return list(zip(_round_headings(run), map(round_reader, run.evaluated)))


def _empty_slots(run: RunData, data: RoundData) -> TableCell:
    """
    Number of slots of the training pairs that stayed empty, and their share if prover's solutions fill all slots.
    """
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


def pairs_table(run: RunData) -> Table:
    """
    Counts of used and left-out solutions in each round's pairs; one row for training pairs, one for held-out pairs.
    """
    rows = [
        (f"round {data.round_index}, {name}", [_count_cell(data, f"{prefix}/{key}") for _, key in PAIR_COUNT_COLUMNS])
        for data in run.rounds
        for name, prefix in (("training", "pairs"), ("held-out", "heldout_pairs"))
        if f"{prefix}/num_pairs" in data.counts
    ]
    terms = {
        "failed": (
            "solutions that were cut, have no answer or are uncertified; they stay in the pool but are never part of a"
            " pair."
        ),
        "pairs over the maximum length": (
            "pairs longer than verifier.max_length; the verifier was not trained on them."
        ),
    }
    return Table(["", *(heading for heading, _ in PAIR_COUNT_COLUMNS)], rows, terms)


def scoring_counts_table(run: RunData, name: str) -> Table:
    """Counts of `num_cut` (inputs over verifier.max_length) or `num_unreadable` evaluations by round and phase."""
    rows = [
        (f"round {data.round_index}", [_count_cell(data, f"{phase}/{name}") for phase in SCORING_PHASES])
        for data in run.rounds
        if any(data.counts[f"{phase}/{name}"] for phase in SCORING_PHASES)
    ]
    return Table(["", *SCORING_PHASES], rows, _SCORING_TERMS[name])


def difficulty_table(run: RunData) -> Table:
    """Figures of the last evaluated round by difficulty, if the task defines one."""
    problems = run.evaluated[-1].problems if run.evaluated else None
    if problems is None or "difficulty" not in problems:
        return Table([""], [])
    columns = (
        (heading_of("accuracy/helpful"), "accuracy_helpful"),
        (heading_of("accuracy/sneaky"), "accuracy_sneaky"),
        ("problems fooled", "fooled"),
    )
    rows = [
        (f"difficulty {difficulty}", [_problem_cell(group, column) for _, column in columns])
        for difficulty, group in problems.groupby("difficulty")
    ]
    fooled = "share of problems whose best sneaky incorrect solution outscores the best helpful correct one."
    return Table(["", *(heading for heading, _ in columns)], rows, {"problems fooled": fooled})


def pilot_table(pilot: Pilot) -> Table:
    """Shares of outcomes and lengths of the pilot's solutions, one row per role."""
    rows: list[tuple[str, list[TableCell]]] = []
    for role in PILOT_ROLES if pilot.rows else ():
        counts, lengths = pilot.counts(role), pilot.lengths(role)
        shares = [figure_cell(rate(counts[outcome], counts.total()), 2) for outcome in pilot.outcomes]
        rows.append((role, [*shares, *(TableCell(f"{length:,.0f}") for length in lengths)]))
    return Table(["", *(OUTCOME_WORDS[outcome] for outcome in pilot.outcomes), "median tokens", "longest"], rows)


def times_table(run: RunData) -> Table:
    """Duration of each phase, one row per round."""
    seconds = run.phase_seconds()
    phases = list(dict.fromkeys(phase for _, phase in seconds))
    rows = []
    for index in sorted({index for index, _ in seconds}):
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
    terms = {
        "tokens a second": (
            "of the main process, without padding and without what evaluations write and score. Written tokens are"
            " counted without their prompts, scored and trained ones with them."
        ),
        "MFU": (
            "model FLOPs utilisation, on a known GPU: the operations that the models need for these tokens, as a share"
            " of the GPU's peak rate in half precision."
        ),
    }
    return Table(["", *(f"tokens {done} a second" for done in PAST_PARTICIPLES.values())], rows, terms)


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


def _problem_cell(problems: pd.DataFrame, column: str) -> TableCell:
    """Mean of a column of the problem table, which holds one share per problem."""
    known = problems[problems[column].notna()]
    return figure_cell(share_by_problem(known[column].astype(float), known["problem_id"]), 3)


def figure_cell(figure: Figure | None, digits: int) -> TableCell:
    """Format a figure as value, interval and n; a dash if it has no value, or is not there."""
    if figure is None:
        return TableCell(MISSING)
    if figure.value is None:
        return TableCell(MISSING if figure.low is None else f"> {figure.low:g}", n=f"n={figure.n}")
    interval = "" if figure.low is None else f"[{figure.low:.{digits}f}, {figure.high:.{digits}f}]"
    return TableCell(f"{figure.value:.{digits}f}", interval, f"n={figure.n:,}")


DIGITS_OF_DIGEST = 12


def calls_table(run: RunData) -> Table:
    """Calls, verdicts and costs of the checker, one row per phase."""
    headers = ["", "calls", "accepted", "rejected", "no label", "flagged", "cost", "waited, s", "digest"]
    terms = {
        "no label": "timeouts, internal errors and exhausted budgets; these solutions are not used for training.",
        "flagged": "solutions whose final verdict is wrong because of injected noise; the game uses that verdict.",
        "digest": "digest of all calls; equal runs have equal digests. The full digest is in the phase's checks.json.",
    }
    return Table(headers, [(_place(calls), _counts(calls)) for calls in run.call_summaries], terms)


def noise_table(run: RunData) -> Table:
    """Realized and configured rates of injected noise, one row per phase, tier and slice."""
    found = {
        (_place(calls), one.tier, one.slice, one.noise): one for calls in run.call_summaries for one in calls.rates
    }
    places = dict.fromkeys(key[:3] for key in found)
    rows = [(", ".join(place), [_rate(found.get((*place, noise))) for noise in NOISE_TYPES]) for place in places]
    terms = {
        "rates": (
            "timeouts per call, spurious fails per call on correct solutions, and spurious passes per call on"
            " incorrect ones; equal texts count once."
        )
    }
    return Table(["", *(noise.replace("_", " ") for noise in NOISE_TYPES)], rows, terms)


def false_positive_table(run: RunData) -> Table:
    """Share of wrong solutions accepted before and early in each prover phase, one row per round, role and checker."""
    rows = [
        (
            f"round {phase.round}, {one.role}, by the {one.checker}",
            [figure_cell(figure, 3) for figure in (one.before, one.early, one.rise)],
        )
        for phase in run.false_positives
        for one in phase.rises
    ]
    terms = {
        "before": "share of wrong solutions accepted among those written before the first step.",
        "early": "the same among those of the first steps, by default 15 % of the planned ones.",
        "by the labels, by the verifier": (
            "accepted by the labels that the reward uses, or by the verifier at its own threshold."
        ),
        "rise": (
            "early minus before; n counts problems. For the helpful role, .30 or more is reported of trainings that"
            " collapse. Acceptance by the verifier is what the sneaky role is paid for."
        ),
    }
    return Table(["", "before", "early", "rise"], rows, terms)


def escalation_table(run: RunData) -> Table:
    """Escalations, one row per phase and transition: further calls, and the share of them that accepted."""
    rows = [
        (f"{_place(calls)}, {transition}", [TableCell(f"{figure.n:,}"), figure_cell(figure, 4)])
        for calls in run.call_summaries
        for transition, figure in calls.escalations.items()
    ]
    return Table(["", "further calls", "of them, accepting"], rows)


def channel_table(run: RunData) -> Table:
    """
    End-to-end channel of the last phase that called the checker, one row per slice; computed from the settings, not
    counted.
    """
    channels = run.call_summaries[-1].channels if run.call_summaries else {}
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
        correct, incorrect = channel.correct, channel.incorrect
        rates = (incorrect.accept, correct.reject, correct.abstain, incorrect.abstain)
        calls = (correct.num_calls, incorrect.num_calls)
        rows.append(
            (name, [TableCell(f"{value:.4f}") for value in rates] + [TableCell(f"{value:.2f}") for value in calls])
        )
    terms = {
        "false accept, false reject": (
            "end-to-end rates over all calls for a solution, computed from the configured rates; corrections for "
            "label noise use them."
        )
    }
    return Table(headers, rows, terms)


def _place(calls: CallSummary) -> str:
    return calls.phase if calls.round < 0 else f"round {calls.round} {calls.phase}"


def _counts(calls: CallSummary) -> list[TableCell]:
    accepted = sum(number for code, number in calls.codes.items() if code in ACCEPTING)
    rejected = sum(number for code, number in calls.codes.items() if code not in ACCEPTING | ABSTENTIONS)
    numbers = (calls.calls, accepted, rejected, calls.abstained, calls.flagged)
    cells = [TableCell(f"{number:,}") for number in numbers]
    cells += [TableCell(f"{calls.cost:,g}"), TableCell(f"{calls.duration_ms / 1000:,.0f}")]
    return [*cells, TableCell(calls.digest[:DIGITS_OF_DIGEST])]


def _rate(one: NoiseRate | None) -> TableCell:
    if one is None:
        return TableCell(MISSING)
    cell = figure_cell(one, 4)
    return replace(cell, value=f"{cell.value} (set to {one.configured:g})")


TABLES: dict[str, Callable[[RunData], Table]] = {
    "rounds": rounds_table,
    "roc": partial(rounds_figures, keys=ROC),
    "answers": answers_table,
    "sources": sources_table,
    "roles": roles_table,
    "written": partial(rounds_figures, keys=WRITTEN),
    "confusion": confusion_table,
    "pairs": pairs_table,
    "new_texts": new_texts_table,
    "cut": partial(scoring_counts_table, name="num_cut"),
    "unreadable": partial(scoring_counts_table, name="num_unreadable"),
    "calls": calls_table,
    "noise": noise_table,
    "escalations": escalation_table,
    "channel": channel_table,
    "false_positives": false_positive_table,
    "diversity": diversity_table,
    "difficulty": difficulty_table,
    "times": times_table,
    "rates": rates_table,
}
"""Tables of the page, by their names in the template."""
