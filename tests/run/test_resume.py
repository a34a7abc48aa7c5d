import re
import shlex
import shutil
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import yaml

from pvg_hf import load_recipe, play
from pvg_hf.app.runs import OpenRun
from pvg_hf.check.plan import describe_plan
from pvg_hf.cli.main import main
from pvg_hf.cli.sources import find_recipe
from pvg_hf.config import Recipe
from pvg_hf.core.commands import play_command
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import DamagedFileError, read_digests, read_json, read_json_lines
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.heldout import DegenerateVerifierError
from pvg_hf.game.publish import is_report_due
from pvg_hf.game.training import newest_checkpoint
from pvg_hf.hub.layout import RunRepos
from pvg_hf.hub.publication import open_publication
from pvg_hf.models.hardware import join_processes
from pvg_hf.report.headline import write_headline
from pvg_hf.report.page import _origin
from pvg_hf.report.statements import alert_statement
from pvg_hf.run.layout import PHASE_RECORD, PhaseKey, RunFolder, phase_settings, schedule
from pvg_hf.run.phase_record import PhaseAlert, read_record, recording, staged
from pvg_hf.run.read import load_run
from pvg_hf.run.resume import (
    check_same_recipe,
    check_unchanged,
    describe_changes,
    extended_recipe,
    find_missing,
    prepare_resume,
    write_derived,
)
from tests.support import recall_task
from tests.support.game_runs import (
    branch_off,
    check_same_so_far,
    copy_until,
    differing,
    forget_settings,
    play_in_process,
)


def resume(recipe: Recipe) -> RunFolder:
    """Do what a start does before it plays a phase."""
    folder = RunFolder.of(recipe)
    prepare_resume(recipe, folder, GameProblems.load(recipe), join_processes(recipe.device))
    return folder


IN_THE_LAST_CHECKPOINT = {
    "event": "open",
    "pattern": r"prover/\.round-000\.partial/checkpoints/checkpoint-6/trainer_state",
}


