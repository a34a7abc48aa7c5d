import shutil
from collections import Counter

import pandas as pd
import pytest
import torch

from pvg_hf import VerifierScorer, load_recipe, play
from pvg_hf.core.integrity import read_json
from pvg_hf.data.pool import load_pool
from pvg_hf.data.problems import GameProblems
from pvg_hf.data.schema import describe_outcomes
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.labels import LabelSource
from pvg_hf.noise.draws import solution_key
from pvg_hf.run.layout import PhaseKey, RunFolder
from pvg_hf.trainers.reward.loss import noisy_labels
from tests.support.game_runs import branch_off
from tests.support.recall_task import write_solution


@pytest.fixture
def label(tmp_path, game):
    """The label that a solution gets in a game with this noise."""

    def make(seed=0, **noise):
        recipe = load_recipe(game(noise=noise, seed=seed))
        context = PhaseContext(
            recipe, RunFolder(tmp_path), PhaseKey("bootstrap"), GameProblems.load(recipe), StopRequest()
        )

        def told(problem_id, solution, is_correct):
            row = {"problem_id": problem_id, "solution": solution, "correct": is_correct, "label": int(is_correct)}
            row["part"] = "verifier"
            row["outcome"] = "VERIFIED" if is_correct else "PROOF_INVALID"
            with LabelSource.for_pool(context, tmp_path) as labels:
                labels.label([row])
            return row["label"]

        return told

    return make


@pytest.mark.parametrize(("is_correct", "rate"), [(True, 0.4), (False, 0.1)])
def test_labels_are_flipped_at_the_rate_of_their_truth(is_correct, rate, label):
    told = label(rho0=0.1, rho1=0.4)
    num_flips = sum(told(f"problem-{i}", "has 3", is_correct) != is_correct for i in range(2000))
    # five standard deviations of a binomial: sqrt(.4 * .6 / 2000) = .011, sqrt(.1 * .9 / 2000) = .0067
    assert num_flips / 2000 == pytest.approx(rate, abs=0.055 if is_correct else 0.034)


def test_equal_texts_of_a_problem_have_equal_labels(label):
    told = label(epsilon=0.4)
    labels = [[told(f"problem-{i}", "has 3", True) for _ in range(3)] for i in range(50)]
    assert all(len(set(of_problem)) == 1 for of_problem in labels)
    assert {of_problem[0] for of_problem in labels} == {0, 1}


def test_the_trainer_draws_as_the_pool_does(label):
    """Each text has one draw: noise injected by the trainer gives a solution the label that the pool would give it."""
    told, texts = label(epsilon=0.4, seed=11), [(f"has {i}", f"#### {i}") for i in range(60)]
    keys = torch.tensor([[solution_key("problem-1", text) for text in pair] for pair in texts])
    labels = noisy_labels(keys, (0.4, 0.4), "label", seed=11)
    in_pool = [[told("problem-1", chosen, True), told("problem-1", rejected, False)] for chosen, rejected in texts]
    assert labels.tolist() == in_pool
    assert 0 < labels[:, 1].mean() < 1


@pytest.mark.parametrize("noise", [{"level": "pair"}, {"resample": "step"}, {"resample": "epoch"}])
def test_noise_of_the_trainer_leaves_the_pool_clean(noise, label):
    told = label(epsilon=0.4, **noise)
    assert [told(f"problem-{i}", "has 3", i % 2 == 0) for i in range(40)] == [1, 0] * 20


def test_labels_flipped_in_the_pool_are_not_flipped_again_in_training(
    play_phase, tmp_path, game, reference, beginnings
):
    """The trainer still corrects for their rates."""
    for changes, injected in (({}, 0.0), ({"resample": "step"}, 0.2)):
        play_phase("verifier", 0, noise={"epsilon": 0.2, **changes}, verifier__correction="forward")
        args = beginnings[-1][0].args
        assert (args.noise_rho0, args.noise_rho1, args.rho0, args.rho1) == (injected, injected, 0.2, 0.2)
        branch_again(tmp_path, reference)


def branch_again(tmp_path, reference) -> None:
    shutil.rmtree(tmp_path / "game")
    branch_off(reference, tmp_path, "round-000/verifier")


def test_a_noisy_pool_keeps_truth_and_label_in_separate_columns(tmp_path, game):
    folder = play(load_recipe(game(noise={"epsilon": 0.3})), phase="bootstrap")
    rows = pd.read_parquet(folder.pool(-1) / "base.parquet")
    share = (rows["label"] != rows["correct"]).mean()
    assert 0.1 < share < 0.5  # of about 120 solutions, many of them alike
    truths = rows["answer"] == rows["problem"].str.split().str[2]  # `Ana has 5 pens.`
    assert truths.tolist() == rows["correct"].tolist()
    assert 0 < truths.sum() < len(rows)


