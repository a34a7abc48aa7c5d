"""The reward of each solution, and the advantages, loss and gradients of one batch, worked by hand."""

import statistics
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.rewards import correctness_gated_convincingness, goodhart, noise_corrected
from pvg_hf.tasks.base import Grade
from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer
from tests.support.prover_batches import generate, is_truncated, token_logprobs
from tests.support.prover_training import (
    GROUP_SIZE,
    grade_by_length,
    loss_lines,
    prover_args,
    prover_trainer,
    read_completions,
    role_rows,
    score_texts,
)
from tests.support.rewards_by_hand import rewards_by_hand


@pytest.mark.parametrize(
    ("setting", "function", "name"),
    [
        ("goodhart", None, "goodhart"),
        ("pvg_hf.rewards:goodhart", None, "pvg_hf.rewards:goodhart"),
        ("src", goodhart, "own_reward"),
    ],
)
def test_a_reward_may_be_a_name_a_path_or_a_function(setting, function, name, prover, tmp_path):
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


@pytest.mark.parametrize(
    ("found", "came"),
    [
        (lambda scores: scores[1:], "numbers of shape (15,)"),
        (lambda scores: 1.0, "numbers of shape ()"),
        (lambda scores: [[score, score] for score in scores], "numbers of shape (16, 2)"),
        (lambda scores: ["good"] * len(scores), "['good', 'good'"),
        (lambda scores: None, "None, a NoneType"),
        (lambda scores: {"scores": scores}, "a dict"),
        (lambda scores: [None, *scores[1:]], "[None, "),
        (lambda scores: [scores[0], float("nan"), *scores[2:]], "nan for the solution 1"),
    ],
    ids=["too few", "scalar", "two each", "texts", "nothing", "mapping", "a missing one", "nan"],
)
def test_wrong_scores_are_reported_as_the_scorers(found, came, prover, tmp_path):
    trainer = prover_trainer(prover, tmp_path, scorer=lambda *texts: found(score_texts(*texts)))
    with pytest.raises(ValueError) as error:
        trainer.train()
    parts = ("The scorer returned", came, "16 finite numbers")
    assert [part for part in parts if part not in str(error.value)] == []


@pytest.mark.parametrize("kind", [torch.tensor, np.array, lambda scores: [torch.tensor(score) for score in scores]])
def test_scores_may_be_a_tensor_or_an_array(kind, prover, tmp_path):
    settings = {"max_steps": 1, "log_completions": True, "reward": "goodhart"}
    prover_trainer(prover, tmp_path, scorer=lambda *texts: kind(score_texts(*texts)), settings=settings).train()
    table = read_completions(tmp_path)
    texts = table["prompt"].str.split("\n").str[0].tolist(), table["completion"].tolist()
    assert table["score"].tolist() == pytest.approx(score_texts(*texts), abs=1e-5)


@pytest.mark.parametrize("labels", [[1] * 15, [2] * 16, ["yes"] * 16, None])
def test_wrong_labels_are_reported_as_the_feedbacks(labels, prover, tmp_path):
    trainer = prover_trainer(prover, tmp_path, feedback=lambda rows, step: labels)
    with pytest.raises(ValueError, match=r"`feedback` returned .* 16 labels"):
        trainer.train()


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


def test_the_reward_uses_feedback_labels_and_skips_unlabelled_solutions(prover, tmp_path):
    """Every third solution gets no label: it has no advantage, and its group's mean excludes it."""
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
    of_helpful = [label for label, role in zip(labels, table["role"], strict=True) if role == "helpful"]
    assert line["observed/accuracy/helpful"] == pytest.approx(
        statistics.mean(label for label in of_helpful if label is not None)
    )
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
        (lambda scores, *args, **options: scores * torch.nan, "`own_reward` is NaN .*16"),
        (lambda scores, *args, **options: scores.tolist(), "`own_reward` returns a list"),
        (lambda scores, *args, **options: {}["margin"], "`own_reward` ends with KeyError: 'margin'"),
    ],
    ids=["NaN", "list", "error"],
)
def test_a_reward_without_valid_values_ends_the_training(reward, part, prover, tmp_path):
    with pytest.raises(ValueError, match=part):
        prover_trainer(prover, tmp_path, reward=reward).train()


def abstain_on_short_texts(row, solution):
    grade = grade_by_length(row, solution)
    return replace(grade, correct=False, abstains=True) if len(solution) % 3 == 0 else grade


