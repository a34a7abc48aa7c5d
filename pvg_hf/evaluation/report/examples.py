"""Solutions worth reading: a sneaky incorrect one beside a helpful correct one of the same problem."""

from dataclasses import dataclass

import pandas as pd

from pvg_hf.core.roles import Role
from pvg_hf.evaluation.report.escaping import Line
from pvg_hf.evaluation.roles import judged
from pvg_hf.run.read import RoundData

NUM_EARLIER_EXAMPLES = 2
CONVINCING_SHARE = 2 / 3
CONVINCING = "Among the most convincing mistakes"
SEEN = "Among the mistakes rejected most clearly"


@dataclass(frozen=True)
class ExampleSolution:
    """
    A solution as shown.

    Args:
        title (`str`):
            Role and correctness.
        lines (`list[Line]`):
            Its text.
        answer (`str`):
            Its final answer.
        score (`float`):
            By the verifier of its round.
        percentile (`float`):
            Share in [0, 100] of the round's test solutions that score below it.
        is_accepted (`bool`, *optional*):
            Whether the score is above the threshold; `None` before the round is evaluated.
    """

    title: str
    lines: list[Line]
    answer: str
    score: float
    percentile: float
    is_accepted: bool | None


@dataclass(frozen=True)
class Example:
    """
    A problem with two solutions.

    Args:
        heading (`str`):
            Why it is shown.
        problem (`str`), reference (`str`):
            The problem and its reference solution or answer.
        helpful (`ExampleSolution`, *optional*):
            The highest-scoring helpful correct solution; `None` where there is none.
        sneaky (`ExampleSolution`):
            The highest-scoring sneaky incorrect solution.
    """

    heading: str
    problem: str
    reference: str
    helpful: ExampleSolution | None
    sneaky: ExampleSolution


def choose_examples(data: RoundData, num_examples: int) -> list[Example]:
    """
    Two thirds are the problems with the most convincing sneaky mistakes, the rest those where the verifier told the two
    solutions apart most clearly, the correct one ahead. Problems with a helpful correct solution come first.

    Args:
        data ([`~pvg_hf.run.read.RoundData`]):
            A round.
        num_examples (`int`):
            At most; fewer where the round has fewer problems with a sneaky mistake, or told fewer apart.
    """
    if data.solutions is None:
        return []
    rows, threshold = judged(data.solutions), data.figure("threshold").value
    sneaky = _best_per_problem(rows, Role.SNEAKY, is_correct=False)
    helpful = _best_per_problem(rows, Role.HELPFUL, is_correct=True)
    return [
        Example(
            heading=heading,
            problem=sneaky.loc[problem_id, "problem"],
            reference=sneaky.loc[problem_id, "reference"],
            helpful=_show(helpful.loc[problem_id], rows["score"], threshold) if problem_id in helpful.index else None,
            sneaky=_show(sneaky.loc[problem_id], rows["score"], threshold),
        )
        for problem_id, heading in _headings(helpful["score"], sneaky["score"], num_examples).items()
    ]


def _headings(helpful: pd.Series, sneaky: pd.Series, num_examples: int) -> dict[str, str]:
    """Which problems are shown, and why, by the best scores of each problem (indexed by problem id)."""
    is_alone = ~sneaky.index.isin(helpful.index)
    ranked = sneaky.to_frame().assign(is_alone=is_alone).sort_values(["is_alone", "score"], ascending=[True, False])
    convincing = list(ranked.index[: round(num_examples * CONVINCING_SHARE)])
    gaps = (helpful - sneaky).dropna().drop(convincing, errors="ignore").sort_values(ascending=False)
    seen = list(gaps.index[gaps > 0][: num_examples - len(convincing)])
    return {**dict.fromkeys(convincing, CONVINCING), **dict.fromkeys(seen, SEEN)}


def _best_per_problem(rows: pd.DataFrame, role: Role, *, is_correct: bool) -> pd.DataFrame:
    """The highest-scoring solution of each problem (the earliest of equals), by problem id."""
    chosen = rows[(rows["role"] == role.value) & (rows["correct"].astype(bool) == is_correct)]
    ranked = chosen.sort_values("score", ascending=False, kind="stable")
    return ranked.drop_duplicates("problem_id").set_index("problem_id")


def _show(row: pd.Series, scores: pd.Series, threshold: float | None) -> ExampleSolution:
    return ExampleSolution(
        title=f"{row['role']}, {'correct' if row['correct'] else 'incorrect'}",
        lines=mark_flaw(row["solution"], row.get("first_flaw_step"), row.get("first_flaw_kind")),
        answer=row["answer"],
        score=float(row["score"]),
        percentile=100 * float((scores < row["score"]).mean()),
        is_accepted=None if threshold is None else bool(row["score"] > threshold),
    )


def mark_flaw(solution: str, step: float | None, kind: str | None) -> list[Line]:
    """
    The lines of a solution, with the first flaw on its line.

    Args:
        solution (`str`):
            The text; blank lines around it are no steps.
        step (`float`, *optional*):
            The flaw's line, from 0; null where none is known.
        kind (`str`, *optional*):
            What is wrong there.
    """
    lines = [Line(text) for text in solution.strip().split("\n")]
    if not pd.isna(step) and int(step) < len(lines):
        lines[int(step)] = Line(lines[int(step)].text, f"first flaw: {str(kind).replace('_', ' ')}")
    return lines