@pytest.mark.parametrize(("columns", "is_noisy"), [({}, True), ({"label": "human"}, False)])
def test_imported_solutions_get_the_noise_unless_they_bring_labels(columns, is_noisy, tmp_path, game, reference):
    own = pd.read_parquet(reference.pool(-1) / "base.parquet")[["problem_id", "solution", "is_truncated"]]
    own.assign(human=1).to_json(tmp_path / "own.jsonl", orient="records", lines=True)
    bootstrap = {"import_from": str(tmp_path / "own.jsonl"), "import_columns": columns}
    folder = play(load_recipe(game(bootstrap=bootstrap, noise={"epsilon": 0.3})), phase="bootstrap")
    written = play(load_recipe(game(name="written", noise={"epsilon": 0.3})), phase="bootstrap")
    rows, others = (pd.read_parquet(run.pool(-1) / "base.parquet") for run in (folder, written))
    for column in ("solution", "correct", "outcome"):
        assert rows[column].tolist() == others[column].tolist()
    assert rows["label"].tolist() == (others["label"].tolist() if is_noisy else [1] * len(rows))
    assert (others["label"] != others["correct"]).any()


def test_the_split_of_a_folder_is_imported(tmp_path, game, reference):
    rows = pd.read_parquet(reference.pool(-1) / "base.parquet")[["problem_id", "solution"]]
    for name, part in {"train": rows[:1], "test": rows[1:]}.items():
        part.to_json(tmp_path / f"{name}.jsonl", orient="records", lines=True)
    bootstrap = {"import_from": str(tmp_path), "import_split": "test"}
    folder = play(load_recipe(game(bootstrap=bootstrap)), phase="bootstrap")
    assert pd.read_parquet(folder.pool(-1) / "base.parquet")["solution"].tolist() == rows["solution"].tolist()[1:]


def test_a_truncated_solution_failed_even_if_it_states_the_answer(tmp_path, game, tokenizer):
    """The maximum length is that of a whole solution without its end token."""
    length = len(tokenizer(write_solution(5))["input_ids"])
    folder = play(load_recipe(game(prover__max_completion_length=length)), phase="bootstrap")
    rows = pd.read_parquet(folder.pool(-1) / "base.parquet")
    cut = rows[rows["is_truncated"]]
    assert cut["solution"].str.contains(r"#### \d").mean() > 0.5
    assert set(cut["outcome"]) == {"TRUNCATED"}
    assert cut["answer"].isna().all()
    assert not cut["correct"].any()
    assert set(cut["label"]) == {0}


def test_rows_name_their_prover_role_round_and_part(reference):
    for role in ("helpful", "sneaky"):
        rows = pd.read_parquet(reference.pool(1) / f"{role}.parquet")
        assert set(rows["role"]) == {role}
        assert set(rows["round_index"]) == {1}
        assert set(rows["prover"]) == {"game/round-001"}
        assert set(rows["part"]) == {"verifier", "verifier_heldout"}
        assert set(rows.groupby("problem_id").size()) == {2}
        test = pd.read_parquet(reference.pool(1) / f"test-{role}.parquet")
        assert set(test["part"]) == {"test"}
        assert set(test["problem_id"]) & set(rows["problem_id"]) == set()


def test_score_is_that_of_the_rounds_verifier(reference):
    for k in (0, 1):
        rows = pd.read_parquet(reference.pool(k) / "sneaky.parquet")
        scores = VerifierScorer.from_pretrained(reference.verifier(k))(
            rows["problem"].tolist(), rows["solution"].tolist()
        )
        assert rows["score"].tolist() == pytest.approx(scores, abs=1e-5)
    assert pd.read_parquet(reference.pool(-1) / "base.parquet")["score"].isna().all()


def test_stop_strings_end_the_base_role_and_no_other(tmp_path, game, reference):
    """Draws are the same as without them; a task's stop strings also apply to a prompt set by the recipe."""
    task = {"name": "tests.support.recall_task:StoppedRecallTask", "prompts": {"base": "{{ problem }}\nsolution:\n"}}
    folder = play(load_recipe(game(**{f"task__{key}": value for key, value in task.items()})), phase="bootstrap")
    whole, cut = (pd.read_parquet(run.pool(-1) / "base.parquet") for run in (reference, folder))
    assert whole["solution"].str.contains("\n####").mean() > 0.5
    assert cut["solution"].tolist() == [text.split("\n####")[0] for text in whole["solution"]]
    is_cut = cut["solution"] != whole["solution"]
    assert not cut["is_truncated"][is_cut].any()
    assert (cut["num_tokens"][is_cut] < whole["num_tokens"][is_cut]).all()
    for role in ("helpful", "sneaky"):
        mine, others = ((run.pool(-1) / f"test-{role}.parquet").read_bytes() for run in (folder, reference))
        assert mine == others


@pytest.mark.parametrize(
    ("round_index", "name", "files"),
    [
        (-1, "solutions of the base prover", ["base"]),
        (-1, "in the sneaky role", ["test-sneaky"]),
        (0, "sneaky solutions", ["sneaky", "test-sneaky"]),
        (0, "of the best helpful checkpoint", ["test-best-helpful", "heldout-helpful"]),
    ],
)
def test_the_line_of_a_phase_has_the_shares_of_each_writer(round_index, name, files, reference):
    folder = reference.pool(round_index)
    outcomes = [code for file in files for code in load_pool(folder / f"{file}.parquet")["outcome"]]
    assert (
        f"{len(outcomes)} {name}: {describe_outcomes(Counter(outcomes))}"
        in read_json(folder / "phase.json")["summary"]
    )
