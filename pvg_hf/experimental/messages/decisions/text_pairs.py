"""Decisions about pairs of texts: SNLI and FEVER, from the Hub or local files, and a small generated stand-in."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from datasets import load_dataset

from pvg_hf.core.data_files import read_file
from pvg_hf.core.hub_access import check_dataset_access
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.messages.decisions.decision_world import DecisionProblems, DecisionWorld, check_count
from pvg_hf.tasks.base import Split, check_split

Row = Mapping[str, Any]


class TextDecisions(DecisionWorld):
    """
    Base class of worlds with rows of two texts and a label.

    Args:
        path: A folder with `train.jsonl` and `test.jsonl`; by default the dataset comes from the Hub.
        hub_id: The dataset repository; by default that of the class.
        num_train: Maximum number of training rows. The order of the rows is drawn from `seed`.
        num_test: Maximum number of test rows.
        seed: Seed of the choice of rows.
    Raises `ValueError` for a setting outside its range.
    """

    has_texts: ClassVar = True
    default_hub_id: ClassVar[str]

    def __init__(
        self,
        path: str | None = None,
        hub_id: str | None = None,
        num_train: int = 50_000,
        num_test: int = 5_000,
        seed: int = 0,
    ):
        check_count("num_train", num_train)
        check_count("num_test", num_test)
        self.path = path
        self.hub_id = hub_id or self.default_hub_id
        self.num_problems = {"train": num_train, "test": num_test}
        self.seed = seed

    @abstractmethod
    def read_row(self, row: Row, where: str) -> tuple[str, str, int] | None:
        """Return two texts and the label, or `None` for a row without a usable label."""

    def problems(self, split: Split, *, with_witness: bool = False) -> DecisionProblems:
        """
        Return the rows of a split that have a label, as `texts`.

        Raises `ValueError` for another split, if witnesses are asked for, or if there are no rows or one of them lacks
            a column.
        """
        check_split(split)
        if with_witness:
            raise ValueError(f"The world `{self.name}` has no witnesses: the only control is `none`.")
        where, rows = self._read(split)
        read = [self.read_row(row, place) for place, row in rows]
        known = [row for row in read if row is not None]
        if not known:
            raise ValueError(f"There are no rows with a label in {where}.")
        order = derive_rng(self.seed, self.name, split).permutation(len(known))[: self.num_problems[split]]
        chosen = [known[index] for index in order]
        return DecisionProblems(
            np.array([label for _, _, label in chosen]), texts=[(first, second) for first, second, _ in chosen]
        )

    def _read(self, split: Split) -> tuple[str, Iterable[tuple[str, Row]]]:
        """Return the name of the rows' source, and the rows, each with a description of its place."""
        if self.path is None:
            check_dataset_access(self.hub_id)
            where = f"{self.hub_id} ({split})"
            rows = enumerate(load_dataset(self.hub_id, split=split))
            return where, ((f"{where}, row {number}", row) for number, row in rows)
        file = Path(self.path) / f"{split}.jsonl"
        advice = "`path` must be a folder with `train.jsonl` and `test.jsonl`."
        return f"`{file}`", read_file(file, is_strict=True, advice=advice)


class Snli(TextDecisions):
    """
    SNLI (Bowman et al. 2015): does the premise entail the hypothesis? Rows without a gold label are dropped.

    Rows have `premise`, `hypothesis` and `label` (0 for entailment, -1 without gold label), as on the Hub, or
    `sentence1`, `sentence2` and `gold_label` (`entailment`, or `-` without one), as in the original files. Arguments
    are those of [`TextDecisions`].
    """

    name: ClassVar = "snli"
    default_hub_id: ClassVar = "stanfordnlp/snli"

    def read_row(self, row: Row, where: str) -> tuple[str, str, int] | None:
        if "gold_label" in row:
            first, second, label = (_field(row, name, where) for name in ("sentence1", "sentence2", "gold_label"))
            return None if label == "-" else (first, second, int(label == "entailment"))
        first, second, label = (_field(row, name, where) for name in ("premise", "hypothesis", "label"))
        return None if label == -1 else (first, second, int(label == 0))


