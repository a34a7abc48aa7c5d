import json
import os
import re
import socket
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import HfArgumentParser

from pvg_hf.models.prover import load_causal_lm, load_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.verifier import load_classifier
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.rewards import goodhart
from pvg_hf.scoring import VerifierScorer
from pvg_hf.tasks.base import Grade
from pvg_hf.trainers.prover_grpo import ProverGRPOTrainer
from pvg_hf.trainers.prover_grpo_config import ProverGRPOConfig

LORA = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
GROUP_SIZE = 4


def _score(problems: list[str], solutions: list[str]) -> list[float]:
    """Scores of many values, of both signs."""
    return [sum(map(ord, f"{p}{s}")) % 97 / 10 - 4 for p, s in zip(problems, solutions, strict=True)]


def _grade(row: dict, solution: str) -> Grade:
    """A solution of an odd number of characters is correct, of a multiple of 5 unanswered."""
    is_answered = len(solution) % 5 != 0
    return Grade(answer=solution if is_answered else None, correct=is_answered and len(solution) % 2 == 1)


def _rows(roles=("helpful", "sneaky"), num_problems: int = 4) -> Dataset:
    texts = [f"Ana has {index} pens." for index in range(num_problems)]
    return Dataset.from_list(
        [{"prompt": f"{t}\n{role} solution:\n", "problem": t, "role": role} for t in texts for role in roles]
    )


@pytest.fixture(scope="module")
def prover(tiny_prover, tmp_path_factory) -> str:
    """A prover of which a quarter of the vocabulary ends a solution, so that only some reach the maximum length."""
    folder = tmp_path_factory.mktemp("stopping") / "prover"
    model, tokenizer = load_prover(tiny_prover)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(5, len(tokenizer), 4)]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def _args(tmp_path, **settings) -> ProverGRPOConfig:
    values = {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "learning_rate": 1e-2,
        "max_steps": 3,
        "per_device_train_batch_size": 16,
        "num_generations": GROUP_SIZE,
        "max_completion_length": 8,
    }
    return ProverGRPOConfig(str(tmp_path / "out"), **{**values, **settings})


def _trainer(
    prover, tmp_path, *, scorer=_score, grader=_grade, rows=None, settings=None, **kwargs
) -> ProverGRPOTrainer:
    return ProverGRPOTrainer(
        prover,
        scorer=scorer,
        grader=grader,
        args=_args(tmp_path, **(settings or {})),
        train_dataset=_rows() if rows is None else rows,
        **kwargs,
    )


def _weights(model) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _moved(model, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.equal(before[name])}


def _log(trainer) -> list[dict[str, float]]:
    return [line for line in trainer.state.log_history if "loss" in line]


def _src_by_hand(scores: list[float], aligned: list[bool], answered: list[bool]) -> list[float]:
    """K24 eq. 2 on one group, with the rule for unanswered solutions."""
    deviations = [score - statistics.fmean(scores) for score in scores]
    rewards = []
    for deviation, is_aligned, is_answered in zip(deviations, aligned, answered, strict=True):
        if not is_answered:
            rewards.append(min(-1.0, -abs(deviation)))
        elif deviation > 0:
            rewards.append(deviation if is_aligned else -deviation)
        else:
            rewards.append(-1.0)
    return rewards


# Used alone


def test_every_weight_moves_and_the_reference_does_not(prover, tmp_path):
    trainer = _trainer(prover, tmp_path)
    before, reference = _weights(trainer.model), _weights(trainer.ref_model)
    trainer.train()
    assert _moved(trainer.model, before) == set(before)
    assert not _moved(trainer.ref_model, reference)
    log = _log(trainer)
    assert [line["step"] for line in log] == [1, 2, 3]  # every step by default
    assert log[0]["kl"] == pytest.approx(0, abs=1e-6)
    assert log[2]["kl"] > 1e-4
    assert all(line["kl_from_base"] == line["kl"] for line in log)
    assert all(line["grad_norm"] > 0 for line in log)


