"""The status of a run, read from folders as the game, crashes and other processes leave them."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from pvg_hf import load_recipe
from pvg_hf.config.load import dump_recipe
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json
from pvg_hf.game.status import describe_status, describe_stop, phase_status
from pvg_hf.run.layout import ROUND_PHASES, PhaseKey, RunFolder, schedule
from pvg_hf.run.lock import locked
from pvg_hf.run.phase_record import seal_phase
from pvg_hf.run.resume import find_damage

SCRIPT_LINE = "-m pvg_hf play recipe.yaml"
COMMAND = "pvg play recipe.yaml"
FILES = {
    "bootstrap": ["base.parquet", "test-helpful.parquet", "test-sneaky.parquet"],
    "verifier": [
        *("verifier_input.json", "calibration.json", "heldout.parquet"),
        *("config.json", "tokenizer_config.json", "model.safetensors"),
    ],
    "prover": ["config.json", "tokenizer_config.json", "model.safetensors"],
    "mint": ["helpful.parquet", "sneaky.parquet", "test-helpful.parquet", "test-sneaky.parquet"],
    "evaluate": ["metrics.json", "problems.parquet"],
}


@pytest.fixture
def recipe(tmp_path):
    return load_recipe({"name": "watched", "output_dir": str(tmp_path), "num_rounds": 2})


@pytest.fixture
def folder(tmp_path, recipe) -> RunFolder:
    """A run in which nothing has been played."""
    folder = RunFolder(tmp_path / "watched")
    folder.root.mkdir()
    folder.write_recipe(recipe)
    return folder


def finish(folder: RunFolder, *names: str, seconds: float = 65.0, summary: str | None = None, **further) -> None:
    """Write what these phases (`round-000/verifier`) leave."""
    for name in names:
        target = key_of(name).target(folder)
        target.mkdir(parents=True)
        for file in [*FILES[name.rpartition("/")[2]], "metrics.jsonl"]:
            write_whole(target / file)
        record = {"num_processes": 1, "seconds": seconds, "summary": summary or f"Result of {name}.", **further}
        write_json(target / "phase.json", record)
        seal_phase(target)


def key_of(name: str) -> PhaseKey:
    *place, phase = name.split("/")
    return PhaseKey(phase, int(place[0].removeprefix("round-")) if place else None)


def write_whole(path: Path) -> None:
    """Write a file that can be read as what its name says."""
    if path.suffix == ".parquet":
        pd.DataFrame({"column": [1]}).to_parquet(path)
    elif path.suffix == ".safetensors":
        save_file({"weight": torch.ones(64)}, path)
    else:
        path.write_text("{}\n")


def begin(folder: RunFolder, name: str, steps: list[int]) -> None:
    """Write what an unfinished phase of round 0 leaves, with the trainer's checkpoints."""
    partial = folder.root / name / ".round-000.partial"
    partial.mkdir(parents=True)
    for step in steps:
        checkpoint = partial / "checkpoints" / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": step, "max_steps": 60}))


def row(text: str, phase: str) -> list[str]:
    """Words of a phase's line."""
    return next(line for line in text.splitlines() if line.startswith(phase)).split()


def test_a_run_that_was_never_begun(recipe):
    text = describe_status(recipe, SCRIPT_LINE)
    assert "does not exist" in text
    assert text.endswith(f"  {COMMAND}")


def test_an_empty_folder_lists_every_phase_as_pending(recipe, tmp_path):
    (tmp_path / "watched").mkdir()
    text = describe_status(recipe, SCRIPT_LINE)
    assert [row(text, str(key))[1:] for key in schedule(recipe)] == [["to", "do"]] * 9
    assert "Next is bootstrap." in text
    assert "recipe.yaml is missing" in " ".join(text.split())


def test_finished_phases_show_their_time_and_summary(recipe, folder):
    finish(folder, "bootstrap", "round-000/verifier")
    text = describe_status(recipe, SCRIPT_LINE)
    assert row(text, "bootstrap") == ["bootstrap", "finished", "65", "s", "Result", "of", "bootstrap."]
    assert row(text, "round-000/verifier")[1:4] == ["finished", "65", "s"]
    assert "2 of 9 phases, in 2.2 min" in text
    assert "Next is round-000/prover." in text
    assert "Report      none yet" in text


