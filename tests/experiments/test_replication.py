"""One recipe with several seeds."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.replication import replicate
from experiments.replication_plots import plot_contrast, plot_replication, plot_training
from experiments.replication_tables import (
    ACCEPTED_IN_ALL_POOLS,
    PARITY_REACHED,
    PARITY_STEP,
    contrast_recipes,
    contrast_table,
    largest_common_n,
    means_table,
    replicate_recipe,
    tabulate_replication,
)
from pvg_hf.config import load_recipe
from pvg_hf.core.figure import Figure
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.read import load_run

REPOSITORY = Path(__file__).parents[2]


def test_means_over_seeds_by_hand(make_run, tmp_path):
    run = make_run(2)
    other = shutil.copytree(run, tmp_path / "other")
    path = other / "evaluation" / "round-000" / "metrics.json"
    values = json.loads(path.read_text())
    first = values["round/accuracy/helpful"]["value"]
    values["round/accuracy/helpful"]["value"] = first - 0.125
    path.write_text(json.dumps(values))
    header, _, *rows = [
        line.strip("| ").split(" | ") for line in means_table([load_run(run), load_run(other)]).splitlines()
    ]
    assert header[-3:] == ["round 0", "round 1", "round 1 less round 0"]
    table = {row[0]: row[1:] for row in rows}
    assert table["accuracy/helpful"][0] == show_figure(mean_over_seeds([first, first - 0.125]))
    assert table["accuracy/helpful"][0].endswith("(n=2)")
    later = load_run(run).evaluated[1].figure("accuracy/helpful").value
    changes = [later - first, later - (first - 0.125)]
    assert table["accuracy/helpful"][2] == show_figure(mean_over_seeds(changes))
    cells = [json.loads((run / "evaluation" / f"round-00{k}" / "metrics.json").read_text()) for k in (0, 1)]
    figures = {**cells[0], **cells[1]}
    last = [figures[f"round/pools/accepted/round-001/{pool}"]["value"] for pool in ("base", "round-000", "round-001")]
    assert table[ACCEPTED_IN_ALL_POOLS][1].startswith(f"{sum(last) / 3:.3f}")


def test_plots_show_the_means_of_rounds_that_all_seeds_have(make_run, run_template):
    folder = make_run(2)
    path = folder / "evaluation" / "round-001" / "metrics.json"
    values = json.loads(path.read_text())
    share = values["round/pools/accepted/round-001/base"]["value"]
    values["round/pools/accepted/round-001/base"]["value"] = share - 0.2
    path.write_text(json.dumps(values))
    runs = [load_run(folder), load_run(run_template(3))]
    rounds, training, pools = plot_replication("mine", runs)
    assert [plot.name for plot in (rounds, training, pools)] == ["mine-rounds", "mine-training", "mine-pools"]
    titles = [axes.get_title() for axes in training.canvas.axes]
    assert titles == ["round 0", "round 1", "round 2"]  # the last of them is not evaluated yet in the first run
    accuracy, *_ = rounds.canvas.axes
    assert [label.get_text() for label in accuracy.get_xticklabels()] == ["base", "0", "1"]
    (matrix,) = pools.canvas.axes
    assert len(matrix.texts) == 6  # two verifiers, the base and two provers
    shown = {text.get_position(): text.get_text().split("\n")[0] for text in matrix.texts}
    assert shown[0, 1] == f"{share - 0.1:.2f}"
    assert list(plot_replication("mine", [replace(run, rounds=[]) for run in runs])) == []


def test_training_curves_average_each_seeds_steps(make_run):
    run = load_run(make_run(2))
    steps = pd.DataFrame(
        {"step": [1, 2, 3], "accuracy/helpful": [0.5, 1.0, np.nan], "accuracy/sneaky": [np.nan, np.nan, 0.2]}
    )
    trained = replace(run, rounds=[replace(data, steps=steps) for data in run.rounds])
    begun = replace(run, rounds=[replace(run.rounds[0], steps=steps), replace(run.rounds[1], steps=steps[:0])])
    assert plot_training("mine", {"mine": [replace(run, rounds=[])]}) is None
    plot = plot_training("mine", {"ours": [trained, begun], "theirs": [trained]})
    upper, lower = plot.canvas.axes  # one round is trained in all runs
    assert [axes.get_title() for axes in (upper, lower)] == ["ours, round 0", "theirs, round 0"]
    helpful, dot, sneaky, _ = lower.lines
    assert (list(helpful.get_xdata()), list(helpful.get_ydata())) == ([1, 2], pytest.approx([0.5, 0.6]))
    assert (list(dot.get_xdata()), list(dot.get_ydata())) == ([2], pytest.approx([0.6]))
    assert list(sneaky.get_xdata()) == [3]
    assert len(upper.lines) == 2 * len(lower.lines)  # a run more


def drawn(sizes: dict[str, int], index: int) -> Judgement:
    """Best-of-n of a round, which is .5 at every n; `sizes` has the numbers of eligible problems."""
    figures = {n: Figure(0.5, 0.4, 0.6, eligible) for n, eligible in sizes.items()}
    return Judgement("best_of_n", index, "", {}, {**figures, "eligible/2": Figure(1.0, 0.9, 1.0, 50)}, {}, 0.0)


def test_best_of_n_is_tabulated_at_an_n_that_all_rounds_have(make_run):
    run = load_run(make_run(2))
    many = drawn({"2": 50, "64": 30, "256": 12}, 0)
    few = drawn({"2": 48, "64": 10, "256": 9}, 1)  # 9 are fewer than are needed
    rows = means_table([replace(run, judgements=[many, few])])
    assert "| best_of_n/64 | 0.500 (n=1) | 0.500 (n=1) | 0.000 (n=1) |" in rows
    assert rows.count("best_of_n/") == 1


def test_two_recipes_are_compared_seed_by_seed(make_run):
    run = load_run(make_run(2))
    recipe = run.recipe

    def of(seed: int, name: str, change: float):
        rounds = [
            replace(data, figures={**data.figures, "soundness": Figure(0.5 + 0.1 * seed + change, None, None, 9)})
            for data in run.evaluated
        ]
        return replace(run, recipe=replace(recipe, seed=seed, name=f"{name}-seed-{seed}"), rounds=rounds)

    ours = [of(seed, "ours", 0.2) for seed in (0, 1, 2)]
    theirs = [of(seed, "theirs", change) for seed, change in ((1, 0.1), (0, 0.2), (3, 0.0))]
    header, _, *rows = [
        line.strip("| ").split(" | ") for line in contrast_table(contrast_recipes(ours, theirs)).splitlines()
    ]
    assert header == ["round 1", "ours", "theirs", "difference"]
    (row,) = [row for row in rows if row[0] == "soundness"]
    # Seeds 0 and 1 only: .7 and .8 against .7 and .7.
    assert row[1:] == [show_figure(mean_over_seeds(values)) for values in ([0.7, 0.8], [0.7, 0.7], [0.0, 0.1])]
    plot = plot_contrast(contrast_recipes(ours, theirs))
    assert plot.name == "ours-against-theirs"
    left, right = plot.canvas.axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert PARITY_STEP not in names  # a number of steps
    place = left.get_yticks()[names.index("soundness")]
    (point,) = [line for line in right.lines if list(line.get_ydata()) == [place]]
    assert point.get_xdata()[0] == pytest.approx(0.05)
    (interval,) = [line for line in right.lines if list(line.get_ydata()) == [place, place]]
    difference = mean_over_seeds([0.0, 0.1])
    assert list(interval.get_xdata()) == pytest.approx([difference.low, difference.high])
    with pytest.raises(ValueError, match="no seed in common"):
        contrast_recipes(ours[2:], theirs[:2])


def test_games_are_played_once_and_tabulated(tmp_path, make_recipe):
    recipe = load_recipe(make_recipe(tmp_path, num_rounds=1))
    with pytest.raises(ValueError, match="No seed of"):
        tabulate_replication(recipe, [3])
    replicate(recipe, [3])
    weights = sorted((tmp_path / f"{recipe.name}-seed-3" / "verifier").rglob("*.safetensors"))
    before = [path.stat().st_mtime_ns for path in weights]
    assert before
    text = tabulate_replication(recipe, [3, 4])  # seed 4 has not begun
    assert "Means over 1 seed(s)" in text
    (raw,) = json.loads((tmp_path / f"{recipe.name}-replication.json").read_text())
    assert (raw["seed"], list(raw["rounds"])) == (3, ["0"])
    assert {path.name for path in tmp_path.glob("*.png")} == {
        f"{recipe.name}-rounds.png",
        f"{recipe.name}-training.png",
        f"{recipe.name}-pools.png",
    }
    replicate(recipe, [3])
    assert [path.stat().st_mtime_ns for path in weights] == before


def test_verifiers_are_compared_on_the_provers_that_both_recipes_have(make_run):
    """
    A longer run has more provers, whose mistakes its verifiers accept more or less often: no difference of the
    recipes.
    """
    long = load_run(make_run(3))
    short = replace(long, rounds=[data for data in long.rounds if data.round_index < 2])
    header, _, *rows = [
        line.strip("| ").split(" | ") for line in contrast_table(contrast_recipes([long], [short])).splitlines()
    ]
    assert header[0] == "round 1"
    (row,) = [row for row in rows if row[0] == ACCEPTED_IN_ALL_POOLS]
    assert row[1] == row[2]
    assert row[3] == "0.000 (n=1)"


def test_a_phase_without_parity_counts_with_all_its_steps(make_run):
    run = load_run(make_run(2))
    found = (Figure(40, None, None, 50), Figure(None, None, None, 50)), (Figure(20, None, None, 50),) * 2
    runs = [
        replace(
            run, rounds=[replace(data, figures={"parity_step": parity}) for data, parity in zip(run.evaluated, steps)]
        )
        for steps in found
    ]
    rows = {row[0]: row[1:] for row in (line.strip("| ").split(" | ") for line in means_table(runs).splitlines())}
    assert [cell.split()[0] for cell in rows[PARITY_REACHED][:2]] == ["1.000", "0.500"]
    assert [cell.split()[0] for cell in rows[PARITY_STEP][:2]] == ["30.000", "35.000"]
    assert rows[PARITY_REACHED][0] == "1.000 (n=2)"  # equal values show no spread


ARMS = {
    found.split()[0].removeprefix("name="): found
    for found in re.findall(
        r"`(name=(?:arithmetic|short)-[^`]+)`",
        (REPOSITORY / "experiments/dynamics.md").read_text(encoding="utf-8"),
    )
}


@pytest.mark.parametrize("name", ARMS)
def test_arms_of_the_reference_experiment_are_valid(name):
    played = "arithmetic-short" if name.startswith("short-") else "arithmetic"
    recipe = load_recipe(REPOSITORY / f"recipes/{played}.yaml", ARMS[name].split())
    assert replicate_recipe(recipe, 2).name == f"{name}-seed-2"


def test_the_plan_of_the_reference_experiment_names_its_arms():
    in_the_short_game = ("cgc", "shared", "small", "sequential", "simultaneous", "large")
    assert set(ARMS) == {"arithmetic-head", "arithmetic-likelihood", *(f"short-{arm}" for arm in in_the_short_game)}


def test_the_largest_n_that_tables_have_in_common():
    tables = [{str(n): Figure(0.5, None, None, eligible) for n, eligible in sizes} for sizes in (
        ((2, 50), (16, 20), (128, 4)),
        ((2, 50), (16, 7), (64, 7)),
    )]  # fmt: skip
    tables[0]["eligible/256"] = Figure(1.0, None, None, 50)
    assert largest_common_n(tables, least_eligible=1) == 16
    assert largest_common_n(tables, least_eligible=8) == 2
    assert largest_common_n(tables, least_eligible=51) is None
    assert largest_common_n([], least_eligible=1) is None