def _run_document(repository, **paths) -> dict:
    """Run the first block of the trainer's page with its paths and number of steps replaced; its names afterwards."""
    text = (repository / "docs" / "prover-trainer.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE).group(1)
    for old, new in {**paths, "max_steps=50": "max_steps=2, learning_rate=1e-2, use_cpu=True"}.items():
        assert block.count(old) == 1
        block = block.replace(old, new)
    names: dict = {}
    exec(block, names)
    return names


def test_the_example_of_its_page(repository, tiny_prover, tmp_path):
    """A task, prompts for both roles, and a verifier's folder; the verifier stays as it is."""
    verifier, tokenizer = load_classifier(str(tiny_prover)), load_prover(tiny_prover)[1]
    draw_head(verifier, seed=0)
    with torch.no_grad():
        # What never ends is paid min(-1, -|V'|), which moves nothing unless scores differ by more than 1.
        verifier.score.weight.mul_(1000)
    folder = tmp_path / "verifier"
    verifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    VerifierInput("{{ problem }}\n{{ solution }}", "</s>", 256).save(folder)
    paths = {
        "your/prover": str(tiny_prover),
        "runs/quickstart/verifier/round-000": str(folder),
        '"out"': f'"{tmp_path}"',
    }
    names = _run_document(repository, **paths)
    trainer, scorer = names["trainer"], names["scorer"]
    initial, untouched = load_causal_lm(str(tiny_prover)), VerifierScorer.from_pretrained(folder)
    assert _moved(trainer.model, _weights(initial)) == set(_weights(initial))
    assert not _moved(scorer.model, _weights(untouched.model))
    assert not any(parameter.requires_grad for parameter in scorer.model.parameters())
    assert _log(trainer)[0]["accuracy/helpful"] == 0  # an untrained prover solves nothing
    assert len(_log(trainer)) == 2


def test_a_model_object(prover, tmp_path):
    model = load_causal_lm(prover)
    before = _weights(model)
    trainer = _trainer(model, tmp_path, settings={"max_steps": 1})
    trainer.train()
    assert trainer.model is model
    assert _moved(model, before) == set(before)


def test_only_adapters_move(prover, tmp_path):
    trainer = _trainer(prover, tmp_path, peft_config=LORA)
    before = _weights(trainer.model)
    trainer.train()
    assert trainer.ref_model is None
    assert _moved(trainer.model, before) == {name for name in before if "lora_" in name}
    assert _log(trainer)[2]["kl"] > 0  # from the base, with the adapters off


def test_adapters_that_are_passed_in_keep_a_frozen_copy_as_the_reference(prover, tmp_path):
    trainer = _trainer(get_peft_model(load_causal_lm(prover), LORA), tmp_path)
    before = _weights(trainer.model)
    trainer.train()
    assert _moved(trainer.model, before) == {name for name in before if ".default." in name}
    assert any(".ref." in name for name in before)


def test_conversational_prompts(prover, tmp_path):
    tokenizer = load_prover(prover)[1]
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    rows = _rows().map(lambda row: {"prompt": [{"role": "user", "content": row["prompt"]}]})
    seen = []

    def grade(row, solution):
        seen.append(solution)
        return _grade(row, solution)

    settings = {"max_steps": 1, "log_completions": True}
    trainer = _trainer(prover, tmp_path, grader=grade, rows=rows, settings=settings, processing_class=tokenizer)
    trainer.train()
    table = _completions(tmp_path)
    assert [message[0]["content"] for message in table["completion"]] == seen
    assert table["score"].tolist() == pytest.approx(
        _score([message[0]["content"].split("\n")[0] for message in table["prompt"]], seen)
    )


# Rewards, advantages and the loss


def _generate(trainer):
    """One generation batch: its rows, its solutions, and what the loss is computed from."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    rows = next(iter(trainer.get_train_dataloader()))
    inputs = trainer._generate_and_score_completions(rows)
    ids = [
        row[mask.bool()].tolist()
        for row, mask in zip(inputs["completion_ids"], inputs["completion_mask"], strict=True)
    ]
    solutions = trainer.processing_class.batch_decode(ids, skip_special_tokens=True)
    return rows, ids, solutions, inputs


def _rewards_by_hand(rows, solutions, truncated) -> list[list[float]]:
    """SRC of each group of consecutive rows; a truncated solution has no answer, whatever it states."""
    scores = _score([row["problem"] for row in rows], solutions)
    grades = [_grade(row, solution) for row, solution in zip(rows, solutions, strict=True)]
    aligned = [grade.correct == (row["role"] == "helpful") for row, grade in zip(rows, grades, strict=True)]
    answered = [grade.answer is not None and not cut for grade, cut in zip(grades, truncated, strict=True)]
    return [
        _src_by_hand(*(values[start : start + GROUP_SIZE] for values in (scores, aligned, answered)))
        for start in range(0, len(rows), GROUP_SIZE)
    ]


def _truncated(trainer, ids) -> list[bool]:
    return [row[-1] not in trainer.eos_token_ids for row in ids]


@pytest.mark.parametrize("scale_rewards", ["none", "group", "batch", False, True])
def test_advantages_by_hand(scale_rewards, prover, tmp_path):
    settings = {"scale_rewards": scale_rewards}
    trainer = _trainer(prover, tmp_path, settings=settings)
    rows, ids, solutions, inputs = _generate(trainer)
    groups = _rewards_by_hand(rows, solutions, _truncated(trainer, ids))
    batch_std = statistics.stdev(reward for group in groups for reward in group)
    expected = []
    for group in groups:
        scale = {"group": statistics.stdev(group) + 1e-4, "batch": batch_std + 1e-4}
        scale |= {"none": 1.0, False: 1.0, True: scale["group"]}
        expected += [(reward - statistics.fmean(group)) / scale[scale_rewards] for reward in group]
    assert inputs["advantages"].tolist() == pytest.approx(expected, abs=1e-4)
    assert len({round(advantage, 3) for advantage in expected}) > 4


def test_groups_are_of_one_problem_and_role(prover, tmp_path):
    seen = []

    def grade(row, solution):
        seen.append((row["problem"], row["role"]))
        return _grade(row, solution)

    _trainer(prover, tmp_path, grader=grade, settings={"max_steps": 2}).train()
    groups = [seen[start : start + GROUP_SIZE] for start in range(0, len(seen), GROUP_SIZE)]
    assert len(groups) == 2 * 16 // GROUP_SIZE
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0] for group in groups}) == len(groups)  # 2 steps see each of the 8 prompts once


def _token_logprobs(model, rows, tokenizer, ids) -> list[torch.Tensor]:
    """Of each solution's tokens, one row in one forward."""
    logprobs = []
    for row, completion in zip(rows, ids, strict=True):
        prompt = tokenizer(row["prompt"])["input_ids"]
        logits = model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        logprobs.append(logits.log_softmax(-1).gather(-1, torch.tensor(completion)[:, None])[:, 0])
    return logprobs


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_loss_and_gradients_by_hand(loss_type, prover, tmp_path):
    model, beta = load_causal_lm(prover), 0.3
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                0.1 * torch.randn_like(parameter)
            )  # away from the reference, which is loaded from the folder
    trainer = _trainer(model, tmp_path, settings={"beta": beta, "loss_type": loss_type})
    rows, ids, solutions, inputs = _generate(trainer)
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()

    policy, reference = load_causal_lm(prover), load_causal_lm(prover)
    policy.load_state_dict(trainer.model.state_dict())
    groups = _rewards_by_hand(rows, solutions, _truncated(trainer, ids))
    advantages = [reward - statistics.fmean(group) for group in groups for reward in group]
    tokens = []  # per solution, of shape (its tokens,)
    with torch.no_grad():
        reference_logprobs = _token_logprobs(reference, rows, trainer.processing_class, ids)
    policy_logprobs = _token_logprobs(policy, rows, trainer.processing_class, ids)
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
    trainer = _trainer(prover, tmp_path, reward=function, settings=settings)
    trainer.train()
    table = _completions(tmp_path)
    assert table[name].tolist() == pytest.approx(table["score"].tolist(), abs=1e-5)
    assert _log(trainer)[0][f"rewards/{name}/mean"] == pytest.approx(table["score"].mean(), abs=1e-5)


