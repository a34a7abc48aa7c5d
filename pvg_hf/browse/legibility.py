"""A legibility study of a run's test solutions."""

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from pvg_hf.browse.index import SolutionIndex
from pvg_hf.browse.runs import OpenRun
from pvg_hf.seeding import derive_rng
from pvg_hf.study import NUM_SOLUTIONS, SECONDS
from pvg_hf.study.items import StudyItem, choose_items, draw_sheet
from pvg_hf.study.study import Study


def open_study(
    run: OpenRun,
    folder: Path,
    *,
    seconds: float = SECONDS,
    num_solutions: int = NUM_SOLUTIONS,
    **options: Any,
) -> Study:
    """
    Begin a study, or go on with it.

    Args:
        run ([`OpenRun`]):
            Whose test solutions are judged, those of the base prover included. What it has when a participant comes is
            what the sheet is drawn from.
        folder (`Path`):
            Of the study's files.
        seconds (`float`, *optional*, defaults to `45.0`), num_solutions (`int`, *optional*, defaults to 24):
            The time for a solution, and how many a participant is given.
        options (`Any`, *optional*):
            Of [`~pvg_hf.study.study.Study`].
    """
    seed = run.recipe.seed
    chosen: dict[SolutionIndex, pd.DataFrame] = {}  # of the index as it is

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
