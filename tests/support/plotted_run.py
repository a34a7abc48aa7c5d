"""A run to be plotted, with solutions that are programs, and with attacks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.figure import Figure
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.read import load_run


@pytest.fixture(scope="module")
def run(run_template, tmp_path_factory):
    """
    Two rounds, each attacked by two attackers, of which only one finds an exploit, and a drawn pool of the second.
    """
    folders = [tmp_path_factory.mktemp("attacked") for _ in range(2)]
    for folder in folders:
        attackers = {"attack": "src", "helpful_score": 1.0, "newest_weight": 0.5}
        steps = pd.DataFrame({"step": range(1, 5), "score/sneaky_incorrect": [0.0, 1.0, np.nan, 2.0]})
        curves = [steps.assign(seed=seed, **{"judged_accuracy/sneaky": 0.5}, **attackers) for seed in (0, 1)]
        pd.concat(curves).to_parquet(folder / "curves.parquet")
        ends = {"seed": [0, 1], "step": [3.0, np.nan], "num_steps": [3, 4], "max_steps": 4}
        pd.DataFrame({**ends, **attackers}).to_parquet(folder / "outcomes.parquet")
    judgements = [Judgement("attacks", k, "", {}, {}, {}, 0.0, folder) for k, folder in enumerate(folders)]
    drawn = {"2": Figure(0.75, 0.5, 0.9, 8), "eligible/2": Figure(1.0, 0.9, 1.0, 8), "4": Figure(0.5, 0.2, 0.8, 3)}
    judgements.append(Judgement("best_of_n", 1, "", {}, drawn, {}, 0.0))
    loaded = load_run(run_template(2))
    return replace(loaded, judgements=judgements, rounds=[with_programs(data) for data in loaded.rounds])


def with_programs(data):
    """A round whose solutions are programs: correct ones have the similarity 1, certified ones 0.52."""
    rows = data.solutions
    if rows is None:  # not minted yet
        return data
    inputs, similarity = rows["correct"].map({True: None, False: "[1]"}), rows["correct"].map({True: 1.0, False: 0.52})
    return replace(data, solutions=rows.assign(failing_input=inputs, similarity=similarity))


def lines_of(axes):
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}
