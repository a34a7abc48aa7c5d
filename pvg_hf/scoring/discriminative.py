"""A frozen verifier as a scorer of solutions."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring.batching import TokenBudget, check_texts, choose_tokens
from pvg_hf.scoring.reader import Reader

logger = logging.getLogger(__name__)

TEXTS_PER_CHUNK = 2048  # tokenised and held at a time


class VerifierScorer:
    """
    Scores solutions with a frozen verifier. Higher is more convincing; scores are unbounded.

    Inputs are sorted by length and batched by tokens, identical texts are read once, a problem is read once for all of
    its solutions where the architecture allows it (Llama's and Qwen's do), and a score depends on its own text only (up
    to rounding, below 1e-5 in float32).

    Args:
        model ([`~transformers.PreTrainedModel`]):
            A sequence classifier with one logit. It is set to evaluation and needs no gradient afterwards.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            Its tokenizer.
        verifier_input ([`~models.verifier_input.VerifierInput`]):
            How a problem and a solution become an input.
        tokens_per_batch (`int`, *optional*):
            Tokens of a forward, padding included; by default chosen from the free memory of a GPU, 2048 on a CPU. It is
            halved when memory runs out.
        shares_beginnings (`bool`, defaults to `True`):
            Whether to read what a problem's inputs have in common once.
        use_cache (`bool`, defaults to `False`):
            Remember the score of every text for the life of the scorer. The last bits of a score depend on the batch it
            was computed in, so a phase that must resume to the same bytes leaves this off.

    Example:

    ```python
    scorer = VerifierScorer.from_pretrained("runs/quickstart/verifier/round-001")
    scores = scorer(["Ana has 6 pens. On Monday Ana finds 4 pens. On Tuesday Ana loses 3 pens. How many pens does Ana have?"], ["has 6\\nMonday finds 4: 6 + 4 = 10\\nTuesday loses 3: 10 - 3 = 7\\n#### 7"])
    ```
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        verifier_input: VerifierInput,
        *,
        tokens_per_batch: int | None = None,
        shares_beginnings: bool = True,
        use_cache: bool = False,
    ):
        if model.config.num_labels != 1:
            raise ValueError(f"A verifier has one logit; this model has `num_labels={model.config.num_labels}`.")
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.verifier_input = verifier_input
        self.num_cut = 0  # inputs over the maximum length so far
        self._budget = TokenBudget(tokens_per_batch or choose_tokens(model.config, model.device, model.dtype))
        self._reader = Reader(self.model, tokenizer.pad_token_id, self._budget, shares_beginnings=shares_beginnings)
        self._cache: dict[bytes, float] | None = {} if use_cache else None

    @property
    def tokens_per_batch(self) -> int:
        return self._budget.tokens

    @property
    def counts(self) -> dict[str, int]:
        """What was not read whole so far: `num_cut`."""
        return {"num_cut": self.num_cut}

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, device: str | torch.device | None = None, **kwargs
    ) -> "VerifierScorer":
        """
        Load a round's verifier (full weights, or an adapter with its head) from its folder.

        Args:
            folder (`str` or `Path`):
                `verifier/round-NNN` of a run.
            device (`str` or `torch.device`, *optional*):
                By default the GPU of this process, where there is one.
            kwargs:
                The other arguments of the class.
        """
        from pvg_hf.models.verifier import load_verifier

        model, tokenizer = load_verifier(folder)
        return cls(model.to(device or PartialState().device), tokenizer, VerifierInput.load(Path(folder)), **kwargs)

    def __call__(self, problems: list[str], solutions: list[str]) -> list[float]:
        """
        Args:
            problems (`list[str]`), solutions (`list[str]`):
                Texts of equal number.

        Returns:
            `list[float]`: a score per solution, in the same order.

        Raises:
            ValueError: for a text in place of a list, lists of different lengths, and if a problem alone fills the verifier's maximum length.
        """
        check_texts(problems, solutions)
        keys = [_key(problem, solution) for problem, solution in zip(problems, solutions, strict=True)]
        known = {} if self._cache is None else self._cache
        unseen = {
            key: text
            for key, text in zip(keys, zip(problems, solutions, strict=True), strict=True)
            if key not in known
        }
        known |= zip(unseen, self._read(list(unseen.values())), strict=True)
        return [known[key] for key in keys]

    def as_reward_func(self, *, problem_column: str = "problem") -> Callable[..., list[float]]:
        """
        The scorer as a reward function of TRL's trainers (`reward_funcs=scorer.as_reward_func()`), under the name
        `verifier` in their logs. Passing a verifier's folder as reward model instead gives other inputs than it was
        trained on: TRL adds no end token, and puts the prover's prompt in place of the problem.

        Args:
            problem_column (`str`, defaults to `"problem"`):
                Column of the dataset with the problem as the verifier reads it. `"prompt"` takes the prompt itself; of a
                conversation, the last message.

        Returns:
            `Callable`: takes `prompts`, `completions` (texts, or lists of messages) and the dataset's columns as keyword
            arguments, and returns a score per completion.

        Raises:
            ValueError: when it is called without that column.

        Example:

        ```python
        from trl import GRPOTrainer

        scorer = VerifierScorer.from_pretrained("runs/quickstart/verifier/round-001")
        trainer = GRPOTrainer(model, reward_funcs=scorer.as_reward_func(), train_dataset=dataset)  # prompt, problem
        ```
        """

        def verifier(
            prompts: list[Any], completions: list[Any], completion_ids: Any = None, **columns: Any
        ) -> list[float]:
            problems = prompts if problem_column == "prompt" else columns.get(problem_column)
            if problems is None:
                known = sorted(name for name, values in columns.items() if isinstance(values, list))
                raise ValueError(
                    f"The reward function `verifier` reads problems from the column `{problem_column}`, which the dataset "
                    f"lacks; it has {known}. Name the column: `as_reward_func(problem_column=...)`."
                )
            return self([_last_text(problem) for problem in problems], [_last_text(text) for text in completions])

        return verifier

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

    def _read(self, texts: Sequence[tuple[str, str]]) -> list[float]:
        """Scores of (problem, solution) texts; the next ones are tokenised while some are read."""
        scores = [0.0] * len(texts)
        chunks = _chunks(texts)
        with ThreadPoolExecutor(max_workers=1) as pool:
            encoding = [pool.submit(self._encode, [texts[index] for index in chunk]) for chunk in chunks[:1]]
            for number, chunk in enumerate(chunks):
                inputs = encoding.pop().result()
                if number + 1 < len(chunks):
                    encoding.append(pool.submit(self._encode, [texts[index] for index in chunks[number + 1]]))
                # Different texts can have equal inputs (cut ones, or where a template leaves a part out). Each input is read
                # once, since two readings of one input can differ in their last bits and break a tie.
                unique = {tuple(ids): texts[index][0] for index, ids in zip(chunk, inputs, strict=True)}
                found = dict(
                    zip(unique, self._reader.read(list(map(list, unique)), list(unique.values())), strict=True)
                )
                for index, ids in zip(chunk, inputs, strict=True):
                    scores[index] = found[tuple(ids)]
        return scores

    def _encode(self, texts: list[tuple[str, str]]) -> list[list[int]]:
        problems, solutions = zip(*texts, strict=True)
        encoded = self.verifier_input.encode(self.tokenizer, list(problems), list(solutions))
        return [self._cut(ids, problem) for ids, problem in zip(encoded, problems, strict=True)]


def _last_text(spoken: str | list[dict[str, Any]]) -> str:
    """A text itself; of a conversation, the text of the last message."""
    if isinstance(spoken, str):
        return spoken
    content = spoken[-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _chunks(texts: Sequence[tuple[str, str]]) -> list[list[int]]:
    """
    Indices of the texts, a problem's solutions together and problems of like length together, in chunks that are
    tokenised and held at a time.
    """
    longest: dict[str, int] = {}
    for problem, solution in texts:
        longest[problem] = max(longest.get(problem, 0), len(solution))
    order = sorted(range(len(texts)), key=lambda index: (longest[texts[index][0]], texts[index]))
    chunks: list[list[int]] = [[]]
    for index in order:
        if len(chunks[-1]) >= TEXTS_PER_CHUNK and texts[index][0] != texts[chunks[-1][-1]][0]:
            chunks.append([])
        chunks[-1].append(index)
    return chunks if order else []


def _key(problem: str, solution: str) -> bytes:
    return hashlib.blake2b(repr((problem, solution)).encode(), digest_size=16).digest()
