"""The expected score of an evaluation under the model's distribution over the content of its box."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.models.vocabulary import decode
from pvg_hf.sampling.drawing import pad_left
from pvg_hf.scoring.batching import TokenBudget, choose_tokens

SPELLINGS = {"0": 0.0, "0.0": 0.0, "0.5": 0.5, ".5": 0.5, "1": 1.0, "1.0": 1.0}
"""Spellings of a score in a box. Spellings with white space count as 0."""

Path = tuple[int, ...]  # token ids after the beginning of a box


@dataclass(frozen=True)
class Box:
    """An evaluation and the position of its box."""

    before: str
    whole: str


@dataclass(frozen=True)
class _Row:
    """A path of tokens after the beginning of a box, and the positions along it at which the box can be closed."""

    box: int
    beginning: list[int]
    path: Path
    closings: Mapping[int, list[tuple[int, float]]]  # position -> tokens that close the box, each with the box's score


class BoxReader:
    """Computes expected scores of boxes."""

    def __init__(self, model: PreTrainedModel | PeftModel, tokenizer: PreTrainedTokenizerBase, temperature: float):
        self._model, self._tokenizer, self._temperature = model, tokenizer, temperature
        self._tokens = sorted(_texts_of_tokens(tokenizer))
        self._texts = [text for text, _ in self._tokens]
        self._budget = TokenBudget(choose_tokens(model.config, model.device, model.dtype))
        self._closings_behind = cache(self._find_closings)

    def __call__(self, boxes: Sequence[Box]) -> list[float]:
        """
        Compute the expected score of each box.

        Returns: for each box the sum over 0, 0.5 and 1 of the score times the probability that the model writes it and
            closes the box. All tokenisations count, and also closing tokens that contain further text. Any other
            content counts as 0, like an unreadable box.
        """
        rows = [row for index, box in enumerate(boxes) for row in self._rows(index, box)]
        scores = [0.0] * len(boxes)
        lengths = [len(row.beginning) + len(row.path) for row in rows]
        for indices, found in self._budget.run(lengths, lambda batch: self._read([rows[index] for index in batch])):
            for index, score in zip(indices, found, strict=True):
                scores[rows[index].box] += score
        return scores

    def _rows(self, index: int, box: Box) -> Iterator[_Row]:
        """Yield a minimal set of paths that pass through every position at which the box can be closed."""
        beginning, open_text = self._beginning(box)
        closings = self._closings_behind(open_text)
        passed: set[Path] = set()
        for path in sorted(closings, key=len, reverse=True):
            if path in passed:
                continue
            places = {length: path[:length] for length in range(len(path) + 1)}
            new = {
                length: closings[part] for length, part in places.items() if part in closings and part not in passed
            }
            passed.update(places.values())
            yield _Row(index, beginning, path, new)

    def _beginning(self, box: Box) -> tuple[list[int], str]:
        """
        Return the tokens before the box as the model wrote them, and the rest of the text, which the next tokens must
        spell.
        """
        whole, before = (self._tokenizer(text)["input_ids"] for text in (box.whole, box.before))
        pairs = enumerate(zip(before, whole, strict=False))
        # The last tokens of `before` can differ from those of `whole`, e.g. if a token merges the brace with the
        # score.
        shared = next((place for place, (one, other) in pairs if one != other), min(len(before), len(whole)))
        return before[:shared], decode(self._tokenizer, before[shared:], skip_special_tokens=True)

    def _find_closings(self, open_text: str) -> dict[Path, list[tuple[int, float]]]:
        """Map each path of tokens to the tokens that complete a score and close the box, with that score."""
        found: dict[Path, list[tuple[int, float]]] = {}
        for spelling, score in SPELLINGS.items():
            self._follow(f"{open_text}{spelling}}}", score, (), found)
        return found

    def _follow(self, text: str, score: float, path: Path, found: dict[Path, list[tuple[int, float]]]) -> None:
        closing = [(token, score) for token in self._tokens_beginning_with(text)]
        if closing:
            found.setdefault(path, []).extend(closing)
        # Every way to cut the text into tokens: a first token of each length, then the rest.
        for length in range(1, len(text)):
            for token in self._tokens_equal_to(text[:length]):
                self._follow(text[length:], score, (*path, token), found)

    def _tokens_beginning_with(self, text: str) -> Iterator[int]:
        for place in range(bisect_left(self._texts, text), len(self._texts)):
            if not self._texts[place].startswith(text):
                return
            yield self._tokens[place][1]

    def _tokens_equal_to(self, text: str) -> Iterator[int]:
        for place in range(bisect_left(self._texts, text), len(self._texts)):
            if self._texts[place] != text:
                return
            yield self._tokens[place][1]

    @torch.inference_mode()
    def _read(self, rows: Sequence[_Row]) -> list[float]:
        """Return the contribution of each row to the expected score of its box."""
        ids, mask = pad_left([[*row.beginning, *row.path] for row in rows], self._model.device)
        kept = 1 + max(len(row.path) for row in rows)
        logits = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            use_cache=False,
            logits_to_keep=kept,
        ).logits[:, -kept:]
        logprobs = torch.log_softmax(logits.float() / self._temperature, dim=-1)  # (rows, kept, vocabulary)
        return [_expectation(row, logprobs[index, kept - 1 - len(row.path) :]) for index, row in enumerate(rows)]


def _expectation(row: _Row, logprobs: torch.Tensor) -> float:
    """
    Sum score times probability over a row's closings; `logprobs`, (path + 1, vocabulary), starts after the beginning.
    """
    reached = [logprobs[place, token] for place, token in enumerate(row.path)]
    total = 0.0
    for place, closings in row.closings.items():
        tokens, scores = map(list, zip(*closings, strict=True))
        so_far = torch.stack(reached[:place]).sum() if place else 0.0  # log-probability of the path up to there
        total += ((logprobs[place, tokens] + so_far).exp() * logprobs.new_tensor(scores)).sum().item()
    return total


def _texts_of_tokens(tokenizer: PreTrainedTokenizerBase) -> Iterator[tuple[str, int]]:
    """
    Yield the text of every token, except special tokens, single bytes and SentencePiece tokens with a leading space.
    """
    special = {*tokenizer.all_special_ids}
    for token, name in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))):
        if name is not None and token not in special and not name.startswith(("▁", "<0x")):
            yield decode(tokenizer, [token]), token
