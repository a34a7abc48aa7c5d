import shutil

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import convert, read_json, read_json_lines
from pvg_hf.core.stopwatch import EVALUATING, GRADING, OTHER, SCORING, TRAINING, WRITING, TimeSplit
from pvg_hf.game.context import GameCallback
from pvg_hf.run.layout import PhaseKey, RunFolder, schedule
from pvg_hf.run.phase_record import read_record
from pvg_hf.run.resume import check_same_recipe
from tests.support.game_runs import (
    branch_off,
    check_same_so_far,
    copy_until,
    differing,
    forget_digests,
    play_in_process,
)

pytestmark = pytest.mark.game


def test_phases_in_separate_processes_equal_the_run_in_one(tmp_path, game, reference):
    recipe, folder = game(), RunFolder(tmp_path / "game")
    phases = schedule(load_recipe(recipe))[:5]
    for key in phases:
        order = {"recipe": recipe, "phase": key.name, "round_index": key.round_index}
        log = tmp_path / "log.txt"
        assert play_in_process(order, log) == 0, log.read_text()
    assert read_json(folder.state)["finished"] == [str(key) for key in phases]
    check_same_so_far(folder, reference)


def test_a_phase_whose_predecessors_are_unfinished_is_refused(game):
    with pytest.raises(ValueError, match=r"`round-000/prover` .* bootstrap, round-000/verifier"):
        play(load_recipe(game()), phase="prover", round_index=0)


@pytest.mark.parametrize(
    ("phase", "round_index", "named", "remedy"),
    [
        ("prover", 7, "round-007/prover", "0 to 1"),
        ("round-007/prover", None, "round-007/prover", "0 to 1"),
        ("prove", 0, "round-000/prove", "`prover`"),
        ("prover", None, "prover", "--phase prover --round"),
        ("bootstrap", 0, "round-000/bootstrap", "--phase bootstrap"),
    ],
)
def test_an_unknown_phase_is_refused_with_the_right_form(game, phase, round_index, named, remedy):
    with pytest.raises(ValueError, match=f"`{named}`.*{remedy}"):
        play(load_recipe(game()), phase=phase, round_index=round_index)


@pytest.mark.parametrize(
    ("text", "round_index", "key"),
    [
        ("round-003/prover", None, PhaseKey("prover", 3)),
        ("round-003/prover", 3, PhaseKey("prover", 3)),
        ("prover", 3, PhaseKey("prover", 3)),
        ("bootstrap", None, PhaseKey("bootstrap")),
    ],
)
def test_a_phase_is_named_with_or_without_its_round(text, round_index, key):
    assert PhaseKey.parse(text, round_index) == key


def test_refuses_two_rounds_of_one_phase():
    with pytest.raises(ValueError, match=r"`round-003/prover`.* 4 "):
        PhaseKey.parse("round-003/prover", 4)


def test_a_refused_start_leaves_no_folder(tmp_path, game):
    with pytest.raises(ValueError, match="bootstrap"):
        play(load_recipe(game()), phase="mint", round_index=0)
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_which_nothing_was_played_may_begin_with_another_recipe(tmp_path, game):
    folder = RunFolder(tmp_path / "game")
    folder.root.mkdir()
    folder.write_recipe(load_recipe(game()))
    check_same_recipe(folder, load_recipe(game(prover__beta=0.5, seed=1)))


def test_round_without_its_phase_is_refused(tmp_path, game):
    with pytest.raises(ValueError, match=r"Round 2 .*`--phase prover --round 2`"):
        play(load_recipe(game()), round_index=2)
    assert list(tmp_path.iterdir()) == []


