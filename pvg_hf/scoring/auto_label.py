"""Labels proofs by scaled verification, and leaves the rest to people (DeepSeekMath-V2, 2025)."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from datasets import Dataset
from tqdm.auto import tqdm

from pvg_hf.analyses.form import read_evaluation
from pvg_hf.analyses.scaled import CheckedAnalysis, ScaledVerification, decide_label
from pvg_hf.core.disk_names import REVIEW
from pvg_hf.core.files import Journal, write_json_lines, write_text
from pvg_hf.core.integrity import digest_files, read_json, read_json_lines
from pvg_hf.core.stop_checks import stop_if_asked
from pvg_hf.data.proofs import check_proofs
from pvg_hf.data.review import ReviewItem, read_review, write_review
from pvg_hf.sampling import Sample

logger = logging.getLogger(__name__)

PROOFS_AT_ONCE = 32
MAX_NAMED = 5  # keys listed in a warning
GIVEN, HUMAN, AUTO = "given", "human", "auto"

LABEL_LOG = "labels.jsonl"
EVIDENCE = "evidence.jsonl"
SETTINGS = "settings.json"
"""Files of labels, see [`label_proofs`]."""

Evaluate = Callable[[list[str], list[str], int], list[list[Sample]]]
Check = Callable[[list[str], list[str], list[str], int], list[list[float | None]]]


def label_proofs(
    dataset: Dataset,
    *,
    evaluate: Evaluate,
    check: Check,
    rule: ScaledVerification,
    folder: str | Path,
    made_by: Mapping[str, Any] | None = None,
    show_progress: bool = True,
) -> Dataset:
    """
    Label the proofs of a dataset that have no score.

    `folder` contains `evidence.jsonl`, every analysis and check of each proof; `review.csv`, the undecided proofs,
    whose `score` a person fills in; and `labels.jsonl`, the result. Calling again with the same arguments resumes
    where it was stopped and uses the scores that people have filled in. Scores from the dataset or from a person are
    never replaced.

    Args:
        dataset: Dataset with `problem`, `proof` and `score`, which is null if unknown.
        evaluate: `(problems, proofs, num_analyses) -> samples`, such as [`GenerativeVerifier.evaluate`].
        check: `(problems, proofs, analyses, num_checks) -> qualities`, such as [`GenerativeVerifier.check_analyses`]
            of a meta-verifier.
        made_by: Further settings that the evidence depends on, such as the verifiers' names and the seed. A folder
            with evidence from other settings is an error.
    Returns: [`~datasets.Dataset`]: `problem`, `proof`, `score` (null if undecided) and `label_source`, in the
        dataset's order. The source is `given` (in the dataset), `human` (from the review file), `auto`, or null.
    Raises `ValueError` for a dataset without the columns, an unreadable review file, or a folder with other settings.
    """
    check_proofs(dataset)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _check_settings(folder / SETTINGS, {**asdict(rule), **(made_by or {})})
    people = _scores_of_people(folder)
    strangers = sorted(people.keys() - {_key(row) for row in dataset})
    if strangers:
        logger.warning(
            "%s holds scores of %d proofs that are not in the data: %s. They are kept in the file but not used.",
            folder / REVIEW,
            len(strangers),
            ", ".join(strangers[:MAX_NAMED]) + (", ..." if len(strangers) > MAX_NAMED else ""),
        )
    journal = Journal(folder / EVIDENCE)
    evidence = {row["key"]: _analyses(row) for row in journal.read()}
    given = {_key(row): row["score"] for row in dataset if row["score"] is not None and row["score"] == row["score"]}
    # Equal proofs have one key, so they are labelled once.
    rows = {_key(row): row for row in dataset if _key(row) not in given}
    waiting = [(key, row) for key, row in rows.items() if key not in evidence and key not in people]
    with tqdm(total=len(waiting), desc="labels", unit="proof", disable=not show_progress) as progress:
        for start in range(0, len(waiting), PROOFS_AT_ONCE):
            stop_if_asked()
            part = waiting[start : start + PROOFS_AT_ONCE]
            found = _gather_evidence([row for _, row in part], evaluate, check, rule)
            for (key, _), analyses in zip(part, found, strict=True):
                evidence[key] = analyses
                journal.append(_evidence_row(key, analyses, decide_label(analyses, rule.num_agreements)))
            progress.update(len(part))
    labels = {key: decide_label(analyses, rule.num_agreements) for key, analyses in evidence.items()}
    # In the dataset's order, whatever order the evidence was gathered in.
    journal.rewrite([_evidence_row(key, evidence[key], labels[key]) for key in rows if key in evidence])
    items = [
        ReviewItem(key, row["problem"], row["proof"], evidence.get(key, ()))
        for key, row in rows.items()
        if key in people or labels[key] is None
    ]
    write_review(folder / REVIEW, items, people)
    people = read_review(folder / REVIEW)
    # In the order of precedence: a score of a person replaces an automatic one, a given score replaces both.
    sources = {key: (score, AUTO) for key, score in labels.items() if score is not None}
    sources |= {key: (score, HUMAN) for key, score in people.items()}
    sources |= {key: (score, GIVEN) for key, score in given.items()}
    return _finish(folder / LABEL_LOG, dataset, sources)


def digest_of(folder: str | Path) -> str:
    """Identify a verifier by a hash of its weights and prompts, independent of its path."""
    return digest_files(sorted([*Path(folder).glob("*.safetensors"), *Path(folder).glob("score_verifier.json")]))


def read_labels(
    folder: str | Path, *, sources: Collection[str] = (GIVEN, HUMAN, AUTO)
) -> dict[tuple[str, str], float]:
    """
    Read the labels that [`label_proofs`] wrote to a folder, with scores that people have filled in since.

    Undecided proofs are omitted.

    Args:
        sources: Which labels to return: `given`, `human`, `auto`.
    Returns: the score of each (problem, proof) pair.
    Raises `ValueError` if there are no labels, or the review file is unreadable.
    Raises `DamagedFileError` if the labels are damaged.
    """
    path, people = Path(folder) / LABEL_LOG, read_review(Path(folder) / REVIEW)
    if not path.exists():
        raise ValueError(f"{folder} holds no labels: it has no labels.jsonl.")
    labels = {}
    for row in read_json_lines(path):
        score, source, key = row["score"], row["label_source"], _key(row)
        if source != GIVEN and key in people:
            score, source = people[key], HUMAN
        if score is not None and source in sources:
            labels[row["problem"], row["proof"]] = score
    return labels


def _gather_evidence(
    rows: Sequence[Mapping[str, Any]], evaluate: Evaluate, check: Check, rule: ScaledVerification
) -> list[list[CheckedAnalysis]]:
    """Return the analyses of each proof; those that claim an issue come with their checks."""
    problems, proofs = [row["problem"] for row in rows], [row["proof"] for row in rows]
    analyses = [
        (owner, sample.text, read_evaluation(sample.text, is_cut=sample.is_truncated))
        for owner, samples in enumerate(evaluate(problems, proofs, rule.num_analyses))
        for sample in samples
    ]
    doubts = [index for index, (_, _, read) in enumerate(analyses) if read.score is not None and read.score < 1]
    asked = [
        (problems[owner], proofs[owner], read.analysis or text)
        for owner, text, read in (analyses[index] for index in doubts)
    ]
    checks = dict(zip(doubts, _check_each(asked, check, rule.num_checks), strict=True))
    found: list[list[CheckedAnalysis]] = [[] for _ in rows]
    for index, (owner, text, read) in enumerate(analyses):
        found[owner].append(CheckedAnalysis(text, read.score, tuple(checks.get(index, ()))))
    return found


def _check_each(asked: Sequence[tuple[str, str, str]], check: Check, num_checks: int) -> list[list[float | None]]:
    """
    Return `num_checks` qualities for each (problem, proof, analysis) triple.

    Equal questions get equal answers. An analysis that was written several times is therefore checked as many times
    more often, and each copy gets its own share of the checks.
    """
    copies = Counter(asked)
    found: dict[tuple[str, str, str], Iterator[float | None]] = {}
    for number in sorted(set(copies.values())):
        distinct = [question for question, times in copies.items() if times == number]
        problems, proofs, analyses = map(list, zip(*distinct, strict=True))
        qualities = check(problems, proofs, analyses, number * num_checks)
        found.update(zip(distinct, map(iter, qualities), strict=True))
    return [list(islice(found[question], num_checks)) for question in asked]


def _finish(path: Path, dataset: Dataset, labels: Mapping[str, tuple[float, str]]) -> Dataset:
    """Write and return the dataset with its labels and their sources."""
    rows = []
    for row in dataset:
        score, source = labels.get(_key(row), (None, None))
        rows.append({"problem": row["problem"], "proof": row["proof"], "score": score, "label_source": source})
    write_json_lines(path, rows)
    counts = Counter(row["label_source"] or "undecided" for row in rows)
    reported = ", ".join(f"{counts[source]} {source}" for source in (GIVEN, HUMAN, AUTO, "undecided"))
    logger.info("Labels of %d proofs: %s. The undecided ones are in %s.", len(rows), reported, path.with_name(REVIEW))
    return Dataset.from_list(rows)


def _scores_of_people(folder: Path) -> dict[str, float]:
    """Read people's scores from the review file or, if that was deleted, from the last labels."""
    path, labels = folder / REVIEW, folder / LABEL_LOG
    if path.exists() or not labels.exists():
        return read_review(path)
    return {_key(row): row["score"] for row in read_json_lines(labels) if row["label_source"] == HUMAN}


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    settings = json.loads(json.dumps(settings))  # as they will be read back, e.g. tuples as lists
    if not path.exists():
        write_text(path, json.dumps(settings, indent=2) + "\n")
        return
    kept = read_json(path, dict[str, Any])
    changed = sorted(name for name in {*kept, *settings} if kept.get(name) != settings.get(name))
    if changed:
        reported = ", ".join(f"`{name}` was {kept.get(name)!r} and is {settings.get(name)!r}" for name in changed)
        raise ValueError(
            f"The evidence in {path.parent} was made with other settings: {reported}. Use those settings or another"
            " folder."
        )


def _evidence_row(key: str, analyses: Sequence[CheckedAnalysis], label: float | None) -> dict[str, Any]:
    return {"key": key, "label": label, "analyses": [asdict(analysis) for analysis in analyses]}


def _analyses(row: Mapping[str, Any]) -> list[CheckedAnalysis]:
    return [CheckedAnalysis(a["text"], a["score"], tuple(a["qualities"])) for a in row["analyses"]]


def _key(row: Mapping[str, Any]) -> str:
    """Identify a proof by a hash of its texts, so that its position in the dataset does not matter."""
    digest = blake2b(digest_size=12)
    for text in (row["problem"], row["proof"]):
        data = text.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
