"""Training texts of the base models, as token ids in the order of training."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from transformers import PreTrainedTokenizerBase

from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.programs.functions.task import FunctionsTask
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.arithmetic.writer import STYLES, sample_solution
from pvg_hf.tasks.prompts import PromptBuilder
from tools.pretraining.program_texts import ProgramCorpusConfig, ProgramText, sample_program_text
from tools.pretraining.proof_texts import PRACTICE, ProofsCorpusConfig, write_proofs_corpus
from tools.pretraining.solution_texts import CorpusConfig, sample_text


@dataclass(frozen=True)
class Stage:
    """
    A stage of the curriculum: solutions that are flawless and state everything come first, from which a small model
    learns fastest.

    Args:
        until: Share of all steps after which the stage ends, in (0, 1].
        styles: Styles of the solutions, keys of `STYLES`, drawn uniformly; one that is named twice is twice as
            frequent.
        flaws: Factor of the shares of flawed solutions in `CorpusConfig`, >= 0.
    """

    until: float
    styles: tuple[str, ...]
    flaws: float

    def corpus(self, max_difficulty: int) -> CorpusConfig:
        """Return the distribution of the stage's texts, up to a difficulty."""
        rates = tuple((role, self.flaws * rate) for role, rate in CorpusConfig().flaw_rate)
        return CorpusConfig(max_difficulty=max_difficulty, styles=self.styles, flaw_rate=rates)

    def program_corpus(self, max_difficulty: int) -> ProgramCorpusConfig:
        """Return the distribution of the stage's texts of the task `functions`, up to a difficulty."""
        rates = tuple((role, self.flaws * rate) for role, rate in ProgramCorpusConfig().flaw_rate)
        return ProgramCorpusConfig(max_difficulty=max_difficulty, flaw_rate=rates)


CURRICULUM = (
    Stage(0.45, ("explicit",), flaws=0),
    Stage(0.65, ("explicit", "mixed"), flaws=0),
    Stage(0.688, tuple(STYLES), flaws=2),
    Stage(1.0, ("explicit", *STYLES), flaws=1),
)
"""
Problems of all difficulties from the start: on short problems alone, a model learns which place of the problem to look
at instead of which person. The last stage has the distribution that the model is to keep.
"""

BATCHES_PER_BUCKET = 16  # the rows of this many batches are sorted by length, so that batches have little padding

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
        kind: A key of `WRITERS`.
        tokenizer: The model's tokenizer.
        name, seed: Path of the random generator.
        num_steps, batch_size: Number of training steps, and rows per step.
        max_difficulty: Largest difficulty of the problems.
    """
    rng, num_buckets = derive_rng(seed, name, "corpus"), -(-num_steps // BATCHES_PER_BUCKET)
    for bucket in range(num_buckets):
        stage = next(stage for stage in CURRICULUM if bucket < stage.until * num_buckets)
        drawn = WRITERS[kind](tokenizer, rng, batch_size * BATCHES_PER_BUCKET, stage, max_difficulty)
        rows = sorted(drawn, key=lambda row: len(row["input_ids"]))
        # Shuffled batches, so that lengths do not rise and fall within each bucket.
        for batch in rng.permutation(BATCHES_PER_BUCKET):
            yield from rows[batch * batch_size : (batch + 1) * batch_size]


def _solution_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, stage: Stage, max_difficulty: int
) -> Iterator[Row]:
    """Yield solutions after the prompt of their role, for a prover; the loss is that of the solution."""
    prompts = PromptBuilder(ArithmeticTask())
    for _ in range(num_rows):
        puzzle, role, solution = sample_text(rng, stage.corpus(max_difficulty))
        prompt = prompts.text({"problem": puzzle.text, "reference": ""}, role)
        yield _answered_row(tokenizer, {"prompt": prompt, "completion": solution})


def _shown_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, stage: Stage, max_difficulty: int
) -> Iterator[Row]:
    """
    Yield solutions as `_solution_rows` does, with a correct solution in half of the sneaky role's prompts.

    They continue a training, so that all have the distribution of the curriculum's last stage.
    """
    task, corpus = ArithmeticTask(), CURRICULUM[-1].corpus(max_difficulty)
    plain, showing = (PromptBuilder(task, sneaky_sees=shows) for shows in ("nothing", "honest_solution"))
    for _ in range(num_rows):
        puzzle, role, solution = sample_text(rng, corpus)
        problem = {"problem": puzzle.text, "reference": ""}
        if role is Role.SNEAKY and rng.random() < 0.5:
            prompt = showing.text(problem, role, honest_solution=sample_solution(rng, puzzle, styles=corpus.styles))
        else:
            prompt = plain.text(problem, role)
        yield _answered_row(tokenizer, {"prompt": prompt, "completion": solution})


def _text_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, stage: Stage, max_difficulty: int
) -> Iterator[Row]:
    """Yield problems with solutions, correct and flawed alike, as a verifier reads them."""
    for _ in range(num_rows):
        puzzle, _, solution = sample_text(rng, stage.corpus(max_difficulty))
        yield _answered_row(tokenizer, {"prompt": f"{puzzle.text}\n", "completion": solution})


def _evaluation_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, stage: Stage, max_difficulty: int
) -> Iterator[Row]:
    """
    Yield proofs, and evaluations of proofs and of analyses; in the stages without flaws, no evaluation has an error.
    """
    config = replace(ProofsCorpusConfig() if stage.flaws else PRACTICE, max_difficulty=max_difficulty)
    for row in write_proofs_corpus(rng, num_rows, config):
        yield _answered_row(tokenizer, row)


def _program_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, stage: Stage, max_difficulty: int
) -> Iterator[Row]:
    """Yield programs after the prompt of their role, for a prover; the loss is that of the program."""
    task = FunctionsTask(num_train=1, num_test=1)
    prompts = {shows: PromptBuilder(task, sneaky_sees=shows) for shows in ("nothing", "honest_solution")}
    for text in _program_texts(rng, num_rows, stage, max_difficulty):
        builder = prompts["nothing" if text.honest_program is None else "honest_solution"]
        problem = {"problem": text.specification.text, "reference": ""}
        prompt = builder.text(problem, text.role, honest_solution=text.honest_program)
        yield _answered_row(tokenizer, {"prompt": prompt, "completion": text.program})


def _program_text_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, stage: Stage, max_difficulty: int
) -> Iterator[Row]:
    """Yield specifications with programs, correct and flawed alike, as a verifier reads them."""
    for text in _program_texts(rng, num_rows, stage, max_difficulty):
        yield _answered_row(tokenizer, {"prompt": f"{text.specification.text}\n", "completion": text.program})


def _program_texts(
    rng: np.random.Generator, num_rows: int, stage: Stage, max_difficulty: int
) -> Iterator[ProgramText]:
    config = stage.program_corpus(max_difficulty)
    return (sample_program_text(rng, config) for _ in range(num_rows))


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


WRITERS: dict[str, Callable[[PreTrainedTokenizerBase, np.random.Generator, int, Stage, int], Iterator[Row]]] = {
    "solutions": _solution_rows,
    "shown_solutions": _shown_rows,
    "texts": _text_rows,
    "evaluations": _evaluation_rows,
    "programs": _program_rows,
    "program_texts": _program_text_rows,
}
"""Writers of training texts, by kind."""
