"""
How well helpful and sneaky solutions can be told apart by their texts alone (Kirchner et al. 2024, fig. S3).

If they are easy to tell apart by surface features, a verifier can win by learning who wrote a solution, and learns
nothing that protects it from another attacker.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng, derive_seed
from pvg_hf.evaluation.verifier_quality import roc_auc
from pvg_hf.models.sources import load_tokenizer
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

LEAST_PER_ROLE = 2  # solutions of either role that a discriminator is trained on

Discriminator = Callable[[Sequence[str], np.ndarray, Sequence[str]], np.ndarray]
"""
Learns from texts and whether each is helpful, of shape `(num_texts,)`, and returns a score for each of some other
texts; higher is more helpful.
"""


def problem_folds(problem_ids: pd.Series, *, num_folds: int, seed: int) -> Iterator[np.ndarray]:
    """
    Yield the rows of each fold, as booleans `(n,)`. All solutions of a problem are in one fold.

    The folds' numbers of problems differ by at most one; a seeded hash of the ids assigns them. With fewer problems
    than folds, there are as many folds as problems.

    Raises:
        ValueError: if `num_folds` is below 2.
    """
    if num_folds < 2:
        raise ValueError(
            f"`num_folds` is {num_folds}; it must be at least 2, so that each fold has others to learn from."
        )
    ordered = sorted(problem_ids.unique(), key=lambda problem_id: derive_seed(seed, problem_id))
    place = {problem_id: index % num_folds for index, problem_id in enumerate(ordered)}
    folds = problem_ids.map(place).to_numpy()
    for fold in range(min(num_folds, len(ordered))):
        yield folds == fold


def role_separability(rows: pd.DataFrame, discriminator: Discriminator, *, seed: int, num_folds: int = 5) -> Figure:
    """
    ROC-AUC of a discriminator that tells helpful from sneaky solutions by the text alone.

    The solutions of each fold of problems are scored by a discriminator that was trained on the other folds. Scores
    are replaced by their ranks within the fold, in which both roles have equal weight, because the discriminators of
    different folds need not agree on a scale.

    Args:
        rows: Solutions with `problem_id`, `role` (helpful or sneaky) and `solution`.
        discriminator: See [`hashed_ngrams`] and [`TransformerDiscriminator`].
    Returns: in [0, 1], .5 if the roles cannot be told apart; `n` is the number of solutions. No value if there are too
        few solutions of a role.
    """
    rows = rows.reset_index(drop=True)
    is_helpful = (rows["role"] == Role.HELPFUL.value).to_numpy()
    scored = []
    for fold in problem_folds(rows["problem_id"], num_folds=num_folds, seed=seed):
        if min((is_helpful & ~fold).sum(), (~is_helpful & ~fold).sum()) < LEAST_PER_ROLE:
            continue
        texts, others = rows.loc[fold, "solution"].tolist(), rows.loc[~fold, "solution"].tolist()
        scores = _balanced_ranks(discriminator(others, is_helpful[~fold], texts), is_helpful[fold])
        scored.append(rows.loc[fold, ["problem_id"]].assign(score=scores, correct=is_helpful[fold]))
    return roc_auc(pd.concat(scored)) if scored else Figure(None, None, None, len(rows))


def _balanced_ranks(scores: np.ndarray, is_helpful: np.ndarray) -> np.ndarray:
    """Mean over both roles of the share of the role's scores that lie below each score; a tie counts as a half."""
    shares = []
    for role in (is_helpful, ~is_helpful):
        ordered = np.sort(scores[role])
        below, up_to = (np.searchsorted(ordered, scores, side=side) for side in ("left", "right"))
        shares.append((below + up_to) / (2 * max(1, len(ordered))))
    return np.mean(shares, axis=0)


def hashed_ngrams(texts: Sequence[str], is_helpful: np.ndarray, others: Sequence[str]) -> np.ndarray:
    """
    Score texts by a logistic regression on hashed runs of 2 to 4 characters and of 1 to 3 words.

    Args:
        texts, is_helpful: shape `(num_texts,)`. Training texts, and whether each is helpful.
        others: Texts to score.
    Returns: `np.ndarray` of shape `(num_others,)`.
    """
    features = make_union(
        HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=2**16, lowercase=False),
        HashingVectorizer(token_pattern=r"[^\s]+", ngram_range=(1, 3), n_features=2**16, lowercase=False),
    )
    classifier = make_pipeline(features, LogisticRegression(C=10.0, class_weight="balanced", max_iter=1000))
    return classifier.fit(texts, is_helpful).decision_function(others)


@dataclass(frozen=True)
class TransformerDiscriminator:
    """
    A small language model, fine-tuned to score helpful texts above sneaky ones. It never sees the problem.

    It is trained by [`~pvg_hf.trainers.reward.trainer.NoisyRewardTrainer`] on single texts with cross-entropy.

    Args:
        seed: Seed of the order of the texts and of the head.
        batch_size, learning_rate: Settings of the training; the learning rate falls to 0 by a cosine.
        max_length: Tokens; longer texts are not trained on, and are cut when they are scored.
    """

    source: str
    revision: str | None = None
    seed: int = 0
    num_epochs: float = 3.0
    batch_size: int = 32
    learning_rate: float = 1e-3
    max_length: int = 512
    device: str = "cpu"

    def __call__(self, texts: Sequence[str], is_helpful: np.ndarray, others: Sequence[str]) -> np.ndarray:
        """Train on `texts` and score `others`, as in [`hashed_ngrams`]."""
        tokenizer = load_tokenizer(self.source, self.revision)
        # The template holds the text alone: a discriminator that knew the problem could check the solution.
        reading = VerifierInput("{{ solution }}", tokenizer.eos_token, self.max_length)
        with tempfile.TemporaryDirectory() as scratch, torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.seed, "head"))
            trainer = NoisyRewardTrainer(
                self.source,
                args=self._arguments(scratch),
                train_dataset=self._pairs(list(texts), np.asarray(is_helpful, bool)),
                processing_class=tokenizer,
            )
            for callback in (PrinterCallback, ProgressCallback):
                trainer.remove_callback(callback)
            trainer.train()
        scorer = VerifierScorer(trainer.model, tokenizer, reading)
        return np.array(scorer([""] * len(others), list(others)))

    def _pairs(self, texts: list[str], is_helpful: np.ndarray) -> Dataset:
        """Put a helpful and a sneaky text side by side, at random; the rarer role is repeated."""
        rng = derive_rng(self.seed, "pairs")
        helpful, sneaky = np.flatnonzero(is_helpful), np.flatnonzero(~is_helpful)
        size = max(len(helpful), len(sneaky))
        sides = [np.resize(rng.permutation(places), size) for places in (helpful, sneaky)]
        return Dataset.from_list(
            [{"chosen": texts[helpful], "rejected": texts[sneaky]} for helpful, sneaky in zip(*sides, strict=True)]
        )

    def _arguments(self, folder: str) -> NoisyRewardConfig:
        return NoisyRewardConfig(
            str(Path(folder)),
            loss="cross_entropy",
            num_train_epochs=self.num_epochs,
            per_device_train_batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            lr_scheduler_type="cosine",
            max_length=self.max_length,
            seed=derive_seed(self.seed, "training") % 2**32,
            use_cpu=self.device == "cpu",
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
