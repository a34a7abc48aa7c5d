"""Ctrl-C and SIGTERM end a game in order, and the same command resumes it."""

import filecmp
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from transformers import TrainerControl, TrainerState

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import read_json_lines
from pvg_hf.game import interrupt
from pvg_hf.game.interrupt import GameInterrupted, StopRequest
from pvg_hf.game.training import StopCallback
from pvg_hf.run.layout import PHASE_RECORD, PhaseKey, RunFolder, partial_of
from pvg_hf.sampling import Sampler
from pvg_hf.scoring.auto_label import PROOFS_AT_ONCE
from tests.support.game_runs import (
    DRIVER,
    branch_off,
    check_same_so_far,
    copy_until,
    differing,
    play_in_process,
    start_process,
)

pytestmark = pytest.mark.game

IN_A_PROVER_STEP = {"event": "open", "pattern": r"prover/\.round-000\.partial/checkpoints/checkpoint-4/trainer_state"}
IN_MINTING = {"event": "os.rename", "pattern": r"pool/\.round-000\.partial/helpful\.parquet'"}


@pytest.fixture
def interrupted(tmp_path, make_recipe, reference, repository):
    """
    Play the script until a signal arrives in a phase, and then the rest of the phase, which must end in the same
    bytes.
    """

    def interrupt_at(phase: str, number: str, moment: dict):
        folder = copy_until(reference, tmp_path, f"round-000/{phase}")
        recipe, log = tmp_path / "recipe.yaml", tmp_path / "log.txt"
        recipe.write_text(json.dumps(make_recipe(tmp_path)))
        order = {"arguments": ["play", str(recipe)], "signal": number, "moment": moment}
        status = play_in_process(order, log)
        unfinished = [path.name for path in folder.root.glob("*/.round-000.partial")]
        play(load_recipe(recipe), phase=phase, round_index=0)
        check_same_so_far(folder, reference)
        return folder, status, unfinished, log.read_text()

    return interrupt_at


def test_ctrl_c_keeps_a_checkpoint_that_the_same_command_continues_from(interrupted):
    folder, status, unfinished, said = interrupted("prover", "SIGINT", IN_A_PROVER_STEP)
    assert status == 130  # what a shell gives for a program that Ctrl-C ended
    assert "Continue with the same command" in " ".join(said.split())
    assert unfinished == [".round-000.partial"]
    # The signal came while step 4 was being saved; the next step is ended first.
    assert [event["checkpoint"] for event in read_json_lines(folder.events) if event["event"] == "continued"] == [
        "checkpoint-5"
    ]


def test_after_sigterm_a_phase_without_checkpoints_starts_again(interrupted):
    _, status, unfinished, _ = interrupted("mint", "SIGTERM", IN_MINTING)
    assert status == 130
    assert unfinished == [".round-000.partial"]


