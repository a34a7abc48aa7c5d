"""Advantages, loss and gradients of one batch with a critic, worked by hand, one solution at a time."""

import statistics

import pytest
import torch

from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.models.value_model import load_value_model
from tests.support.ppo_training import ppo_trainer
from tests.support.prover_batches import generate, is_truncated, token_logprobs, token_values
from tests.support.rewards_by_hand import rewards_by_hand

BETA, GAMMA, LAMBDA, VF_COEF, CLIP = 0.3, 0.98, 0.9, 0.5, 0.5


@pytest.fixture(params=[True, False], ids=["whitened", "plain"])
def batch(request, prover, tmp_path):
    """A trainer whose prover differs from its reference and whose critic has a random head, and its first batch."""
    model, critic = load_causal_lm(prover), load_value_model(prover)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        critic.score.weight.normal_(std=0.3)
    settings = {
        "beta": BETA,
        "gamma": GAMMA,
        "gae_lambda": LAMBDA,
        "vf_coef": VF_COEF,
        "cliprange_value": CLIP,
        "whiten_advantages": request.param,
    }
    trainer = ppo_trainer(model, tmp_path, critic=critic, settings=settings)
    return trainer, *generate(trainer)


def _by_hand(trainer, prover, rows, ids, solutions):
    """Log-probabilities with a graph, and advantages and targets as a list of numbers for each solution."""
    tokenizer = trainer.processing_class
    reference = load_causal_lm(prover)
    logprobs = token_logprobs(trainer.model, rows, tokenizer, ids)
    with torch.no_grad():
        values = token_values(trainer.critic.model, rows, tokenizer, ids)
        reference_logprobs = token_logprobs(reference, rows, tokenizer, ids)
    groups = rewards_by_hand(rows, solutions, is_truncated(trainer, ids))
    advantages, targets = [], []
    for reward, mine, theirs, value in zip(
        (reward for group in groups for reward in group), logprobs, reference_logprobs, values, strict=True
    ):
        paid = [-BETA * (a - b) for a, b in zip(mine.tolist(), theirs.tolist(), strict=True)]
        paid[-1] += reward
        v = [*value.tolist(), 0.0]
        row, later = [], 0.0
        for t in reversed(range(len(paid))):
            later = paid[t] + GAMMA * v[t + 1] - v[t] + GAMMA * LAMBDA * later
            row.insert(0, later)
        advantages.append(row)
        targets.append([a + b for a, b in zip(row, v, strict=False)])
    if trainer.args.whiten_advantages:
        tokens = [advantage for row in advantages for advantage in row]
        mean, spread = statistics.fmean(tokens), statistics.pstdev(tokens)
        advantages = [[(a - mean) / spread for a in row] for row in advantages]
    return logprobs, values, advantages, targets


def test_advantages_and_targets_by_hand(batch, prover):
    trainer, rows, ids, solutions, inputs = batch
    _, values, advantages, targets = _by_hand(trainer, prover, rows, ids, solutions)
    assert len({len(row) for row in ids}) > 2
    for row, completion in enumerate(ids):
        length = len(completion)
        for name, expected in (("values", values), ("advantages", advantages), ("returns", targets)):
            assert inputs[name][row, :length].tolist() == pytest.approx(
                [float(number) for number in expected[row]], abs=2e-4
            )
            assert not inputs[name][row, length:].any()


def test_loss_and_gradients_by_hand(batch, prover):
    """Both players have taken a step, so that ratios differ from 1 and some values are clipped."""
    trainer, rows, ids, solutions, inputs = batch
    old_logprobs, old_values, advantages, targets = _by_hand(trainer, prover, rows, ids, solutions)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in (*trainer.model.parameters(), *trainer.critic.model.parameters()):
            parameter.add_(0.02 * torch.randn_like(parameter))
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
    found = {name: p.grad.clone() for name, p in _parameters(trainer)}
    for _, parameter in _parameters(trainer):
        parameter.grad = None

    tokenizer = trainer.processing_class
    logprobs = token_logprobs(trainer.model, rows, tokenizer, ids)
    values = token_values(trainer.critic.model, rows, tokenizer, ids)
    policy, critic, held = [], [], []
    for row in range(len(ids)):
        ratio = (logprobs[row] - old_logprobs[row].detach()).exp()
        advantage, target = torch.tensor(advantages[row]), torch.tensor(targets[row])
        policy.append(-torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage))
        old = old_values[row].detach()
        bounded = old + (values[row] - old).clamp(-CLIP, CLIP)
        critic.append(torch.max((values[row] - target) ** 2, (bounded - target) ** 2) / 2)
        held.append((values[row] - old).abs() > CLIP)
    share_held = torch.cat(held).float().mean()
    assert 0 < share_held < 1
    by_hand = torch.cat(policy).mean() + VF_COEF * torch.cat(critic).mean()
    by_hand.backward()
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-4, abs=1e-5)
    for name, parameter in _parameters(trainer):
        torch.testing.assert_close(
            found[name], parameter.grad, rtol=2e-3, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    metrics = trainer._metrics["train"]
    assert metrics["critic/clip_ratio"] == [pytest.approx(share_held.item())]
    moved = torch.cat(logprobs) - torch.cat(old_logprobs)
    assert metrics["approx_kl"] == [pytest.approx((moved.exp() - 1 - moved).mean().item(), rel=1e-3)]


def _parameters(trainer):
    for name, model in (("policy", trainer.model), ("critic", trainer.critic.model)):
        for place, parameter in model.named_parameters():
            yield f"{name}.{place}", parameter


def test_tokens_outside_the_solutions_are_ignored(batch):
    """Other ids, advantages, values and log-probabilities where the mask is 0 change neither loss nor gradients."""
    trainer, _, _, _, inputs = batch
    losses, gradients = [], []
    for filling in (None, 1):
        changed = dict(inputs)
        if filling is not None:
            for side in ("prompt", "completion"):
                beside = inputs[f"{side}_mask"] == 0
                assert beside.any() or side == "prompt"
                changed[f"{side}_ids"] = inputs[f"{side}_ids"].masked_fill(beside, 7)
            beside = inputs["completion_mask"] == 0
            for name in ("advantages", "values", "returns", "old_per_token_logps", "ref_per_token_logps"):
                changed[name] = inputs[name].masked_fill(beside, 3.0)
        loss = trainer.compute_loss(trainer.model, changed)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for _, p in _parameters(trainer)]))
        for _, parameter in _parameters(trainer):
            parameter.grad = None
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
