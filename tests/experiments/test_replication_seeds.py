"""Runs of one recipe side by side."""

import json

from experiments.replication_tables import SEED_FIGURES, seeds_pools_table, seeds_table
from pvg_hf.run.read import load_run


def _set_figures(run, round_name, **figures) -> None:
    path = run / "evaluation" / round_name / "metrics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **{f"round/{k}": v for k, v in figures.items()}}))


def test_a_row_per_seed_and_evaluated_round(make_run):
    run = make_run(2)
    (run / "recipe.yaml").write_text((run / "recipe.yaml").read_text().replace("seed: 0", "seed: 7"))
    worse_by_a_fifth = {"value": 0.2, "low": 0.125, "high": 0.25, "n": 1200}
    without_interval = {"value": 0.5, "low": None, "high": None, "n": 2}
    _set_figures(run, "round-000", **{"valid_sneaky_change": worse_by_a_fifth, "failed/sneaky": without_interval})
    empty = {"value": None, "low": None, "high": None, "n": 0}
    _set_figures(run, "round-001", **{"valid_sneaky_change": empty})
    header, rule, *rows = [line.split(" | ") for line in seeds_table([load_run(run)]).splitlines()]
    assert len(header) == len(rule) == 2 + len(SEED_FIGURES)
    assert [(row[0], row[1]) for row in rows] == [("| 7", "0"), ("| 7", "1")]
    assert header[5:7] == ["sneaky valid mistakes, against the base", "sneaky failed"]
    assert rows[0][5:7] == ["0.200 [0.125, 0.250] (n=1,200)", "0.500 (n=2)"]
    assert rows[1][5] == "none (n=0)"


def test_every_verifier_has_a_row_per_seed(make_run):
    run = make_run(2)
    header, _, *rows = [line.strip("| ").split(" | ") for line in seeds_pools_table([load_run(run)]).splitlines()]
    assert header == ["seed", "verifier", "base prover", "prover 0", "prover 1"]
    assert [row[:2] for row in rows] == [["0", "0"], ["0", "1"]]
    values = json.loads((run / "evaluation" / "round-001" / "metrics.json").read_text())
    figure = values["round/pools/accepted/round-001/round-000"]
    assert rows[1][3].startswith(f"{figure['value']:.3f} [")
