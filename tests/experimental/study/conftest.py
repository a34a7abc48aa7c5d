"""Solutions to judge, and a study whose clock is set by the tests."""

from collections import Counter
from itertools import product

import pandas as pd
import pytest

from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.study.items import StudyItem, choose_items, draw_sheet
from pvg_hf.experimental.study.participants import Study
from tests.support.app_fixtures import chromium, open_page, serve_study, study_for_module

__all__ = ["chromium", "open_page", "serve_study", "study_for_module"]

NUM_PROBLEMS = 20


class Clock:
    """Clock that advances when a test says so."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def solutions() -> pd.DataFrame:
    """Two rounds, both roles, and for every problem two correct and two incorrect solutions of each."""
    cells = product(range(NUM_PROBLEMS), (-1, 0), ("helpful", "sneaky"), (True, False), range(2))
    rows = [
        {"problem_id": f"p{problem:02d}", "round_index": k, "role": role, "correct": correct, "sample": sample}
        for problem, k, role, correct, sample in cells
    ]
    return pd.DataFrame(rows).assign(num_flaws=lambda table: (~table["correct"]).astype(float))


@pytest.fixture
def open_again(tmp_path, solutions, clock):
    """Opens the study of this test's folder like a restarted process."""
    items = choose_items(solutions, seed=0)

    def draw(participant: str, num_given: Counter[str]) -> list[StudyItem]:
        sheet = draw_sheet(items, 8, num_given, derive_rng("sheet", participant))
        fields = ["item", "problem_id", "round_index", "role", "correct"]
        return [
            StudyItem(**row, problem="How many?", solution=f"={row['item']}\n#### 3")
            for row in sheet[fields].to_dict("records")
        ]

    return lambda **options: Study(tmp_path / "study", draw, clock=clock, **options)


@pytest.fixture
def study(open_again) -> Study:
    return open_again()