def test_finished_game_is_not_played_again(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    play(load_recipe(game()))
    times = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*.parquet")}
    play(load_recipe(game()))
    play(load_recipe(game()), phase="mint", round_index=1)
    assert times
    assert {path: path.stat().st_mtime_ns for path in folder.root.rglob("*.parquet")} == times


class Recorder(GameCallback):
    """Records the calls it receives, and the folder's contents at that time."""

    def __init__(self):
        self.calls = []

    def on_phase_begin(self, context):
        self.calls.append(("begin", str(context.phase), context.phase.target(context.folder).exists()))

    def on_phase_end(self, context):
        is_listed = str(context.phase) in read_json(context.folder.state)["finished"]
        self.calls.append(("end", str(context.phase), is_listed))


class OnlyTheEnd(GameCallback):
    def __init__(self):
        self.num_ends = 0

    def on_phase_end(self, context):
        self.num_ends += 1


def test_callbacks_are_called_before_and_after_each_phase(tmp_path, game, reference):
    copy_until(reference, tmp_path, "round-001/mint")
    recorder, other = Recorder(), OnlyTheEnd()
    play(load_recipe(game()), callbacks=[recorder, other])
    assert recorder.calls == [
        ("begin", "round-001/mint", False),
        ("end", "round-001/mint", True),
        ("begin", "round-001/evaluate", False),
        ("end", "round-001/evaluate", True),
    ]
    assert other.num_ends == 2


def test_error_of_a_callback_ends_the_game_and_loses_nothing(tmp_path, game, reference):
    class Failing(GameCallback):
        def on_phase_end(self, context):
            raise RuntimeError("mine")

    folder = copy_until(reference, tmp_path, "round-001/mint")
    with pytest.raises(RuntimeError, match="mine"):
        play(load_recipe(game()), callbacks=[Failing()])
    play(load_recipe(game()))
    assert differing(folder, reference) == []


def test_time_of_a_phase_is_that_of_all_its_starts(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    begun = folder.root / "evaluation" / ".round-001.partial"
    begun.mkdir()
    write_json(begun / "phase.json", {"num_processes": 1, "split": {"other": {"seconds": 86400.0}}})
    play(load_recipe(game()))
    last = read_json_lines(folder.events)[-1]
    assert (last["event"], last["phase"], last["round"]) == ("phase_finished", "evaluate", 1)
    assert last["seconds"] > 86400.0


def test_a_report_that_cannot_be_written_does_not_end_the_game(tmp_path, game, reference, caplog):
    """The report reads the evaluations of all rounds; that of the last round does not."""
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    forget_digests(folder.root)  # or the game would not start
    table = folder.evaluation(0) / "problems.parquet"
    content = table.read_bytes()
    table.write_bytes(content[:8] + b"\0" * 64 + content[72:])  # in the first column
    play(load_recipe(game(logging__report=True)))
    assert "The report could not be written" in caplog.text
    assert "Traceback" in caplog.text
    assert differing(folder, reference) == ["evaluation/round-000/problems.parquet"]


def test_a_report_that_is_switched_on_later_is_written_by_the_next_start(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    shutil.rmtree(folder.root / "plots")
    folder.report.unlink()
    play(load_recipe(game()))
    assert not folder.report.exists()
    play(load_recipe(game(logging__report=True)))
    assert folder.report.exists()


def test_rounds_can_be_added_to_a_finished_game(tmp_path, game, reference):
    """The result is that of a game with all rounds from the start: a round does not depend on how many follow."""
    folder = branch_off(reference, tmp_path, "round-001/verifier")
    play(load_recipe(game(num_rounds=1)))
    assert read_json(folder.state)["finished"][-1] == "round-000/evaluate"
    play(load_recipe(game(num_rounds=2)))
    assert differing(folder, reference) == []


def test_every_line_of_metrics_has_its_place_on_the_games_axis(reference):
    lines = read_json_lines(reference.metrics)
    steps = [line["game_step"] for line in lines]
    assert steps == sorted(steps)
    # 8 steps of a verifier, then 6 of a prover, twice
    assert {
        (line["phase"], line["round"], line["step"]): line["game_step"] for line in lines if line["step"] == 1
    } == {
        ("verifier", 0, 1): 1,
        ("prover", 0, 1): 9,
        ("verifier", 1, 1): 15,
        ("prover", 1, 1): 23,
    }


def test_round_overrides_reach_the_trainers(tmp_path, game, reference):
    branch_off(reference, tmp_path, "round-001/verifier")
    rounds = {
        1: {
            "verifier": {"max_steps": 3},
            "prover": {"max_steps": 2, "temperature": 0.5},
            "mint": {"solutions_per_problem": 1},
        }
    }
    folder = play(load_recipe(game(rounds=rounds)))
    lines = read_json_lines(folder.metrics)
    num_steps = {
        (phase, k): max(line["step"] or 0 for line in lines if (line["phase"], line["round"]) == (phase, k))
        for phase in ("verifier", "prover")
        for k in (0, 1)
    }
    assert num_steps == {("verifier", 0): 8, ("prover", 0): 6, ("verifier", 1): 3, ("prover", 1): 2}


@pytest.mark.parametrize(
    ("phase", "with_tokens", "further"),
    [
        ("bootstrap", {WRITING}, {GRADING}),
        ("round-000/verifier", {TRAINING}, {EVALUATING}),
        ("round-000/prover", {WRITING, SCORING, TRAINING}, {GRADING, EVALUATING}),
        ("round-001/mint", {WRITING, SCORING}, {GRADING}),
        ("round-001/evaluate", {SCORING}, set()),
    ],
)
def test_what_a_phase_spent_its_time_on_is_kept(phase, with_tokens, further, reference):
    record = read_record(PhaseKey.parse(phase).target(reference))
    split = record.split
    assert set(split) == {*with_tokens, *further, OTHER}
    assert {kind for kind, spent in split.items() if spent.tokens and kind != EVALUATING} == with_tokens
    assert all(split[kind].flops > split[kind].tokens for kind in with_tokens)
    assert sum(spent.seconds for spent in split.values()) == pytest.approx(record.seconds)
    ends = [event for event in read_json_lines(reference.events) if event["event"] == "phase_finished"]
    assert record.split in [convert(event["split"], TimeSplit) for event in ends]
