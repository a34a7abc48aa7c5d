"""A frozen verifier as a scorer of solutions."""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.models.verifier_input import VerifierInput

logger = logging.getLogger(__name__)


class VerifierScorer:
    """
    Scores solutions with a frozen verifier. Higher is more convincing; scores are unbounded.

    Inputs are sorted by length and batched by tokens, identical inputs are read once, and a score depends on its own
    text only (up to rounding, below 1e-5).

    Args:
        model ([`~transformers.PreTrainedModel`]):
            A sequence classifier with one logit. It is set to evaluation and needs no gradient afterwards.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            Its tokenizer.
        verifier_input ([`~models.verifier_input.VerifierInput`]):
            How a problem and a solution become an input.
        tokens_per_batch (`int`, defaults to 4096):
            Tokens of a forward, padding included.
        use_cache (`bool`, defaults to `False`):
            Remember the score of every text for the life of the scorer. The last bits of a score depend on the batch it
            was computed in, so a phase that must resume to the same bytes leaves this off.

    Example:

    ```python
    scorer = VerifierScorer.from_pretrained("runs/quickstart/verifier/round-001")
    scores = scorer(["Ana has 3 pens. On Monday Ana finds 2 pens. How many pens does Ana have?"], ["has 3\\nMonday finds 2: 3 + 2 = 5\\n#### 5"])
    ```
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        verifier_input: VerifierInput,
        *,
        tokens_per_batch: int = 4096,
        use_cache: bool = False,
    ):
        if model.config.num_labels != 1:
            raise ValueError(f"A verifier has one logit; this model has `num_labels={model.config.num_labels}`.")
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.verifier_input = verifier_input
        self.tokens_per_batch = tokens_per_batch
        self.num_cut = 0  # inputs over the maximum length so far
        self._cache: dict[bytes, float] | None = {} if use_cache else None

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, device: str = "cpu", **kwargs) -> "VerifierScorer":
        """Load a round's verifier (full weights, or an adapter with its head) from its folder."""
        from pvg_hf.models.verifier import load_verifier

        model, tokenizer = load_verifier(folder)
        return cls(model.to(device), tokenizer, VerifierInput.load(Path(folder)), **kwargs)

    def __call__(self, problems: list[str], solutions: list[str]) -> list[float]:
        """
        Args:
            problems (`list[str]`), solutions (`list[str]`):
                Texts of equal number.

        Returns:
            `list[float]`: a score per solution, in the same order.

        Raises:
            ValueError: if a problem alone fills the verifier's maximum length.
        """
        encoded = self.verifier_input.encode(self.tokenizer, problems, solutions)
        inputs = [self._cut(ids, problem) for ids, problem in zip(encoded, problems, strict=True)]
        keys = [_key(ids) for ids in inputs]
        unseen = {key: ids for key, ids in zip(keys, inputs, strict=True) if not self._cache or key not in self._cache}
        scores = dict(zip(unseen, self._score(list(unseen.values())), strict=True))
        if self._cache is not None:
            self._cache.update(scores)
            scores = self._cache
        return [scores[key] for key in keys]

    def _cut(self, ids: list[int], problem: str) -> list[int]:
        """Inputs over the maximum length lose the end of their text, keep their end token, and are counted."""
        limit = self.verifier_input.max_length
        if len(ids) <= limit:
            return ids
        self._check_room(problem)
        if self.num_cut == 0:
            logger.warning(
                "An input of %d tokens is over the verifier's maximum of %d and was cut; raise `verifier.max_length`. "
                "Further ones are counted in `num_cut`.",
                len(ids),
                limit,
            )
        self.num_cut += 1
        # An encoder's tokenizer adds an end token of its own, such as [SEP].
        has_end = self.verifier_input.end_token is not None or ids[-1] in self.tokenizer.all_special_ids
        return ids[: limit - 1] + ids[-1:] if has_end else ids[:limit]

    def _check_room(self, problem: str) -> None:
        """Refuse a problem that leaves no room for any solution, so that all of its solutions would score the same."""
        limit = self.verifier_input.max_length
        (alone,) = self.verifier_input.encode(self.tokenizer, [problem], [""])
        if len(alone) >= limit:
            raise ValueError(
                f"The problem `{' '.join(problem.split()[:8])} ...` fills the verifier's `max_length` by itself: it has "
                f"{len(alone)} tokens with the template, of {limit}. Raise `verifier.max_length`, or leave it out."
            )

    @torch.inference_mode()
    def _score(self, inputs: list[list[int]]) -> list[float]:
        scores = [0.0] * len(inputs)
        for indices in batch_by_tokens([len(ids) for ids in inputs], self.tokens_per_batch):
            batch = self.tokenizer.pad(
                {"input_ids": [inputs[index] for index in indices]}, padding_side="right", return_tensors="pt"
            ).to(self.model.device)
            logits = self.model(**batch).logits[:, 0].float().tolist()  # (batch,)
            for index, score in zip(indices, logits, strict=True):
                scores[index] = score
        return scores


def batch_by_tokens(lengths: list[int], tokens_per_batch: int) -> Iterator[list[int]]:
    """
    Yield indices sorted by length, in batches whose padded size (rows x longest) stays within `tokens_per_batch`; a
    single longer input is a batch of its own.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batch and (len(batch) + 1) * lengths[index] > tokens_per_batch:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _key(ids: list[int]) -> bytes:
    return hashlib.blake2b(torch.tensor(ids, dtype=torch.int64).numpy().tobytes(), digest_size=16).digest()
