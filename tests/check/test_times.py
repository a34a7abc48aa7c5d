"""
Times in a plan: of earlier phases of the run, of the pilot, and of the last game with the same players on this
machine.
"""

from dataclasses import asdict

import pytest

from pvg_hf.check.graphics_cards import CARDS
from pvg_hf.check.plan import describe_plan
from pvg_hf.check.round_plans import PILOT, keep_rates, plan_rounds, rates_file
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.core.stopwatch import SCORING, TRAINING, WRITING, Spent
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.layout import PhaseKey, RunFolder
from pvg_hf.run.phase_record import PhaseRecord


@pytest.fixture
def recipe(recipe_of):
    """A recipe of three rounds, whose second prover takes twice the steps."""
    steps = ("prover.max_steps=5", "rounds.1.prover.max_steps=10")
    return recipe_of("num_rounds=3", "prover.roles=sneaky_only", *steps, "device=auto")  # nothing selects a checkpoint


def finish(recipe, phase: str, round_index: int, seconds: float, num_processes: int = 1) -> None:
    target = PhaseKey(phase, round_index).target(RunFolder.of(recipe))
    target.mkdir(parents=True)
    write_json(target / "phase.json", asdict(PhaseRecord(num_processes, seconds)))


def times(recipe, phase: str) -> list:
    return [plan.times[phase] for plan in plan_rounds(recipe, GameProblems.load(recipe))]


def seconds(recipe, phase: str) -> list[float]:
    return [time.seconds for time in times(recipe, phase)]


def tokens(recipe, phase: str) -> dict[str, float]:
    return plan_rounds(recipe, GameProblems.load(recipe))[0].tokens(phase)


def keep(recipe, phase: str, **split: Spent) -> None:
    keep_rates(recipe, Hardware.here(recipe.device), phase, split)


def test_a_recorded_time_is_that_of_its_phase_and_of_later_rounds_by_their_tokens(recipe):
    finish(recipe, "prover", 0, 600)
    assert seconds(recipe, "prover") == pytest.approx([600, 1200, 600])
    finish(recipe, "prover", 1, 1500)
    assert seconds(recipe, "prover") == pytest.approx([600, 1500, 750])


def test_equal_rounds_take_the_time_of_the_last_finished_one(recipe_of):
    recipe = recipe_of("num_rounds=4")
    for round_index, taken in enumerate((600, 900)):
        finish(recipe, "mint", round_index, taken)
    assert seconds(recipe, "mint") == [900]


def test_times_of_other_machines_and_numbers_of_processes_are_not_taken(recipe):
    finish(recipe, "mint", 0, 600, num_processes=2)
    assert times(recipe, "mint") == [None] * 3
    assert not any(plan.times for plan in plan_rounds(recipe, GameProblems.load(recipe), CARDS["l4"]))


def test_a_pilots_rate_is_that_of_writing(recipe_of):
    recipe = recipe_of()
    keep(recipe, PILOT, writing=Spent(2.0, 100))  # 50 tokens a second
    (time,) = times(recipe, "bootstrap")
    assert time.seconds == pytest.approx(tokens(recipe, "bootstrap")[WRITING] / 50)
    assert "by a pilot on this machine" in time.where[0]
    assert times(recipe, "mint") == [None]  # scoring was not measured


def test_rates_of_the_last_game_on_this_machine_are_taken_for_the_same_players(recipe_of):
    recipe = recipe_of()
    # Grading, which has no tokens, is spread over the rest, and a start that was killed is left out.
    keep(recipe, "mint", writing=Spent(6.0, 40), scoring=Spent(2.0, 80), grading=Spent(8.0), unknown=Spent(90.0))
    wanted = tokens(recipe, "mint")
    (time,) = times(recipe, "mint")
    assert time.seconds == pytest.approx(wanted[WRITING] * 12 / 40 + wanted[SCORING] * 4 / 80)
    assert times(recipe_of("prover.lora={}"), "mint") == [None]
    assert seconds(recipe, "bootstrap") == pytest.approx(
        [tokens(recipe, "bootstrap")[WRITING] * 12 / 40]
    )  # the same work


def test_another_phase_lends_its_rate_if_it_does_the_same_work(recipe_of):
    """The verifier is trained in its own phase only; a prover is trained in another way in a warm-up."""
    recipe = recipe_of("prover.roles=sneaky_only")
    keep(recipe, "verifier", training=Spent(3.0, 30), evaluating=Spent(1.0, 10))
    keep(recipe, "warmup", training=Spent(3.0, 30))
    keep(recipe, "mint", writing=Spent(6.0, 60), scoring=Spent(2.0, 80))
    assert times(recipe, "prover") == [None]
    keep(recipe, "prover", training=Spent(2.0, 10), writing=Spent(1.0, 10), scoring=Spent(1.0, 10))
    wanted = tokens(recipe, "prover")
    assert seconds(recipe, "prover") == pytest.approx(
        [wanted[TRAINING] / 5 + wanted[WRITING] / 10 + wanted[SCORING] / 10]
    )
    assert seconds(recipe, "evaluate") == pytest.approx([tokens(recipe, "evaluate")[SCORING] / 40])  # of most tokens


@pytest.mark.parametrize("content", [None, "{", "not a folder"])
def test_a_cache_that_cannot_be_used_is_no_error(content, recipe_of):
    place = rates_file().parent
    place.parent.mkdir()
    if content == "not a folder":
        place.write_text("")
    elif content:
        place.mkdir()
        rates_file().write_text(content)
    recipe = recipe_of()
    assert times(recipe, "mint") == [None]
    keep(recipe, "mint", writing=Spent(6.0, 40), scoring=Spent(2.0, 80))
    assert (times(recipe, "mint") == [None]) == (content == "not a folder")


def test_a_plan_says_where_times_were_measured_and_adds_up_what_is_left(recipe):
    assert "measured in" not in describe_plan(recipe)
    assert "not measured yet. It is known when" in " ".join(describe_plan(recipe).split())
    for phase in ("verifier", "prover", "mint", "evaluate"):
        finish(recipe, phase, 0, 6000)
    plan = describe_plan(recipe).splitlines()
    shown = [line.split()[-2:] for line in plan if line.startswith("  prover")]
    assert shown == [["100", "min"], ["3.3", "h"], ["100", "min"]]  # 6,000 s and 12,000 s
    (left,) = [line for line in plan if line.startswith("To play")]
    # Eight phases of 6,000 s, of which one takes twice as long; the bootstrap writes as quickly as mint does.
    assert left.split()[-2] == "15"
    assert "Time of bootstrap, verifier, prover, mint, evaluate: measured in round 0 of this run." in " ".join(plan)


def test_a_model_whose_configuration_cannot_be_read_is_named(recipe_of):
    recipe = recipe_of("verifier.model=org/never-downloaded")
    with pytest.raises(ValueError, match=r"model of: verifier\."):
        plan_rounds(recipe, GameProblems.load(recipe))


def test_a_damaged_record_is_named(recipe):
    finish(recipe, "prover", 0, 600)
    file = PhaseKey("prover", 0).target(RunFolder.of(recipe)) / "phase.json"
    file.write_text(file.read_text()[:-10])
    with pytest.raises(DamagedFileError, match=r"phase\.json"):
        describe_plan(recipe)
