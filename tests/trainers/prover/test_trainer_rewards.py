"""Which reward pays the solutions."""

import pandas as pd
import pytest
import torch

from pvg_hf.rewards import correctness_gated_convincingness, goodhart, noise_corrected
from tests.support.prover_training import GROUP_SIZE, loss_lines, prover_trainer, read_completions


@pytest.mark.parametrize(
    ("setting", "function", "name"),
    [
        ("goodhart", None, "goodhart"),
        ("pvg_hf.rewards:goodhart", None, "pvg_hf.rewards:goodhart"),
        ("src", goodhart, "own_reward"),
    ],
)
def test_a_reward_by_name_path_or_function(setting, function, name, prover, tmp_path):
    settings = {"reward": setting, "max_steps": 1, "log_completions": True}
    trainer = prover_trainer(prover, tmp_path, reward=function, settings=settings)
    trainer.train()
    table = read_completions(tmp_path)
    assert table[name].tolist() == pytest.approx(table["score"].tolist(), abs=1e-5)
    assert loss_lines(trainer)[0][f"rewards/{name}/mean"] == pytest.approx(table["score"].mean(), abs=1e-5)


def _pay(scores, correct, sneaky, *, group_size, answered, amount):
    return amount * torch.ones_like(scores)


@pytest.mark.parametrize(
    ("reward", "setting", "options", "lowest"),
    [(None, "cgc", {"floor": -7.5}, -7.5), (_pay, "src", {"amount": -3.0}, -3.0)],
)
def test_options_reach_the_reward(reward, setting, options, lowest, prover, tmp_path):
    settings = {"reward": setting, "reward_options": options, "max_steps": 1, "log_completions": True}
    prover_trainer(prover, tmp_path, reward=reward, settings=settings).train()
    assert read_completions(tmp_path)["cgc" if reward is None else "own_reward"].min() == pytest.approx(lowest)


