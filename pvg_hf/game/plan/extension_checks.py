"""Whether the user's own code does what a game needs: each extension is called on problems or synthetic inputs."""

from collections.abc import Iterator
from functools import partial

import torch

from pvg_hf.config import Recipe
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.game.stopping import StopRule, rehearse
from pvg_hf.rewards import load_reward
from pvg_hf.trainers.invariance import invariant_risk, load_regulariser, read_method


def check_extensions(context: PhaseContext) -> Iterator[str]:
    """The mistakes of a round's reward, stop rule and invariance penalty."""
    recipe = context.recipe
    yield from refusals("`prover.reward`", partial(_rehearse_reward, recipe))
    yield from refusals("`stopping.rule`", partial(_rehearse_stop_rule, recipe))
    yield from refusals("`verifier.invariance.method`", partial(_rehearse_penalty, recipe))


def _rehearse_reward(recipe: Recipe) -> None:
    """
    Raises:
        ValueError: if the reward does not pay finite rewards to a helpful and a sneaky group.
    """
    size = recipe.prover.num_generations
    index = torch.arange(2 * size)
    rewards = load_reward(recipe.prover.reward)(
        index / size - 1,
        index % 2 == 0,
        index >= size,
        group_size=size,
        answered=torch.ones(2 * size, dtype=torch.bool),
        **recipe.prover.reward_options,
    )
    num_bad = int((~rewards.isfinite()).sum())
    if num_bad:
        raise ValueError(
            f"`{recipe.prover.reward}` returns NaN for {num_bad} of {len(rewards)} solutions whose scores are finite and "
            "which all have an answer; each needs a finite reward."
        )


def _rehearse_stop_rule(recipe: Recipe) -> None:
    prover = recipe.prover
    rule = StopRule(recipe.stopping, prover)
    if rule.is_custom:
        for roles in [[role] for role in prover.trained_roles] if prover.num_trainings > 1 else [prover.trained_roles]:
            rehearse(rule, roles)


def _rehearse_penalty(recipe: Recipe) -> None:
    """
    Raises:
        ValueError: if a custom penalty is not a finite scalar for two environments of two pairs.
    """
    method = recipe.verifier.invariance.method
    if ":" not in method or recipe.verifier.kind == "score":
        return
    margins = torch.tensor([0.5, -0.5, 1.0, -1.0], requires_grad=True)
    environments = torch.tensor([0, 0, 1, 1])
    risk = invariant_risk(margins, environments, load_regulariser(read_method(method).penalty), weight=1.0)
    if not risk.penalty.isfinite():
        raise ValueError(f"The invariance penalty `{method}` returns {risk.penalty.item()}; it must be finite.")
