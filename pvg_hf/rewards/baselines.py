"""Baseline rewards that show what the game adds: the score alone, or correctness alone."""

from typing import Literal, get_args

import torch
import torch.nn.functional as F

from pvg_hf.rewards.inputs import read_scores, read_solutions

AcceptanceForm = Literal["log_prob", "prob"]


def goodhart(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    group_size: int,
    answered: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Reward the score V, regardless of role, correctness and answer (Kirchner et al. 2024, eq. 4).

    It shows what a prover does that only tries to convince.

    Args:
        scores, correct, sneaky, group_size, answered:
            As for [`~pvg_hf.rewards.signed_relative_convincingness`].

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, unbounded.

    Raises:
        ValueError: as for [`~pvg_hf.rewards.inputs.read_solutions`].
    """
    return read_solutions(scores, correct, sneaky, group_size=group_size, answered=answered).scores.clone()


def correctness_only(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    group_size: int,
    answered: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Reward 1 for a solution that plays its role (helpful and correct, or sneaky and incorrect), else 0.

    A solution without a final answer gets 0. This is the prover without legibility training of Kirchner et al. 2024.

    Args:
        scores, correct, sneaky, group_size, answered:
            As for [`~pvg_hf.rewards.signed_relative_convincingness`]; the scores are not used.

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, 0 or 1.

    Raises:
        ValueError: as for [`~pvg_hf.rewards.inputs.read_solutions`].
    """
    solutions = read_solutions(scores, correct, sneaky, group_size=group_size, answered=answered)
    return solutions.aligned.to(solutions.scores)


def acceptance(
    scores: torch.Tensor,
    correct: torch.Tensor | None = None,
    sneaky: torch.Tensor | None = None,
    *,
    group_size: int | None = None,
    answered: torch.Tensor | None = None,
    form: AcceptanceForm = "log_prob",
) -> torch.Tensor:
    """
    Reward the verifier's acceptance, log sigmoid(V) or sigmoid(V), regardless of correctness and answer.

    It is meant for a single prover that always claims to be right (after Anil et al. 2021).

    Args:
        scores (`torch.Tensor` of shape `(num_solutions,)`):
            Verifier scores V, unbounded.
        correct, sneaky, group_size, answered:
            Not used; they are accepted so that a recipe can name this reward like any other.
        form (`str`, *optional*, defaults to `"log_prob"`):
            `"log_prob"` or `"prob"`.

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, below 0 or in [0, 1].

    Raises:
        ValueError: if a score is not finite or `form` is unknown.
    """
    scores = read_scores(scores)
    if form not in get_args(AcceptanceForm):
        raise ValueError(f"Unknown form `{form}`; known are {', '.join(get_args(AcceptanceForm))}.")
    return F.logsigmoid(scores) if form == "log_prob" else scores.sigmoid()