def listen_to_ctrl_c() -> None:
    """Enable SIGINT, which a shell that runs the tests in the background has them ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def launch(order: dict, file: Path) -> tuple[int, str]:
    """
    Carry out an order of `game_driver.py` as the one process of `accelerate launch`, in a process group of their own.

    Returns:
        `tuple`: the launcher's exit code, and what both said until both had ended.
    """
    file.write_text(json.dumps(order))
    command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1", DRIVER, file]
    launcher = subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=listen_to_ctrl_c,
    )
    said, _ = launcher.communicate(timeout=300)
    return launcher.returncode, said


@pytest.mark.nightly
@pytest.mark.parametrize(("number", "to"), [("SIGTERM", "launcher"), ("SIGINT", "group")], ids=["kill", "Ctrl-C"])
def test_end_of_the_launcher_ends_the_step_with_a_checkpoint(number, to, tmp_path, make_recipe, reference, repository):
    """`accelerate launch` does not pass signals on; a terminal sends Ctrl-C to the launcher and to its process."""
    folder = copy_until(reference, tmp_path, "round-000/prover")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps(make_recipe(tmp_path)))
    pattern = r"prover/\.round-000\.partial/checkpoints/checkpoint-2/trainer_state"
    moment = {"event": "open", "pattern": pattern}
    order = {"arguments": ["play", str(recipe)], "signal": number, "to": to, "moment": moment}
    status, said = launch(order, tmp_path / "order.json")
    assert status == -getattr(signal, number)
    assert f"Continue with the same command: accelerate launch --cpu --num_processes 1 -m pvg_hf play {recipe}" in said
    assert (said.count("`accelerate launch` ends immediately") == 1) == (to == "group")
    play(load_recipe(recipe), phase="prover", round_index=0)
    check_same_so_far(folder, reference)
    (continued,) = [event["checkpoint"] for event in read_json_lines(folder.events) if event["event"] == "continued"]
    assert continued in ("checkpoint-3", "checkpoint-4", "checkpoint-5")  # of the current step, or hardly later


@pytest.fixture
def whole_and_stopped(tmp_path, make_recipe, reference):
    """
    Play a phase without interruption in one run; in another, stop it at a moment, and resume it after a look at what
    is left in its folder.
    """

    def play_both(
        phase: PhaseKey, moment: dict, look=lambda unfinished: None, *, stalls: bool = False, **changes
    ) -> list[RunFolder]:
        runs = []
        for name in ("whole", "stopped"):
            folder = branch_off(reference, tmp_path / name, str(phase))
            order = {"phase": phase.name, "round_index": phase.round_index}
            order["recipe"] = make_recipe(tmp_path / name, **changes)
            if name == "stopped":
                log = tmp_path / "log.txt"
                order |= {"signal": "SIGTERM", "moment": moment, "stalls": stalls}
                assert play_in_process(order, log) == 1, log.read_text()
                assert "GameInterrupted" in log.read_text()
                look(partial_of(phase.target(folder)))
            play(load_recipe(order["recipe"]), phase=phase.name, round_index=phase.round_index)
            runs.append(folder)
        assert differing(*runs) == []
        return runs

    return play_both


@pytest.mark.parametrize(
    ("phase", "batches"),
    [(PhaseKey("bootstrap"), "base-verifier-000000"), (PhaseKey("mint", 0), "sneaky-verifier-000000")],
    ids=str,
)
def test_a_stop_keeps_every_batch_of_solutions_and_no_other_work(phase, batches, whole_and_stopped, monkeypatch):
    numbers, kept = [], []  # prompts that were sampled in the whole and in the resumed run

    def note(sampler, prompts, rngs, sample=Sampler.sample):
        numbers.append(len(prompts))
        return sample(sampler, prompts, rngs)

    def look(unfinished: Path) -> None:
        kept.extend(unfinished.glob("batches/*/*.parquet"))
        assert (unfinished / "batches" / batches / "0001.parquet") in kept
        assert not (unfinished / "batches" / batches / "0002.parquet").exists()
        numbers.append(0)

    monkeypatch.setattr(Sampler, "sample", note)
    moment = {"event": "os.rename", "pattern": rf"batches/{batches}/0001\.parquet'"}
    whole_and_stopped(phase, moment, look)
    border = numbers.index(0)
    assert len(kept) >= 2
    assert len(numbers[border + 1 :]) == border - len(kept)


@pytest.mark.parametrize(
    ("phase", "file", "changes", "continued"),
    [
        # Of two steps on one generation: a checkpoint between them would lack the solutions of the second.
        ("prover", "prover/.*/checkpoint-2/trainer_state", {"prover__trainer": {"num_iterations": 2}}, "checkpoint-4"),
        ("prover", "prover/.*/checkpoint-4/trainer_state", {"prover__eval_steps": 5}, "checkpoint-5"),
        ("prover", "prover/.*/checkpoint-4/trainer_state", {"prover__max_steps": 5}, "checkpoint-5"),
        ("verifier", r"verifier/\.round-000\.partial/config\.json", {}, "checkpoint-8"),
    ],
    ids=["end of a generation", "held-out evaluation", "last held-out evaluation", "held-out scores"],
)
def test_a_stopped_training_continues_from_its_last_step(phase, file, changes, continued, whole_and_stopped):
    """An evaluation that was cut short is made after the resume."""
    folder = whole_and_stopped(PhaseKey(phase, 0), {"event": "open", "pattern": file}, **changes)[1]
    events = [event for event in read_json_lines(folder.events) if event["event"] == "continued"]
    assert [event["checkpoint"] for event in events] == [continued]


@pytest.mark.parametrize(
    ("phase", "call", "count", "continued"),
    [
        pytest.param("verifier", "reward/loss.py:pair_loss", 4, ["checkpoint-3"], marks=pytest.mark.nightly),
        ("prover", "prover/trainer.py:ProverGRPOTrainer._pay", 4, ["checkpoint-3"]),
        # of its last step
        pytest.param(
            "verifier", "verifier_quality.py:best_separation", 1, ["checkpoint-8"], marks=pytest.mark.nightly
        ),
        ("mint", "tasks/base.py:TolerantGrader.__call__", 3, []),
        pytest.param("evaluate", "summary.py:evaluate_round", 1, [], marks=pytest.mark.nightly),
    ],
    ids=["verifier", "prover", "held-out scores", "mint", "evaluate"],
)
def test_work_that_does_not_end_is_abandoned(phase, call, count, continued, whole_and_stopped):
    """A training keeps the last whole step; everything resumes to the same bytes."""
    folder = whole_and_stopped(PhaseKey(phase, 0), {"event": "call", "pattern": call, "count": count}, stalls=True)[1]
    events = [event for event in read_json_lines(folder.events) if event["event"] == "continued"]
    assert [event["checkpoint"] for event in events] == continued


@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize(
    "phase", ["bootstrap", "round-000/verifier", "round-000/prover", "round-000/mint", "round-000/evaluate"]
)
def test_sigterm_at_any_time_of_a_phase_is_answered(phase, share, tmp_path, make_recipe, reference, capsys):
    """Prints the seconds until the process had ended."""
    folder = copy_until(reference, tmp_path, phase)
    recipe = make_recipe(tmp_path)
    *place, name = phase.split("/")
    key = PhaseKey(name, 0 if place else None)
    process = start_process(
        {"recipe": recipe, "phase": key.name, "round_index": key.round_index}, tmp_path / "log.txt"
    )
    while process.is_alive() and not (partial_of(key.target(folder)) / PHASE_RECORD).exists():
        time.sleep(0.01)
    time.sleep(share * json.loads((key.target(reference) / PHASE_RECORD).read_text())["seconds"])
    process.terminate()
    started = time.monotonic()
    process.join()
    with capsys.disabled():
        sys.stdout.write(
            f"\n{phase} at {share:.0%}: status {process.exitcode} in {time.monotonic() - started:.1f} s\n"
        )
    assert process.exitcode in (0, 1)  # finished before the signal, or stopped; never killed by it
    play(load_recipe(recipe), phase=key.name, round_index=key.round_index)
    check_same_so_far(folder, reference)


def test_a_stopped_evaluation_keeps_the_scores_of_each_pool(whole_and_stopped):
    def look(unfinished: Path) -> None:
        assert [file.name for file in unfinished.glob("pool_scores/*.parquet")] == ["round-001-on-base.parquet"]

    moment = {"event": "os.rename", "pattern": r"pool_scores/round-001-on-base\.parquet'"}
    whole_and_stopped(PhaseKey("evaluate", 1), moment, look)


def test_an_import_is_stopped_between_two_batches(tmp_path, reference, whole_and_stopped):
    own = pd.read_parquet(reference.pool(-1) / "base.parquet")[["problem_id", "solution"]]
    own.to_json(tmp_path / "own.jsonl", orient="records", lines=True)
    moment = {"event": "os.mkdir", "pattern": r"pool/\.base\.partial'"}
    whole_and_stopped(PhaseKey("bootstrap"), moment, bootstrap={"import_from": str(tmp_path / "own.jsonl")})


@pytest.mark.nightly
def test_ctrl_c_ends_labelling_after_the_current_batch_of_proofs(tmp_path, make_score_recipe, score_run):
    folder = copy_until(score_run, tmp_path, "round-000/mint")
    order = {"recipe": make_score_recipe(tmp_path), "phase": "mint", "round_index": 0}
    moment = {"event": "open", "pattern": r"pool/\.round-000\.partial/labels/evidence\.jsonl"}  # its first line
    assert play_in_process({**order, "signal": "SIGINT", "moment": moment}, tmp_path / "log.txt") == 1
    assert "GameInterrupted" in (tmp_path / "log.txt").read_text()
    labels = folder.root / "pool" / ".round-000.partial" / "labels"
    assert len(read_json_lines(labels / "evidence.jsonl")) == PROOFS_AT_ONCE
    assert not (labels / "labels.jsonl").exists()
    play(load_recipe(order["recipe"]), phase="mint", round_index=0)
    check_same_so_far(folder, score_run)
    for name in ("evidence.jsonl", "labels.jsonl"):
        mine, whole = (run.pool(0) / "labels" / name for run in (folder, score_run))
        assert filecmp.cmp(mine, whole, shallow=False)


def test_a_process_can_check_for_a_request_alone():
    with StopRequest().listening() as stop:
        stop.check_alone()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(GameInterrupted):
            stop.check_alone()
        with pytest.raises(GameInterrupted):
            stop.check()


def test_a_signal_that_the_launcher_repeats_is_one_request():
    with StopRequest().listening() as stop:
        assert not stop.is_asked()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)  # as a launcher passes it on
        assert stop.is_asked()
        with pytest.raises(GameInterrupted):
            stop.check()


@pytest.mark.parametrize(
    ("environment", "number", "is_launcher_named"),
    [
        ({}, signal.SIGINT, False),
        ({"ACCELERATE_MIXED_PRECISION": "no"}, signal.SIGINT, True),
        (
            {"ACCELERATE_MIXED_PRECISION": "no"},
            signal.SIGTERM,
            False,
        ),  # sent to this process; the launcher waits for it
        ({"ACCELERATE_MIXED_PRECISION": "no", "WORLD_SIZE": "2"}, signal.SIGINT, False),
    ],
    ids=["python", "accelerate", "SIGTERM", "several"],
)
def test_a_request_is_answered_at_once(environment, number, is_launcher_named, monkeypatch, capfd):
    for name in ("ACCELERATE_MIXED_PRECISION", "WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pvg_hf.run.environment._parent_command", lambda: ["python", "bin/accelerate", "launch"])
    with StopRequest().listening():
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # as a launcher passes it on
    said = capfd.readouterr().err
    assert said.count("Stopping after the current step") == 1
    assert (f"kill {os.getpid()}" in said) == is_launcher_named


def test_processes_but_the_main_one_stay_silent(monkeypatch, capfd):
    monkeypatch.setenv("RANK", "1")
    with StopRequest().listening() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_asked()
    assert capfd.readouterr().err == ""


def test_a_request_counts_if_nobody_reads_the_answer():
    """Ctrl-C in `... 2>&1 | tee log` also ends `tee`, so that nothing reads stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    kept = os.dup(2)
    os.dup2(writer, 2)
    try:
        with StopRequest().listening() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.is_asked()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(writer)


