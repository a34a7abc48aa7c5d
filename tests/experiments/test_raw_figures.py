"""Raw figures that are kept beside a table of replicates."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.replication_tables import raw_figures
from pvg_hf.core.figure import Figure
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.read import load_run


def test_attackers_and_training_are_kept(make_run, tmp_path):
    attackers = {"attack": "src", "helpful_score": 1.0, "newest_weight": 0.5}
    # Smoothed scores: 0, 1, 1.5 for one, and always 0 for the other.
    scores = {0: [0.0, 2.0, 2.0], 1: [0.0, 0.0, 0.0]}
    curves = [
        pd.DataFrame({"step": [1, 2, 3], "score/sneaky_incorrect": of_seed, "seed": seed, **attackers})
        for seed, of_seed in scores.items()
    ]
    pd.concat(curves).to_parquet(tmp_path / "curves.parquet")
    ends = {"seed": [0, 1], "step": [3.0, np.nan], "num_steps": [3, 3], "max_steps": 3, "seconds": [1.23, 4.0]}
    pd.DataFrame({**ends, **attackers}).to_parquet(tmp_path / "outcomes.parquet")
    found = Judgement("attacks", 1, "", {}, {"src/found": Figure(0.5, 0.1, 0.9, 2)}, {}, 7.25, tmp_path)
    run = load_run(make_run(2))
    steps = pd.DataFrame({"step": [1, 2], "accuracy/helpful": [0.5, np.nan], "accuracy/sneaky": [np.nan, 1 / 3]})
    raw = raw_figures(replace(run, judgements=[found], rounds=[replace(run.rounds[0], steps=steps), *run.rounds[1:]]))
    raw = json.loads(json.dumps(raw, allow_nan=False))
    of_all = {"round": 1, "attack": "src", "max_steps": 3, "num_steps": 3}
    assert raw["attackers"] == [
        {**of_all, "seed": 0, "step": 3, "convincing_step": 2, "seconds": 1.2},
        {**of_all, "seed": 1, "step": None, "convincing_step": None, "seconds": 4.0},
    ]
    assert raw["training"]["0"] == {"helpful": [0.5, None], "sneaky": [None, 0.3333]}
    assert raw["seconds"]["judging/attacks 1"] == 7.2
    assert raw["rounds"]["1"]["judging/attacks/src/found"] == [0.5, 0.1, 0.9, 2]
    assert raw["rounds"]["1"]["accuracy/helpful"][0] == round(run.evaluated[1].figure("accuracy/helpful").value, 5)