def _pay(scores, correct, sneaky, *, group_size, answered, amount):
    return amount * torch.ones_like(scores)


@pytest.mark.parametrize(
    ("reward", "setting", "options", "lowest"),
    [(None, "cgc", {"floor": -7.5}, -7.5), (_pay, "src", {"amount": -3.0}, -3.0)],
)
def test_options_reach_the_reward(reward, setting, options, lowest, prover, tmp_path):
    settings = {"reward": setting, "reward_options": options, "max_steps": 1, "log_completions": True}
    _trainer(prover, tmp_path, reward=reward, settings=settings).train()
    assert _completions(tmp_path)["cgc" if reward is None else "own_reward"].min() == pytest.approx(lowest)


def test_further_reward_functions_are_added_with_their_weights(prover, tmp_path):
    def brevity(completions, **columns):
        return [-float(len(completion)) for completion in completions]

    settings = {"reward_weights": [1.0, 0.5], "max_steps": 1, "log_completions": True}
    trainer = _trainer(prover, tmp_path, reward_funcs=[brevity], settings=settings)
    trainer.train()
    table = _completions(tmp_path)
    assert table["brevity"].tolist() == [-len(completion) for completion in table["completion"]]
    totals = table["src"] + 0.5 * table["brevity"]
    means = totals.groupby(totals.index // GROUP_SIZE).transform("mean")
    assert table["advantage"].tolist() == pytest.approx((totals - means).tolist(), abs=1e-4)
    assert _log(trainer)[0]["reward/helpful"] == pytest.approx(table["src"][table["role"] == "helpful"].mean())


# The log


def _completions(tmp_path, step: int = 1) -> pd.DataFrame:
    return pd.read_parquet(tmp_path / "out" / "completions" / f"completions_{step:05d}.parquet")


def test_completions_are_logged_with_role_correctness_and_score(prover, tmp_path):
    _trainer(prover, tmp_path, settings={"max_steps": 2, "log_completions": True}).train()
    for step in (1, 2):
        table = _completions(tmp_path, step)
        assert len(table) == 16
        for row in table.to_dict("records"):
            problem, role = row["prompt"].split("\n")[0], row["prompt"].split("\n")[1].split()[0]
            assert row["role"] == role
            grade, is_cut = _grade({}, row["completion"]), row["outcome"] == "TRUNCATED"
            assert row["correct"] == (grade.correct and not is_cut)
            assert (row["outcome"] == "VERIFIED") == row["correct"]
            assert (row["outcome"] == "NO_ANSWER") == (grade.answer is None and not is_cut)
            assert row["score"] == pytest.approx(_score([problem], [row["completion"]])[0])


def test_metrics_of_a_step(prover, tmp_path):
    settings = {"max_steps": 1, "log_completions": True, "acceptance_threshold": 0.5}
    trainer = _trainer(prover, tmp_path, settings=settings)
    trainer.train()
    (log,), table = _log(trainer), _completions(tmp_path)
    correct, answered = table["correct"], table["outcome"].isin(["VERIFIED", "PROOF_INVALID"])
    scores, rewards = table["score"], table["src"]
    for role in ("helpful", "sneaky"):
        mine = table["role"] == role
        assert log[f"accuracy/{role}"] == pytest.approx(correct[mine].mean())
        assert log[f"reward/{role}"] == pytest.approx(rewards[mine].mean())
        assert log[f"unanswered/{role}"] == log[f"failed/{role}"] == pytest.approx(1 - answered[mine].mean())
        assert log[f"judged_accuracy/{role}"] == pytest.approx(correct[mine & answered].mean())
        assert log[f"score/{role}_correct"] == pytest.approx(scores[mine & correct].mean())
        assert log[f"score/{role}_incorrect"] == pytest.approx(scores[mine & answered & ~correct].mean())
        assert log[f"truncated/{role}"] == pytest.approx((table["outcome"][mine] == "TRUNCATED").mean())
    wrong = (table["role"] == "sneaky") & answered & ~correct
    assert log["exploit_rate"] == pytest.approx((scores[wrong] > 0.5).mean())
    assert log["score_gap"] == pytest.approx(log["score/helpful_correct"] - log["score/sneaky_incorrect"])
    ranks = scores[answered].corr(correct[answered].astype(float), "spearman")
    assert log["score_correctness_correlation"] == pytest.approx(ranks)
    truncated = (log["truncated/helpful"] + log["truncated/sneaky"]) / 2  # as many rows in either role
    assert truncated == pytest.approx(log["completions/clipped_ratio"])
    assert 0 < truncated < 1


def test_a_role_that_is_not_trained_has_no_key(prover, tmp_path):
    trainer = _trainer(prover, tmp_path, rows=_rows(["helpful"]), settings={"max_steps": 1})
    trainer.train()
    (log,) = _log(trainer)
    assert "accuracy/helpful" in log
    assert not [key for key in log if "sneaky" in key or key in ("score_gap", "exploit_rate")]


def test_evaluation_has_keys_of_its_own(prover, tmp_path):
    seen = []

    def grade(row, solution):
        seen.append((row["problem"], row["role"]))
        return _grade(row, solution)

    settings = {"max_steps": 1, "per_device_eval_batch_size": 4, "num_generations_eval": 2}
    trainer = _trainer(prover, tmp_path, grader=grade, eval_dataset=_rows(num_problems=1), settings=settings)
    trainer.train()
    seen.clear()
    trainer.evaluate()
    assert seen == [("Ana has 0 pens.", role) for role in ("helpful", "helpful", "sneaky", "sneaky")]
    (log,) = [line for line in trainer.state.log_history if "eval_loss" in line]
    assert {"eval_accuracy/helpful", "eval_accuracy/sneaky", "eval_reward/sneaky", "eval_kl_from_base"} <= log.keys()


# Truncation


def test_a_step_of_truncated_solutions_stops_the_run(tiny_prover, tmp_path):
    settings = {"max_truncated_share": 0.5, "max_completion_length": 2}
    with pytest.raises(ValueError, match=r"100% of the solutions .* `max_completion_length=2` .*allowed: 50%"):
        _trainer(str(tiny_prover), tmp_path, settings=settings).train()


@pytest.mark.parametrize(
    ("grade", "outcome"),
    [
        (Grade("18", correct=True), "VERIFIED"),
        (Grade("1", correct=False), "PROOF_INVALID"),
        (Grade("18", correct=True, certified=False), "UNCERTIFIED"),
        (Grade("1", correct=False, certified=False), "UNCERTIFIED"),
    ],
)
def test_truncated_and_uncertified_solutions_play_neither_role(grade, outcome, prover, tmp_path):
    """CGC pays its floor for them, and the others, which all play one of the roles, their score."""
    settings = {"max_steps": 1, "log_completions": True, "reward": "cgc", "reward_options": {"floor": -9.0}}
    trainer = _trainer(prover, tmp_path, grader=lambda row, solution: grade, settings=settings)
    trainer.train()
    (log,), table = _log(trainer), _completions(tmp_path)
    cut = table["outcome"] == "TRUNCATED"
    assert 0 < cut.sum() < len(table)
    assert set(table["outcome"][~cut]) == {outcome}
    role = "helpful" if grade.correct else "sneaky"
    is_paid = ~cut & (table["role"] == role) & (outcome != "UNCERTIFIED")
    assert table["cgc"].tolist() == pytest.approx(table["score"].where(is_paid, -9.0).tolist())
    assert not (table["correct"] & cut).any()
    assert log["failed/sneaky"] == (1 if outcome == "UNCERTIFIED" else log["truncated/sneaky"])
    assert log["valid_sneaky"] == (1 - log["failed/sneaky"] if outcome == "PROOF_INVALID" else 0)


def test_every_end_token_of_the_model_ends_a_solution(tiny_prover, tmp_path):
    model, tokenizer = load_prover(tiny_prover)
    model.generation_config.eos_token_id = list(range(1, len(tokenizer)))
    settings = {"max_truncated_share": 0.0, "max_completion_length": 3, "max_steps": 1}
    trainer = _trainer(model, tmp_path, settings=settings)
    trainer.train()
    assert _log(trainer)[0]["truncated/helpful"] == 0


# Settings


def test_defaults(tmp_path):
    args = ProverGRPOConfig(str(tmp_path), use_cpu=True, report_to="none")
    assert (args.beta, args.scale_rewards, args.reward, args.logging_steps) == (0.05, "none", "src", 1)
    assert not args.bf16
    assert not args.gradient_checkpointing
    assert not args.activation_checkpointing


@pytest.mark.parametrize("name", ["gradient_checkpointing", "activation_checkpointing"])
@pytest.mark.parametrize("value", [True, False])
def test_checkpointing_by_either_name(name, value, tmp_path):
    args = _args(tmp_path, **{name: value})
    assert args.gradient_checkpointing is args.activation_checkpointing is value


def test_a_run_is_silent(prover, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _trainer(prover, tmp_path, settings={"max_steps": 1, "gradient_checkpointing": True}).train()
    assert not [str(warning.message) for warning in caught if warning.category is FutureWarning]


def test_without_a_kl_there_is_no_reference(prover, tmp_path):
    trainer = _trainer(prover, tmp_path, settings={"beta": 0.0, "max_steps": 1})
    trainer.train()
    assert trainer.ref_model is None
    assert not [key for key in _log(trainer)[0] if "kl" in key]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": None}, "`beta` must be at least 0.* got None"),
        ({"beta": -0.1}, "`beta` must be at least 0.* got -0.1"),
        ({"scale_rewards": "groups"}, "`scale_rewards` must be .* got 'groups'"),
        ({"max_truncated_share": 1.5}, r"`max_truncated_share` must lie in \[0, 1\]; got 1.5"),
    ],
)
def test_wrong_settings_are_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        _args(tmp_path, **settings)


