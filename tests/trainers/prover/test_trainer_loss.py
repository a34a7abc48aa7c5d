"""Advantages, loss and gradients of one generation batch, worked by hand."""

import statistics

import pytest
import torch

from pvg_hf.models.prover import load_causal_lm
from tests.support.prover_batches import generate, is_truncated, token_logprobs
from tests.support.prover_training import prover_trainer
from tests.support.rewards_by_hand import rewards_by_hand


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
