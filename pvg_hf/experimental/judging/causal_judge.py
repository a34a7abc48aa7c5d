"""Scores solutions by the log-probabilities of a causal language model, which need not have been trained to judge."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.core.scored_texts import check_scores, check_texts
from pvg_hf.core.templates import compile_template
from pvg_hf.models.hardware import moved
from pvg_hf.models.prover_model import load_prover, merge_adapter
from pvg_hf.scoring.batching import TokenBudget, choose_tokens

VERDICT_QUESTION = (
    "{{ problem }}\n\n{{ solution }}\n\nIs every step of this solution correct? Answer yes or no.\nAnswer:"
)

VERDICTS = (" yes", " no")


class CausalJudge:
    """
    Scores solutions with a causal language model.

    With a question, the score is the log-probability of the first verdict less that of the second, after the question.
    No text is generated, so that a model that does not follow the format still has a score. Without a question, it is
    the mean log-probability of the solution's tokens after the problem, i.e. minus the logarithm of the perplexity.

    Args:
        model: A causal language model. It is set to evaluation mode, and its gradients are switched off.
        question: Jinja template over `problem` and `solution`.
        verdicts: Continuations of the question that accept and reject a solution.
        tokens_per_batch: Tokens per forward pass, including padding.
    """

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        question: str | None = VERDICT_QUESTION,
        verdicts: tuple[str, str] = VERDICTS,
        tokens_per_batch: int | None = None,
    ):
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.question = question
        self.verdicts = verdicts
        self._budget = TokenBudget(tokens_per_batch or choose_tokens(model.config, model.device, model.dtype))

    @classmethod
    def from_pretrained(cls, source: str | Path, *, device: str | torch.device = "cpu", **kwargs) -> "CausalJudge":
        """Load a causal language model, or a prover, from a folder or the Hub; `kwargs` are arguments of the class."""
        model, tokenizer = load_prover(source)
        return cls(moved(merge_adapter(model), device), tokenizer, **kwargs)

    def __call__(self, problems: list[str], solutions: list[str]) -> list[float]:
        """
        Score solutions.

        Returns: a score per solution, in the same order; higher means more likely to be correct.
        """
        check_texts(problems, solutions)
        if self.question is None:
            sums, lengths = self._read([problem + "\n" for problem in problems], solutions)
            scores = sums / lengths
        else:
            template = compile_template(self.question)
            texts = [template.render(problem=p, solution=s) for p, s in zip(problems, solutions, strict=True)]
            yes, no = (self._read(texts, [verdict] * len(texts))[0] for verdict in self.verdicts)
            scores = yes - no
        check_scores(scores, solutions)
        return scores.tolist()

    def _read(self, beginnings: list[str], endings: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probability of each ending after its beginning, and its number of tokens (at least 1)."""
        known = [self.tokenizer(text)["input_ids"] for text in beginnings]
        read = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in endings]
        rows = [first + last for first, last in zip(known, read, strict=True)]
        sums = np.zeros(len(rows))
        forward = self._budget.run(
            [len(row) for row in rows], lambda batch: self._forward([rows[index] for index in batch])
        )
        for batch, logprobs in forward:
            for index, values in zip(batch, logprobs, strict=True):
                # The first token of a row has no prediction, so that value k is of token k + 1.
                start, end = max(len(known[index]) - 1, 0), len(rows[index]) - 1
                sums[index] = values[start:end].double().sum().item()
        return sums, np.maximum([len(ids) for ids in read], 1)

    @torch.no_grad()
    def _forward(self, rows: Sequence[list[int]]) -> torch.Tensor:
        """Log-probability of each token but the first; shape `(num_rows, longest - 1)`, padded on the right."""
        longest = max(map(len, rows))
        # Any token will do as padding, since the mask hides it.
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row, dtype=ids.dtype)
            mask[place, : len(row)] = 1
        ids, mask = ids.to(self.model.device), mask.to(self.model.device)
        logits = self.model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
        return torch.log_softmax(logits, dim=-1).gather(2, ids[:, 1:, None]).squeeze(2).cpu()