def test_second_ctrl_c_interrupts_at_once(monkeypatch):
    monkeypatch.setattr(interrupt, "ECHO_SECONDS", 0.0)
    with StopRequest().listening():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_work_is_abandoned_in_a_game_that_follows_a_pilot(monkeypatch):
    """Both listen with the same request."""
    monkeypatch.setattr(interrupt, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(interrupt, "ECHO_SECONDS", 0.0)
    stop = StopRequest()
    with stop.listening():
        pass

    def play_on() -> None:
        with stop.listening():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(100)  # which is interrupted

    with pytest.raises(GameInterrupted):
        play_on()


@pytest.mark.parametrize(("is_resumable", "is_abandoned"), [(True, False), (False, True)])
def test_the_checkpoint_of_a_stop_is_not_abandoned(is_resumable, is_abandoned, monkeypatch):
    """Large weights may take longer to write than the time that a step has to end."""
    monkeypatch.setattr(interrupt, "GRACE_SECONDS", 1.0)  # the checkpoint begins much earlier
    monkeypatch.setattr(interrupt, "ECHO_SECONDS", 0.0)
    with suppress(GameInterrupted), StopRequest().listening() as stop:
        callback, control = StopCallback(stop, is_resumable=is_resumable), TrainerControl()
        os.kill(os.getpid(), signal.SIGTERM)
        callback.on_step_end(None, TrainerState(global_step=1, max_steps=5), control)
        assert (control.should_save, control.should_training_stop) == (is_resumable, True)
        time.sleep(1.5)  # in place of the writing
        assert not is_abandoned
        return
    assert is_abandoned


def test_signal_handlers_are_restored():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequest().listening():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_can_be_used_off_the_main_thread():
    answers = []

    def ask():
        with StopRequest().listening() as stop:
            answers.append(stop.is_asked())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert answers == [False]
