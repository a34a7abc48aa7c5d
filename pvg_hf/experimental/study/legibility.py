"""Opens the legibility study of a run's test solutions."""

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from pvg_hf.app.index import SolutionIndex
from pvg_hf.app.runs import OpenRun
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.study import NUM_SOLUTIONS, SECONDS
from pvg_hf.experimental.study.items import StudyItem, choose_items, draw_sheet
from pvg_hf.experimental.study.participants import Study
from pvg_hf.hub.locate import kept_folder


def study_folder(run: OpenRun) -> Path:
    """
    Return the default folder of a run's study: `study` in the run's folder.

    The study of a published run is next to the folders of its downloaded rounds, so that it continues when the next
    round is published.
    """
    return kept_folder(run.folder.root) / "study"


def open_study(
    run: OpenRun, folder: Path, *, seconds: float = SECONDS, num_solutions: int = NUM_SOLUTIONS, **options: Any
) -> Study:
    """
    Start a study, or resume it.

    Args:
        run: The run. Its test solutions are judged, including those of the base prover. A participant's sheet is drawn
            from the rounds that exist when the participant arrives.
        seconds, num_solutions: Time limit for a solution, and number of solutions per participant.
    """
    seed = run.recipe.seed
    chosen: dict[SolutionIndex, pd.DataFrame] = {}  # cache for the current index, which is replaced when the run grows

    def draw(participant: str, num_given: Counter[str]) -> list[StudyItem]:
        index = run.index()
        if index not in chosen:
            chosen.clear()
            chosen[index] = choose_items(index.test_solutions(), seed)
        rng = derive_rng(seed, "study", "sheet", participant)
        sheet = draw_sheet(chosen[index], num_solutions, num_given, rng)
        return [
            StudyItem(
                item=row.item,
                problem_id=row.problem_id,
                round_index=int(row.round_index),
                role=row.role,
                correct=bool(row.correct),
                problem=texts["problem"],
                solution=texts["solution"].strip(),
            )
            for row, texts in zip(sheet.itertuples(), index.read(list(sheet["place"])))
        ]

    return Study(folder, draw, seconds=seconds, **options)
