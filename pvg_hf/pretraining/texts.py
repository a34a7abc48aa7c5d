"""Training texts of the base models, as token ids in the order of training."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from transformers import PreTrainedTokenizerBase

from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.arithmetic.corpus import CorpusConfig, write_corpus, write_marked_texts
from pvg_hf.tasks.arithmetic.grammar import MIN_DIFFICULTY
from pvg_hf.tasks.proofs.corpus import ProofsCorpusConfig, write_proofs_corpus

# Short stories first: a model learns to copy from the story many times faster on them than on long ones.
CURRICULUM = ((0.1, 2), (0.2, 3), (0.5, 4), (1.0, 6))  # (up to this share of the steps, longest story)

BATCHES_PER_BUCKET = 16  # the rows of this many batches are sorted by length, so that batches have little padding

DISTRACTOR_RATE = 0.5

NOT_LEARNED = -100  # torch's cross-entropy ignores this label

Row = dict[str, list[int]]


def rows_in_order(
    kind: str,
    tokenizer: PreTrainedTokenizerBase,
    *,
    name: str,
    seed: int,
    num_steps: int,
    batch_size: int,
    max_difficulty: int,
) -> Iterator[Row]:
    """
    Yield rows in the order of training: by the curriculum, with rows of similar length in one batch.

    Args:
        kind (`str`):
            A key of `WRITERS`.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            The model's tokenizer.
        name (`str`), seed (`int`):
            Path of the random generator.
        num_steps (`int`), batch_size (`int`):
            Number of training steps, and rows per step.
        max_difficulty (`int`):
            Maximum steps of a story, whatever the curriculum allows.
    """
    rng, num_buckets = derive_rng(seed, name, "corpus"), -(-num_steps // BATCHES_PER_BUCKET)
    for bucket in range(num_buckets):
        longest = next(difficulty for until, difficulty in CURRICULUM if bucket < until * num_buckets)
        drawn = WRITERS[kind](tokenizer, rng, batch_size * BATCHES_PER_BUCKET, min(longest, max_difficulty))
        rows = sorted(drawn, key=lambda row: len(row["input_ids"]))
        # Shuffled batches, so that lengths do not rise and fall within each bucket.
        for batch in rng.permutation(BATCHES_PER_BUCKET):
            yield from rows[batch * batch_size : (batch + 1) * batch_size]


def _solution_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, longest: int
) -> Iterator[Row]:
    for row in write_corpus(rng, num_rows, replace(CorpusConfig(), max_difficulty=longest)):
        yield _answered_row(tokenizer, row)


def _evaluation_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, longest: int
) -> Iterator[Row]:
    for row in write_proofs_corpus(rng, num_rows, replace(ProofsCorpusConfig(), max_difficulty=longest)):
        yield _answered_row(tokenizer, row)


def _marked_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, longest: int
) -> Iterator[Row]:
    difficulties = range(MIN_DIFFICULTY, longest + 1)
    for segments in write_marked_texts(rng, num_rows, difficulties, DISTRACTOR_RATE, tokenizer.eos_token):
        yield _row(tokenizer, segments)


def _answered_row(tokenizer: PreTrainedTokenizerBase, row: dict[str, str]) -> Row:
    """Build the row of a prompt and a completion; only the completion and its end token are learned."""
    return _row(tokenizer, [(row["prompt"], False), (row["completion"] + tokenizer.eos_token, True)])


def _row(tokenizer: PreTrainedTokenizerBase, segments: list[tuple[str, bool]]) -> Row:
    """Join the segments' token ids; the labels of segments that are not learned are -100."""
    input_ids, labels = [], []
    for text, is_learned in segments:
        ids = tokenizer(text)["input_ids"]
        input_ids += ids
        labels += ids if is_learned else [NOT_LEARNED] * len(ids)
    return {"input_ids": input_ids, "labels": labels}


WRITERS: dict[str, Callable[[PreTrainedTokenizerBase, np.random.Generator, int, int], Iterator[Row]]] = {
    "solutions": _solution_rows,
    "marked": _marked_rows,
    "evaluations": _evaluation_rows,
}
"""Writers of training texts, by kind."""