def test_a_phase_that_is_being_played_shows_its_newest_checkpoint(recipe, folder):
    finish(folder, "bootstrap", "round-000/verifier")
    begin(folder, "prover", steps=[20, 5, 40])
    text = " ".join(describe_status(recipe, SCRIPT_LINE).split())
    assert "round-000/prover begun checkpoint at step 40 of 60; last written" in text


def test_a_checkpoint_that_is_being_written_is_passed_over(recipe, folder):
    begin(folder, "prover", steps=[20, 40])
    newest = folder.root / "prover/.round-000.partial/checkpoints/checkpoint-40/trainer_state.json"
    newest.write_text('{"global_step": 4')
    assert "checkpoint at step 20 of 60" in phase_status(folder, PhaseKey("prover", 0)).text


def test_a_phase_without_checkpoints_says_so(recipe, folder):
    begin(folder, "verifier", steps=[])
    assert phase_status(folder, PhaseKey("verifier", 0)).text == "no checkpoint within the phase"


@pytest.mark.parametrize(
    ("steps", "rest"),
    [([20, 40], "resume from its checkpoint at step 40 of 60."), ([], "start again; 3 s of work on it are lost.")],
    ids=["checkpoint", "no checkpoint"],
)
def test_a_stop_says_what_is_kept_and_what_is_lost(steps, rest, recipe, folder):
    finish(folder, "bootstrap", "round-000/verifier")
    begin(folder, "prover", steps=steps)
    write_json(folder.root / "prover" / ".round-000.partial" / "phase.json", {"num_processes": 1, "seconds": 3.0})
    assert describe_stop(recipe) == f"All finished phases are kept; `round-000/prover` will {rest}"


@pytest.mark.parametrize(
    ("done", "file"),
    [
        ([], "pool/.base.partial/batches/base-verifier-000000/0000.parquet"),
        (
            ["bootstrap", "round-000/verifier", "round-000/prover", "round-000/mint"],
            "evaluation/.round-000.partial/pool_scores/round-000-on-base.parquet",
        ),
    ],
)
def test_a_stop_says_that_batches_are_kept(done, file, recipe, folder):
    finish(folder, *done)
    (folder.root / file).parent.mkdir(parents=True)
    (folder.root / file).touch()
    assert "will resume after the batches" in describe_stop(recipe)


def test_a_phase_that_keeps_no_checkpoints_has_none_to_show(folder):
    partial = folder.root / "pool" / ".round-000.partial"
    partial.mkdir(parents=True)
    (partial / "helpful.parquet").touch()
    assert phase_status(folder, PhaseKey("mint", 0)).text.startswith("last written ")


def test_a_role_that_is_trained_by_itself_is_named(recipe, folder):
    checkpoint = folder.root / "prover/.round-000.partial/.sneaky.partial/checkpoints/checkpoint-3"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text('{"global_step": 3, "max_steps": 9}')
    text = phase_status(folder, PhaseKey("prover", 0)).text
    assert text.startswith("sneaky: checkpoint at step 3 of 9")


def test_alerts_report_and_helpful_checkpoint_are_named(recipe, folder):
    finish(folder, "bootstrap", "round-000/verifier", "round-000/prover")
    (folder.prover(0) / "best-helpful").mkdir()
    folder.report.touch()
    folder.log_event("alert", phase="prover", round=0, kind="goodharting", message="Step 12: the gap closes.")
    text = describe_status(recipe, SCRIPT_LINE)
    assert f"Report      {folder.report}" in text
    folder.report.unlink()
    assert "Report      none yet" in describe_status(recipe, SCRIPT_LINE)
    silent = replace(recipe, logging=replace(recipe.logging, report=False))
    assert "Report      none, by `logging.report`" in describe_status(silent, SCRIPT_LINE)
    assert f"Helpful     {folder.prover(0) / 'best-helpful'}" in text
    assert (
        "Alert in round-000/prover (goodharting): Step 12: the gap closes. The sneaky role is trained for goodharting:"
        " the alert says when the verifier began to give way." in " ".join(text.split())
    )


