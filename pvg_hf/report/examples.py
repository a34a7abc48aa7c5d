"""
Selects examples for the report: sneaky mistakes beside helpful correct solutions, and evaluations that verifiers
wrote.
"""

import json
from dataclasses import dataclass

import pandas as pd

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.solution_kinds import ShownText, show_text_of
from pvg_hf.evaluation.verifiers_by_pools import pool_acceptance
from pvg_hf.report.escaping import Line
from pvg_hf.run.read import RoundData, RunData

NUM_EARLIER_EXAMPLES = 2
NUM_EVALUATIONS = 6
CONVINCING_SHARE = 2 / 3
CONVINCING = "Among the most convincing mistakes"
SEEN = "Among the mistakes rejected most clearly"


@dataclass(frozen=True)
class ExampleSolution:
    """
    A solution as the report shows it.

    `title` has its role and correctness. `percentile` is the percentage of the round's test solutions that score
    lower. `is_accepted` follows [`~pvg_hf.evaluation.verifiers_by_pools.pool_acceptance`]; `None` without a helpful
    correct solution. `special` is how a solution of a registered kind, such as a program, is shown instead.
    """

    title: str
    lines: list[Line]
    answer: str
    score: float
    percentile: float
    is_accepted: bool | None
    special: ShownText | None = None


@dataclass(frozen=True)
class Example:
    """
    A problem with its highest-scoring helpful correct (if any) and sneaky incorrect solution; `heading` says why.
    """

    heading: str
    problem: str
    reference: str
    helpful: ExampleSolution | None
    sneaky: ExampleSolution


def choose_examples(data: RoundData, num_examples: int) -> list[Example]:
    """
    Choose at most `num_examples` problems of a round.

    Two thirds have the most convincing sneaky mistakes. The rest are those where the verifier ranks the correct
    solution above the sneaky mistake by the largest margin. Problems with a helpful correct solution come first. There
    are fewer if the round has too few problems with a sneaky mistake or with a positive margin.
    """
    if data.solutions is None:
        return []
    rows = scored_rows(data.solutions)
    acceptance = pool_acceptance(rows)
    sneaky = _best_per_problem(rows, Role.SNEAKY, is_correct=False)
    helpful = _best_per_problem(rows, Role.HELPFUL, is_correct=True)
    return [
        Example(
            heading=heading,
            problem=sneaky.loc[problem_id, "problem"],
            reference=sneaky.loc[problem_id, "reference"],
            helpful=_show(helpful.loc[problem_id], rows, acceptance) if problem_id in helpful.index else None,
            sneaky=_show(sneaky.loc[problem_id], rows, acceptance),
        )
        for problem_id, heading in _headings(helpful["score"], sneaky["score"], num_examples).items()
    ]


def _headings(helpful: pd.Series, sneaky: pd.Series, num_examples: int) -> dict[str, str]:
    """Heading of each chosen problem, given the best score per problem id of either role."""
    is_alone = ~sneaky.index.isin(helpful.index)
    ranked = sneaky.to_frame().assign(is_alone=is_alone).sort_values(["is_alone", "score"], ascending=[True, False])
    convincing = list(ranked.index[: round(num_examples * CONVINCING_SHARE)])
    # A problem without a helpful correct solution has no gap (NaN) and cannot be chosen for it.
    gaps = (helpful - sneaky).dropna().drop(convincing, errors="ignore").sort_values(ascending=False)
    seen = list(gaps.index[gaps > 0][: num_examples - len(convincing)])
    return {**dict.fromkeys(convincing, CONVINCING), **dict.fromkeys(seen, SEEN)}


def _best_per_problem(rows: pd.DataFrame, role: Role, *, is_correct: bool) -> pd.DataFrame:
    """Highest-scoring solution of each problem, indexed by problem id; ties go to the earliest."""
    chosen = rows[(rows["role"] == role.value) & (rows["correct"].astype(bool) == is_correct)]
    ranked = chosen.sort_values("score", ascending=False, kind="stable")
    return ranked.drop_duplicates("problem_id").set_index("problem_id")


