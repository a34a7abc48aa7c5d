"""Solutions that somebody else wrote, as rows of the pool: matched to the verifier's problems and graded anew."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from datasets import Dataset

from pvg_hf.data.import_sources import read_rows, text_of
from pvg_hf.data.schema import BASE_ROUND, final_grade, make_solution
from pvg_hf.data.split import VERIFIER_PARTS, normalized_text
from pvg_hf.roles import Role
from pvg_hf.suggestions import suggest
from pvg_hf.tasks.base import Task, grade_solution

logger = logging.getLogger(__name__)

IMPORT_COLUMNS = ("problem_id", "problem", "solution", "is_truncated", "label", "prover")
DEFAULT_COLUMNS = {name: name for name in ("problem_id", "problem", "solution", "is_truncated")}


def import_solutions(
    source: str,
    task: Task,
    problems: Mapping[str, Dataset],
    *,
    columns: Mapping[str, str] | None = None,
    config: str | None = None,
    split: str | None = None,
    revision: str | None = None,
) -> Iterator[dict[str, Any]]:
    """
    Read solutions from a file or a dataset and build a row of the pool for each that solves a problem of the verifier.

    Correctness and outcome come from the task's grade, whatever the source says. Rows that match no problem of the
    parts `verifier` and `verifier_heldout` are counted, logged and left out.

    Args:
        source (`str`):
            A `.jsonl` or `.parquet` file, or else the id of a dataset on the Hub or a folder, which is streamed.
        task ([`~pvg_hf.tasks.base.Task`]):
            Grades the solutions.
        problems (`Mapping[str, Dataset]`):
            The split (see [`~pvg_hf.data.split.split_problems`]).
        columns (`Mapping[str, str]`, *optional*):
            Names of the source's columns by ours, e.g. `{"solution": "response", "problem": "question"}`. `problem_id` or
            `problem` identifies the problem, by its id or by its text up to white space, and `solution` is the text.
            `is_truncated` (true or false) says that a text was cut at a length limit, so that its answer does not
            count; texts without it count as whole. These four are read under their own names unless mapped. `label`
            (0, 1 or null) is read only if mapped, and is then shown to the verifier in place of the grade. `prover`
            (who wrote the text) is read only if mapped, and is otherwise `source`.
        config (`str`, *optional*):
            Configuration of a folder or dataset that has several.
        split (`str`, *optional*):
            Split of a folder or dataset; `train` if left out.
        revision (`str`, *optional*):
            Branch, tag or commit of a dataset on the Hub; its latest state if left out.

    Yields:
        `dict[str, Any]`: rows of the role `base` with `round_index` -1, in the order of the source. The text's length in
        tokens is not known (null).

    Raises:
        ValueError: if the source cannot be read, or has no such config, split or revision; if a row is broken (the message
            says where it stands); or if no row at all matches a problem of the verifier.
    """
    names = {**DEFAULT_COLUMNS, **_checked_columns(columns or {})}
    finder = _ProblemFinder(problems)
    num_rows, sample_indices = 0, Counter()
    for place, row in read_rows(source, config=config, split=split, revision=revision):
        num_rows += 1
        found = finder.find(place, row, names)
        if found is None:
            continue
        part, problem = found
        solution = text_of(place, row, names["solution"])
        is_truncated = _is_truncated(place, row, names["is_truncated"], is_required="is_truncated" in (columns or {}))
        grade = final_grade(grade_solution(task, problem, solution), is_truncated)
        yield make_solution(
            task=task,
            problem=problem,
            part=part,
            role=Role.BASE,
            round_index=BASE_ROUND,
            prover=text_of(place, row, names["prover"]) if "prover" in names else source,
            solution=solution,
            grade=grade,
            label=_label(place, row, names["label"]) if "label" in names else int(grade.correct),
            sample_index=sample_indices[problem["problem_id"]],
            num_tokens=None,
            is_truncated=is_truncated,
        )
        sample_indices[problem["problem_id"]] += 1
    _report(source, num_rows, sample_indices.total())


class _ProblemFinder:
    """The verifier's problems, by id and by text."""

    def __init__(self, problems: Mapping[str, Dataset]):
        self.problems = problems
        self.by_id: dict[str, tuple[str, int]] = {}
        self.by_text: dict[str, tuple[str, int]] = {}
        for part in VERIFIER_PARTS:
            for index, problem_id in enumerate(problems[part]["problem_id"]):
                self.by_id[problem_id] = (part, index)
            for index, text in enumerate(problems[part]["problem"]):
                self.by_text.setdefault(normalized_text(text), (part, index))

    def find(
        self, place: str, row: Mapping[str, Any], names: Mapping[str, str]
    ) -> tuple[str, Mapping[str, Any]] | None:
        """The part and the problem that a row is about; `None` if it is none of the verifier's."""
        has_id, has_text = names["problem_id"] in row, names["problem"] in row
        if not has_id and not has_text:
            raise ValueError(
                f"{place}: neither `{names['problem_id']}` nor `{names['problem']}` tells the problem; the row has "
                f"{list(row)}. Name the source's columns in "
                "`import_columns` (in Python `columns`), e.g. `{problem: question, solution: response}`."
            )
        text = normalized_text(text_of(place, row, names["problem"])) if has_text else None
        by_id = self.by_id.get(str(row[names["problem_id"]])) if has_id else None
        found = by_id or self.by_text.get(text)
        if found is None:
            return None
        part, index = found
        problem = self.problems[part][index]
        if text not in (None, normalized_text(problem["problem"])):
            raise ValueError(
                f"{place}: the id `{problem['problem_id']}` is one of the verifier's problems, but the text is not "
                f"that problem's: {text[:80]!r}. Map only the column that tells the problem, and drop the other."
            )
        return part, problem


