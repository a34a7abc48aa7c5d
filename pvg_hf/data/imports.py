"""Imports solutions from files, folders and datasets on the Hub as rows of the pool."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import Dataset, load_dataset, load_dataset_builder
from datasets.exceptions import DatasetsError

from pvg_hf.config.sections import BootstrapConfig
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.extensions import suggest
from pvg_hf.core.hub_access import find_dataset_refusal
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.core.roles import Role
from pvg_hf.data.pool import iterate_pool
from pvg_hf.data.schema import make_solution
from pvg_hf.data.split import VERIFIER_PARTS, normalized_text
from pvg_hf.tasks.base import Problem, Task, final_grade, grade_solutions
from pvg_hf.tasks.json_rows import parse_json_row

logger = logging.getLogger(__name__)

READABLE = (".jsonl", ".parquet")  # kinds of file that are read without `datasets`
NumberedRow = tuple[str, Mapping[str, Any]]  # place of a row for messages (`file.jsonl, line 3`), and the row


def read_rows(
    source: str, *, config: str | None = None, split: str | None = None, revision: str | None = None
) -> Iterator[NumberedRow]:
    """
    Yield the rows of a source, with their places.

    A line of a `.jsonl` file that holds no JSON object is skipped; a warning after the last line counts them.

    Args:
        source, config, split, revision: As for [`~pvg_hf.data.imports.import_solutions`].
    Raises `ValueError` if the source is unreadable or holds no JSON object, or has no such config, split or revision.
    """
    path = Path(source)
    if path.suffix not in READABLE:
        if path.is_file():
            raise ValueError(
                f"`{source}` is a file of an unsupported kind; an import reads `.jsonl` and `.parquet` files, folders "
                f"and datasets on the Hub. To convert it: `datasets.load_dataset({(path.suffix[1:] or 'text')!r}, "
                f"data_files={source!r}, split='train').to_json({str(path.with_suffix('.jsonl'))!r})`."
            )
        if path.is_dir():
            _check_unused(f"The folder `{source}` has no revisions", revision=revision)
        return _read_dataset(source, config, split or "train", revision)
    _check_unused(f"`{source}` is a file, which is read completely", config=config, split=split, revision=revision)
    if not path.is_file():
        raise ValueError(
            f"There is no file `{source}`. A source that ends in `.jsonl` or `.parquet` must be "
            "a file; any other is a folder or the id of a dataset on the Hub."
        )
    return _read_file(path)


def _read_file(path: Path) -> Iterator[NumberedRow]:
    return _read_jsonl(path) if path.suffix == ".jsonl" else _numbered(str(path), _read_parquet(path))


def _check_unused(reason: str, **choice: str | None) -> None:
    given = {name: value for name, value in choice.items() if value is not None}
    if given:
        raise ValueError(f"{reason}; remove {given}.")


def _read_dataset(source: str, config: str | None, split: str, revision: str | None) -> Iterator[NumberedRow]:
    chosen = split if config is None else f"{config}/{split}"
    try:
        files = _find_files(source, config, split) if Path(source).is_dir() else []
        refusal = None if files else find_dataset_refusal(source, revision)
        if refusal is not None:
            raise ValueError(f"{refusal}.")
        # Single files need not agree on the types of their columns, which `datasets` takes from the first one.
        if files and all(file.suffix in READABLE for file in files):
            yield from chain.from_iterable(map(_read_file, files))
        else:
            rows = load_dataset(source, config, split=split, revision=revision, streaming=True)
            yield from _numbered(f"{source}[{chosen}]", rows)
    # Offline, damaged, of other types, ...
    except (OSError, TypeError, ValueError, DatasetsError, pa.ArrowException) as err:
        raise ValueError(
            f"Cannot read `{source}[{chosen}]`: {str(err).strip()}\nA source is a `.jsonl` or `.parquet` file, a"
            " folder with data files, or the id of a dataset on the Hub. For the latter two, name the config if there"
            " are several, and the split if it is not `train`: `config` and `split`, in a recipe"
            " `bootstrap.import_config` and `bootstrap.import_split`."
        ) from err


def _find_files(folder: str, config: str | None, split: str) -> list[Path]:
    if escape(folder) != folder or "::" in folder:
        raise ValueError("`*`, `?`, `[` and `::` in a folder's path would be read as a pattern. Rename the folder.")
    files = load_dataset_builder(folder, config).config.data_files
    if split not in files:
        raise ValueError(f"Unknown split `{split}`. Available: {[str(name) for name in files]}.")
    return [Path(file) for file in files[split]]


def _read_parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        for batch in iterate_pool(path):
            yield from batch.to_pylist()
    except DamagedFileError as err:
        raise DamagedFileError(path, err.what, "Write it again, or import another file.") from err


def _numbered(name: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[NumberedRow]:
    for index, row in enumerate(rows):
        yield f"{name}, row {index}", row


def _read_jsonl(path: Path) -> Iterator[NumberedRow]:
    """Yield the objects of a file; count the lines that hold none, and warn of them after the last line."""
    num_lines, num_skipped, first = 0, 0, ""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            num_lines += 1
            try:
                row = parse_json_row(line)
            except ValueError as err:
                num_skipped += 1
                first = first or f"line {number}, which {err}"
            else:
                yield f"{path}, line {number}", row
    if num_skipped and num_skipped == num_lines:
        raise ValueError(f"No line of `{path}` holds a JSON object with a solution's columns as its keys; {first}")
    if num_skipped:
        message = "Skipped %d of the %d lines of `%s`, which hold no JSON object; the first is %s"
        logger.warning(message, num_skipped, num_lines, path, first)


def text_of(place: str, row: Mapping[str, Any], column: str) -> str:
    """Return the text in a column of a row. Raises `ValueError` if it is missing, no text or cannot be encoded."""
    value = row.get(column)
    if not isinstance(value, str):
        found = f"is {value!r}" if column in row else f"is missing; the row has {list(row)}"
        raise ValueError(f"{place}: `{column}` must be a text, but it {found}.")
    try:
        value.encode()
    except UnicodeEncodeError as err:  # JSON can contain half of a surrogate pair
        raise ValueError(f"{place}: `{column}` cannot be written as UTF-8 ({err}).") from err
    return value


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
        source: A `.jsonl` or `.parquet` file, or the id of a dataset on the Hub, or a folder; the latter two are
            streamed.
        task: The task, which grades the solutions.
        columns: The source's column names by ours, e.g. `{"solution": "response", "problem": "question"}`.
            `problem_id` or `problem` identifies the problem, by its id or by its text up to white space, and
            `solution` is the text. `is_truncated` (true or false) says that a text was truncated at a length limit, so
            that its answer does not count; texts without it count as complete. These four are read under their own
            names unless mapped. `label` (0, 1 or null; 0.5 counts as null) is read only if mapped, and is then
            shown to the verifier instead of the grade. Both may be numbers, truth values or their texts (`"1"`,
            `"True"`); NaN is null. `prover` (the writer of the text) is read only if mapped, and is `source`
            otherwise.
        config: Config of a folder or dataset with several.
        split: Split of a folder or dataset; `train` by default.
        revision: Branch, tag or commit of a dataset on the Hub; the latest state by default.
    Yields: rows of the role `base` with `round_index` -1, in the order of the source. Their length in tokens is
        unknown (null).
    Raises `ValueError` if the source is unreadable, or has no such config, split or revision; if a row is malformed
        (the message gives its place); or if no row belongs to a problem of the verifier.
    """
    columns = columns or {}
    _check_columns(columns)
    names = {**{name: name for name in DEFAULT_COLUMNS}, **columns}
    finder = _ProblemFinder(problems)
    num_rows = 0
    sample_indices: Counter[str] = Counter()
    for place, row in read_rows(source, config=config, split=split, revision=revision):
        num_rows += 1
        found = finder.find(place, row, names)
        if found is None:
            continue
        part, problem = found
        solution = text_of(place, row, names["solution"])
        is_truncated = bool(read_flag(place, row, "is_truncated", columns))
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
            label=_read_label(place, row, columns) if "label" in columns else grade.label,
            sample_index=sample_indices[problem["problem_id"]],
            num_tokens=None,
            is_truncated=is_truncated,
        )
        sample_indices[problem["problem_id"]] += 1
    _report(source, num_rows, sample_indices.total())


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

    def find(self, place: str, row: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, Problem] | None:
        """Return the part and the problem of a row; `None` if it is not one of the verifier's."""
        has_id, has_text = names["problem_id"] in row, names["problem"] in row
        if not has_id and not has_text:
            raise ValueError(
                f"{place}: neither `{names['problem_id']}` nor `{names['problem']}` identifies the problem; the row"
                f" has {list(row)}. Name the source's columns in `import_columns` (in Python `columns`), e.g."
                " `{problem: question, solution: response}`."
            )
        text = normalized_text(text_of(place, row, names["problem"])) if has_text else None
        by_id = self.by_id.get(_read_id(row[names["problem_id"]])) if has_id else None
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


