"""Imports solutions from files, folders and datasets on the Hub as rows of the pool."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from datasets import Dataset

from pvg_hf.config.sections import BootstrapConfig
from pvg_hf.core.data_files import Row, read_rows
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.extensions import suggest
from pvg_hf.core.roles import Role
from pvg_hf.data.reading import as_text, find_value, flag_of, has_column, id_of, text_of, texts_of
from pvg_hf.data.schema import make_solution
from pvg_hf.data.split import VERIFIER_PARTS, normalized_text
from pvg_hf.tasks.base import Problem, Task, final_grade, grade_solutions

logger = logging.getLogger(__name__)

DEFAULT_COLUMNS = ("problem_id", "problem", "solution", "is_truncated")
IMPORT_COLUMNS = (*DEFAULT_COLUMNS, "label", "prover")


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
    Read solutions from a file or a dataset, and yield a row of the pool for each solution to one of the verifier's
    problems.

    Correctness and outcome come from the task's grade, whatever the source says. Rows whose problem is not in the
    parts `verifier` and `verifier_heldout` are skipped, counted and logged.

    Args:
        source: A file, a folder, or the id of a dataset on the Hub, as for
            [`~pvg_hf.core.data_files.read_rows`].
        task: The task, which grades the solutions.
        columns: The source's column names by ours, e.g. `{"solution": "response", "problem": "question"}`, or paths
            such as `choices.0.message.content`. `problem_id` or `problem` identifies the problem, by its id or by its
            text up to white space, and `solution` is the text, or a list of texts. `is_truncated` (true or false) says
            that a text was truncated at a length limit, so that its answer does not count; texts without it count as
            complete. These four are read under their own names unless mapped. `label` (0, 1 or null; 0.5 counts as
            null) is read only if mapped, and is then shown to the verifier instead of the grade. Both may be numbers,
            truth values or their texts (`"1"`, `"True"`); NaN is null. `prover` (the writer of the text) is read only
            if mapped, and is `source` otherwise.
        config, split, revision: As for [`~pvg_hf.core.data_files.read_rows`].
    Yields: rows of the role `base` with `round_index` -1, in the order of the source. Their length in tokens is
        unknown (null).
    Raises `ValueError` if the source is unreadable, or has no such config, split or revision; if a row is malformed
        (the message gives its place); or if no row belongs to a problem of the verifier.
    """
    columns = columns or {}
    _check_columns(columns)
    names = {**{name: name for name in DEFAULT_COLUMNS}, **columns}
    finder = _ProblemFinder(problems)
    num_solutions = 0
    sample_indices: Counter[str] = Counter()
    for place, row in read_rows(source, config=config, split=split, revision=revision):
        found = finder.find(place, row, names)
        if found is None:
            num_solutions += 1
            continue
        part, problem = found
        solutions = texts_of(place, row, names["solution"])
        num_solutions += len(solutions)
        is_truncated = bool(_read_optional(place, row, "is_truncated", columns))
        for solution in map(as_text, solutions):
            # A truncated text is never correct, whatever the grader reads in it.
            [grade] = grade_solutions(task, [(problem, solution)])
            grade = final_grade(grade, is_truncated)
            yield make_solution(
                task=task,
                problem=problem,
                part=part,
                role=Role.BASE,
                round_index=BASE_ROUND,
                prover=text_of(place, row, names["prover"]) if "prover" in names else source,
                solution=solution,
                grade=grade,
                label=_read_label(place, row, names["label"]) if "label" in names else grade.label,
                sample_index=sample_indices[problem["problem_id"]],
                num_tokens=None,
                is_truncated=is_truncated,
            )
            sample_indices[problem["problem_id"]] += 1
    _report(source, num_solutions, sample_indices.total())


def imported_rows(bootstrap: BootstrapConfig, task: Task, parts: Mapping[str, Dataset]) -> Iterator[dict[str, Any]]:
    """Import solutions with the settings of the section `bootstrap`, for the verifier's problems in `parts`."""
    assert bootstrap.import_from is not None
    return import_solutions(
        bootstrap.import_from,
        task,
        {part: parts[part] for part in VERIFIER_PARTS},
        columns=bootstrap.import_columns,
        config=bootstrap.import_config,
        split=bootstrap.import_split,
        revision=bootstrap.import_revision,
    )


class _ProblemFinder:
    """Finds a row's problem among the verifier's, by id or by text."""

    def __init__(self, problems: Mapping[str, Dataset]):
        self.problems = problems
        self.by_id: dict[str, tuple[str, int]] = {}
        self.by_text: dict[str, tuple[str, int]] = {}
        for part in VERIFIER_PARTS:
            rows = zip(problems[part]["problem_id"], problems[part]["problem"], strict=True)
            for index, (problem_id, text) in enumerate(rows):
                self.by_id[problem_id] = (part, index)
                self.by_text.setdefault(normalized_text(text), (part, index))

    def find(self, place: str, row: Row, names: Mapping[str, str]) -> tuple[str, Problem] | None:
        """Return the part and the problem of a row; `None` if it is not one of the verifier's."""
        has_id, has_text = has_column(row, names["problem_id"]), has_column(row, names["problem"])
        if not has_id and not has_text:
            raise ValueError(
                f"{place}: neither `{names['problem_id']}` nor `{names['problem']}` identifies the problem; the row"
                f" has {list(row)}. Name the source's columns in `import_columns` (in Python `columns`), e.g."
                " `{problem: question, solution: response}`."
            )
        text = normalized_text(text_of(place, row, names["problem"])) if has_text else None
        problem_id = id_of(place, row, names["problem_id"]) if has_id else None
        by_id = None if problem_id is None else self.by_id.get(problem_id)
        # An id takes precedence; the text is then checked against it below.
        found = by_id or (None if text is None else self.by_text.get(text))
        if found is None:
            return None
        part, index = found
        problem = self.problems[part][index]
        if text not in (None, normalized_text(problem["problem"])):
            raise ValueError(
                f"{place}: the id `{problem['problem_id']}` is one of the verifier's problems, but the text is not "
                f"that problem's: {text[:80]!r}. Map only the column that identifies the problem, and drop the other."
            )
        return part, problem


def _check_columns(columns: Mapping[str, str]) -> None:
    unknown = [name for name in columns if name not in IMPORT_COLUMNS]
    if unknown:
        raise ValueError(
            f"Unknown column `{unknown[0]}` in `import_columns` (in Python `columns`)."
            f" {suggest(unknown[0], IMPORT_COLUMNS)} Its keys are our columns, and its values are those of the source."
        )


def _read_optional(place: str, row: Row, name: str, columns: Mapping[str, str]) -> int | None:
    column = columns.get(name, name)
    is_given = name in columns or name in row
    return flag_of(place, column, find_value(place, row, column)) if is_given else None


def _read_label(place: str, row: Row, column: str) -> int | None:
    """Read a label; 0.5, a person's score of what is neither correct nor wrong, is `None`."""
    value = find_value(place, row, column)
    return None if value in (0.5, "0.5") else flag_of(place, column, value)


def _report(source: str, num_rows: int, num_imported: int) -> None:
    if num_imported == 0:
        raise ValueError(
            f"None of the {num_rows} solutions of `{source}` is for one of the verifier's problems (D_V). Check that"
            " `import_columns` names the column with the problem's id or text, and that the solutions were written"
            " for this task with these options."
        )
    logger.info("Imported %d solutions of `%s`.", num_imported, source)
    if num_imported < num_rows:
        message = "Skipped %d of the %d solutions of `%s`: their problems are not among the verifier's."
        logger.warning(message, num_rows - num_imported, num_rows, source)
