"""The expected score of an evaluation under the model's own distribution at its box."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.analyses.form import ALLOWED_SCORES

TEXTS_PER_BATCH = 32


def expected_scores(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], temperature: float
) -> list[float]:
    """
    Args:
        model ([`~transformers.PreTrainedModel`]), tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            Of the score verifier.
        texts (`Sequence[str]`):
            A prompt with an evaluation up to the brace that opens its box.
        temperature (`float`):
            At which evaluations are sampled.

    Returns:
        `list[float]`: for each text the sum over 0, 0.5 and 1 of the score times the probability that it is written next and
        the box closed. What else could be written counts as 0, as a box that cannot be read does.
    """
    scores = []
    for start in range(0, len(texts), TEXTS_PER_BATCH):
        scores += _of_batch(model, tokenizer, texts[start : start + TEXTS_PER_BATCH], temperature)
    return scores


@torch.inference_mode()
def _of_batch(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], temperature: float
) -> list[float]:
    rows, starts = [], []
    for text in texts:
        ways = [tokenizer(f"{text}{score:g}}}")["input_ids"] for score in ALLOWED_SCORES]
        rows += ways
        starts += [_common_length(ways)] * len(ways)
    longest = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_token_id] * (longest - len(row)) for row in rows])  # (rows, seq)
    lengths = torch.tensor([len(row) for row in rows])
    place = torch.arange(longest)
    mask = place < lengths[:, None]
    logits = model(input_ids=ids.to(model.device), attention_mask=mask.long().to(model.device)).logits.float().cpu()
    logprobs = torch.log_softmax(logits[:, :-1] / temperature, dim=-1)  # of the token at place + 1
    logprobs = logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1)
    is_written = mask[:, 1:] & (place[1:] >= torch.tensor(starts)[:, None])
    probs = logprobs.where(is_written, 0).sum(1).exp().view(-1, len(ALLOWED_SCORES))  # (texts, scores)
    return (probs * torch.tensor(ALLOWED_SCORES)).sum(1).tolist()


def _common_length(ways: Sequence[list[int]]) -> int:
    """Tokens that all ways begin with."""
    shortest = min(map(len, ways))
    return next((place for place in range(shortest) if len({way[place] for way in ways}) > 1), shortest)
