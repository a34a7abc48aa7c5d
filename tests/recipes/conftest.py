"""A folder of problems in GSM8K's format, small enough to play a recipe in seconds."""

import json
from pathlib import Path

import pytest

from pvg_hf.core.seeding import derive_rng

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