def test_changed_recipe_is_refused_with_every_difference(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    before = folder.recipe.read_bytes()
    with pytest.raises(ValueError) as caught:
        resume(load_recipe(game(prover__beta=0.5, seed=1, task__options={"num_train": 61, "num_test": 4})))
    changes = [line for line in str(caught.value).splitlines() if line.startswith("- ")]
    assert changes == [
        "- `prover.beta`: 0.05 before, 0.5 now",
        "- `seed`: 0 before, 1 now",
        "- `task.options.num_train`: 60 before, 61 now",
    ]
    assert "rounds.2.prover.beta=0.1" in str(caught.value)
    assert folder.recipe.read_bytes() == before


def test_sections_that_a_game_ignores_may_change(game, reference):
    recipe = load_recipe(game(arms={"checkers": {"random": []}}, sweep={"levels": [0.1]}))
    check_same_recipe(reference, recipe)


def test_overrides_of_rounds_to_come_may_change(tmp_path, game, reference):
    """Round 0 has finished its verifier, and its prover has not begun."""
    copy_until(reference, tmp_path, "round-000/prover")
    check = partial(check_same_recipe, RunFolder(tmp_path / "game"))
    check(load_recipe(game(rounds={1: {"verifier": {"max_steps": 9}}})))
    check(load_recipe(game(rounds={0: {"prover": {"beta": 0.5}}})))
    with pytest.raises(ValueError, match=r"- `rounds\.0\.verifier\.max_steps`: 8 before, 9 now\n.* 1 on"):
        check(load_recipe(game(rounds={0: {"verifier": {"max_steps": 9}}})))


# A setting, another value, and the first phase that it influences.
EFFECTS = {
    "split__heldout_share": (0.3, "bootstrap"),
    "prover__temperature": (0.9, "bootstrap"),
    "data__annotations": ("labels.jsonl", "bootstrap"),
    "data__correct_source": ("both", "round-000/verifier"),
    "verifier__max_steps": (9, "round-000/verifier"),
    "stopping__labels": ("observed", "round-000/verifier"),
    "prover__beta": (0.5, "round-000/prover"),
    "watchdogs__window": (5, "round-000/prover"),
    "mint__solutions_per_problem": (3, "round-000/mint"),
    "evaluation__crossed_rounds": (0, "round-000/evaluate"),
}


@pytest.mark.parametrize(("key", "value", "first"), [(key, *effect) for key, effect in EFFECTS.items()], ids=EFFECTS)
def test_a_setting_may_change_until_the_first_phase_that_it_influences(
    key, value, first, tmp_path, game, reference, caplog
):
    changed = load_recipe(game(**{key: value}))
    name = key.replace("__", ".")
    if first != "bootstrap":
        folder = copy_until(reference, tmp_path, first)
        check_same_recipe(folder, changed)
        (line,) = describe_changes(folder, changed)
        assert line.startswith(f"`{name}`: ")
        assert line.endswith(f" before, {value!r} now, from {first} on")
        shutil.rmtree(folder.root)
    phases = list(map(str, schedule(changed)))
    folder = copy_until(reference, tmp_path, phases[phases.index(first) + 1])
    with pytest.raises(ValueError, match=f"- `{name}`: .* before, {value!r} now"):
        check_same_recipe(folder, changed)


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [("prover.beta", 0.05, 0.95), ("seed", 0, 10), ("prover.temperature", 1.0, 1.9)],
    ids=lambda word: str(word),
)
def test_a_digit_that_was_changed_in_a_runs_recipe_is_named_with_both_values(
    key, old, new, tmp_path, game, reference, capsys
):
    folder = copy_until(reference, tmp_path, "round-001/prover")
    values = yaml.safe_load(folder.recipe.read_text())
    *sections, name = key.split(".")
    section = values[sections[0]] if sections else values
    assert section[name] == old
    section[name] = new
    folder.recipe.write_text(yaml.safe_dump(values, sort_keys=False))
    for read in (
        lambda: check_same_recipe(folder, load_recipe(folder.recipe)),
        lambda: check_same_recipe(folder, load_recipe(game())),
        lambda: load_run(folder.root),
        lambda: OpenRun(folder.root),
        lambda: open_publication(folder.root, 0, RunRepos("ana", "game")),
    ):
        with pytest.raises(DamagedFileError, match=f"- `{key}`: {old} before, {new} now") as caught:
            read()
        assert caught.value.path == folder.recipe
    assert main(["status", str(folder.root)]) == 0
    said = capsys.readouterr().out
    assert f"- `{key}`: {old} before, {new} now" in said
    assert "To continue" not in said
    assert main(["play", str(folder.root)]) == 2
    assert f"- `{key}`: {old} before, {new} now" in capsys.readouterr().err


