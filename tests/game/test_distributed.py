"""Two processes, started by torchrun as on two GPUs, give the results of one."""

import pandas as pd
import pytest
import torch

from pvg_hf import VerifierScorer, load_recipe, play
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.rewards import signed_relative_convincingness
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import branch_off, check_same_so_far, differing, prover_steps, start_two

# By plain gradient descent, which keeps a difference in rounding as small as it was. Adam's first steps have the size
# of the learning rate whatever the gradient's, so that a gradient near zero would turn rounding into a whole step.
DESCENT = {"verifier__trainer": {"optim": "sgd"}, "verifier__learning_rate": 1.0}
CHANGES = {
    "verifier": DESCENT,  # 8 pairs, 4 by each process
    # 3 prompts of 4 solutions give either process 6 solutions: the middle group straddles them.
    "prover": {"prover__prompts_per_step": 3, "logging__log_completions": True},
    "pilot": {
        "task__name": "tests.support.recall_task:GradedRecallTask",
        "task__options": {"graded": "half", "num_train": 40, "num_test": 4},
        "bootstrap__pilot_problems": 6,
        "prover__max_completion_length": 32,
    },
}


pytestmark = pytest.mark.game


@pytest.fixture(scope="module")
def twofold(tmp_path_factory, make_recipe, reference) -> dict[str, RunFolder]:
    """Phases played by two processes, each starting from the reference run."""
    places = {name: tmp_path_factory.mktemp(name) for name in ("bootstrap", "pilot", "verifier", "prover", "mint")}
    recipes = {name: make_recipe(place, **CHANGES.get(name, {})) for name, place in places.items()}
    for name in ("verifier", "prover", "mint"):
        branch_off(reference, places[name], f"round-000/{name}")
    parts = [
        {"recipe": recipe, "phase": "bootstrap"}
        if name in ("bootstrap", "pilot")
        else {"recipe": recipe, "phase": name, "round_index": 0}
        for name, recipe in recipes.items()
    ]
    parts.append({"recipe": recipes["mint"], "phase": "evaluate", "round_index": 0})
    log = places["bootstrap"] / "log.txt"
    assert start_two({"parts": parts}, log).wait(timeout=300) == 0, log.read_text()
    return {name: RunFolder(place / "game") for name, place in places.items()}


def test_bootstrap_ends_in_the_same_bytes(twofold, reference):
    check_same_so_far(twofold["bootstrap"], reference)
    assert (twofold["bootstrap"].pool(-1) / "base.parquet").exists()


def test_the_pilot_ends_in_the_same_bytes(twofold, tmp_path, make_recipe):
    alone = play(load_recipe(make_recipe(tmp_path, **CHANGES["pilot"])), only_pilot=True)
    assert twofold["pilot"].pilot.read_bytes() == alone.pilot.read_bytes()
    assert (twofold["pilot"].pool(-1) / "base.parquet").exists()


def test_minting_and_evaluation_end_in_the_same_solutions_with_scores_equal_up_to_rounding(twofold, reference):
    """Each process scores batches of its own, whose other rows and padding move a score's last digits."""
    minted = sorted(path.name for path in reference.pool(0).glob("*.parquet"))
    assert {"helpful.parquet", "sneaky.parquet", "test-sneaky.parquet"} <= set(minted)
    for name in minted:
        mine, other = (pd.read_parquet(run.pool(0) / name) for run in (twofold["mint"], reference))
        pd.testing.assert_frame_equal(mine, other, rtol=0, atol=1e-6)
    mine, other = (read_json(run.evaluation(0) / "metrics.json") for run in (twofold["mint"], reference))
    assert mine.keys() == other.keys()
    for key, figure in other.items():
        assert mine[key] == pytest.approx(figure, abs=1e-4, nan_ok=True), key


def test_verifier_takes_the_same_steps_up_to_rounding(twofold, tmp_path, make_recipe, reference):
    alone = branch_off(reference, tmp_path, "round-000/verifier")
    play(load_recipe(make_recipe(tmp_path, **DESCENT)), phase="verifier", round_index=0)
    mine, others = (read_json_lines(run.verifier(0) / "metrics.jsonl") for run in (twofold["verifier"], alone))
    assert [line["step"] for line in mine] == [line["step"] for line in others]
    assert read_json(twofold["verifier"].verifier(0) / "pairs.json") == read_json(alone.verifier(0) / "pairs.json")
    whole_batches = list(zip(mine, others, strict=True))[:2]  # before the first epoch ends
    for line, other in whole_batches:
        for key in ("verifier/loss", "verifier/accuracy", "verifier/grad_norm"):
            assert line[key] == pytest.approx(other[key], abs=1e-5), key


