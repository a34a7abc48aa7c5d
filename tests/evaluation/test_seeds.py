"""Runs of one recipe side by side."""

import json

from pvg_hf.evaluation.seeds import COLUMNS, seeds_table


def _set_figures(run, round_name, **figures) -> None:
    path = run / "evaluation" / round_name / "metrics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **{f"round/{k}": v for k, v in figures.items()}}))


def test_a_row_per_seed_and_evaluated_round(make_run):
    run = make_run(2)
    (run / "recipe.yaml").write_text((run / "recipe.yaml").read_text().replace("seed: 0", "seed: 7"))
    worse_by_a_fifth = {"value": -0.2, "low": -0.25, "high": -0.125, "n": 1200}
    _set_figures(run, "round-000", **{"accuracy_change/sneaky": worse_by_a_fifth})
    empty = {"value": None, "low": None, "high": None, "n": 0}
    _set_figures(run, "round-001", **{"accuracy_change/sneaky": empty})
    header, rule, *rows = [line.split(" | ") for line in seeds_table([run]).splitlines()]
    assert len(header) == len(rule) == 2 + len(COLUMNS)
    assert [(row[0], row[1]) for row in rows] == [("| 7", "0"), ("| 7", "1")]
    # more often incorrect is less often correct: the sign is turned, and the interval with it
    assert rows[0][5] == "0.200 [0.125, 0.250] (n=1,200)"
    assert rows[1][5] == "none (n=0)"
