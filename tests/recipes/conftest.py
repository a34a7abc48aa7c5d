"""Folders of problems in the formats of datasets, small enough to play a recipe in seconds."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pvg_hf.core.seeding import derive_rng
from tests.support.program_rows import calls_row, sum_row, write_jsonl

OBJECTS = ("apples", "coins", "pens", "shells")


@pytest.fixture(scope="session")
def problems(tmp_path_factory) -> Path:
    """160 training problems and 12 test problems with random answers 1, 2 or 3: a third of all guesses is right."""
    folder, rng = tmp_path_factory.mktemp("gsm8k"), derive_rng("problems of the recipes' tests")
    for split, number in (("train", 160), ("test", 12)):
        lines = []
        for index in range(number):
            objects, answer = OBJECTS[index % len(OBJECTS)], int(rng.integers(1, 4))
            question = f"{split.title()} box {index} holds some {objects}. How many {objects} are in box {index}?"
            lines.append({"question": question, "answer": f"There are {answer} of them.\n#### {answer}"})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="session")
def programs(tmp_path_factory) -> Iterator[dict[str, str]]:
    """Folders of 80 problems of programs by task, whose prepared tests are kept apart from the user's."""
    folder = tmp_path_factory.mktemp("programs")
    rows = [sum_row(number) for number in range(1, 81)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("prepared"))
        yield {
            "mbpp": write_jsonl(folder / "mbpp" / "test.jsonl", rows),
            "apps": write_jsonl(folder / "apps" / "train.jsonl", [calls_row(row) for row in rows]),
        }
