"""Rewards by the names that recipes give them."""

from difflib import get_close_matches

from pvg_hf.extensions import load_extension
from pvg_hf.rewards.baselines import acceptance, correctness_only, goodhart
from pvg_hf.rewards.gated import correctness_gated_convincingness
from pvg_hf.rewards.inputs import RewardFunction
from pvg_hf.rewards.relative import signed_relative_convincingness, standardized_relative_convincingness

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
        closest = get_close_matches(name_or_spec.lower(), REWARDS, n=1, cutoff=0)[0]
        raise ValueError(
            f"Unknown reward `{name_or_spec}`; known are {', '.join(REWARDS)}, or `package.module:Name` of your own. Did "
            f"you mean `{closest}`?"
        )
    return REWARDS[name_or_spec]


def _load_own_reward(spec: str) -> RewardFunction:
    reward = load_extension(spec, "reward")
    if not callable(reward):
        raise ValueError(
            f"The reward `{spec}` is a {type(reward).__name__}; it must be a function of a batch's scores."
        )
    return reward