def test_a_finished_run_says_so_and_shows_the_command(recipe, folder):
    finish(folder, *map(str, schedule(recipe)))
    text = describe_status(recipe, SCRIPT_LINE)
    assert "9 of 9 phases, in 9.8 min" in text  # 9 x 65 s
    assert "All phases are finished." in text
    assert "Problem" not in text
    assert text.endswith(f"  {COMMAND} num_rounds=3")


def test_the_first_sentence_of_the_report_is_repeated(recipe, folder):
    figures = {
        "round/accuracy/helpful": Figure(0.86, 0.83, 0.89, 400),
        "round/base_accuracy/helpful": Figure(0.47, 0.44, 0.5, 400),
    }
    folder.evaluation(0).mkdir(parents=True)
    write_json(folder.evaluation(0) / "metrics.json", {key: figure.to_dict() for key, figure in figures.items()})
    assert (
        "Not clear: verifier 0 has too few solutions of its own prover to be judged; 86 % of the helpful prover's"
        " solutions are correct, 47 % before the game." in " ".join(describe_status(recipe, SCRIPT_LINE).split())
    )


def test_an_error_that_stopped_the_game_is_repeated_with_commands_that_can_work(recipe, folder):
    finish(folder, "bootstrap")
    names = "(`data.correct_source: dataset`), or write more (`bootstrap.solutions_per_problem`)."
    folder.write_state([key_of("bootstrap")], f"Too few pairs. Take references {names}")
    text = describe_status(recipe, SCRIPT_LINE)
    assert "Stopped by an error: Too few pairs. Take references (`data.correct_source" in " ".join(text.split())
    assert f"\n  {COMMAND} data.correct_source=VALUE\n" in text
    assert text.endswith(f"\n  pvg play {folder.recipe} name=NEW_NAME bootstrap.solutions_per_problem=VALUE")
    folder.write_state([key_of("bootstrap")])
    assert describe_status(recipe, SCRIPT_LINE).endswith(f"Next is round-000/verifier. To continue:\n  {COMMAND}")


def test_only_a_setting_that_the_next_phase_reads_is_advised(recipe, folder):
    finish(folder, "bootstrap")
    names = "less minting (`mint.solutions_per_problem`), or fewer (`watchdogs.min_pairs`)."
    folder.write_state([key_of("bootstrap")], f"Too few pairs: {names}")
    text = describe_status(recipe, SCRIPT_LINE)
    assert text.endswith(f"\n  {COMMAND} watchdogs.min_pairs=VALUE")


def test_a_setting_that_only_earlier_rounds_depend_on_may_change_in_the_round_in_play(recipe, folder):
    finish(folder, "bootstrap", *(f"round-000/{name}" for name in ROUND_PHASES))
    begin(folder, "verifier", [])
    folder.write_state(
        [], "A degenerate verifier: train it longer (`verifier.max_steps`), with another `split.max_train`."
    )
    text = describe_status(recipe, SCRIPT_LINE)
    assert f"\n  {COMMAND} rounds.1.verifier.max_steps=VALUE\n" in text
    assert text.endswith("name=NEW_NAME split.max_train=VALUE")


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_run_that_is_being_played_is_not_to_be_continued(is_finished, recipe, folder):
    finish(folder, *map(str, schedule(recipe) if is_finished else ["bootstrap"]))
    with locked(folder.root, is_main=True):
        text = describe_status(recipe, SCRIPT_LINE)
        assert f"played by process {os.getpid()} on {os.uname().nodename}" in " ".join(text.split())
        assert COMMAND not in text
    assert COMMAND in describe_status(recipe, SCRIPT_LINE)


def test_the_command_starts_as_many_processes_as_before(recipe, folder):
    write_json(folder.environment, {"launcher": "accelerate launch --num_processes 2", "num_processes": 2})
    assert describe_status(recipe, SCRIPT_LINE).endswith(f"\n  accelerate launch --num_processes 2 {SCRIPT_LINE}")