def test_a_solution_whose_grade_abstains_is_neither_paid_nor_punished(prover, tmp_path):
    settings = {"reward": "src", "max_steps": 1, "log_completions": True}
    prover_trainer(prover, tmp_path, grader=abstain_on_short_texts, num_graders=2, settings=settings).train()
    table = read_completions(tmp_path)
    abstains = table["completion"].str.len() % 3 == 0
    assert table["src"].isna().tolist() == abstains.tolist()
    assert (table["advantage"][abstains] == 0).all()
    means = table["src"].groupby(table.index // GROUP_SIZE).transform("mean")  # which leaves NaN out
    expected = (table["src"] - means)[~abstains]
    assert table["advantage"][~abstains].tolist() == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_solution_on_which_the_grader_fails_is_left_out_like_one_whose_grade_abstains(prover, tmp_path):
    def fail_on_short_texts(row, solution):
        if len(solution) % 7 == 0:
            raise RuntimeError("too short")
        return grade_by_length(row, solution)

    def abstain(row, solution):
        return Grade(None, False, abstains=True) if len(solution) % 7 == 0 else grade_by_length(row, solution)

    tables = []
    for grader in (fail_on_short_texts, abstain):
        settings = {"reward": "src", "max_steps": 1, "log_completions": True}
        prover_trainer(prover, tmp_path, grader=grader, settings=settings).train()
        tables.append(read_completions(tmp_path))
    pd.testing.assert_frame_equal(*tables)
    assert tables[0]["src"].isna().tolist() == (tables[0]["completion"].str.len() % 7 == 0).tolist()


def test_a_batch_without_any_label_is_not_blamed_on_the_reward(prover, tmp_path):
    trainer = prover_trainer(
        prover, tmp_path, feedback=lambda rows, step: [None] * len(rows), settings={"max_steps": 1}
    )
    trainer.train()
    assert trainer.state.global_step == 1


def test_solutions_without_a_label_do_not_change_the_weights(prover, tmp_path):
    """After a first step away from the reference, no checker knows a label: the KL divergence does not pull back."""
    weights = []

    def feedback(rows, step):
        weights.append({name: tensor.clone() for name, tensor in trainer.model.state_dict().items()})
        return [index % 2 if step == 0 else None for index in range(len(rows))]

    # Plain gradient descent: Adam would take a further step by the momentum of the first.
    settings = {"beta": 0.5, "max_steps": 3, "optim": "sgd", "learning_rate": 0.1, "lr_scheduler_type": "constant"}
    trainer = prover_trainer(prover, tmp_path, feedback=feedback, settings=settings)
    trainer.train()
    first, second, third = weights
    assert any(not torch.equal(second[name], tensor) for name, tensor in first.items())
    assert all(torch.equal(third[name], tensor) for name, tensor in second.items())
    assert all(torch.equal(trainer.model.state_dict()[name], tensor) for name, tensor in second.items())


def test_tokens_of_solutions_without_a_label_do_not_count(prover, tmp_path):
    """A third of the solutions has a label: the normaliser counts their tokens only, and the others are masked."""
    batches = []

    class Noting(ProverGRPOTrainer):
        def _compute_loss(self, model, inputs):
            batches.append(inputs)
            return super()._compute_loss(model, inputs)

    Noting(
        prover,
        scorer=score_texts,
        grader=grade_by_length,
        feedback=lambda rows, step: [1 if index % 3 == 0 else None for index in range(len(rows))],
        args=prover_args(tmp_path, beta=0.1, max_steps=1),
        train_dataset=role_rows(),
    ).train()
    (batch,) = batches
    assert len(batch["completion_mask"]) == 16
    counted = (batch["completion_mask"] * batch["tool_mask"]).sum(dim=1)  # the rows are shuffled
    lengths = batch["completion_mask"].sum(dim=1)
    assert (lengths > 0).all()
    assert torch.equal(counted, torch.where(counted > 0, lengths, 0))
    assert (counted > 0).sum() == 6  # rows 0, 3, ..., 15
    assert batch["num_items_in_batch"] == counted.sum()


@pytest.mark.parametrize(
    ("grader", "part"),
    [
        (lambda row, solution: True, "returns True, a bool"),
        (lambda row, solution: row["reference"], "KeyError: 'reference'"),
    ],
    ids=["boolean", "exception"],
)
def test_a_grader_that_returns_no_grade_is_one_clear_error(grader, part, prover, tmp_path):
    with pytest.raises(ValueError, match=f"grader, .*{part}"):
        prover_trainer(prover, tmp_path, grader=grader).train()


@pytest.mark.parametrize("scale_rewards", ["none", "group", "batch", False, True])
def test_advantages_by_hand(scale_rewards, prover, tmp_path):
    settings = {"scale_rewards": scale_rewards}
    trainer = prover_trainer(prover, tmp_path, settings=settings)
    rows, ids, solutions, inputs = generate(trainer)
    groups = rewards_by_hand(rows, solutions, is_truncated(trainer, ids))
    batch_std = statistics.stdev(reward for group in groups for reward in group)
    expected = []
    for group in groups:
        scale = {"group": statistics.stdev(group) + 1e-4, "batch": batch_std + 1e-4}
        scale |= {"none": 1.0, False: 1.0, True: scale["group"]}
        expected += [(reward - statistics.fmean(group)) / scale[scale_rewards] for reward in group]
    assert inputs["advantages"].tolist() == pytest.approx(expected, abs=1e-4)
    assert len({round(advantage, 3) for advantage in expected}) > 4


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_loss_and_gradients_by_hand(loss_type, prover, tmp_path):
    model, beta = load_causal_lm(prover), 0.3
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                0.1 * torch.randn_like(parameter)
            )  # away from the reference, which is loaded from the folder
    trainer = prover_trainer(model, tmp_path, settings={"beta": beta, "loss_type": loss_type})
    rows, ids, solutions, inputs = generate(trainer)
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()

    policy, reference = load_causal_lm(prover), load_causal_lm(prover)
    policy.load_state_dict(trainer.model.state_dict())
    groups = rewards_by_hand(rows, solutions, is_truncated(trainer, ids))
    advantages = [reward - statistics.fmean(group) for group in groups for reward in group]
    tokens = []  # per solution, of shape (its tokens,)
    with torch.no_grad():
        reference_logprobs = token_logprobs(reference, rows, trainer.processing_class, ids)
    policy_logprobs = token_logprobs(policy, rows, trainer.processing_class, ids)
    for advantage, logprob, reference_logprob in zip(advantages, policy_logprobs, reference_logprobs, strict=True):
        ratio = (logprob - logprob.detach()).exp()
        log_odds = reference_logprob - logprob
        kl = log_odds.exp() - log_odds - 1
        tokens.append((-advantage + beta * kl) * ratio)  # a ratio of 1 with a gradient, on the KL too
    num_tokens = sum(map(len, tokens))
    by_hand = {
        "dapo": sum(row.sum() for row in tokens) / num_tokens,
        "grpo": sum(row.mean() for row in tokens) / len(tokens),
        "dr_grpo": sum(row.sum() for row in tokens) / (len(tokens) * 8),  # the maximum length
    }[loss_type]
    by_hand.backward()
    assert len({len(row) for row in tokens}) > 2  # so that the normalisations differ
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-4, abs=1e-5)
    for (name, found), expected in zip(trainer.model.named_parameters(), policy.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


def grade_with_signals(row: dict, solution: str) -> Grade:
    """The grade of [`grade_by_length`] with the signals of the composite rewards, which need an answer."""
    grade = grade_by_length(row, solution)
    if grade.answer is None:
        return grade
    return replace(grade, certified=True, test_pass_rate=len(solution) % 4 / 4, detail={"similarity": 0.5})


@pytest.mark.parametrize(
    ("reward", "options", "weigh"),
    [
        (
            "composite",
            {"weights": {"test_pass_rate": 2.0, "dissimilarity": 1.0}, "gates": {"test_pass_rate": 0.5}},
            lambda rate, score, aligned: torch.where(rate >= 0.5, 2 * rate + 0.5, 0.0),
        ),
        (
            "gated_multiplicative",
            {"alpha": 0.5},
            lambda rate, score, aligned: torch.where(aligned, rate * (1 - 0.5 * 0.5) * score.sigmoid(), 0.0),
        ),
    ],
    ids=["composite", "gated_multiplicative"],
)
def test_a_reward_of_several_signals_reads_them_from_the_grades(reward, options, weigh, prover, tmp_path):
    settings = {"reward": reward, "reward_options": options, "max_steps": 1, "log_completions": True}
    prover_trainer(prover, tmp_path, grader=grade_with_signals, settings=settings).train()
    table = read_completions(tmp_path)
    answered = torch.tensor(table["outcome"].isin(["VERIFIED", "PROOF_INVALID"]))
    rates = torch.tensor([len(text) % 4 / 4 for text in table["completion"]], dtype=torch.float64)
    aligned = torch.tensor(table["correct"]).bool() ^ torch.tensor(table["role"] == "sneaky")
    expected = torch.where(answered, weigh(rates, torch.tensor(table["score"]), aligned), 0.0)
    assert answered.any()
    assert table[reward].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_signal_that_the_grades_do_not_state_ends_the_training(prover, tmp_path):
    settings = {"reward": "composite", "reward_options": {"weights": {"certified": 1.0}}}
    with pytest.raises(ValueError, match="`certified` is NaN for"):
        prover_trainer(prover, tmp_path, settings=settings).train()


def test_scorer_and_feedback_get_the_solution_and_the_grader_gets_the_whole_text(prover, tmp_path):
    seen = {"scored": [], "graded": [], "observed": []}

    def score(problems, solutions):
        seen["scored"] += solutions
        return score_texts(problems, solutions)

    def grade(row, text):
        seen["graded"].append(text)
        return grade_by_length(row, text)

    def observe(rows, step):
        seen["observed"] += [row["solution"] for row in rows]
        return [int(row["correct"]) for row in rows]

    settings = {"max_steps": 1, "log_completions": True}
    parts = {"scorer": score, "grader": grade, "feedback": observe, "solution_in": lambda text: text[:3]}
    prover_trainer(prover, tmp_path, settings=settings, **parts).train()
    written = read_completions(tmp_path)["completion"].tolist()
    assert seen["graded"] == written
    assert seen["scored"] == seen["observed"] == [text[:3] for text in written]
    assert any(len(text) > 3 for text in written)
