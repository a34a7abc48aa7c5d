"""Plans of rounds, with the times that earlier phases of the run have recorded."""

from dataclasses import asdict

import pytest

from pvg_hf.check.plan import describe_plan
from pvg_hf.check.round_plans import plan_rounds
from pvg_hf.check.speed import CARDS
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import DamagedFileError, seal
from pvg_hf.data.problems import GameProblems
from pvg_hf.run.layout import PhaseKey, RunFolder
from pvg_hf.run.phase_record import PhaseRecord


@pytest.fixture
def recipe(recipe_of):
    """A recipe of three rounds, whose second prover takes twice the steps."""
    return recipe_of("num_rounds=3", "prover.max_steps=5", "rounds.1.prover.max_steps=10", "device=auto")


def finish(recipe, phase: str, round_index: int, seconds: float, num_processes: int = 1) -> None:
    target = PhaseKey(phase, round_index).target(RunFolder.of(recipe))
    target.mkdir(parents=True)
    write_json(target / "phase.json", seal(asdict(PhaseRecord(num_processes, seconds))))


def seconds(recipe, phase: str) -> list[float]:
    return [plan.seconds(phase) for plan in plan_rounds(recipe, GameProblems.load(recipe))]


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
    finish(recipe, "prover", 0, 600)
    finish(recipe, "mint", 0, 600, num_processes=2)
    problems = GameProblems.load(recipe)
    assert [list(plan.recorded) for plan in plan_rounds(recipe, problems)] == [["prover"]] * 3
    assert not any(plan.recorded for plan in plan_rounds(recipe, problems, CARDS["l4"]))


def test_a_plan_marks_recorded_times_and_adds_up_what_is_left(recipe):
    assert "*" not in describe_plan(recipe)
    for phase in ("verifier", "prover", "mint", "evaluate"):
        finish(recipe, phase, 0, 6000)
    plan = describe_plan(recipe).splitlines()
    times = [line.split()[-2:] for line in plan if line.startswith("  prover")]
    assert times == [["100", "min*"], ["3.3", "h*"], ["100", "min*"]]  # 6,000 s and 12,000 s
    (left,) = [line for line in plan if line.startswith("To play")]
    # Eight phases of 6,000 s, of which one takes twice as long, and the bootstrap.
    assert left.split()[-2:] == ["15", "h"]
    assert "A time with * was recorded in this run" in " ".join(plan)


def test_a_model_whose_configuration_cannot_be_read_is_named(recipe_of):
    recipe = recipe_of("verifier.model=org/never-downloaded")
    with pytest.raises(ValueError, match=r"model of: verifier\."):
        plan_rounds(recipe, GameProblems.load(recipe))


def test_a_damaged_record_is_named(recipe):
    finish(recipe, "prover", 0, 600)
    file = PhaseKey("prover", 0).target(RunFolder.of(recipe)) / "phase.json"
    file.write_text(file.read_text().replace("600", "700"))
    with pytest.raises(DamagedFileError, match=r"phase\.json"):
        describe_plan(recipe)