def _checked_columns(columns: Mapping[str, str]) -> Mapping[str, str]:
    unknown = [name for name in columns if name not in IMPORT_COLUMNS]
    if unknown:
        raise ValueError(
            f"Unknown column `{unknown[0]}` in `import_columns` (in Python `columns`). {suggest(unknown[0], IMPORT_COLUMNS)} Its "
            "keys are our columns, and its values those of the source."
        )
    return columns


def _label(place: str, row: Mapping[str, Any], column: str) -> int | None:
    if column not in row:
        raise ValueError(f"{place}: the column `{column}`, mapped to `label`, is missing; the row has {list(row)}.")
    label = row[column]
    if label not in (0, 1, None):
        raise ValueError(f"{place}: `{column}` must be 0 or 1 (or false, true), or null to abstain; got {label!r}.")
    return None if label is None else int(label)


def _is_truncated(place: str, row: Mapping[str, Any], column: str, *, is_required: bool) -> bool:
    if is_required and column not in row:
        raise ValueError(
            f"{place}: the column `{column}`, mapped to `is_truncated`, is missing; the row has {list(row)}."
        )
    is_truncated = row.get(column)
    if is_truncated not in (0, 1, None):
        raise ValueError(f"{place}: `{column}` must be true or false; got {str(is_truncated)[:80]!r}.")
    return bool(is_truncated)


def _report(source: str, num_rows: int, num_imported: int) -> None:
    if num_imported == 0:
        raise ValueError(
            f"None of the {num_rows} solutions of `{source}` is for one of the verifier's problems (D_V). "
            "Check that `import_columns` names the column with the problem's id or text, and that the task and its options are "
            "those that the solutions were written for."
        )
    logger.info("Imported %d solutions of `%s`.", num_imported, source)
    if num_imported < num_rows:
        logger.warning(
            "%d of the %d solutions of `%s` were left out: their problems are not among the verifier's.",
            num_rows - num_imported,
            num_rows,
            source,
        )
