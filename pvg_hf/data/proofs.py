"""Loads and checks datasets of proofs with scores."""

from collections.abc import Mapping

from datasets import Dataset, Features, Value

from pvg_hf.analyses.form import is_reference_score
from pvg_hf.core.commands import pvg_command
from pvg_hf.core.data_files import read_rows
from pvg_hf.data.reading import find_value, number_of, text_of

PROOF_COLUMNS = ("problem", "proof", "score")
FEATURES = Features({"problem": Value("string"), "proof": Value("string"), "score": Value("float64")})
MAX_NAMED = 5  # rows listed in a message


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
            A file, a folder, or the id of a dataset on the Hub, as for [`~pvg_hf.core.data_files.read_rows`].
        columns (`Mapping[str, str]`, *optional*):
            The source's names for `problem`, `proof` and `score` if they differ, e.g. `{"proof": "solution"}`, or
            paths of them.
        config (`str`, *optional*), split (`str`, *optional*), revision (`str`, *optional*):
            Config, split and revision of a folder or a dataset on the Hub.

    Returns:
        [`~datasets.Dataset`]: `problem`, `proof` and `score`, which is null if unknown. A source without a score
        column has no known scores.

    Raises:
        ValueError: if the source is unreadable, lacks a column, has rows about an analysis, or has a score other than
            0, 0.5 or 1; the message names the rows.

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
                f"{place} is about an analysis, whose quality is not a score of the proof. Load such rows with "
                "`datasets.load_dataset`, which keeps their `analysis`."
            )
        is_scored = "score" in row or "score" in (columns or {})
        value = find_value(place, row, names["score"]) if is_scored else None
        score = number_of(place, names["score"], value)
        if not is_reference_score(score):
            wrong.append(f"{place}: {value!r}")
        texts = {name: text_of(place, row, names[name]) for name in ("problem", "proof")}
        rows.append({**texts, "score": score})
    _raise_for_scores(wrong)
    if not rows:
        raise ValueError(f"`{source}` holds no proof.")
    return Dataset.from_dict({name: [row[name] for row in rows] for name in PROOF_COLUMNS}, features=FEATURES)


def check_proofs(dataset: Dataset, *, needs_scores: bool = False) -> None:
    """
    Check a dataset of proofs.

    Raises `ValueError` for another type than a dataset, missing columns, problems or proofs that are not texts, scores
        other than 0, 0.5, 1 or null (the message names the rows), or no score at all if one is needed.
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"Proofs must be a `datasets.Dataset`; got {type(dataset).__name__} (try `Dataset.from_list`)."
        )
    missing = [column for column in PROOF_COLUMNS if column not in dataset.column_names]
    if missing:
        raise ValueError(
            f"The dataset of proofs lacks the column(s) {missing}; it has {dataset.column_names}. Rename yours with "
            "`dataset.rename_column`, or load it with `pvg_hf.data.proofs.load_proofs(..., columns=...)`."
        )
    for column in ("problem", "proof"):
        for index, text in enumerate(dataset[column]):
            text_of(f"row {index}", {column: text}, column)
    scores = list(dataset["score"])
    wrong = [f"row {index}: {score!r}" for index, score in enumerate(scores) if not is_reference_score(score)]
    _raise_for_scores(wrong)
    if needs_scores and all(score is None or score != score for score in scores):
        raise ValueError(
            f"None of the {len(scores)} proofs has a score, so that there is nothing to learn from. Let people score"
            " some, or label them by"
            f" `{pvg_command('label', 'PROOFS', '--verifier', 'VERIFIER', '--output', 'LABELS')}`."
        )


def _raise_for_scores(wrong: list[str]) -> None:
    if wrong:
        more = f" and {len(wrong) - MAX_NAMED} more" if len(wrong) > MAX_NAMED else ""
        raise ValueError(
            f"A score must be 0, 0.5 or 1, or null if unknown; found {', '.join(wrong[:MAX_NAMED])}{more}."
        )


def _checked_names(columns: Mapping[str, str]) -> dict[str, str]:
    unknown = [name for name in columns if name not in PROOF_COLUMNS]
    if unknown:
        raise ValueError(f"`columns` maps {unknown}, which proofs do not have; it maps {list(PROOF_COLUMNS)}.")
    return {name: columns.get(name, name) for name in PROOF_COLUMNS}
