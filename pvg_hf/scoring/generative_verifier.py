"""A trained score verifier: writes evaluations of proofs, or rates analyses."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.analyses.form import read_evaluation, text_before_score
from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.config.fields import check_option
from pvg_hf.config.player_sections import Estimate, ScoreConfig
from pvg_hf.core.scored_texts import check_scores, check_texts
from pvg_hf.core.seeding import derive_rng
from pvg_hf.core.stopwatch import SCORING, count_tokens, spending
from pvg_hf.models.hardware import moved
from pvg_hf.models.prover_model import load_prover, merge_adapter
from pvg_hf.models.sources import local_folder, resolve_dtype
from pvg_hf.models.token_flops import flops_per_token
from pvg_hf.sampling import Sample, iterate_samples
from pvg_hf.sampling.engines import open_sampler
from pvg_hf.scoring.expected_score import Box, BoxReader

_DEFAULTS = ScoreConfig()

SHOW_PROGRESS_FROM = 64  # number of prompts


class GenerativeVerifier:
    """
    Writes evaluations with a trained score verifier.

    An evaluation depends on the seed and the texts, not on their order or on the batch (up to rounding).

    Args:
        model ([`~transformers.PreTrainedModel`]):
            A causal language model.
        settings ([`ScoreVerifierSettings`]):
            Prompts, maximum length and temperature.
        num_analyses (`int`, defaults to 2):
            k, the number of independent analyses of a proof; its score is the mean of their scores.
        estimate (`str`, defaults to `"sampled"`):
            Value of an evaluation: `"sampled"`, the score in its box; `"expected"`, the expected score under the
            model's distribution over the box's content, which has the same mean and a lower variance.
        seed (`int`, defaults to 0):
            Seed of the samples.
        prompts_per_batch (`int`, defaults to 32):
            Number of prompts sampled together.
        show_progress (`bool`, defaults to `True`):
            Whether to show a progress bar for many prompts.

    Example:

    ```python
    verifier = GenerativeVerifier.from_pretrained("verifier")
    problem = "Ana has 6 pens. On Monday Ana finds 4 pens. On Tuesday Ana loses 3 pens. How many pens does Ana have?"
    scores = verifier([problem], ["has 6\\nMonday finds 4: 6 + 4 = 10\\nTuesday loses 3: 10 - 3 = 7\\n#### 7"])
    ```
    """

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        tokenizer: PreTrainedTokenizerBase,
        settings: ScoreVerifierSettings,
        *,
        num_analyses: int = _DEFAULTS.num_analyses,
        estimate: Estimate = _DEFAULTS.estimate,
        seed: int = 0,
        prompts_per_batch: int = 32,
        show_progress: bool = True,
    ):
        check_option(ScoreConfig, "num_analyses", num_analyses)
        check_option(ScoreConfig, "estimate", estimate)
        self.model = model
        self.estimate = estimate
        self.num_cut = 0  # number of truncated inputs, as in `VerifierScorer`; here inputs are never truncated
        self.settings = settings
        self.num_analyses = num_analyses
        self.seed = seed
        self._show_progress = show_progress
        self.num_unreadable = 0  # number of evaluations without a readable score so far
        self._tokenizer = tokenizer
        self._sampler = open_sampler(
            model.eval().requires_grad_(False),
            tokenizer,
            leaves_room=True,  # it may score while a prover is trained
            max_new_tokens=settings.max_new_tokens,
            temperature=settings.temperature,
            prompts_per_batch=prompts_per_batch,
        )

    @property
    def counts(self) -> dict[str, int]:
        """Number of evaluations without a readable score so far, as `num_unreadable`."""
        return {"num_unreadable": self.num_unreadable}

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        **options: Any,
    ) -> "GenerativeVerifier":
        """
        Load a score verifier from a folder or the Hub.

        Args:
            source (`str` or `Path`):
                Folder in which [`ScoreVerifierTrainer`] saved it (full weights or an adapter), or a model on the Hub.
            revision (`str`, *optional*):
                Revision of the model on the Hub, e.g. `round-001` of a published run.
            device (`str`, defaults to `"auto"`):
                `cpu`, `cuda`, or `auto`: a GPU if there is one.
            dtype (`str`, defaults to `"auto"`):
                `float32`, `bfloat16`, or `auto`: bfloat16 on a GPU that computes in it.
            **options:
                Further arguments of the class.

        Raises:
            ValueError: if `source` is not a score verifier.
        """
        source = local_folder(source, revision)
        settings = ScoreVerifierSettings.load(source)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        model, tokenizer = load_prover(source, dtype=resolve_dtype(dtype, is_precise=device == "cpu"))
        return cls(moved(merge_adapter(model), device), tokenizer, settings, **options)

    @spending(SCORING)
    def __call__(self, problems: Sequence[str], proofs: Sequence[str]) -> list[float]:
        """
        Return the mean score of each proof over `num_analyses` independent analyses, in [0, 1].

        An evaluation without a readable score counts as 0. Raises `ValueError` as [`VerifierScorer`] does.
        """
        check_texts(problems, proofs)
        asked = list(zip(problems, proofs, strict=True))
        distinct = list(dict.fromkeys(asked))  # equal proofs get equal evaluations
        written = self.evaluate(
            [problem for problem, _ in distinct], [proof for _, proof in distinct], self.num_analyses
        )
        read = [[self._score(sample) or 0.0 for sample in samples] for samples in written]
        if self.estimate == "expected":
            read = self._expected_scores(distinct, written)
        means = {pair: sum(scores) / len(scores) for pair, scores in zip(distinct, read, strict=True)}
        scores = [means[pair] for pair in asked]
        check_scores(scores, proofs)
        return scores

    def _expected_scores(
        self, asked: Sequence[tuple[str, str]], written: Sequence[Sequence[Sample]]
    ) -> list[list[float]]:
        """
        Return the expected score of each evaluation, given its text before the first box that counts.

        It is 0 for a truncated evaluation and for one without such a box.
        """
        prompts = [self._prompt({"problem": problem, "proof": proof}) for problem, proof in asked]
        boxes = [
            [_box_of(prompt, sample) for sample in samples] for prompt, samples in zip(prompts, written, strict=True)
        ]
        found = iter(self._box_reader([box for row in boxes for box in row if box]))
        return [[next(found) if box else 0.0 for box in row] for row in boxes]

    @cached_property
    def _box_reader(self) -> BoxReader:
        return BoxReader(self.model, self._tokenizer, self.settings.temperature)

    def evaluate(self, problems: Sequence[str], proofs: Sequence[str], num_analyses: int) -> list[list[Sample]]:
        """Write independent evaluations of each proof."""
        rows = [{"problem": problem, "proof": proof} for problem, proof in zip(problems, proofs, strict=True)]
        return self._write(rows, num_analyses)

    def rate_analyses(
        self, problems: Sequence[str], proofs: Sequence[str], analyses: Sequence[str]
    ) -> list[float | None]:
        """Return the quality of each analysis (R_meta) from one evaluation of it; `None` if no score can be read."""
        return [qualities[0] for qualities in self.check_analyses(problems, proofs, analyses, 1)]

    def check_analyses(
        self, problems: Sequence[str], proofs: Sequence[str], analyses: Sequence[str], num_checks: int
    ) -> list[list[float | None]]:
        """Return the qualities of each analysis from `num_checks` independent evaluations of it."""
        rows = [
            {"problem": problem, "proof": proof, "analysis": analysis}
            for problem, proof, analysis in zip(problems, proofs, analyses, strict=True)
        ]
        return [[self._score(sample) for sample in samples] for samples in self._write(rows, num_checks)]

    def _score(self, sample: Sample) -> float | None:
        score = read_evaluation(sample.text, is_cut=sample.is_truncated).score
        self.num_unreadable += score is None
        return score

    def _prompt(self, row: Mapping[str, Any]) -> str:
        return self.settings.render(row, self._tokenizer)

    @spending(SCORING)
    def _write(self, rows: Sequence[Mapping[str, Any]], num_samples: int) -> list[list[Sample]]:
        prompts = [self._prompt(row) for row in rows]
        written: list[list[Sample]] = [[] for _ in rows]

        def rngs(row: int) -> list[np.random.Generator]:
            return [derive_rng(self.seed, "evaluation", prompts[row], index) for index in range(num_samples)]

        is_silent = not self._show_progress or len(rows) < SHOW_PROGRESS_FROM
        flops = flops_per_token(self.model)
        with tqdm(total=len(rows), desc="evaluations", unit="prompt", disable=is_silent, leave=False) as progress:
            for indices, samples in iterate_samples(self._sampler, prompts, rngs):
                count_tokens(sum(sample.num_tokens for of_row in samples for sample in of_row), flops)
                for index, of_row in zip(indices, samples, strict=True):
                    written[index] = of_row
                progress.update(len(indices))
        return written


def _box_of(prompt: str, sample: Sample) -> Box | None:
    before = None if sample.is_truncated else text_before_score(sample.text)
    return None if before is None else Box(prompt + before, prompt + sample.text)