def test_a_group_across_processes_uses_its_own_mean(twofold):
    folder = twofold["prover"]
    scorer = VerifierScorer.from_pretrained(folder.verifier(0))
    files = sorted((folder.prover(0) / "completions").glob("*.parquet"))
    assert len(files) == 6
    for file in files:
        rows = pd.read_parquet(file)
        assert len(rows) == 12
        assert [len(set(rows["prompt"][start : start + 4])) for start in (0, 4, 8)] == [1, 1, 1]
        problems = rows["prompt"].str.split("\n").str[0].tolist()
        scores = torch.tensor(scorer(problems, rows["completion"].tolist()))
        rewards = signed_relative_convincingness(
            scores,
            torch.tensor(rows["correct"]),
            torch.tensor(rows["role"] == "sneaky"),
            group_size=4,
            answered=torch.tensor(rows["outcome"].isin(["VERIFIED", "PROOF_INVALID"])),
        )
        torch.testing.assert_close(rewards, torch.tensor(rows["src"], dtype=torch.float32), atol=1e-4, rtol=0)


def test_role_metrics_are_over_both_processes(twofold):
    folder = twofold["prover"]
    for step, line in prover_steps(folder).items():
        rows = pd.read_parquet(folder.prover(0) / "completions" / f"completions_{step:05d}.parquet")
        for role, of_role in rows.groupby("role"):
            assert line[f"prover/accuracy/{role}"] == pytest.approx(of_role["correct"].mean(), abs=1e-4)
            assert line[f"prover/reward/{role}"] == pytest.approx(of_role["src"].mean(), abs=1e-4)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("ending", "checkpoint"),
    [
        ({"signal": "SIGKILL", "rank": 1}, "checkpoint-2"),
        ({"signal": "SIGTERM", "to": "launcher"}, "checkpoint-5"),  # passed on: each process ends its next step
    ],
    ids=["one is killed", "the launcher is asked to stop"],
)
def test_killed_in_a_prover_step_it_is_resumed_by_two_processes(
    ending, checkpoint, twofold, tmp_path, make_recipe, reference
):
    folder = branch_off(reference, tmp_path, "round-000/prover")
    order = {"recipe": make_recipe(tmp_path, **CHANGES["prover"]), "phase": "prover", "round_index": 0}
    moment = {"event": "os.mkdir", "pattern": r"prover/\.round-000\.partial/checkpoints/checkpoint-4'"}
    log = tmp_path / "log.txt"
    assert start_two({**order, **ending, "moment": moment}, log).wait(timeout=300) != 0
    assert not folder.prover(0).exists()
    assert start_two(order, log).wait(timeout=300) == 0, log.read_text()
    assert differing(folder, twofold["prover"]) == []
    continued = [event["checkpoint"] for event in read_json_lines(folder.events) if event["event"] == "continued"]
    assert continued == [checkpoint]


@pytest.mark.nightly
def test_stopped_in_minting_finished_batches_are_kept(twofold, tmp_path, make_recipe, reference):
    folder, log = branch_off(reference, tmp_path, "round-000/mint"), tmp_path / "log.txt"
    order = {"recipe": make_recipe(tmp_path), "phase": "mint", "round_index": 0}
    moment = {"event": "os.rename", "pattern": r"batches/helpful-verifier-000000/0002\.parquet'"}
    assert start_two({**order, "signal": "SIGTERM", "to": "launcher", "moment": moment}, log).wait(timeout=300) != 0
    assert "GameInterrupted" in log.read_text()
    batches = folder.root / "pool" / ".round-000.partial" / "batches" / "helpful-verifier-000000"
    # The first process writes batches 0 and 2; how far the second one is by then depends on the machine.
    kept = {file.name: file.stat().st_mtime_ns for file in batches.glob("*.parquet")}
    assert {"0000.parquet", "0002.parquet"} <= kept.keys()
    moment = {"event": "os.rename", "pattern": rf"batches/helpful-verifier-000000/({'|'.join(kept)})'"}
    assert start_two({**order, "signal": "SIGKILL", "moment": moment}, log).wait(timeout=300) == 0, log.read_text()
    check_same_so_far(folder, twofold["mint"])