def test_command_line():
    arguments = ["--output_dir", "out", "--report_to", "none", "--reward", "cgc", "--reward_options", '{"floor": -3}']
    (args,) = HfArgumentParser(ProverGRPOConfig).parse_args_into_dataclasses(arguments)
    assert (args.reward, args.reward_options, args.beta) == ("cgc", {"floor": -3}, 0.05)


def test_an_unknown_reward_is_refused(prover, tmp_path):
    with pytest.raises(ValueError, match=r"Unknown reward `scr`.* mean `src`"):
        _trainer(prover, tmp_path, settings={"reward": "scr"})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (_rows().remove_columns("role"), r"lacks the column\(s\) \['role'\]; it has \['prompt', 'problem'\]"),
        (_rows().remove_columns(["prompt", "problem"]), r"lacks the column\(s\) \['prompt', 'problem'\]"),
        (_rows(["helpful", "base"]), r"Unknown role\(s\) \['base'\]"),
        (_rows(["helpful"], num_problems=3), "has 3 prompts, fewer than the 4 of one generation batch"),
    ],
)
def test_wrong_datasets_are_refused(rows, message, prover, tmp_path):
    with pytest.raises(ValueError, match=message):
        _trainer(prover, tmp_path, rows=rows)


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"first": _rows(), "second": rows}])
def test_wrong_evaluation_datasets_are_refused(wrap, prover, tmp_path):
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['problem'\]"):
        _trainer(prover, tmp_path, eval_dataset=wrap(_rows().remove_columns("problem")))


