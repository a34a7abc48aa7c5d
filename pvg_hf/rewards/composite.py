"""Rewards that combine several signals: tests, a certificate, dissimilarity and the verifier's acceptance."""

from collections.abc import Iterable, Mapping

import torch

from pvg_hf.core.extensions import suggest
from pvg_hf.rewards.inputs import read_flags, read_scores, role_aligned

SIGNALS = ("test_pass_rate", "certified", "dissimilarity", "acceptance_prob")
_SOURCES = {"dissimilarity": "similarity"}  # the argument that a signal is computed from, if it has another name


def composite(
    scores: torch.Tensor,
    correct: torch.Tensor | None = None,
    sneaky: torch.Tensor | None = None,
    *,
    group_size: int | None = None,
    weights: Mapping[str, float],
    gates: Mapping[str, float] | None = None,
    test_pass_rate: torch.Tensor | None = None,
    certified: torch.Tensor | None = None,
    similarity: torch.Tensor | None = None,
    answered: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Return a weighted sum of signals in [0, 1], or 0 if a gate fails or there is no final answer.

    The signals are `test_pass_rate`, `certified`, `dissimilarity` = 1 - similarity, and `acceptance_prob` =
    sigmoid(V). A certificate counts for the role that it proves: for a helpful solution that is correct and for a
    sneaky one that is incorrect.

    Args:
        scores (`torch.Tensor` of shape `(num_solutions,)`):
            Verifier scores V, unbounded.
        correct, sneaky (`torch.Tensor` of shape `(num_solutions,)`, *optional*):
            Correctness and role, which only `certified` depends on; without them every certificate counts.
        group_size:
            Not used. It allows a recipe to name this reward like any other.
        weights (`dict[str, float]`):
            The weight of each signal, at least 0.
        gates (`dict[str, float]`, *optional*):
            The value in [0, 1] that a signal must reach; otherwise the reward is 0, e.g. `{"certified": 1.0}`. A gate
            needs no weight.
        test_pass_rate (`torch.Tensor` of shape `(num_solutions,)`, *optional*):
            Share of tests passed, in [0, 1].
        certified (`torch.Tensor` of shape `(num_solutions,)`, *optional*):
            Whether the certificate holds; bool, or in [0, 1].
        similarity (`torch.Tensor` of shape `(num_solutions,)`, *optional*):
            Similarity to a text that must not be copied, in [0, 1].
        answered (`torch.Tensor` of shape `(num_solutions,)`, *optional*):
            False for a solution without a final answer; all are answered by default. The signals of
            such a solution are not read.

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards in [0, sum of the weights].

    Raises:
        ValueError: if a weight is negative or all are 0, a gate is outside [0, 1], a name is unknown, a weighted or
            gated signal is not given or outside [0, 1], a score is not finite, or the shapes differ.
    """
    gates = gates or {}
    scores = read_scores(scores)
    given = {"test_pass_rate": test_pass_rate, "certified": certified, "similarity": similarity}
    names = dict.fromkeys((*weights, *gates))
    _check_names(names, given)
    _check_settings(weights, gates)
    signals = {name: _read_named(name, given, scores, answered) for name in names}
    if "certified" in signals:
        signals["certified"] = _in_its_role(signals["certified"], correct, sneaky)
    rewards = torch.zeros_like(scores)
    for name, weight in weights.items():
        rewards = rewards + weight * signals[name]
    for name, least in gates.items():
        # Gates are applied after the sum: a failed gate removes all of the reward.
        rewards = torch.where(signals[name] >= least, rewards, 0.0)
    return _pay_answered(rewards, answered)


def gated_multiplicative(
    scores: torch.Tensor,
    correct: torch.Tensor | None = None,
    sneaky: torch.Tensor | None = None,
    *,
    group_size: int | None = None,
    test_pass_rate: torch.Tensor,
    certified: torch.Tensor,
    similarity: torch.Tensor,
    alpha: float,
    answered: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Return (test_pass_rate * certified) * (1 - alpha * similarity) * sigmoid(V), or 0 without a final answer.

    A certificate counts for the role that it proves, as in [`composite`]: a sneaky program must be certified to be
    wrong.

    It uses sigmoid(V) rather than V, because with a negative V the product would reward failing the gate.

    Args:
        alpha (`float`):
            Cost of similarity, in [0, 1].

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards in [0, 1].

    Raises:
        ValueError: if `alpha` or a signal is outside [0, 1], a score is not finite, or the shapes differ.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` is {alpha}; it must lie in [0, 1], or similarity would change the reward's sign.")
    scores = read_scores(scores)
    given = {"test_pass_rate": test_pass_rate, "certified": certified, "similarity": similarity}
    passed, certificate, similar = (_read_signal(name, signal, scores, answered) for name, signal in given.items())
    certificate = _in_its_role(certificate, correct, sneaky)
    return _pay_answered(passed * certificate * (1 - alpha * similar) * scores.sigmoid(), answered)


def _read_named(
    name: str, given: Mapping[str, torch.Tensor | None], scores: torch.Tensor, answered: torch.Tensor | None
) -> torch.Tensor:
    """Return the signal of this name, one of `SIGNALS`."""
    if name == "acceptance_prob":
        return scores.sigmoid()
    source = _SOURCES.get(name, name)
    found = given[source]
    assert found is not None
    signal = _read_signal(source, found, scores, answered)
    return 1 - signal if name == "dissimilarity" else signal


def _read_signal(name: str, signal: torch.Tensor, scores: torch.Tensor, answered: torch.Tensor | None) -> torch.Tensor:
    if signal.shape != scores.shape:
        raise ValueError(
            f"`{name}` has shape {tuple(signal.shape)} and `scores` {tuple(scores.shape)}; they must agree."
        )
    signal = _pay_answered(signal.to(scores), answered)
    if signal.isnan().any():
        raise ValueError(
            f"`{name}` is NaN for {int(signal.isnan().sum())} of {len(signal)} solutions, which have an answer; the"
            " task must state it for each."
        )
    outside = ~((signal >= 0) & (signal <= 1))
    if outside.any():
        raise ValueError(
            f"`{name}` must lie in [0, 1]; {int(outside.sum())} do not, e.g. {signal[outside][0].item()}."
        )
    return signal


def _in_its_role(certified: torch.Tensor, correct: torch.Tensor | None, sneaky: torch.Tensor | None) -> torch.Tensor:
    """Set the certificate of a solution that does not play its role to 0."""
    if correct is None or sneaky is None:
        return certified
    flags = (read_flags(name, flags, certified) for name, flags in (("correct", correct), ("sneaky", sneaky)))
    return torch.where(role_aligned(*flags), certified, 0.0)


def _check_names(names: Iterable[str], given: Mapping[str, torch.Tensor | None]) -> None:
    for name in names:
        if name not in SIGNALS:
            raise ValueError(f"Unknown signal `{name}`. {suggest(name, SIGNALS)}")
        source = _SOURCES.get(name, name)
        if name != "acceptance_prob" and given[source] is None:
            raise ValueError(f"Signal `{name}` has a weight or a gate, but `{source}` was not given.")


def _check_settings(weights: Mapping[str, float], gates: Mapping[str, float]) -> None:
    for name, weight in weights.items():
        if not weight >= 0:
            raise ValueError(f"The weight of `{name}` is {weight}; it must be at least 0.")
    if not any(weights.values()):
        raise ValueError(f"`weights` is {dict(weights)}; at least one must be above 0, or nothing is ever paid.")
    for name, least in gates.items():
        if not 0 <= least <= 1:
            raise ValueError(f"The gate of `{name}` is {least}; it must lie in [0, 1].")


def _pay_answered(rewards: torch.Tensor, answered: torch.Tensor | None) -> torch.Tensor:
    if answered is None:
        return rewards
    return torch.where(read_flags("answered", answered, rewards), rewards, 0.0)
