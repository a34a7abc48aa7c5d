"""The sweep over noise levels: gate, resume, executors, fits."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from pvg_hf.core.integrity import read_json
from pvg_hf.experimental.messages.building import open_world
from pvg_hf.experimental.messages.equilibrium import (
    describe_equilibrium,
    equilibrium_folder,
    levels_of,
    passing_seeds,
    result_file,
    run_equilibrium,
    train_seeds,
)
from pvg_hf.experimental.messages.equilibrium_fits import fit_deviation, growth_statement
from pvg_hf.experimental.messages.equilibrium_report import closed_forms, summarise_equilibrium, write_equilibrium
from tests.support.message_games import small_recipe

# With the verifier's program given, a few rounds of a quick prover pass the gate.
PASSING = [
    "verifier={kind: checking, start: parity}",
    "world.options={num_equations: 3, num_variables: 2, num_train: 640, num_test: 400}",
    "training.num_rounds=60",
    "training.prover_learning_rate=0.01",
    "training.batch_size=64",
    "prover.hidden_size=64",
    "equilibrium.levels=[0.0, 0.2]",
    "equilibrium.seeds=[0, 1]",
]


def test_a_sweep_is_played_resumed_and_reported(tmp_path):
    recipe = small_recipe(f"output_dir={tmp_path}", *PASSING)
    plan = describe_equilibrium(recipe)
    assert "To play  2 of 2 levels" in plan
    assert "Gate     not known yet" in plan
    assert not list(tmp_path.iterdir())
    folder, table = run_equilibrium(recipe)
    assert sorted(table["epsilon"].tolist()) == [0.0, 0.0, 0.2, 0.2]
    plan = describe_equilibrium(recipe)
    assert "To play  0 of 2 levels" in plan
    assert "Gate     passed with the seeds 0, 1" in plan
    assert table["passes"].all()
    clean = table[table["epsilon"] == 0]
    assert clean[["loss_change", "decision_change", "parameter_distance"]].to_numpy().tolist() == [[0.0] * 3] * 2
    assert (table[table["epsilon"] == 0.2]["parameter_distance"] > 0).all()
    before = result_file(recipe, 0.0).read_bytes()
    more = replace(recipe, equilibrium=replace(recipe.equilibrium, levels=[0.0, 0.2, 0.3]))
    with ThreadPoolExecutor(1) as executor:
        folder, table = run_equilibrium(more, executor=executor)
    assert result_file(recipe, 0.0).read_bytes() == before
    assert table["epsilon"].nunique() == 3
    write_equilibrium(more, folder, table)
    summary = folder.summary.read_text()
    assert "| 0.3 |" in summary
    assert "loss change | power" in summary
    assert {path.name for path in folder.plots.glob("*.png")} == {"levels.png", "deviations.png"}
    with pytest.raises(ValueError, match=r"training\.num_rounds"):
        run_equilibrium(replace(recipe, training=replace(recipe.training, num_rounds=61)))


def test_no_noise_is_played_if_no_clean_game_passes_the_gate(tmp_path):
    recipe = small_recipe(f"output_dir={tmp_path}", "equilibrium.seeds=[0]", "equilibrium.levels=[0.1]")
    _, table = run_equilibrium(recipe)
    assert passing_seeds(recipe) == []
    assert "Gate     passed with the seeds none" in describe_equilibrium(recipe)
    assert table["epsilon"].tolist() == [0.0]
    assert not result_file(recipe, 0.1).exists()
    assert "no noise result is reported" in summarise_equilibrium(recipe, table)
    assert "none" in read_json(result_file(recipe, 0.0))["seeds"]["0"]


def test_levels_begin_with_the_clean_one():
    recipe = small_recipe("equilibrium.levels=[0.3, 0.1]")
    assert levels_of(recipe) == [0.0, 0.1, 0.3]
    assert equilibrium_folder(recipe).root.name == "messages-equilibrium"


def test_rates_in_the_recipe_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="leave the rate out"):
        run_equilibrium(small_recipe(f"output_dir={tmp_path}", "noise.epsilon=0.1"))


def test_games_are_the_same_trained_together_and_alone():
    together, alone = (
        small_recipe("noise.epsilon=0.2", f"equilibrium.vectorized={value}") for value in ("true", "false")
    )
    loaded = open_world(together)
    for ours, theirs in zip(
        train_seeds(together, loaded, "prover", [0, 1]), train_seeds(alone, loaded, "prover", [0, 1])
    ):
        for a, b in zip(ours.parameters(), theirs.parameters()):
            assert np.allclose(a.detach(), b.detach(), atol=2e-4)


LEVELS = [0.1, 0.2, 0.3, 0.4] * 2


@pytest.mark.parametrize(
    ("form", "function", "expected"),
    [
        ("linear", lambda e: 3 * e, {"a": 3}),
        ("quadratic", lambda e: 2 * e - e**2, {"a": 2, "b": -1}),
        ("power", lambda e: 0.5 * e**1.7, {"a": 0.5, "k": 1.7}),
    ],
)
def test_fits_find_exact_parameters(form, function, expected):
    fit = fit_deviation([0.0, *LEVELS], [0.0, *map(function, LEVELS)], form)
    assert {name: figure.value for name, figure in fit.params.items()} == pytest.approx(expected, abs=1e-4)
    assert fit.r_squared == pytest.approx(1)
    assert fit(np.array([0.5]))[0] == pytest.approx(function(0.5), abs=1e-3)


def test_the_linear_fit_by_hand():
    # (0.1, 1), (0.2, 1): a = 0.3 / 0.05 = 6; the residuals .4 and -.2 give SSE .2, without variance about the mean.
    fit = fit_deviation([0.1, 0.2], [1.0, 1.0], "linear")
    assert fit.params["a"].value == pytest.approx(6)
    assert fit.r_squared is None
    assert fit.bic == pytest.approx(2 * np.log(0.1) + np.log(2))


def test_too_few_values_have_no_fit():
    assert fit_deviation([0.0, 0.1], [0.0, 1.0], "linear") is None
    assert fit_deviation([0.1, 0.1, 0.1], [1.0, 2.0, 1.5], "power") is None
    assert "too few" in growth_statement([0.1], [1.0])


@pytest.mark.parametrize(
    ("exponent", "words"),
    [(0.5, "more slowly than linearly"), (1.0, "consistent with O(epsilon)"), (2.0, "faster than linearly")],
)
def test_statements_on_growth(exponent, words):
    noise = np.array([1, -1, -1, 1, -1, 1, 1, -1]) * 1e-3
    values = np.array(LEVELS) ** exponent + noise
    assert words in growth_statement(LEVELS, values.tolist())


def test_closed_forms_are_those_of_the_channel():
    recipe = small_recipe("world={name: erasure, options: {length: 2}}")
    recipe.world.options = {"length": 2, "erasure_prob": 0.5}
    table = closed_forms(recipe, [0.0, 0.1])
    assert table["closed form: soundness when checking"].tolist() == pytest.approx([0.75, 0.75])
    assert closed_forms(small_recipe(), [0.0]).empty
