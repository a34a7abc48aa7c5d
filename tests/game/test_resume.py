import shutil
from pathlib import Path

import pytest
from game_runs import check_same_so_far, copy_until, differing, play_in_process

from pvg_hf import load_recipe, play
from pvg_hf.game.folder import RunFolder, read_json, read_json_lines
from pvg_hf.game.resume import check_unchanged

IN_THE_LAST_CHECKPOINT = {
    "event": "open",
    "pattern": r"prover/\.round-000\.partial/checkpoints/checkpoint-6/trainer_state",
}


def test_changed_recipe_is_refused_with_every_difference(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    before = folder.recipe.read_bytes()
    with pytest.raises(ValueError) as caught:
        play(load_recipe(game(prover__beta=0.5, seed=1, task__options={"num_train": 61, "num_test": 4})))
    assert str(caught.value) == (
        "The run `game` was begun with another recipe:\n"
        "- `prover.beta`: 0.05 before, 0.5 now\n"
        "- `seed`: 0 before, 1 now\n"
        "- `task.options.num_train`: 60 before, 61 now\n"
        "Continue it with the recipe in its folder, or give this one another `name`."
    )
    assert folder.recipe.read_bytes() == before


def test_fewer_rounds_are_refused(tmp_path, game, reference):
    copy_until(reference, tmp_path, "round-001/evaluate")
    with pytest.raises(ValueError, match=r"`num_rounds`: 2 before, 1 now \(may only grow\)"):
        play(load_recipe(game(num_rounds=1)))


@pytest.mark.parametrize(
    "change",
    [{"num_rounds": 5}, {"logging__log_completions": True}, {"logging__progress": True}],
)
def test_more_rounds_and_other_logging_are_allowed(change, game):
    check_unchanged(load_recipe(game()), load_recipe(game(**change)))


def test_run_may_be_moved(tmp_path, game):
    check_unchanged(load_recipe(game()), load_recipe({**game(), "output_dir": str(tmp_path / "elsewhere")}))


def test_sections_that_were_added_or_removed_are_differences(game):
    plain, adapted = load_recipe(game()), load_recipe(game(prover__lora={"r": 4}))
    with pytest.raises(ValueError, match=r"- `prover\.lora\.r`: None before, 4 now"):
        check_unchanged(plain, adapted)
    with pytest.raises(ValueError, match=r"- `prover\.lora\.r`: 4 before, None now"):
        check_unchanged(adapted, plain)


# What a person or a disk may do to a finished run, and what the error must name.
DAMAGES = {
    "truncated weights of a verifier": ("verifier/round-000/model.safetensors", "verifier/round-000"),
    "truncated weights of a prover": ("prover/round-000/model.safetensors", "prover/round-000"),
    "truncated calibration": ("verifier/round-000/calibration.json", "verifier/round-000"),
    "truncated metrics of a phase": ("verifier/round-000/metrics.jsonl", "verifier/round-000"),
}


@pytest.mark.parametrize(("file", "phase_folder"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_file_is_named_with_a_remedy_that_works(file, phase_folder, tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-000/mint")
    shutil.rmtree(folder.prover(0)) if "calibration" in file else None
    damaged = folder.root / file
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    with pytest.raises(ValueError) as caught:
        play(load_recipe(game()), phase="prover", round_index=0)
    assert str(damaged) in str(caught.value)
    assert f"Delete the folder {folder.root / phase_folder} and continue" in str(caught.value)

    shutil.rmtree(folder.root / phase_folder)
    play_until(game(), "round-000/prover")
    check_same_so_far(folder, reference)


@pytest.mark.parametrize("damage", ["truncated", "missing", "other bytes"])
def test_damaged_pool_is_named_with_a_remedy_that_works(damage, tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/verifier")
    file = folder.pool(0) / "sneaky.parquet"
    content = file.read_bytes()
    middle = len(content) // 3
    file.write_bytes(
        content[:middle] if damage == "truncated" else content[:middle] + b"\0" * 64 + content[middle + 64 :]
    )
    if damage == "missing":
        file.unlink()
    with pytest.raises(ValueError, match=rf"elete the folder {folder.pool(0)} and continue the run") as caught:
        play(load_recipe(game()), phase="verifier", round_index=1)
    assert str(file) in str(caught.value)

    shutil.rmtree(folder.pool(0))
    play(load_recipe(game()), phase="mint", round_index=0)
    play(load_recipe(game()), phase="verifier", round_index=1)
    check_same_so_far(folder, reference)


def play_until(recipe: dict, phase: str) -> None:
    """Play whatever is missing, up to and with a phase of round 0."""
    for name, round_index in (("bootstrap", None), ("verifier", 0), ("prover", 0)):
        play(load_recipe(recipe), phase=name, round_index=round_index)


def test_damaged_lists_are_made_anew_from_the_phases(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    folder.state.write_text('{"finished": ["boot')
    folder.metrics.write_text("{")
    folder.report.unlink()
    play(load_recipe(game()))
    assert differing(folder, reference) == []
    assert read_json(folder.state) == read_json(reference.state)


def test_torn_last_event_is_dropped(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    num_events = len(read_json_lines(folder.events))
    with folder.events.open("a") as file:
        file.write('{"time": 17')
    play(load_recipe(game()))
    assert len(read_json_lines(folder.events)) == num_events + 1


@pytest.mark.parametrize("text", ["name: [", "- a list", "prover: {learning_rat: 1}"])
def test_damaged_recipe_of_a_run_is_named(text, tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-000/verifier")
    folder.recipe.write_text(text)
    with pytest.raises(ValueError, match=r"game/recipe\.yaml cannot be read: .*(?s:.)*Put back"):
        play(load_recipe(game()))
    assert folder.recipe.read_text() == text


@pytest.fixture(scope="module")
def killed_late(tmp_path_factory, make_recipe, reference) -> RunFolder:
    """A run that died in its prover's last checkpoint, so that two whole ones are left, of steps 4 and 2."""
    output_dir = tmp_path_factory.mktemp("killed-late")
    folder = copy_until(reference, output_dir, "round-000/prover")
    order = {"recipe": make_recipe(output_dir), "signal": "SIGKILL", "moment": IN_THE_LAST_CHECKPOINT}
    assert play_in_process(order, output_dir / "log.txt") < 0
    return folder


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("model.safetensors", truncate),
        ("optimizer.pt", truncate),
        ("optimizer.pt", Path.unlink),
        ("scheduler.pt", Path.unlink),
        ("rng_state.pth", Path.unlink),
        ("rng_state.pth", truncate),
        ("trainer_state.json", truncate),
    ],
)
def test_checkpoint_that_is_not_whole_is_passed_over(file, damage, tmp_path, game, killed_late, reference):
    folder = RunFolder(tmp_path / "game")
    shutil.copytree(killed_late.root, folder.root)
    damage(folder.root / "prover" / ".round-000.partial" / "checkpoints" / "checkpoint-4" / file)
    play(load_recipe(game()), phase="prover", round_index=0)
    check_same_so_far(folder, reference)
    assert [event["checkpoint"] for event in read_json_lines(folder.events) if event["event"] == "continued"] == [
        "checkpoint-2"
    ]
