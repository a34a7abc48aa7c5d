"""Builds pairs of solutions to one problem: one labelled correct and one incorrect, or with any labels."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, Features, Value

from pvg_hf.config import Recipe
from pvg_hf.config.fields import check_option
from pvg_hf.config.sections import CorrectSource, DataConfig, PairChoice
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.mixture import check_mixture_weights, weights_for
from pvg_hf.data.pairs.choose import (
    ROLES,
    SIDES,
    Candidates,
    Matches,
    SelectedSolutions,
    choose_solutions,
    count_by_source,
    match_all,
    match_solutions,
    read_candidates,
)
from pvg_hf.data.pairs.spill import spill_dataset
from pvg_hf.data.pool import PathLike, iterate_pool
from pvg_hf.data.schema import environment_name
from pvg_hf.data.split import PARTS


@dataclass
class PairReport:
    """
    Counts from building pairs.

    Args:
        dropped: Solutions that are no candidates, by the first reason that applies: `outside_mixture` (from a round of
            weight 0), `failed`, `abstained` (no label), `same_as_reference`, `duplicate_text`.
        failed: Solutions dropped as `failed`, by outcome code.
        correct, incorrect: Distinct solutions in pairs, by source (`base`, `round-000`, ..., `reference`) and label.
        unused: Candidates that are in no pair, as `<reason>/<source>/correct` and `<reason>/<source>/incorrect`, by
            the first reason that applies: `no_partner` (the problem has no pair), `replaced_by_reference` (the
            reference is the correct side of all pairs of the problem), `not_chosen` (the problem has more candidates
            than slots). Together with `dropped`, `correct` and `incorrect` (without references), they sum to
            `num_solutions`.
        short: Slots that a source could not fill, as `<source>/too_few_correct` and `<source>/too_few_incorrect`, or
            `<source>/too_few_solutions` if solutions are chosen regardless of their labels.
        refilled: Number of such slots that each source filled in place of another one.
        without_pair: Problems of the pool without a pair: `no_correct`, `no_incorrect`, neither (`no_solution`), or
            solutions of a single text with both labels (`one_text`); for pairs of any labels, `one_text` or
            `no_solution`.
    """

    num_pairs: int
    num_problems: int
    num_solutions: int
    dropped: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    correct: dict[str, int] = field(default_factory=dict)
    incorrect: dict[str, int] = field(default_factory=dict)
    unused: dict[str, int] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    refilled: dict[str, int] = field(default_factory=dict)
    unfilled: int = 0
    without_pair: dict[str, int] = field(default_factory=dict)

    def as_metrics(self, prefix: str = "pairs") -> dict[str, int]:
        """Flatten the counts, e.g. to `pairs/num_pairs` and `pairs/failed/NO_ANSWER`, for a `prefix` of `pairs`."""
        metrics: dict[str, int] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                metrics.update({f"{prefix}/{name}/{key}": count for key, count in sorted(value.items())})
            else:
                metrics[f"{prefix}/{name}"] = value
        return metrics

    def explain_failure(self) -> str:
        """Explain in a few sentences why there are no pairs, or too few, and what to change."""
        if not self.num_solutions:
            return "No pair could be built: there is no solution to any of the problems."
        num_problems = self.num_problems + sum(self.without_pair.values())
        causes = [f"{self.num_problems} have a pair"] if self.num_problems else []
        causes += [text.format(count) for key, text in _CAUSES.items() if (count := self.without_pair.get(key))]
        dropped = [text.format(count) for key, text in _DROPPED.items() if (count := self.dropped.get(key))]
        outcomes = ", ".join(f"{name} {count}" for name, count in sorted(self.failed.items()))
        failed = f" ({outcomes})" if self.dropped.get("failed") else ""
        number = f"Only {self.num_pairs} pairs" if self.num_pairs else "No pair"
        return (
            f"{number} of a correct and an incorrect solution could be built. Of {num_problems} problems"
            f" {', '.join(causes)}; of {self.num_solutions} solutions"
            f" {', '.join(dropped) or 'all could be used'}{failed}. {self._describe_places()}{self._remedy()}"
        )

    def _describe_places(self) -> str:
        """Describe the slots that stayed empty, by what their sources lacked."""
        if not self.unfilled:
            return ""
        lacked: Counter[str] = Counter()
        for key, count in self.short.items():
            lacked[key.rpartition("/too_few_")[2]] += count
        kinds = ", ".join(f"{count} for want of {kind} ones" for kind, count in sorted(lacked.items()))
        refilled = sum(self.refilled.values())
        others = f"; other sources filled {refilled} of them" if refilled else ""
        return f"{self.unfilled} places for solutions stay empty ({kinds}{others}). "

    def _remedy(self) -> str:
        """Advise what to change in a recipe, by the most frequent cause."""
        num_failed = self.dropped.get("failed", 0)
        most = self.num_solutions / 2
        if num_failed > most and self.failed.get("TRUNCATED", 0) > num_failed / 2:
            return (
                "Most were truncated: raise `prover.max_completion_length`, or train the prover to stop"
                " (`prover.warmup`)."
            )
        if num_failed > most and self.failed.get("NO_ANSWER", 0) > num_failed / 2:
            return (
                "Most have no answer: have the last number read (`task.answer_format: lenient`), show the prover"
                " solved examples (`task.few_shot`), or train it to keep the format (`prover.warmup`)."
            )
        if self.dropped.get("abstained", 0) > most:
            return "Most have no label: raise the budget of `noise.checker`, or use another checker."
        if self.dropped.get("outside_mixture", 0) > most:
            return "Most are from rounds of weight 0: change `data.mixture`."
        if self.without_pair.get("no_incorrect", 0) > self.without_pair.get("no_correct", 0):
            return (
                "The prover makes too few mistakes: use harder problems (`task`), or more solutions of each "
                "(`bootstrap.solutions_per_problem`, `mint.solutions_per_problem`)."
            )
        return (
            "Train the base prover longer (`prover.warmup`), show it solved examples (`task.few_shot`), let it write"
            " more solutions (`bootstrap.solutions_per_problem`), or use references as correct sides"
            " (`data.correct_source: both`)."
        )


class TooFewPairsError(ValueError):
    """Error if no pair can be built, or fewer than a verifier needs."""

    def __init__(self, report: PairReport, note: str = ""):
        super().__init__(report.explain_failure() + note)
        self.report = report


_CAUSES = {
    "no_correct": "{} have no correct solution",
    "no_incorrect": "{} have no incorrect solution",
    "one_text": "{} have solutions of a single text",
    "no_solution": "{} have no solution that could be used",
}

_DROPPED = {
    "failed": "{} failed",
    "abstained": "{} have no label",
    "outside_mixture": "{} are from rounds of weight 0",
    "same_as_reference": "{} equal the reference",
    "duplicate_text": "{} repeat a text of their round",
}


class RowTexts:
    """
    Texts of selected rows, kept in temporary files (in `TMPDIR`) that are deleted with the object.

    Any text can be read in any order, while memory does not grow with the texts.

    Args:
        rows: The rows wanted for each text column, as positions in the stream of the files; they must not be null
            there. Repeated rows are stored once, and a column without wanted rows is not read.
    """

    def __init__(self, pool_paths: PathLike | Sequence[PathLike], rows: Mapping[str, np.ndarray]):
        self.columns = {name: _ColumnTexts(wanted) for name, wanted in rows.items()}
        read = {name: column for name, column in self.columns.items() if len(column.rows)}
        first = 0
        for batch in iterate_pool(pool_paths, list(read)):
            for name, column in read.items():
                column.add(batch[name], first)
            first += len(batch)

    def take(self, name: str, rows: np.ndarray) -> list[str]:
        """Return the texts of `rows` in the column `name`; they must be among those wanted at the start."""
        return self.columns[name].take(rows)


class _ColumnTexts:
    """The texts of one column, concatenated in a file, and their offsets."""

    def __init__(self, rows: np.ndarray):
        self.rows = np.unique(rows)
        self.offsets = np.zeros(len(self.rows) + 1, dtype=np.int64)
        # Unbuffered, so that everything written can be read at once.
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed with the object)

    def add(self, texts: pa.Array, first: int) -> None:
        """Store the wanted texts of a batch that starts at row `first`; batches arrive in order."""
        start, end = np.searchsorted(self.rows, (first, first + len(texts)))
        texts = texts.take(pa.array(self.rows[start:end] - first))
        self.file.write("".join(texts.to_pylist()).encode())
        self.offsets[start + 1 : end + 1] = self.offsets[start] + np.cumsum(pc.binary_length(texts).to_numpy())

    def take(self, rows: np.ndarray) -> list[str]:
        index = np.searchsorted(self.rows, rows)
        return [self._read(*span) for span in zip(self.offsets[index].tolist(), self.offsets[index + 1].tolist())]

    def _read(self, start: int, end: int) -> str:
        self.file.seek(start, os.SEEK_SET)
        return self.file.read(end - start).decode()


_DEFAULTS = DataConfig()

REFERENCE = "reference"
"""Role of a chosen text that is the problem's reference, and the name of its source."""