class Fever(TextDecisions):
    """
    FEVER (Thorne et al. 2018): does the evidence support the claim, or refute it? Other rows are dropped.

    Rows have `claim`, `label` (`SUPPORTS` or `REFUTES`; others are dropped) and `evidence`: a text, or a list of
    `[title, sentence id, text]` as in copenlu/fever_gold_evidence. Arguments are those of [`TextDecisions`].
    """

    name: ClassVar = "fever"
    default_hub_id: ClassVar = "copenlu/fever_gold_evidence"

    def read_row(self, row: Row, where: str) -> tuple[str, str, int] | None:
        label = _field(row, "label", where)
        if label not in ("SUPPORTS", "REFUTES"):
            return None
        evidence = _field(row, "evidence", where)
        if not isinstance(evidence, str):
            evidence = " ".join(str(sentence[-1]) for sentence in evidence)
        return evidence, _field(row, "claim", where), int(label == "SUPPORTS")


_NAMES = ("Ana", "Ben", "Chen", "Dora", "Emil", "Fatima")
_OBJECTS = ("apples", "books", "coins", "pens", "shells", "stamps")
_COLOURS = ("red", "blue", "green", "black")


class StandIn(DecisionWorld):
    """
    A small generated world with the columns of SNLI, for tests and for machines without the dataset.

    A premise states what two people have; a hypothesis repeats one of the facts, or changes its person, number, colour
    or object.

    Args:
        num_train: Number of training rows.
        num_test: Number of test rows.
        seed: Seed of the rows.
    Raises `ValueError` for a setting outside its range.
    """

    name: ClassVar = "stand_in"
    has_texts: ClassVar = True

    def __init__(self, num_train: int = 2_000, num_test: int = 400, seed: int = 0):
        check_count("num_train", num_train)
        check_count("num_test", num_test)
        self.num_problems = {"train": num_train, "test": num_test}
        self.seed = seed

    def rows(self, split: Split) -> list[dict[str, Any]]:
        """Return rows with `premise`, `hypothesis` and `label`: 0 for entailment, 2 for contradiction."""
        check_split(split)
        number = self.num_problems[split]
        rng = derive_rng(self.seed, self.name, split)
        labels = rng.permutation(number) < number / 2
        return [_row(rng, is_entailed=bool(label)) for label in labels]

    def problems(self, split: Split, *, with_witness: bool = False) -> DecisionProblems:
        """
        Return the rows of a split as `texts`.

        Raises `ValueError` for another split, or if witnesses are asked for.
        """
        if with_witness:
            raise ValueError(f"The world `{self.name}` has no witnesses: the only control is `none`.")
        rows = self.rows(split)
        labels = np.array([int(row["label"] == 0) for row in rows])
        return DecisionProblems(labels, texts=[(row["premise"], row["hypothesis"]) for row in rows])


def _row(rng: np.random.Generator, *, is_entailed: bool) -> dict[str, Any]:
    people = rng.choice(len(_NAMES), 2, replace=False)
    things = rng.choice(len(_OBJECTS), 2, replace=False)
    facts = [
        [_NAMES[who], int(rng.integers(2, 10)), str(rng.choice(_COLOURS)), _OBJECTS[what]]
        for who, what in zip(people, things)
    ]
    claim = list(facts[rng.integers(2)])
    if not is_entailed:
        place = int(rng.integers(4))
        choices = (_NAMES, range(2, 10), _COLOURS, _OBJECTS)[place]
        claim[place] = rng.choice([other for other in choices if other != claim[place]])
    premise = " ".join(_sentence(fact) for fact in facts)
    return {"premise": premise, "hypothesis": _sentence(claim), "label": 0 if is_entailed else 2}


def _sentence(fact: Iterable[Any]) -> str:
    name, number, colour, things = fact
    return f"{name} has {number} {colour} {things}."


def _field(row: Row, name: str, where: str) -> Any:
    if name not in row:
        raise ValueError(f"{where} has no `{name}`; it has {', '.join(f'`{key}`' for key in row)}.")
    return row[name]