def _show(row: pd.Series, rows: pd.DataFrame, acceptance: Acceptance | None) -> ExampleSolution:
    """Prepare a solution, indexed by its columns and named by its problem, among all scored ones."""
    scores, of_problem = rows["score"], rows[rows["problem_id"] == row.name]
    is_honest = (of_problem["role"] == Role.HELPFUL.value) & of_problem["correct"].astype(bool)
    return ExampleSolution(
        title=f"{row['role']}, {'correct' if row['correct'] else 'incorrect'}",
        lines=mark_flaw(row["solution"], row.get("first_flaw_step"), row.get("first_flaw_kind")),
        answer=row["answer"],
        score=float(row["score"]),
        percentile=100 * float((scores < row["score"]).mean()),
        is_accepted=None if acceptance is None else bool(acceptance.accepts(row["score"])),
        special=show_text_of(row, of_problem.loc[is_honest, "answer"]),
    )


def mark_flaw(solution: str, step: float | None, kind: str | None) -> list[Line]:
    """
    Split a solution into lines and annotate the line of its first flaw.

    Leading and trailing blank lines do not count as steps. `step` is the index of the flawed line, from 0, null if no
    flaw is known; `kind` is e.g. `wrong_operation`.
    """
    lines = [Line(text) for text in solution.strip().split("\n")]
    if step is not None and not pd.isna(step) and int(step) < len(lines):
        lines[int(step)] = Line(lines[int(step)].text, f"first flaw: {str(kind).replace('_', ' ')}")
    return lines


@dataclass(frozen=True)
class ShownEvaluation:
    """A written evaluation of a proof; lines that name an issue are noted `true` or `hallucinated`, if known."""

    problem: str
    role: str
    proof: str
    reference: float
    predicted: float | None
    lines: list[Line]


def sample_evaluations(run: RunData) -> list[ShownEvaluation]:
    """
    Select up to `NUM_EVALUATIONS` evaluations of the last round, from every true score in turn, hallucinated issues
    first.
    """
    tables = [data.evaluations for data in run.evaluated if data.evaluations is not None and len(data.evaluations)]
    if not tables:
        return []
    rows = tables[-1]
    order = sorted(range(len(rows)), key=lambda place: not has_hallucination(rows["issues"].iloc[place]))
    by_score = [[place for place in order if rows["reference"].iloc[place] == score] for score in ALLOWED_SCORES]
    # Round-robin over the true scores: the first evaluation of each score, then the second of each, and so on.
    chosen = [place for turn in range(NUM_EVALUATIONS) for places in by_score for place in places[turn : turn + 1]]
    return [show_evaluation(rows.iloc[place]) for place in chosen[:NUM_EVALUATIONS]]


def has_hallucination(issues: str) -> bool:
    """Whether an evaluation names an issue that the proof does not have, according to its column `issues`."""
    return any(is_real is False for _, is_real in json.loads(issues))


def show_evaluation(row: pd.Series) -> ShownEvaluation:
    """Convert a row of `evaluations.parquet`, with a mark on each issue that it names."""
    known = {_tidy(issue): is_real for issue, is_real in json.loads(row["issues"])}
    marks = {True: "true", False: "hallucinated", None: None}
    lines = row["evaluation"].split("\n")
    found = [marks[known.get(_tidy(line))] for line in lines]
    return ShownEvaluation(
        problem=row["problem"],
        role=row["role"],
        proof=row["solution"],
        reference=row["reference"],
        predicted=None if pd.isna(row["predicted"]) else row["predicted"],
        lines=[Line(line, mark, is_soft=mark == "true") for line, mark in zip(lines, found)],
    )


def _tidy(text: str) -> str:
    return " ".join(text.split())