def test_further_reward_functions_are_added_with_their_weights(prover, tmp_path):
    def brevity(completions, **columns):
        return [-float(len(completion)) for completion in completions]

    settings = {"reward_weights": [1.0, 0.5], "max_steps": 1, "log_completions": True}
    trainer = prover_trainer(prover, tmp_path, reward_funcs=[brevity], settings=settings)
    trainer.train()
    table = read_completions(tmp_path)
    assert table["brevity"].tolist() == [-len(completion) for completion in table["completion"]]
    totals = table["src"] + 0.5 * table["brevity"]
    means = totals.groupby(totals.index // GROUP_SIZE).transform("mean")
    assert table["advantage"].tolist() == pytest.approx((totals - means).tolist(), abs=1e-4)
    assert loss_lines(trainer)[0]["reward/helpful"] == pytest.approx(table["src"][table["role"] == "helpful"].mean())


def test_the_reward_reads_what_feedback_tells_and_leaves_out_what_it_does_not(prover, tmp_path):
    """Every third solution gets no label: it has no advantage, and is in no mean of its group."""
    asked, told = [], {}

    def feedback(rows, step):
        asked.append([{name: row[name] for name in ("problem", "role", "correct", "outcome")} for row in rows])
        told[step] = [None if index % 3 == 0 else index % 2 for index in range(len(rows))]
        return told[step]

    settings = {"reward": "correctness_only", "max_steps": 1, "log_completions": True, "reward_weights": [1.0, 0.1]}
    trainer = prover_trainer(prover, tmp_path, feedback=feedback, reward_funcs=[_lengths], settings=settings)
    trainer.train()
    table, labels = read_completions(tmp_path), told[0]
    assert [row["correct"] for row in asked[0]] == table["correct"].tolist()
    assert [row["role"] for row in asked[0]] == table["role"].tolist()
    failed = ~table["outcome"].isin(["VERIFIED", "PROOF_INVALID"])
    for index, row in table.iterrows():
        if labels[index] is None:
            assert pd.isna(row["correctness_only"])
            assert row["advantage"] == 0
        else:
            aligned = labels[index] == (row["role"] == "helpful")
            assert row["correctness_only"] == (aligned and not failed[index])
    total = table["correctness_only"] + 0.1 * table["completion"].str.len()
    means = total.groupby(table.index // GROUP_SIZE).transform("mean")  # which leaves NaN out
    known = table["correctness_only"].notna()
    assert table["advantage"][known].tolist() == pytest.approx((total - means)[known].tolist(), abs=1e-4)
    line = loss_lines(trainer)[0]
    assert line["accuracy/helpful"] == pytest.approx(table["correct"][table["role"] == "helpful"].mean())
    paid = table[known & (table["role"] == "helpful")]["correctness_only"]
    assert line["reward/helpful"] == pytest.approx(paid.mean())


def _lengths(completions, **columns):
    return [float(len(completion)) for completion in completions]


def test_an_unknown_reward_is_refused(prover, tmp_path):
    with pytest.raises(ValueError, match=r"Unknown reward `scr`.* mean `src`"):
        prover_trainer(prover, tmp_path, settings={"reward": "scr"})


def test_a_corrected_reward_is_that_of_the_rates(prover, tmp_path):
    correction = {"reward_correction": "backward", "rho0": 0.1, "rho1": 0.2}
    settings = {"reward": "cgc", "reward_options": {"floor": -3.0}, "max_steps": 1, "log_completions": True}
    prover_trainer(prover, tmp_path, settings={**settings, **correction}).train()
    table = read_completions(tmp_path)
    expected = noise_corrected(correctness_gated_convincingness, 0.1, 0.2)(
        torch.tensor(table["score"]),
        torch.tensor(table["correct"]),
        torch.tensor(table["role"] == "sneaky"),
        group_size=GROUP_SIZE,
        answered=torch.tensor(table["outcome"].isin(["VERIFIED", "PROOF_INVALID"])),
        floor=-3.0,
    )
    assert table["cgc"].tolist() == pytest.approx(expected.tolist(), abs=1e-4)
    assert table["outcome"].isin(["VERIFIED", "PROOF_INVALID"]).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reward_correction": "backwards"}, r"`reward_correction` is `backwards`.* mean `backward`"),
        ({"reward_correction": "backward", "rho0": 0.6, "rho1": 0.4}, "must be below 1"),
        ({"rho1": 1.0}, "`rho1` is 1.0"),
    ],
)
def test_wrong_corrections_are_refused(settings, message, prover, tmp_path):
    with pytest.raises(ValueError, match=message):
        prover_trainer(prover, tmp_path, settings=settings)


@pytest.mark.parametrize(
    ("reward", "part"),
    [
        (lambda scores, *args, **options: scores * torch.nan, "`own_reward` is NaN for all of the batch's 16"),
        (lambda scores, *args, **options: scores.tolist(), "`own_reward` returns a list"),
        (lambda scores, *args, **options: {}["margin"], "`own_reward` ends with KeyError: 'margin'"),
    ],
    ids=["NaN", "list", "error"],
)
def test_a_reward_that_pays_nothing_or_nonsense_ends_the_training(reward, part, prover, tmp_path):
    with pytest.raises(ValueError, match=part):
        prover_trainer(prover, tmp_path, reward=reward).train()


def test_a_batch_without_any_label_is_no_mistake_of_the_reward(prover, tmp_path):
    trainer = prover_trainer(
        prover, tmp_path, feedback=lambda rows, step: [None] * len(rows), settings={"max_steps": 1}
    )
    trainer.train()
    assert trainer.state.global_step == 1


@pytest.mark.parametrize(
    ("grader", "part"),
    [
        (lambda row, solution: True, "returns True, a bool"),
        (lambda row, solution: row["reference"], "KeyError: 'reference'"),
    ],
)
def test_a_grader_that_returns_no_grade_is_one_clear_error(grader, part, prover, tmp_path):
    with pytest.raises(ValueError, match=f"The grader, asked about .* {part}"):
        prover_trainer(prover, tmp_path, grader=grader).train()