def test_lines_that_cannot_be_read_are_counted(recipe, folder):
    finish(folder, "bootstrap")
    folder.log_event("continued")
    with folder.events.open("ab") as file:
        file.write(b'[1, 2]\n\xff\n{"time": 1, "eve')
    events, num_unreadable = folder.read_events()
    assert (len(events), num_unreadable) == (1, 3)
    text = describe_status(recipe, SCRIPT_LINE)
    assert "3 line(s)" in text
    assert row(text, "bootstrap")[1] == "finished"


def test_a_phase_that_lost_a_file_is_damaged(recipe, folder):
    finish(folder, "bootstrap")
    (folder.pool(-1) / "base.parquet").unlink()
    status = phase_status(folder, PhaseKey("bootstrap"), find_damage(recipe, folder)[PhaseKey("bootstrap")])
    assert status.state == "damaged"
    assert "base.parquet is missing." in status.text
    assert f"Delete the folder {folder.pool(-1)}" in status.text
    text = describe_status(recipe, SCRIPT_LINE)
    assert f"`rm -r {folder.pool(-1)} && pvg play {folder.root}" in text  # not broken
    assert row(text, "bootstrap")[1] == "damaged"
    assert "Next is bootstrap." in text


@pytest.mark.parametrize(
    ("stored", "part"),
    [
        ("prover: {beta: 0.7}", "watched/recipe.yaml was truncated"),
        (
            dump_recipe(load_recipe({"name": "watched", "prover": {"beta": 0.7}})),
            "`prover.beta`: 0.7 before, 0.05 now",
        ),
        ("a: [", "watched/recipe.yaml"),
        ("- 1", "watched/recipe.yaml"),
    ],
)
def test_a_recipe_that_cannot_continue_the_run_is_reported(recipe, folder, stored, part):
    finish(folder, "bootstrap", "round-000/verifier", "round-000/prover")
    folder.recipe.write_text(stored)
    text = describe_status(recipe, SCRIPT_LINE)
    assert "Problem:" in text
    assert part in " ".join(text.split())


SPLIT = {
    "writing": {"seconds": 39.6, "tokens": 53024, "flops": 53024 * 1e9},
    "evaluating": {"seconds": 12.0, "tokens": 9000, "flops": 9000 * 1e9},
    "training": {"seconds": 13.2, "tokens": 80000, "flops": 80000 * 6e9},
    "other": {"seconds": 0.2, "tokens": 0, "flops": 0.0},
}


def test_what_a_phase_spent_its_time_on_is_shown_with_rates(recipe, folder):
    finish(folder, "bootstrap", split=SPLIT)
    finish(folder, "round-000/verifier", split=SPLIT, peak_flops=1e14)
    finish(folder, "round-000/prover")  # without a split
    text = describe_status(recipe, SCRIPT_LINE)
    bootstrap, verifier = " ".join(text.split("What the time was spent on")[1].split()).split("round-000/verifier")
    assert bootstrap.startswith(
        "bootstrap 65 s 61 % writing (1,339 tokens/s), 20 % training (6,061 tokens/s), 18 % evaluating"
    )
    assert "writing (1,339 tokens/s, MFU 1.3 %), 20 % training (6,061 tokens/s, MFU 36 %)" in verifier
    assert "round-000/prover 65" not in verifier
    assert "spent on" not in describe_status(load_recipe({"output_dir": str(folder.root.parent)}), SCRIPT_LINE)


def test_lines_stay_within_80_columns(recipe, folder):
    finish(folder, "bootstrap", summary="a long summary " * 12, split=SPLIT)
    folder.log_event("alert", phase="prover", round=0, kind="goodharting", message="a long message " * 12)
    lines = [line for line in describe_status(recipe, SCRIPT_LINE).splitlines() if str(folder.root) not in line]
    assert max(map(len, lines)) <= 80


def test_nothing_is_written(recipe, folder):
    finish(folder, "bootstrap")
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.root.rglob("*"))
    describe_status(recipe, SCRIPT_LINE)
    assert sorted((path, path.stat().st_mtime_ns) for path in folder.root.rglob("*")) == before