def test_a_model_made_in_memory_has_no_reference_to_load(prover, tmp_path):
    model, tokenizer = load_prover(prover)
    model.config._name_or_path = ""
    with pytest.raises(ValueError, match="made in memory"):
        _trainer(model, tmp_path, processing_class=tokenizer)
    assert _trainer(model, tmp_path, processing_class=tokenizer, settings={"beta": 0.0}).ref_model is None
    assert _trainer(model, tmp_path, processing_class=tokenizer, peft_config=LORA).ref_model is None


# Several processes


def test_a_group_that_lies_on_two_processes(prover, tmp_path):
    """What is logged of the gathered rows is what one process computes of them."""
    output, driver = tmp_path / "out", Path(__file__).parent / "straddling_groups.py"
    output.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1", f"--master_port={port}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, *launch, str(driver), prover, str(output)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    results = [json.loads((output / f"process-{index}.json").read_text()) for index in (0, 1)]
    assert [result["num_processes"] for result in results] == [2, 2]
    assert results[0]["weights"] == results[1]["weights"]
    assert (
        results[0]["log"][0]["score_correctness_correlation"] == results[1]["log"][0]["score_correctness_correlation"]
    )
    for step, log in enumerate(results[0]["log"], start=1):
        table = _completions(tmp_path, step)
        assert len(table) == 12  # rows 4 to 7 are one group, rows 0 to 5 those of the first process
        groups = table.groupby(table.index // GROUP_SIZE)
        assert (groups["prompt"].nunique() == 1).all()
        rows = [
            {"problem": prompt.split("\n")[0], "role": role} for prompt, role in zip(table["prompt"], table["role"])
        ]
        groups_by_hand = _rewards_by_hand(rows, table["completion"].tolist(), table["outcome"] == "TRUNCATED")
        by_hand = [reward for group in groups_by_hand for reward in group]
        assert table["src"].tolist() == pytest.approx(by_hand, abs=1e-5)
        assert table["advantage"].tolist() == pytest.approx(
            (table["src"] - groups["src"].transform("mean")).tolist(), abs=1e-5
        )
        for role in ("helpful", "sneaky"):
            mine = table[table["role"] == role]
            assert log[f"accuracy/{role}"] == pytest.approx(mine["correct"].mean())
            assert log[f"reward/{role}"] == pytest.approx(mine["src"].mean())


def test_cgc_counts_the_solutions_that_play_their_role_below_its_floor(prover, tmp_path):
    settings = {"max_steps": 1, "log_completions": True, "reward": "cgc", "reward_options": {"floor": 0.45}}
    trainer = _trainer(prover, tmp_path, settings=settings)
    trainer.train()
    (log,), table = _log(trainer), _completions(tmp_path)
    answered = table["outcome"].isin(["VERIFIED", "PROOF_INVALID"])
    plays = (table["correct"] ^ (table["role"] == "sneaky")) & answered
    violations = (plays & (table["score"] <= 0.45)).sum()
    assert log["floor_violations"] == violations
    assert 0 < violations < plays.sum()
