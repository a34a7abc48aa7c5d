"""Datasets of proofs with scores: loading any, and checking what was given."""

from collections.abc import Mapping, Sequence

from datasets import Dataset, Features, Value

from pvg_hf.analyses.form import is_reference_score
from pvg_hf.data.imports import read_rows, text_of

COLUMNS = ("problem", "proof", "score")
FEATURES = Features({"problem": Value("string"), "proof": Value("string"), "score": Value("float64")})
MAX_NAMED = 5  # rows that a message names


def load_proofs(
    source: str,
    *,
    columns: Mapping[str, str] | None = None,
    config: str | None = None,
    split: str | None = None,
    revision: str | None = None,
) -> Dataset:
    """
    Load proofs from a file, a folder or the Hub.

    Args:
        source (`str`):
            A `.jsonl` or `.parquet` file, a folder with data files, or the id of a dataset on the Hub.
        columns (`Mapping[str, str]`, *optional*):
            The source's names for `problem`, `proof` and `score`, where they differ, e.g. `{"proof": "solution"}`.
        config (`str`, *optional*), split (`str`, *optional*), revision (`str`, *optional*):
            Of a folder or a dataset on the Hub.

    Returns:
        [`~datasets.Dataset`]: `problem`, `proof` and `score`, which is null where the source has none. A source without
        a score column is one without scores.

    Raises:
        ValueError: if the source cannot be read, lacks a column, has rows about an analysis, or a score that is not 0, 0.5
            or 1; rows are named.

    Example:

    ```python
    proofs = load_proofs("proofs.jsonl", columns={"proof": "solution", "score": "grade"})
    ```
    """
    names = _checked_names(columns or {})
    rows, wrong = [], []
    for place, row in read_rows(source, config=config, split=split, revision=revision):
        if row.get("analysis") is not None:
            raise ValueError(
                f"{place} is about an analysis, whose quality is no score of the proof. Load such rows with "
                "`datasets.load_dataset`, which keeps their `analysis`."
            )
        score = row.get(names["score"])
        if columns is not None and "score" in columns and names["score"] not in row:
            raise ValueError(
                f"{place}: the column `{names['score']}`, mapped to `score`, is missing; has {list(row)}."
            )
        if not is_reference_score(score):
            wrong.append(f"{place}: {score!r}")
        texts = {name: text_of(place, row, names[name]) for name in ("problem", "proof")}
        rows.append({**texts, "score": score})
    _refuse_scores(wrong)
    if not rows:
        raise ValueError(f"`{source}` holds no proof.")
    return Dataset.from_dict({name: [row[name] for row in rows] for name in COLUMNS}, features=FEATURES)


def read_column_names(pairs: Sequence[str]) -> dict[str, str] | None:
    """
    Columns as a command line maps them, `proof=solution`; `None` where none is.

    Raises:
        ValueError: for one without `=`.
    """
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise ValueError(f"A column is mapped as `proof=solution`; got `{wrong[0]}`.")
    return dict(pair.split("=", 1) for pair in pairs) or None


def check_proofs(dataset: Dataset, *, needs_scores: bool = False) -> None:
    """
    Args:
        dataset ([`~datasets.Dataset`]):
            `problem`, `proof` and `score`.
        needs_scores (`bool`, defaults to `False`):
            Whether at least one row must have a score.

    Raises:
        ValueError: for something else than a dataset, missing columns, problems or proofs that are no texts, scores that are
            not 0, 0.5, 1 or null (the rows are named), or none at all.
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"Proofs come as a `datasets.Dataset`; got {type(dataset).__name__} (try `Dataset.from_list`)."
        )
    missing = [column for column in COLUMNS if column not in dataset.column_names]
    if missing:
        raise ValueError(
            f"The dataset of proofs lacks the column(s) {missing}; it has {dataset.column_names}. Rename yours with "
            "`dataset.rename_column`, or load it with `pvg_hf.data.proofs.load_proofs(..., columns=...)`."
        )
    for column in ("problem", "proof"):
        for index, text in enumerate(dataset[column]):
            text_of(f"row {index}", {column: text}, column)
    scores = list(dataset["score"])
    _refuse_scores([f"row {index}: {score!r}" for index, score in enumerate(scores) if not is_reference_score(score)])
    if needs_scores and all(score is None or score != score for score in scores):
        raise ValueError(
            f"None of the {len(scores)} proofs has a score, so that there is nothing to learn from. Let people score some, "
            "or label them with `scripts/auto_label.py`."
        )


def _refuse_scores(wrong: list[str]) -> None:
    if wrong:
        more = f" and {len(wrong) - MAX_NAMED} more" if len(wrong) > MAX_NAMED else ""
        raise ValueError(
            f"A score is 0, 0.5 or 1, or null where nobody knows; found {', '.join(wrong[:MAX_NAMED])}{more}."
        )


def _checked_names(columns: Mapping[str, str]) -> dict[str, str]:
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise ValueError(f"`columns` maps {unknown}, which proofs do not have; it maps {list(COLUMNS)}.")
    return {name: columns.get(name, name) for name in COLUMNS}