def test_a_run_of_a_version_that_kept_no_settings_is_compared_with_its_recipe(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/prover")
    forget_settings(folder.root)
    load_run(folder.root)
    check_same_recipe(folder, load_recipe(game()))
    with pytest.raises(ValueError, match=r"- `prover\.beta`: 0\.05 before, 0\.5 now"):
        check_same_recipe(folder, load_recipe(game(prover__beta=0.5)))


def test_a_key_that_a_version_did_not_have_had_its_default(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/prover")
    for file in folder.root.rglob("digests.json"):
        values = read_json(file)
        del values["settings"]["prover.temperature"]
        write_json(file, values)
    check_same_recipe(folder, load_recipe(game()))
    folder.write_recipe(load_recipe(game(prover__temperature=1.9)))
    with pytest.raises(DamagedFileError, match=r"- `prover\.temperature`: 1\.0 before, 1\.9 now"):
        check_same_recipe(folder, load_recipe(game()))


@pytest.mark.parametrize("text", ["", "prover:\n  beta: [", "name: game\nseed: 0\n", "seed: one\n"])
@pytest.mark.parametrize("command", ["status", "play", "plan", "report", "push", "evaluate"])
def test_a_damaged_recipe_is_named_by_every_command(command, text, tmp_path, game, reference, capsys):
    folder = copy_until(reference, tmp_path, "round-001/prover")
    folder.recipe.write_text(text)
    assert main([command, str(folder.root)]) == 2
    assert f"error: {folder.recipe} " in capsys.readouterr().err


def test_a_phase_that_kept_nothing_is_begun_again_with_other_settings(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-000/verifier")
    target = folder.verifier(0)
    for steps in (8, 9):
        recipe = load_recipe(game(verifier__max_steps=steps))
        check_same_recipe(folder, recipe)
        settings = phase_settings(recipe, PhaseKey("verifier", 0))
        with pytest.raises(KeyError), staged(target, is_main=True, settings=settings) as partial_folder:
            raise KeyError
        assert read_digests(partial_folder).settings == settings
    (partial_folder / "checkpoints").mkdir()
    (partial_folder / "checkpoints" / "weights").touch()
    with pytest.raises(ValueError, match=r"`verifier\.max_steps`: 9 before, 8 now") as caught:
        check_same_recipe(folder, load_recipe(game()))
    assert f"`rm -r {partial_folder}`" in str(caught.value)


def test_an_unreadable_record_of_an_unfinished_phase_is_written_again(tmp_path, game, reference, caplog):
    folder = copy_until(reference, tmp_path, "round-001/prover")
    begun = folder.root / "prover" / ".round-001.partial"
    begun.mkdir()
    (begun / "phase.json").write_text("")
    resume(load_recipe(game()))
    with recording(begun, 1, is_main=True):
        pass
    assert read_record(begun).num_processes == 1
    assert f"{begun / 'phase.json'} is damaged" in caplog.text


@pytest.mark.parametrize(
    "file",
    [
        "prover/round-001/config.json",
        "prover/round-001/best-helpful/model.safetensors",
        "evaluation/round-000/metrics.json",
        "pool/round-001/heldout-helpful.parquet",
        "verifier/round-000/digests.json",
        "evaluation/round-001/phase.json",
    ],
)
def test_a_deleted_file_of_a_finished_run_is_named_by_status_and_app(file, tmp_path, game, reference, capsys):
    folder = RunFolder(shutil.copytree(reference.root, tmp_path / "game"))
    (folder.prover(0) / "model.safetensors").unlink()  # of a round that is over: this may be deleted
    assert find_missing(folder, load_recipe(game())) == []
    assert OpenRun(folder.root).notes() == []
    (folder.root / file).unlink()
    assert find_missing(folder, load_recipe(game())) == [folder.root / file]
    assert main(["status", str(folder.root)]) == 0
    assert str(folder.root / file) in capsys.readouterr().out
    (note,) = OpenRun(folder.root).notes()
    assert note == f"Files of finished phases were deleted: {folder.root / file}."


def test_a_renamed_run_and_one_behind_a_link_get_advice_that_works(tmp_path, game, reference, capsys):
    folder = copy_until(reference, tmp_path, "round-001/prover")
    link = tmp_path / "link"
    link.symlink_to(folder.root)
    assert main(["status", str(link)]) == 0
    said = capsys.readouterr().out
    assert "Problem" not in said
    assert f"Run folder  {folder.root}" in said
    folder.root.rename(tmp_path / "other")
    assert main(["status", str(tmp_path / "other")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"`mv {tmp_path / 'other'} {folder.root} && pvg play {folder.root} output_dir={tmp_path}`" in said
    assert "To continue" not in said


def test_round_has_begun_with_an_unfinished_folder(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/verifier")
    begun = folder.root / "verifier" / ".round-001.partial"
    (begun / "checkpoints").mkdir(parents=True)
    (begun / "checkpoints" / "weights").touch()
    changed = load_recipe(game(rounds={1: {"verifier": {"max_steps": 99}}}))
    with pytest.raises(ValueError, match=r"`rounds\.1\.verifier\.max_steps`: 8 before, 99 now") as caught:
        check_same_recipe(folder, changed)
    assert f"`rm -r {begun}`" in str(caught.value)
    shutil.rmtree(begun)
    check_same_recipe(folder, changed)


@pytest.mark.game
def test_a_refused_verifier_can_be_trained_with_other_settings(tmp_path, game, reference):
    """The error's advice works as it is printed."""
    folder = branch_off(reference, tmp_path, "round-001/verifier")
    strict = {"rounds": {1: {"watchdogs": {"min_pair_accuracy": 1.0}}}}
    begun = folder.root / "verifier" / ".round-001.partial"
    with pytest.raises(DegenerateVerifierError) as caught:
        play(load_recipe(game(**strict)), phase="verifier", round_index=1)
    delete, again = map(shlex.split, re.search("`(rm .*?)`", str(caught.value))[1].split(" && "))
    assert delete == ["rm", "-r", str(begun)]
    assert again[:3] == ["pvg", "play", str(folder.root)]
    assert again[-1] == "rounds.1.verifier.max_steps=16"
    shutil.rmtree(begun)
    looser = "rounds.1.watchdogs.min_pair_accuracy=0"
    play(load_recipe(find_recipe(again[2]), [*again[3:], looser]), phase="verifier", round_index=1)
    assert max(line["step"] or 0 for line in read_json_lines(folder.verifier(1) / "metrics.jsonl")) == 16


def test_a_run_whose_problems_the_task_no_longer_has_is_not_resumed(tmp_path, game, reference, monkeypatch):
    folder = copy_until(reference, tmp_path, "round-001/mint")
    before = folder.state.read_bytes()
    monkeypatch.setattr(recall_task, "NUMBERS", range(10, 16))  # 3 to 8 when it was started
    for start in (resume, describe_plan):
        with pytest.raises(ValueError, match=r"`recall` no longer .*`test-0`, '\w+ has [3-8] \w+\.'.* another `name`"):
            start(load_recipe(game()))
    assert folder.state.read_bytes() == before


@pytest.mark.parametrize("is_evaluated", [True, False])
def test_a_run_without_anything_left_to_write_may_have_problems_that_the_task_no_longer_has(
    is_evaluated, tmp_path, game, reference, monkeypatch
):
    """Evaluations need the solutions alone."""
    if is_evaluated:
        shutil.copytree(reference.root, tmp_path / "game")
    else:
        copy_until(reference, tmp_path, "round-001/evaluate")
    monkeypatch.setattr(recall_task, "NUMBERS", range(10, 16))
    resume(load_recipe(game()))


@pytest.mark.parametrize("phase", ["verifier", "prover"])
def test_training_cannot_resume_with_another_number_of_processes(phase, tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, f"round-001/{phase}")
    begun = folder.root / phase / ".round-001.partial"
    begun.mkdir()
    write_json(begun / "phase.json", {"num_processes": 2})
    with pytest.raises(ValueError) as caught:
        resume(load_recipe(game()))
    assert (
        str(caught.value)
        == f"Phase `round-001/{phase}` was started by 2 process(es) and cannot resume in 1: its batches and"
        " checkpoints are those of 2. Start it by"
        f" `{play_command(folder.root, launcher='accelerate launch --num_processes 2')}`. To play the phase from"
        f" its beginning, delete what there is of it: `rm -r {begun}`."
    )


@pytest.mark.game
def test_minting_resumes_with_any_number_of_processes(tmp_path, game, reference):
    """It starts again, and its bytes do not depend on their number."""
    folder = copy_until(reference, tmp_path, "round-001/mint")
    begun = folder.root / "pool" / ".round-001.partial"
    begun.mkdir()
    write_json(begun / "phase.json", {"num_processes": 2})
    play(load_recipe(game()))
    assert differing(folder, reference) == []


def test_changed_processes_threads_or_versions_are_reported_and_recorded(tmp_path, game, reference, caplog):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    environment = folder.read_environment()
    assert environment["num_processes"] == 1
    changed = {**environment, "num_processes": 2, "versions": {**environment["versions"], "torch": "1.0"}}
    write_json(folder.environment, changed)
    for _ in range(2):  # the second start is like the first
        resume(load_recipe(game()))
    changes = [event["changes"] for event in read_json_lines(folder.events) if event["event"] == "environment_changed"]
    torch = environment["versions"]["torch"]
    assert changes == [{"num_processes": [2, 1], "versions.torch": ["1.0", torch]}]
    assert f"num_processes 2 before, 1 now, versions.torch 1.0 before, {torch} now" in caplog.text
    assert folder.read_environment() == environment


def test_fewer_rounds_are_refused(tmp_path, game, reference):
    copy_until(reference, tmp_path, "round-001/evaluate")
    with pytest.raises(ValueError, match=r"`num_rounds`: 2 before, 1 now"):
        resume(load_recipe(game(num_rounds=1)))


@pytest.mark.parametrize(
    "change",
    [
        {"num_rounds": 5},
        {"logging__log_completions": True},
        {"logging__progress": True},
        {"prover__save_steps": None, "verifier__save_steps": 7},
        {"rounds": {0: {"prover": {"save_steps": 1}}}},
        {"watchdogs__max_truncated": 1.0, "watchdogs__min_pair_accuracy": 0.0},
        {"rounds": {0: {"watchdogs": {"max_truncated": 0.9}}}},
    ],
)
def test_more_rounds_other_logging_other_checkpoints_and_looser_limits_are_allowed(change, game):
    check_unchanged(load_recipe(game()), load_recipe(game(**change)), num_begun=2)


@pytest.mark.game
def test_a_run_that_a_limit_has_ended_resumes_with_a_looser_one(tmp_path, game, reference):
    branch_off(reference, tmp_path, "round-001/verifier")
    with pytest.raises(DegenerateVerifierError, match=r"`watchdogs\.min_pair_accuracy` = 1"):
        play(load_recipe(game(watchdogs__min_pair_accuracy=1.0)))
    assert differing(play(load_recipe(game())), reference) == []


@pytest.mark.game
def test_an_error_is_kept_until_a_start_with_another_setting(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/verifier")
    with pytest.raises(ValueError, match=r"`watchdogs\.min_pairs`") as caught:
        play(load_recipe(game(watchdogs__min_pairs=10**6)), phase="verifier", round_index=1)
    assert folder.read_error() == str(caught.value)
    play(load_recipe(game(rounds={1: {"verifier": {"max_steps": 4}}})), phase="verifier", round_index=1)
    assert folder.read_error() is None
    assert read_digests(folder.verifier(1)).settings["verifier.max_steps"] == 4
    assert max(line["step"] or 0 for line in read_json_lines(folder.verifier(1) / "metrics.jsonl")) == 4


@pytest.mark.game
def test_a_run_that_truncation_has_ended_resumes_if_more_is_allowed(tmp_path, game, reference):
    folder = branch_off(reference, tmp_path, "round-000/prover")
    short = {"prover__max_completion_length": 2}
    with pytest.raises(
        ValueError, match=r"allow more \(`max_truncated_share`; in a recipe `watchdogs\.max_truncated`\)"
    ):
        play(load_recipe(game(watchdogs__max_truncated=0.5, **short)), phase="prover", round_index=0)
    play(load_recipe(game(watchdogs__max_truncated=1.0, **short)), phase="prover", round_index=0)
    assert folder.prover(0).exists()


@pytest.mark.parametrize(
    ("overrides", "num_rounds", "rounds"),
    [
        ([], 3, {2: {"prover": {"reward": "cgc"}}}),
        (["num_rounds=2"], 2, {}),
        (["num_rounds=4"], 4, {}),
    ],
    ids=["as extended", "fewer by an override", "more by an override"],
)
def test_an_extension_need_not_be_repeated(overrides, num_rounds, rounds, tmp_path, game):
    folder = RunFolder(tmp_path / "game")
    folder.root.mkdir()
    folder.write_recipe(load_recipe(game(num_rounds=3, rounds={2: {"prover": {"reward": "cgc"}}})))
    recipe = extended_recipe(load_recipe(game(num_rounds=2), overrides), overrides)
    assert (recipe.num_rounds, recipe.rounds) == (num_rounds, rounds)
    if num_rounds == 3:
        assert recipe.to_dict() == load_recipe(game(num_rounds=3, rounds=rounds)).to_dict()


def test_a_run_that_was_not_extended_keeps_the_recipe_as_it_is(tmp_path, game):
    recipe = load_recipe(game())
    assert extended_recipe(recipe, []) is recipe
    (tmp_path / "game").mkdir()
    RunFolder(tmp_path / "game").write_recipe(recipe)
    assert extended_recipe(recipe, []) is recipe


def test_run_may_be_moved(tmp_path, game):
    moved = load_recipe({**game(), "output_dir": str(tmp_path / "elsewhere")})
    check_unchanged(load_recipe(game()), moved, num_begun=2)


def test_sections_that_were_added_or_removed_are_differences(game):
    plain, adapted = load_recipe(game()), load_recipe(game(prover__lora={"r": 4}))
    with pytest.raises(ValueError, match=r"- `prover\.lora\.r`: None before, 4 now"):
        check_unchanged(plain, adapted, num_begun=0)
    with pytest.raises(ValueError, match=r"- `prover\.lora\.r`: 4 before, None now"):
        check_unchanged(adapted, plain, num_begun=0)


def copy_of(run: RunFolder, output_dir: Path) -> RunFolder:
    return RunFolder(shutil.copytree(run.root, output_dir / run.root.name))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Flip a bit in the middle, which leaves the file readable."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# What a person or a disk may do to a run whose next phase is round 1's prover, and the folder that the error must
# name.
DAMAGES = {
    "truncated weights of a verifier": ("verifier/round-001/model.safetensors", truncate),
    "truncated weights of a round that is over": ("verifier/round-000/model.safetensors", truncate),
    "truncated weights of a prover": ("prover/round-000/model.safetensors", truncate),
    "missing weights": ("verifier/round-001/model.safetensors", Path.unlink),
    "truncated configuration": ("verifier/round-001/config.json", truncate),
    "missing configuration": ("verifier/round-001/config.json", Path.unlink),
    "truncated tokenizer": ("verifier/round-001/tokenizer.json", truncate),
    "missing tokenizer": ("verifier/round-001/tokenizer_config.json", Path.unlink),
    "truncated template": ("verifier/round-001/verifier_input.json", truncate),
    "missing template": ("verifier/round-001/verifier_input.json", Path.unlink),
    "truncated calibration": ("verifier/round-001/calibration.json", truncate),
    "truncated scores": ("verifier/round-001/heldout.parquet", truncate),
    "missing scores": ("verifier/round-001/heldout.parquet", Path.unlink),
    "truncated metrics of a phase": ("verifier/round-000/metrics.jsonl", truncate),
    "missing metrics of a phase": ("verifier/round-000/metrics.jsonl", Path.unlink),
    "other weights of a verifier": ("verifier/round-001/model.safetensors", flip),
    "other weights of a round that is over": ("prover/round-000/best-helpful/model.safetensors", flip),
    "other solutions": ("pool/round-000/sneaky.parquet", flip),
    "other metrics of a phase": ("verifier/round-000/metrics.jsonl", flip),
    "emptied metrics of a phase": ("verifier/round-000/metrics.jsonl", lambda path: path.write_text("")),
    "truncated record of a phase": ("pool/round-000/phase.json", truncate),
    "truncated solutions": ("pool/base/test-sneaky.parquet", truncate),
    "missing solutions": ("pool/base/test-sneaky.parquet", Path.unlink),
}


@pytest.mark.parametrize(("file", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_file_is_named_with_its_phase(file, damage, tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/prover")
    damaged = folder.root / file
    damage(damaged)
    with pytest.raises(DamagedFileError) as caught:
        resume(load_recipe(game()))
    assert caught.value.path == damaged
    assert f"Delete the folder {folder.root.joinpath(*Path(file).parts[:2])} and continue the run" in str(caught.value)


@pytest.mark.game
def test_playing_a_damaged_phase_again_mends_the_run(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-000/prover")
    truncate(folder.verifier(0) / "config.json")
    with pytest.raises(ValueError, match=f"`rm -r {folder.verifier(0)} && pvg play {folder.root} "):
        resume(load_recipe(game()))
    shutil.rmtree(folder.verifier(0))
    play(load_recipe(game()), phase="verifier", round_index=0)
    check_same_so_far(folder, reference)


@pytest.mark.game
def test_weights_of_a_finished_round_may_be_deleted(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    for weights in (*folder.verifier(0).rglob("*.safetensors"), *folder.prover(0).rglob("*.safetensors")):
        weights.unlink()
    play(load_recipe(game()))
    assert folder.evaluation(1).exists()


def test_weights_that_the_next_phase_starts_from_are_needed(tmp_path, game, reference):
    folder = branch_off(reference, tmp_path, "round-001/verifier")
    weights = folder.verifier(0) / "model.safetensors"
    weights.unlink()
    with pytest.raises(ValueError, match=rf"{weights} is missing\."):
        resume(load_recipe(game(verifier__init="warm")))


def test_damaged_lists_are_rebuilt_from_the_phases(tmp_path, game, reference):
    folder = copy_of(reference, tmp_path)
    folder.state.write_text('{"finished": ["boot')
    folder.metrics.write_text("{")
    folder.report.unlink()
    recipe = load_recipe(game(logging__report=True))
    resume(recipe)
    assert differing(folder, reference) == []
    assert read_json(folder.state) == read_json(reference.state)
    assert is_report_due(recipe, folder)


def test_torn_last_event_is_dropped(tmp_path, game, reference):
    folder = copy_of(reference, tmp_path)
    events = read_json_lines(folder.events)
    with folder.events.open("a") as file:
        file.write('{"time": 17')
    resume(load_recipe(game()))
    assert read_json_lines(folder.events) == events


def test_damaged_line_of_the_event_log_is_dropped(tmp_path, game, reference):
    folder = copy_of(reference, tmp_path)
    events = read_json_lines(folder.events)
    first, *others = folder.events.read_bytes().splitlines(keepends=True)
    folder.events.write_bytes(b"".join([first, b'{"time": 17\n', *others]))
    resume(load_recipe(game()))
    assert read_json_lines(folder.events) == events


@pytest.mark.parametrize(
    "change",
    [lambda text: "", lambda text: text[: text.index("data:")], lambda text: text.replace("beta: ", "beat: ")],
    ids=["empty", "truncated", "changed"],
)
def test_cut_or_changed_recipe_of_a_run_is_named(change, tmp_path, game, reference):
    """It is not read as a recipe whose missing keys have their defaults."""
    folder = copy_until(reference, tmp_path, "round-000/verifier")
    folder.recipe.write_text(change(folder.recipe.read_text()))
    with pytest.raises(DamagedFileError, match="Restore the recipe") as caught:
        folder.read_recipe()
    assert caught.value.path == folder.recipe


ALERT = {"time": 1.7e9, "kind": "goodharting", "message": "Step 4: the score gap fell."}


def pulled(finished, output_dir):
    """A copy of a run without its event log, as it is pulled; its first prover has alerts."""
    folder = copy_until(finished, output_dir, "round-001/verifier")
    folder.events.unlink()
    for file in folder.root.glob("*/*/phase.json"):
        known = [ALERT] if file.parent == folder.prover(0) else []
        write_json(file, {**asdict(read_record(file.parent)), "ended": 1.7e9 + 60, "alerts": known})
    return folder


def test_a_pulled_run_has_the_alerts_and_times_of_its_earlier_rounds(tmp_path, game, reference):
    folder = pulled(reference, tmp_path)
    recipe = load_recipe(game())
    for _ in range(2):  # the second time adds nothing
        write_derived(recipe, folder)
        run = load_run(folder.root)
        assert len(run.alerts) == 1
        assert run.alerts[0].items() >= {"event": "alert", "phase": "prover", "round": 0, **ALERT}.items()
        assert [event["time"] for event in run.finished_phases] == [1.7e9 + 60] * len(run.finished_phases)
    origin = _origin(run)
    assert origin["Played"].startswith("2023-11-14 22:")
    assert origin["Played"].endswith("to 2023-11-14 22:14 UTC")
    alerts = alert_statement(run)
    assert (alerts.subject, list(alerts.links)) == ("Alerts", ["goodharting (1)"])
    assert write_headline(run.evaluated) == write_headline(load_run(reference.root).evaluated[:1])


@pytest.mark.parametrize("text", ["name: [", "- a list", "prover: {learning_rat: 1}"])
def test_damaged_recipe_of_a_run_is_named(text, tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-000/verifier")
    folder.recipe.write_text(text)
    with pytest.raises(ValueError, match=r"game/recipe\.yaml .*(?s:.)*Restore"):
        resume(load_recipe(game()))
    assert folder.recipe.read_text() == text


@pytest.fixture(scope="module")
def killed_late(tmp_path_factory, make_recipe, reference) -> RunFolder:
    """A run killed while its prover wrote the last checkpoint: two complete ones are left, of steps 4 and 2."""
    output_dir = tmp_path_factory.mktemp("killed-late")
    folder = copy_until(reference, output_dir, "round-000/prover")
    order = {"recipe": make_recipe(output_dir), "signal": "SIGKILL", "moment": IN_THE_LAST_CHECKPOINT}
    assert play_in_process(order, output_dir / "log.txt") < 0
    return folder


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        *product(
            ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"),
            (truncate, Path.unlink, flip),
        ),
        ("digests.json", truncate),
    ],
)
def test_checkpoint_that_is_not_whole_is_passed_over(file, damage, tmp_path, killed_late):
    begun = killed_late.prover(0).with_name(".round-000.partial")
    checkpoints = Path(shutil.copytree(begun / "checkpoints", tmp_path / "checkpoints"))
    damage(checkpoints / "checkpoint-4" / file)
    assert newest_checkpoint(checkpoints) == checkpoints / "checkpoint-2"


@pytest.mark.game
def test_training_continues_from_the_newest_whole_checkpoint(tmp_path, game, killed_late, reference):
    folder = RunFolder(tmp_path / "game")
    shutil.copytree(killed_late.root, folder.root)
    truncate(folder.root / "prover" / ".round-000.partial" / "checkpoints" / "checkpoint-4" / "optimizer.pt")
    play(load_recipe(game()), phase="prover", round_index=0)
    check_same_so_far(folder, reference)
    assert [event["checkpoint"] for event in read_json_lines(folder.events) if event["event"] == "continued"] == [
        "checkpoint-2"
    ]


@pytest.mark.game
def test_a_damaged_best_helpful_checkpoint_is_rebuilt(tmp_path, game, killed_late, reference):
    """Training resumes from before the step at which it was saved."""
    folder = RunFolder(tmp_path / "game")
    shutil.copytree(killed_late.root, folder.root)
    kept = folder.root / "prover" / ".round-000.partial" / "best-helpful"
    step = read_digests(kept).step
    flip(kept / "model.safetensors")
    play(load_recipe(game()), phase="prover", round_index=0)
    check_same_so_far(folder, reference)
    continued = [event["checkpoint"] for event in read_json_lines(folder.events) if event["event"] == "continued"]
    assert continued == [f"checkpoint-{earlier}" for earlier in (2, 4) if earlier < step][-1:]


def test_a_run_without_its_events_keeps_the_alerts_and_times_of_its_phases(reference, tmp_path):
    """A pulled run has no events; its report must still warn of what happened before."""
    folder = copy_until(reference, tmp_path, "round-001/verifier")
    place = folder.prover(0)
    record = read_record(place)
    record.alerts = [PhaseAlert("sneaky_collapse", "Every sneaky solution is correct.", 1.0)]
    write_json(place / PHASE_RECORD, asdict(record))
    folder.events.unlink()
    write_derived(load_recipe(folder.recipe), folder)
    found = load_run(folder.root)
    assert [alert["message"] for alert in found.alerts] == ["Every sneaky solution is correct."]
    assert found.phase_seconds()[0, "prover"] == record.seconds > 0