PAIR_FEATURES = Features(
    {
        "problem_id": Value("string"),
        "problem": Value("string"),
        "chosen": Value("string"),
        "rejected": Value("string"),
        "chosen_role": Value("string"),
        "rejected_role": Value("string"),
        "chosen_round": Value("int32"),
        "rejected_round": Value("int32"),
        "environment": Value("string"),
        "source": Value("string"),
        "chosen_correct": Value("bool"),
        "rejected_correct": Value("bool"),
    }
)

LABELLED_PAIR_FEATURES = Features({**PAIR_FEATURES, "chosen_label": Value("int8"), "rejected_label": Value("int8")})
"""Columns of pairs with any labels."""

PAIRS_PER_BATCH = 8192

ROLE_NAMES = np.array([role.value for role in ROLES], dtype=object)


def build_pairs(
    pool_paths: PathLike | Sequence[PathLike],
    *,
    seed: int,
    round_index: int,
    weights: Mapping[int, float],
    solutions_per_problem: int,
    correct_source: CorrectSource = _DEFAULTS.correct_source,
    pairs: PairChoice = _DEFAULTS.pairs,
    pair_share: float = _DEFAULTS.pair_share,
    parts: Sequence[str] = ("verifier",),
) -> tuple[Dataset, PairReport]:
    """
    Build the pairs that the verifier of a round is trained on.

    The pool is streamed twice, first without the texts and then for the texts of the pairs, so that memory grows only
    with the pairs. The result depends neither on the order of the files nor on that of their rows.

    Args:
        pool_paths (`str`, `PathLike` or a sequence of them):
            Pool files of all rounds with a weight above 0.
        weights (`Mapping[int, float]`):
            Weight of each source (see [`~pvg_hf.data.mixture.mixture_weights`]).
        solutions_per_problem (`int`):
            Slots per problem, half of them for solutions labelled correct; at least 2. A problem gives half as many
            pairs, or as many as its chosen solutions can form. All solutions are used equally often (up to one).
        correct_source (`str`, defaults to `"prover"`):
            Source of the correct sides: `"prover"` (the pool), `"dataset"` (always the problem's reference) or
            `"both"` (the reference takes one of the correct slots).
        pairs (`str`, defaults to `"labelled"`):
            `"labelled"`: pairs of a solution labelled correct and one labelled incorrect. `"all"`: all n (n - 1) / 2
            unordered pairs of `solutions_per_problem` solutions that are chosen regardless of their labels, including
            ties. A correction for label noise is only unbiased on these. Requires `correct_source="prover"`.
        pair_share (`float`, defaults to 1.0):
            For `"all"`: the probability that a pair is kept, in (0, 1].
        parts (`Sequence[str]`, defaults to `("verifier",)`):
            Parts of the split with the problems to use.

    Returns:
        `tuple[Dataset, PairReport]`: shuffled pairs with the columns `PAIR_FEATURES` (`LABELLED_PAIR_FEATURES` for
        `"all"`), and the counts. Roles and rounds are those of the writer. `environment` and `source` are those of the
        incorrect solution. `chosen_correct` and `rejected_correct` are the truth, for evaluation only. A reference has
        the role `reference` and no round. In a pair with equal labels, the later solution (by round, role and sample)
        is the rejected one.

    Raises:
        TooFewPairsError: if no pair can be built; the message says why and what to change.
        ValueError: for a setting outside its range.
    """
    _check_settings(weights, solutions_per_problem, correct_source, parts)
    check_pair_choice(pairs, pair_share, correct_source)
    has_reference = correct_source != "prover"
    candidates = read_candidates(
        pool_paths,
        parts=parts,
        rounds=[source for source, weight in weights.items() if weight > 0],
        skip_references=has_reference,
    )
    choice = choose_solutions(
        candidates,
        weights,
        solutions_per_problem=solutions_per_problem,
        seed=seed,
        round_index=round_index,
        num_references={"prover": 0, "both": 1, "dataset": solutions_per_problem}[correct_source],
        by_label=pairs == "labelled",
    )
    if pairs == "all":
        matches = match_all(candidates, choice.chosen, share=pair_share, seed=seed, round_index=round_index)
    else:
        matches = match_solutions(candidates, choice.chosen, solutions_per_problem // 2, has_reference=has_reference)
    report = _report(candidates, choice, matches)
    if report.num_pairs == 0:
        raise TooFewPairsError(report)
    order = derive_rng(seed, round_name(round_index), "pairs", "shuffle").permutation(report.num_pairs)
    # Labels are implied in `labelled` pairs, so only `all` stores them.
    schema = (LABELLED_PAIR_FEATURES if pairs == "all" else PAIR_FEATURES).arrow_schema
    return spill_dataset(_pair_batches(pool_paths, candidates, matches.reordered(order), schema), schema), report


def add_labels(pairs: Dataset) -> Dataset:
    """Add the labels of both sides to pairs, even if they are implied."""
    for name, label in (("chosen_label", 1), ("rejected_label", 0)):
        if name not in pairs.column_names:
            pairs = pairs.add_column(name, [label] * len(pairs), feature=LABELLED_PAIR_FEATURES[name])
    return pairs


def _pair_batches(
    pool_paths: PathLike | Sequence[PathLike], candidates: Candidates, matches: Matches, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of `schema` for the pairs, in the order of `matches`."""
    rows, is_reference = candidates.rows["row"], matches.correct < 0
    used = np.concatenate([matches.correct[~is_reference], matches.incorrect])
    # Each row of the pool repeats its problem's texts, so one row per problem is enough.
    _, first_pair = np.unique(matches.problem, return_index=True)
    a_row = np.zeros(len(candidates.problem_ids), dtype=np.int64)
    a_row[matches.problem[first_pair]] = rows[matches.incorrect[first_pair]]
    wanted = {
        "solution": rows[used],
        "problem": a_row[matches.problem],
        "reference": a_row[matches.problem[is_reference]],
    }
    # Second pass over the pool, for the texts.
    texts = RowTexts(pool_paths, wanted)
    problem_ids = np.array(candidates.problem_ids, dtype=object)

    for start in range(0, len(matches.problem), PAIRS_PER_BATCH):
        part = slice(start, start + PAIRS_PER_BATCH)
        problem, by_reference = matches.problem[part], is_reference[part]
        correct, incorrect = candidates.rows[matches.correct[part]], candidates.rows[matches.incorrect[part]]
        chosen = np.empty(len(problem), dtype=object)
        chosen[~by_reference] = texts.take("solution", correct["row"][~by_reference])
        chosen[by_reference] = texts.take("reference", a_row[problem[by_reference]])
        columns = {
            "problem_id": problem_ids[problem],
            "problem": texts.take("problem", a_row[problem]),
            "chosen": chosen,
            "rejected": texts.take("solution", incorrect["row"]),
            "chosen_role": np.where(by_reference, REFERENCE, ROLE_NAMES[correct["role"]]),
            "rejected_role": ROLE_NAMES[incorrect["role"]],
            "chosen_round": pa.array(correct["round_index"], mask=by_reference),
            "rejected_round": incorrect["round_index"],
            "environment": [environment_name(k, ROLES[i]) for k, i in incorrect[["round_index", "role"]].tolist()],
            "source": [round_name(k) for k in incorrect["round_index"].tolist()],
            "chosen_correct": correct["correct"] | by_reference,
            "rejected_correct": incorrect["correct"],
            "chosen_label": np.where(by_reference, 1, correct["label"]),
            "rejected_label": incorrect["label"],
        }
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)


def _report(candidates: Candidates, choice: SelectedSolutions, matches: Matches) -> PairReport:
    references = np.unique(matches.problem[matches.correct < 0])
    used = candidates.rows[np.unique(np.concatenate([matches.correct[matches.correct >= 0], matches.incorrect]))]
    incorrect, correct = (count_by_source(used["round_index"][used["label"] == label]) for label in (0, 1))
    return PairReport(
        num_pairs=len(matches.problem),
        num_problems=len(np.unique(matches.problem)),
        num_solutions=candidates.num_solutions,
        dropped=dict(candidates.dropped),
        failed=dict(candidates.failed),
        correct={**correct, REFERENCE: len(references)} if len(references) else dict(correct),
        incorrect=dict(incorrect),
        unused=_count_unused(candidates.rows, matches),
        short=dict(choice.short),
        refilled=dict(choice.refilled),
        unfilled=choice.unfilled,
        without_pair=matches.without_pair,
    )


def _count_unused(rows: np.ndarray, matches: Matches) -> dict[str, int]:
    """Count the candidates that are in no pair, by reason, source and label."""
    own = matches.correct >= 0  # pairs with a correct side from the pool rather than a reference
    is_unused = np.ones(len(rows), dtype=bool)
    is_unused[matches.correct[own]] = False
    is_unused[matches.incorrect] = False
    has_pair = np.isin(rows["problem"], matches.problem)
    has_own = np.isin(rows["problem"], matches.problem[own])
    reasons = {
        "no_partner": ~has_pair,
        "replaced_by_reference": has_pair & ~has_own & (rows["label"] == 1),
        "not_chosen": has_pair & (has_own | (rows["label"] == 0)),
    }
    counts = {}
    for (reason, applies), (label, side) in product(reasons.items(), enumerate(SIDES)):
        rounds = rows["round_index"][is_unused & applies & (rows["label"] == label)]
        counts.update({f"{reason}/{source}/{side}": count for source, count in count_by_source(rounds).items()})
    return counts


def _check_settings(
    weights: Mapping[int, float], solutions_per_problem: int, correct_source: str, parts: Sequence[str]
) -> None:
    check_mixture_weights(weights)
    # A recipe demands an even number; with an odd one, a draw gives each problem's last slot to either label.
    if solutions_per_problem < 2:
        raise ValueError(
            f"`solutions_per_problem` must be at least 2, one of each label; got {solutions_per_problem}."
        )
    check_option(DataConfig, "correct_source", correct_source)
    if isinstance(parts, str) or not parts or not set(parts) <= set(PARTS):
        raise ValueError(f"`parts` must be a sequence of some of {list(PARTS)}; got {parts!r}.")


def check_pair_choice(pairs: str, pair_share: float, correct_source: str) -> None:
    """Raise `ValueError` for settings of [`build_pairs`] that are outside their range or contradict each other."""
    check_option(DataConfig, "pairs", pairs)
    check_option(DataConfig, "pair_share", pair_share)
    if pairs == "all" and correct_source != "prover":
        raise ValueError(
            f"`correct_source` is `{correct_source}`, but `pairs` is `all`, which pairs solutions of provers: a"
            " reference has no noisy label. Use `prover`."
        )
    if pairs == "labelled" and pair_share < 1:
        raise ValueError(
            f"`pair_share` is {pair_share}, which only applies if `pairs` is `all`; lower `solutions_per_problem`"
            " instead."
        )


def round_pairs(recipe: Recipe, files: Sequence[Path], round_index: int, part: str) -> tuple[Dataset, PairReport]:
    """
    Build the pairs for training or evaluating the verifier of a round.

    Pairs for evaluation always consist of a correct and an incorrect solution, whatever the recipe trains on.

    Raises `ValueError` if no pair can be built.
    """
    data = recipe.data
    choice: dict[str, Any] = {"pairs": data.pairs, "pair_share": data.pair_share} if part == "verifier" else {}
    return build_pairs(
        files,
        seed=recipe.seed,
        round_index=round_index,
        weights=weights_for(data, round_index),
        solutions_per_problem=data.solutions_per_problem,
        correct_source=data.correct_source,
        parts=(part,),
        **choice,
    )
