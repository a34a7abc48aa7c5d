"""Advantages, loss and gradients of one generation batch, worked by hand."""

import statistics

import pytest
import torch
from prover_training import prover_trainer
from rewards_by_hand import rewards_by_hand

from pvg_hf.models.prover import load_causal_lm


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


def _truncated(trainer, ids) -> list[bool]:
    return [row[-1] not in trainer.eos_token_ids for row in ids]


@pytest.mark.parametrize("scale_rewards", ["none", "group", "batch", False, True])
def test_advantages_by_hand(scale_rewards, prover, tmp_path):
    settings = {"scale_rewards": scale_rewards}
    trainer = prover_trainer(prover, tmp_path, settings=settings)
    rows, ids, solutions, inputs = _generate(trainer)
    groups = rewards_by_hand(rows, solutions, _truncated(trainer, ids))
    batch_std = statistics.stdev(reward for group in groups for reward in group)
    expected = []
    for group in groups:
        scale = {"group": statistics.stdev(group) + 1e-4, "batch": batch_std + 1e-4}
        scale |= {"none": 1.0, False: 1.0, True: scale["group"]}
        expected += [(reward - statistics.fmean(group)) / scale[scale_rewards] for reward in group]
    assert inputs["advantages"].tolist() == pytest.approx(expected, abs=1e-4)
    assert len({round(advantage, 3) for advantage in expected}) > 4


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
    trainer = prover_trainer(model, tmp_path, settings={"beta": beta, "loss_type": loss_type})
    rows, ids, solutions, inputs = _generate(trainer)
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()

    policy, reference = load_causal_lm(prover), load_causal_lm(prover)
    policy.load_state_dict(trainer.model.state_dict())
    groups = rewards_by_hand(rows, solutions, _truncated(trainer, ids))
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