def _read_id(value: object) -> str:
    # A data frame turns whole numbers into floats if one of them is missing.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _check_columns(columns: Mapping[str, str]) -> None:
    unknown = [name for name in columns if name not in IMPORT_COLUMNS]
    if unknown:
        raise ValueError(
            f"Unknown column `{unknown[0]}` in `import_columns` (in Python `columns`)."
            f" {suggest(unknown[0], IMPORT_COLUMNS)} Its keys are our columns, and its values are those of the source."
        )


_FLAG_TEXTS = {"true": 1, "1": 1, "false": 0, "0": 0}


def read_flag(place: str, row: Mapping[str, Any], name: str, columns: Mapping[str, str]) -> int | None:
    """
    Read a value that means yes or no as 1 or 0; `None` for null, the NaN of a data frame, and a column that is not
    mapped.
    """
    column = columns.get(name, name)
    if name in columns and column not in row:
        raise ValueError(f"{place}: the column `{column}`, mapped to `{name}`, is missing; the row has {list(row)}.")
    value = row.get(column)
    if value is None or value != value:
        return None
    flag = _FLAG_TEXTS.get(value.strip().lower()) if isinstance(value, str) else value
    if flag not in (0, 1):
        raise ValueError(
            f"{place}: `{column}`, read as `{name}`, must be true or false, 1 or 0, or null; got {value!r:.80}."
        )
    return int(flag)


def _read_label(place: str, row: Mapping[str, Any], columns: Mapping[str, str]) -> int | None:
    """Read a label as [`read_flag`] does; 0.5, a person's score of what is neither correct nor wrong, is `None`."""
    return None if row.get(columns["label"]) == 0.5 else read_flag(place, row, "label", columns)


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
