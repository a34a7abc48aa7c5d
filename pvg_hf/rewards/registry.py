"""Rewards by the names that recipes give them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pvg_hf.core.extensions import check_arguments, cut_to_line, load_function, running, suggest
from pvg_hf.rewards.baselines import acceptance, correctness_only, goodhart
from pvg_hf.rewards.gated import correctness_gated_convincingness
from pvg_hf.rewards.inputs import RewardFunction, check_rewards, read_scores
from pvg_hf.rewards.relative import signed_relative_convincingness, standardized_relative_convincingness

INTERFACE = "(scores, correct, sneaky, *, group_size, answered=None, **options) -> rewards"

REWARDS: dict[str, RewardFunction] = {
    "src": signed_relative_convincingness,
    "cgc": correctness_gated_convincingness,
    "goodhart": goodhart,
    "correctness_only": correctness_only,
    "standardized_src": standardized_relative_convincingness,
    "acceptance": acceptance,
}

# Rewards against the mean of the policy's own group: a policy that improves everywhere earns no more, so that a mean of
# them over a policy's own groups says little of the policy. Never select checkpoints by one.
RELATIVE_REWARDS = frozenset({"src", "standardized_src"})


@dataclass(frozen=True)
class CustomReward:
    """
    A user's reward, checked at each call.

    Args:
        function ([`~pvg_hf.rewards.RewardFunction`]):
            The reward.
        name (`str`):
            Its name in messages.
    """

    function: Callable[..., torch.Tensor]
    name: str

    def __call__(
        self, scores: torch.Tensor, correct: torch.Tensor, sneaky: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        """
        Raises:
            ValueError: if a score is not finite, the function raises any error, or it returns something else than a
                floating point tensor of the shape of `scores` without infinities.
        """
        read_scores(scores)
        what = f"The reward `{self.name}`"
        check_arguments(self.function, what, INTERFACE, scores, correct, sneaky, **options)
        with running(what):
            rewards = self.function(scores, correct, sneaky, **options)
        check_rewards(rewards, scores, what)
        return rewards


def load_reward(name_or_spec: str) -> RewardFunction:
    """
    A reward by its name in recipes, or the user's own.

    Args:
        name_or_spec (`str`):
            `src`, `cgc`, `goodhart`, `correctness_only`, `standardized_src`, `acceptance`, or `package.module:Name` of a
            [`~pvg_hf.rewards.RewardFunction`].

    Returns:
        `RewardFunction`: `(scores, correct, sneaky, *, group_size, answered=None) -> rewards`.

    Raises:
        ValueError: if the name is unknown, or `package.module:Name` is not a function. A custom reward raises
            `ValueError` when it is called, see [`CustomReward`].
    """
    if ":" in name_or_spec:
        return CustomReward(load_function(name_or_spec, "reward", INTERFACE), name_or_spec)
    if name_or_spec not in REWARDS:
        raise ValueError(
            f"Unknown reward `{cut_to_line(name_or_spec)}`. {suggest(name_or_spec, REWARDS)} A custom reward is named as "
            "`package.module:Name`."
        )
    return REWARDS[name_or_spec]
