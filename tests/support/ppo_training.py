"""Helpers for tests of `ProverPPOTrainer`; prompts, scorer and grader are those of `prover_training`."""

import torch

from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_classifier
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.ppo.config import ProverPPOConfig
from pvg_hf.trainers.ppo.trainer import ProverPPOTrainer
from tests.support.prover_training import grade_by_length, prover_args, role_rows, score_texts

NUM_ITERATIONS = 2


def ppo_args(tmp_path, **settings) -> ProverPPOConfig:
    """Four steps: two batches of four groups, two epochs over each, in the order of the rows."""
    values = {"num_iterations": NUM_ITERATIONS, "max_steps": 4, "shuffle_dataset": False}
    return prover_args(tmp_path, config=ProverPPOConfig, **{**values, **settings})


def ppo_trainer(
    prover,
    tmp_path,
    *,
    kind=ProverPPOTrainer,
    scorer=score_texts,
    grader=grade_by_length,
    rows=None,
    settings=None,
    **kwargs,
) -> ProverPPOTrainer:
    """A trainer of a model or its folder; `settings` are those of its arguments, and `kwargs` its own."""
    return kind(
        prover,
        scorer=scorer,
        grader=grader,
        args=ppo_args(tmp_path, **(settings or {})),
        train_dataset=role_rows() if rows is None else rows,
        **kwargs,
    )


def make_scorer(folder) -> VerifierScorer:
    """A verifier of the prover's architecture and tokens, with a random head whose scores differ."""
    verifier = load_classifier(str(folder))
    draw_head(verifier, seed=0)
    with torch.no_grad():
        verifier.score.weight.mul_(50)
    return VerifierScorer(verifier, load_prover(folder)[1], VerifierInput("{{ problem }}\n{{ solution }}", None, 256))
