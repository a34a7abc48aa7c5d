"""Space on the disk that a run will take."""

from collections import namedtuple

import pytest

from pvg_hf.check.machine import disk_bytes
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.check.player_sizes import read_player_size
from pvg_hf.data.problems import GameProblems
from pvg_hf.run.layout import PhaseKey, RunFolder, partial_of

NO_CHECKPOINTS = ("prover.save_steps=null", "verifier.save_steps=null")

Usage = namedtuple("Usage", "total used free")


def space(recipe, hardware) -> float:
    return disk_bytes(recipe, GameProblems.load(recipe), hardware)


def test_checkpoints_of_the_largest_player_are_three_times_weights_and_averages(recipe_of, hardware):
    trained = [read_player_size(config, name, hardware).num_trained for name, config in recipe_of().players.items()]
    # Two kept and one being written; each is a weight and Adam's two averages in float32.
    assert space(recipe_of(), hardware) - space(recipe_of(*NO_CHECKPOINTS), hardware) == 3 * 3 * 4 * max(trained)


def test_checkpoints_of_a_warm_up_are_counted(recipe_of, hardware):
    size = read_player_size(recipe_of().prover, "prover", hardware)
    more = space(recipe_of("prover.warmup={max_steps: 20}", *NO_CHECKPOINTS), hardware)
    more -= space(recipe_of(*NO_CHECKPOINTS), hardware)
    assert more == (2 * 3 + 1) * 4 * size.num_parameters  # and the player that is made


def test_a_further_round_keeps_a_verifier_a_prover_and_its_best_checkpoint(recipe_of, hardware):
    trained = {
        name: read_player_size(config, name, hardware).num_trained for name, config in recipe_of().players.items()
    }
    weights = 4 * (trained["verifier"] + 2 * trained["prover"])
    more = space(recipe_of("num_rounds=3"), hardware) - space(recipe_of("num_rounds=2"), hardware)
    assert weights < more < weights + 2e6  # and some hundred solutions


def test_what_an_unfinished_phase_has_written_counts_as_written(recipe_of, hardware, tmp_path):
    recipe = recipe_of(f"output_dir={tmp_path}")
    before = space(recipe, hardware)
    partial = partial_of(PhaseKey("verifier", 0).target(RunFolder.of(recipe)))
    partial.mkdir(parents=True)
    (partial / "weights").write_bytes(bytes(1000))
    assert before - space(recipe, hardware) == 1000


@pytest.mark.parametrize(("free", "is_refused"), [(10**6, True), (10**15, False)])
def test_too_little_space_is_a_mistake_with_both_numbers(free, is_refused, recipe_of, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda place: Usage(10**15, 10**15 - free, free))
    recipe = recipe_of()
    mistakes = check_recipe(recipe, GameProblems.load(recipe))
    assert len(mistakes) == is_refused
    assert all("`output_dir`" in mistake and "1 MB free" in mistake and "MB more" in mistake for mistake in mistakes)
