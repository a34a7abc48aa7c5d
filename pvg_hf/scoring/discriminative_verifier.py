"""A frozen verifier that scores solutions."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.core.acceptance import COMPLETENESS
from pvg_hf.core.score_calibration import ScoreCalibration, needed
from pvg_hf.core.scored_texts import check_scores, check_texts
from pvg_hf.core.stopwatch import SCORING, count_tokens, spending
from pvg_hf.core.templates import message_text
from pvg_hf.models.hardware import moved
from pvg_hf.models.score_head import set_padding, subtract_logits
from pvg_hf.models.token_flops import flops_per_token
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring.batching import TokenBudget, choose_tokens
from pvg_hf.scoring.reader import Reader

logger = logging.getLogger(__name__)

TEXTS_PER_CHUNK = 2048  # number of texts tokenised at a time


class VerifierScorer:
    """
    Scores solutions with a frozen verifier. Higher is more convincing; scores are unbounded.

    Inputs are sorted by length and batched by tokens. Identical texts are read once, and so is the problem that
    several solutions share if a head scores them and the architecture allows it (Llama and Qwen do). A score depends
    on its own text only (up to rounding, below 1e-5 in float32).

    Args:
        model ([`~transformers.PreTrainedModel`]):
            A sequence classifier, or a language model of [`~pvg_hf.models.likelihood.score_by_likelihood`]. Two logits
            become their difference, that of correct solutions (label 1, or so called) minus the other. The model is
            set to evaluation mode, and its gradients are switched off.
        verifier_input ([`~pvg_hf.models.verifier_input.VerifierInput`]):
            Input format of the verifier.
        tokens_per_batch (`int`, *optional*):
            Tokens per forward pass, including padding; by default chosen from the free memory of a GPU, 2048 on a CPU.
            It is halved when memory runs out.
        shares_beginnings (`bool`, defaults to `True`):
            Whether to compute the common prefix of a problem's inputs once.
        use_cache (`bool`, defaults to `False`):
            Whether to remember the score of every text. The last bits of a score depend on the batch in which it was
            computed, so a phase that must resume to the same bytes leaves this off.
        calibration ([`~pvg_hf.core.score_calibration.ScoreCalibration`], *optional*):
            Thresholds and probabilities, which `from_pretrained` finds beside the weights.

    Example:

    ```python
    scorer = VerifierScorer.from_pretrained("runs/quickstart/verifier/round-001")
    problem = "Ana has 6 pens.\\nBen has 4 more than Ana.\\nHow many pens does Ben have?"
    scores = scorer([problem], ["Ana has 6\\nBen has 4 more than Ana: 6 + 4 = 10\\n#### 10"])
    ```
    """

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        tokenizer: PreTrainedTokenizerBase,
        verifier_input: VerifierInput,
        *,
        tokens_per_batch: int | None = None,
        shares_beginnings: bool = True,
        use_cache: bool = False,
        calibration: ScoreCalibration | None = None,
    ):
        subtract_logits(model)
        if model.config.get_text_config().pad_token_id is None:
            set_padding(model, tokenizer)
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.verifier_input = verifier_input
        self.calibration = calibration
        self.num_cut = 0  # number of inputs truncated so far
        self._budget = TokenBudget(tokens_per_batch or choose_tokens(model.config, model.device, model.dtype))
        self._reader = Reader(self.model, self._budget, shares_beginnings=shares_beginnings)
        self._cache: dict[bytes, float] | None = {} if use_cache else None

    @property
    def tokens_per_batch(self) -> int:
        return self._budget.tokens

    @property
    def counts(self) -> dict[str, int]:
        """Number of inputs truncated so far, as `num_cut`."""
        return {"num_cut": self.num_cut}

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, device: str | torch.device | None = None, **kwargs
    ) -> "VerifierScorer":
        """
        Load a round's verifier (full weights, or an adapter) from its folder.

        Args:
            folder (`str` or `Path`):
                Folder `verifier/round-NNN` of a run.
            device (`str` or `torch.device`, *optional*):
                By default this process's GPU, if any.
            kwargs:
                Further arguments of the class.
        """
        from pvg_hf.models.verifier_model import load_verifier

        model, tokenizer = load_verifier(folder)
        model = moved(model, device or PartialState().device)
        kwargs.setdefault("calibration", ScoreCalibration.load(folder))
        return cls(model, tokenizer, VerifierInput.load(Path(folder)), **kwargs)

    @spending(SCORING)
    def __call__(self, problems: list[str], solutions: list[str]) -> list[float]:
        """
        Score solutions.

        Args:
            problems (`list[str]`), solutions (`list[str]`):
                Lists of texts of equal length.

        Returns:
            `list[float]`: a score per solution, in the same order.

        Raises:
            ValueError: for a text instead of a list, an item that is not a text, lists of different lengths, a problem
                that alone reaches the verifier's maximum length, and a score that is not finite.
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
        scores = [known[key] for key in keys]
        check_scores(scores, solutions)
        return scores

    def threshold(self, completeness: float = COMPLETENESS) -> float:
        """
        Return the lowest score that is accepted where at least this share of the calibration's correct solutions is.

        Raises:
            ValueError: for a share outside (0, 1), or a verifier without a calibration.
        """
        return needed(self.calibration).acceptance(completeness).threshold

    def accepts(self, problems: list[str], solutions: list[str], *, completeness: float = COMPLETENESS) -> list[bool]:
        """Return whether each solution scores at least the [`threshold`]; arguments and errors as for a call."""
        acceptance = needed(self.calibration).acceptance(completeness)
        return [acceptance.accepts(score) for score in self(problems, solutions)]

    def probability(self, problems: list[str], solutions: list[str]) -> list[float]:
        """
        Return the probability that each solution is correct, in (0, 1), as far as it is like those of the calibration.

        Raises:
            ValueError: as for a call, or for a verifier without a calibration.
        """
        calibration = needed(self.calibration)
        return [calibration.probability_of(score) for score in self(problems, solutions)]

    def choose(self, problem: str, solutions: list[str]) -> int:
        """
        Return the index of the solution with the highest score; of equal ones, the first.

        Where final answers can be compared, a vote among them is often right more often:
        docs/how-to/choose-among-answers.md says when.

        Raises:
            ValueError: as for a call, or without a solution.
        """
        if not solutions:
            raise ValueError("There is no solution to choose from.")
        scores = self([problem] * len(solutions), solutions)
        return max(range(len(scores)), key=lambda index: (scores[index], -index))

    def as_reward_func(self, *, problem_column: str = "problem") -> Callable[..., list[float]]:
        """
        Return the scorer as a reward function for TRL's trainers (`reward_funcs=scorer.as_reward_func()`).

        Its name in their logs is `verifier`. A verifier's folder itself (`reward_funcs=FOLDER`) is right only for
        chats of the problem alone: TRL reads texts without the end token, and the whole prompt in place of the
        problem.

        Args:
            problem_column (`str`, defaults to `"problem"`):
                Dataset column with the problem as in the verifier's input. `"prompt"` uses the prompt itself, or the
                last message of a conversation.

        Returns:
            `Callable`: takes `prompts`, `completions` (texts, or lists of messages) and the dataset's columns as
            keyword arguments, and returns one score per completion.

        Raises:
            ValueError: when called without that column, and for a score that is not finite, which TRL would take for
                a reward that is missing.

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
                    f"The reward function `verifier` reads problems from the column `{problem_column}`, which the"
                    f" dataset lacks; it has {known}. Name the column: `as_reward_func(problem_column=...)`."
                )
            return self([_last_text(problem) for problem in problems], [_last_text(text) for text in completions])

        return verifier

    def _cut(self, ids: list[int], problem: str) -> list[int]:
        """
        Truncate and count an input over the maximum length; it loses the end of its text but keeps its end token.
        """
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
        # An encoder's tokenizer adds its own end token, such as [SEP].
        has_end = self.verifier_input.end_token is not None or ids[-1] in self.tokenizer.all_special_ids
        return ids[: limit - 1] + ids[-1:] if has_end else ids[:limit]

    def _check_room(self, problem: str) -> None:
        """Refuse a problem without space for a solution, because all of its solutions would get the same score."""
        limit = self.verifier_input.max_length
        (alone,) = self.verifier_input.encode(self.tokenizer, [problem], [""])
        if len(alone) >= limit:
            raise ValueError(
                f"The problem `{' '.join(problem.split()[:8])} ...` fills the verifier's `max_length` by itself: it"
                f" has {len(alone)} tokens with the template, of {limit}. Raise `verifier.max_length`, or remove the"
                " problem."
            )

    def _read(self, texts: Sequence[tuple[str, str]]) -> list[float]:
        """Score (problem, solution) texts."""
        scores = [0.0] * len(texts)
        chunks = _chunks(texts)
        for chunk, inputs in zip(chunks, _prefetch(lambda chunk: self._encode([texts[i] for i in chunk]), chunks)):
            # Different texts can have equal inputs (truncated, or if the template ignores a part). Each input is read
            # once, because two readings of it can differ in their last bits and break a tie.
            unique = {tuple(ids): texts[index][0] for index, ids in zip(chunk, inputs, strict=True)}
            found = dict(zip(unique, self._reader.read(list(map(list, unique)), list(unique.values())), strict=True))
            count_tokens(sum(map(len, unique)), self._flops)
            for index, ids in zip(chunk, inputs, strict=True):
                scores[index] = found[tuple(ids)]
        return scores

    @cached_property
    def _flops(self) -> int:
        """Floating-point operations per token; counting them takes milliseconds."""
        return flops_per_token(self.model)

    def _encode(self, texts: list[tuple[str, str]]) -> list[list[int]]:
        problems, solutions = zip(*texts, strict=True)
        encoded = self.verifier_input.encode(self.tokenizer, list(problems), list(solutions))
        return [self._cut(ids, problem) for ids, problem in zip(encoded, problems, strict=True)]


def _prefetch(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Yield the function's result for each item; a thread computes the next one while the caller uses the last."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        last = None
        for item in items:
            following = pool.submit(function, item)
            if last is not None:
                yield last.result()
            last = following
        if last is not None:
            yield last.result()


def _last_text(spoken: str | list[dict[str, Any]]) -> str:
    """Return a text itself, or the text of a conversation's last message."""
    return spoken if isinstance(spoken, str) else message_text(spoken[-1])


def _chunks(texts: Sequence[tuple[str, str]]) -> list[list[int]]:
    """
    Split the indices of the texts into chunks that are tokenised at a time.

    Solutions of the same problem are in the same chunk, next to problems of similar length.
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
