"""Rewards as records: the function that pays a prover, and how the game treats a prover with this reward."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from pvg_hf.core.extensions import ExtensionError, check_arguments, cut_to_line, load_function, running, suggest
from pvg_hf.rewards.baselines import acceptance, correctness_only, goodhart
from pvg_hf.rewards.composite import composite, gated_multiplicative
from pvg_hf.rewards.convincingness import (
    correctness_gated_convincingness,
    floor_violations,
    signed_relative_convincingness,
    standardized_relative_convincingness,
)
from pvg_hf.rewards.inputs import check_rewards, read_scores

INTERFACE = "(scores, correct, sneaky, *, group_size, answered=None, **options) -> rewards"

_GIVEN = ("group_size", "answered")  # keyword arguments that every reward is given

GRADE_SIGNALS = ("test_pass_rate", "certified", "similarity")


@dataclass(frozen=True)
class Reward:
    """
    A reward function and what the game must know about it. Calling it calls the function and checks the result.

    Args:
        function ([`~pvg_hf.rewards.RewardFunction`]):
            The function that computes the rewards.
        is_relative (`bool`, defaults to `False`):
            True if a solution is rewarded relative to the policy's own group. A policy that improves everywhere then
            earns no more, so checkpoints are not selected by this reward but by the score of correct solutions
            (`cgc`).
        stop_rule (`str`, defaults to `"max_steps"`):
            The rule that ends a prover phase under `stopping.rule: auto`.
        signals (`tuple[str, ...]`, *optional*):
            Names of further inputs from the task's grades (`certified`, `test_pass_rate`, or a number in `detail`).
            Each is passed as a keyword argument, a tensor of shape `(num_solutions,)` with NaN where a grade lacks it.
        is_gated (`bool`, defaults to `False`):
            True if an incorrect solution of the helpful role never earns more than 0, whatever its score. A verifier
            that accepts more of these is then not what the prover learns to exploit, and raises no alert.
        figures (`Callable`, *optional*):
            Function with the arguments of `function` that returns further metrics of a batch, as a dict.
        name (`str`, *optional*):
            Name of the reward in messages and logs.
    """

    function: Callable[..., torch.Tensor]
    is_relative: bool = False
    stop_rule: str = "max_steps"
    signals: tuple[str, ...] = ()
    is_gated: bool = False
    figures: Callable[..., dict[str, float]] | None = None
    name: str = "unnamed"

    def __call__(
        self, scores: torch.Tensor, correct: torch.Tensor, sneaky: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        """
        Compute the rewards of a batch of solutions; see [`~pvg_hf.rewards.RewardFunction`] for the arguments.

        Raises:
            ValueError: if a score is not finite.
            ExtensionError: if the function raises any error, or its result is not a floating point tensor of the shape
                of `scores` without infinities.
        """
        read_scores(scores)
        what = f"The reward `{self.name}`"
        self._check_options(what, options)
        check_arguments(self.function, what, INTERFACE, scores, correct, sneaky, **options)
        with running(what):
            rewards = self.function(scores, correct, sneaky, **options)
        check_rewards(rewards, scores, what)
        return rewards

    def _check_options(self, what: str, options: Mapping[str, Any]) -> None:
        """
        Check the names of the arguments that a recipe sets (`prover.reward_options`).

        Raises:
            ExtensionError: if one is missing or unknown.
        """
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except ValueError:  # some builtins have no signature
            return
        # The first three are scores, correct and sneaky.
        named = [one for one in parameters[3:] if one.kind is one.POSITIONAL_OR_KEYWORD]
        named += [one for one in parameters if one.kind is one.KEYWORD_ONLY]
        known = {one.name: one for one in named}
        settable = [name for name in known if name not in (*_GIVEN, *self.signals)]
        missing = [name for name in settable if known[name].default is inspect.Parameter.empty and name not in options]
        if missing:
            raise ExtensionError(f"{what} needs `{missing[0]}`, which is not given; set it in `reward_options`.")
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        unknown = [name for name in options if name not in known and name not in _GIVEN]
        if unknown and not takes_any:
            raise ExtensionError(f"{what} has no option `{unknown[0]}`. {suggest(unknown[0], settable)}")


def reward(
    *, is_relative: bool = False, stop_rule: str = "max_steps", signals: Sequence[str] = (), is_gated: bool = False
) -> Callable[[Callable[..., torch.Tensor]], Reward]:
    """
    Declare a custom reward, as a decorator.

    Args:
        is_relative, stop_rule, signals, is_gated:
            As for [`Reward`]; the defaults are those of a function without this decorator.

    Returns:
        `Callable`: turns a function into its [`Reward`].

    Example:

    ```python
    @reward(is_relative=True, stop_rule="parity")
    def centred(scores, correct, sneaky, *, group_size, answered=None):
        groups = scores.view(-1, group_size)
        return (groups - groups.mean(dim=1, keepdim=True)).flatten()
    ```
    """

    def declare(function: Callable[..., torch.Tensor]) -> Reward:
        return Reward(function, is_relative, stop_rule, tuple(signals), is_gated, name=function.__name__)

    return declare


REWARDS: dict[str, Reward] = {
    "src": Reward(signed_relative_convincingness, is_relative=True, stop_rule="parity", is_gated=True),
    "cgc": Reward(
        correctness_gated_convincingness,
        stop_rule="parity_and_incorrect",
        is_gated=True,
        figures=floor_violations,
    ),
    "goodhart": Reward(goodhart, stop_rule="goodhart"),
    "correctness_only": Reward(correctness_only, is_gated=True),
    "standardized_src": Reward(
        standardized_relative_convincingness, is_relative=True, stop_rule="parity", is_gated=True
    ),
    "acceptance": Reward(acceptance),
    "composite": Reward(composite, signals=GRADE_SIGNALS),
    "gated_multiplicative": Reward(gated_multiplicative, signals=GRADE_SIGNALS),
}


def as_reward(function: Callable[..., torch.Tensor], name: str) -> Reward:
    """
    Return the record of a function: its declared one, that of a built-in reward, or one with the defaults.

    Args:
        function (`Callable`):
            A [`~pvg_hf.rewards.RewardFunction`], or the result of [`reward`].
        name (`str`):
            Name of the reward in messages.
    """
    # A declared record keeps its properties, only the name follows the recipe.
    if isinstance(function, Reward):
        return replace(function, name=name)
    # A shipped function has its own record even when a recipe names it by its import path.
    shipped = (shipped for shipped in REWARDS.values() if shipped.function is function)
    return replace(next(shipped, Reward(function)), name=name)


def load_reward(name_or_spec: str) -> Reward:
    """
    Load a reward by its short name or the import path of its function.

    Args:
        name_or_spec (`str`):
            A key of `REWARDS`, or `package.module:Name` of a [`~pvg_hf.rewards.RewardFunction`].

    Returns:
        [`Reward`]: the same record for both kinds of name.

    Raises:
        ValueError: if the name is unknown, or `package.module:Name` is not a function.
    """
    if ":" in name_or_spec:
        return as_reward(load_function(name_or_spec, "reward", INTERFACE), name_or_spec)
    if name_or_spec not in REWARDS:
        raise ValueError(
            f"Unknown reward `{cut_to_line(name_or_spec)}`. {suggest(name_or_spec, REWARDS)} Name a custom reward as "
            "`package.module:Name`."
        )
    return replace(REWARDS[name_or_spec], name=name_or_spec)
