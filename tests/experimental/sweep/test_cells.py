"""The cells of a sweep, and their recipes."""

import pytest

from pvg_hf import load_recipe
from pvg_hf.config import RecipeError
from pvg_hf.experimental.sweep.cells import Cell, cell_recipe, list_cells, needs_pool, pool_recipe, pool_run

LEVELS = {"levels": [0, 0.2], "seeds": [3, 1]}


def _recipe(**sections):
    return load_recipe({"name": "levels", "sweep": LEVELS, **sections})


def test_references_come_first_and_nothing_is_trained_twice():
    cells = list_cells(_recipe(sweep={**LEVELS, "corrections": ["none", "forward", "pointwise_forward", "exact"]}))
    assert cells[:2] == [Cell(1, 0.0, "none"), Cell(3, 0.0, "none")]
    of_one = [(cell.level, cell.correction) for cell in cells if cell.seed == 1]
    # Without noise, a corrected loss is the plain one on the same pairs.
    clean = [(0, "none"), (0, "exact"), (0, "pointwise_all")]
    assert of_one == clean + [(0.2, name) for name in ("exact", "forward", "none", "pointwise_forward")]
    assert len({cell.name for cell in cells}) == len(cells) == 14


def test_the_clean_verifier_is_trained_in_any_case():
    cells = list_cells(_recipe(sweep={"levels": [0.2], "seeds": [0], "corrections": ["forward"]}))
    assert cells == [Cell(0, 0.0, "none"), Cell(0, 0.2, "forward")]


@pytest.mark.parametrize(
    ("correction", "loss", "corrected", "pairs"),
    [
        ("none", "bradley_terry", "none", "labelled"),
        ("backward", "bradley_terry", "backward", "labelled"),
        ("exact", "bradley_terry", "exact", "all"),
        ("pointwise", "cross_entropy", "none", "labelled"),
        ("pointwise_all", "cross_entropy", "none", "all"),
        ("pointwise_forward", "cross_entropy", "forward", "all"),
        ("pointwise_backward", "cross_entropy", "backward", "all"),
    ],
)
def test_a_cells_recipe_is_the_sweeps_with_its_level_seed_and_correction(correction, loss, corrected, pairs):
    changes = {"resume_from_hub": "ana/run", "noise": {"resample": "epoch"}}
    recipe = _recipe(verifier={"max_steps": 7, "correction": "smoothing"}, **changes)
    played = cell_recipe(recipe, Cell(3, 0.2, correction))
    assert played.resume_from_hub is None
    assert (played.verifier.loss, played.verifier.correction, played.data.pairs) == (loss, corrected, pairs)
    assert (played.noise.rho0, played.noise.rho1, played.noise.resample) == (0.2, 0.2, "epoch")
    assert (played.seed, played.verifier.max_steps, played.sweep) == (3, 7, None)


def test_a_game_has_its_rounds_and_a_verifier_alone_has_one():
    rounds = [
        cell_recipe(_recipe(num_rounds=4, sweep={**LEVELS, "form": form}), Cell(1, 0.2, "none")).num_rounds
        for form in ("verifier", "game")
    ]
    assert rounds == [1, 4]


def test_a_level_can_set_one_of_the_two_rates():
    played = cell_recipe(_recipe(sweep={**LEVELS, "vary": "rho0"}), Cell(1, 0.6, "none"))
    assert (played.noise.rho0, played.noise.rho1) == (0.6, 0)


def test_a_level_that_makes_labels_uninformative_is_refused():
    with pytest.raises(RecipeError, match=r"noise\.epsilon.*less than 0\.5"):
        cell_recipe(_recipe(), Cell(1, 0.6, "none"))


def test_solutions_and_players_are_made_once_for_each_seed():
    recipe = _recipe(verifier={"scratch": {}}, noise={"applies_to": "both"})
    minted, played = pool_recipe(recipe, 3), cell_recipe(recipe, Cell(3, 0.2, "none"))
    run = pool_run(recipe, 3)
    assert (minted.seed, minted.noise.is_for_prover, minted.sweep) == (3, False, None)
    assert f"{minted.output_dir}/{minted.name}" == str(run.root)
    assert played.bootstrap.import_from == str(run.pool(-1) / "base.parquet")
    assert (played.verifier.model, played.verifier.scratch) == (str(run.models / "verifier"), None)
    assert played.prover.model == recipe.prover.model


def test_existing_solutions_are_imported_unchanged():
    recipe = _recipe(bootstrap={"import_from": "mine.parquet"})
    assert not needs_pool(recipe)
    assert cell_recipe(recipe, Cell(1, 0.2, "none")).bootstrap.import_from == "mine.parquet"


@pytest.mark.parametrize(
    ("sweep", "told"),
    [
        ({"levels": []}, "sweep.levels"),
        ({"levels": [0, 0.1, 0.1]}, "0.1 is repeated"),
        ({"levels": [1.0]}, "less than 1"),
        ({"corrections": ["forwards"]}, "sweep.corrections"),
        ({"form": "verifer"}, "sweep.form"),
        ({"level": [0]}, "Did you mean `levels`"),
    ],
)
def test_mistakes_in_the_section_are_reported(sweep, told):
    with pytest.raises(RecipeError, match=told):
        load_recipe({"sweep": sweep})
