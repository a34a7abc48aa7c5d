"""Rewards by the names that recipes give them."""

from pvg_hf.extensions import load_extension
from pvg_hf.rewards.baselines import acceptance, correctness_only, goodhart
from pvg_hf.rewards.gated import correctness_gated_convincingness
from pvg_hf.rewards.inputs import RewardFunction
from pvg_hf.rewards.relative import signed_relative_convincingness, standardized_relative_convincingness
from pvg_hf.suggestions import suggest

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
        ValueError: if the name is unknown, or nothing that can be called stands under `package.module:Name`.
    """
    if ":" in name_or_spec:
        return _load_own_reward(name_or_spec)
    if name_or_spec not in REWARDS:
        raise ValueError(
            f"Unknown reward `{name_or_spec}`. {suggest(name_or_spec, REWARDS)} A reward of your own is named as "
            "`package.module:Name`."
        )
    return REWARDS[name_or_spec]


def _load_own_reward(spec: str) -> RewardFunction:
    reward = load_extension(spec, "reward")
    if not callable(reward):
        raise ValueError(
            f"The reward `{spec}` is a {type(reward).__name__}; it must be a function of a batch's scores."
        )
    return reward
