"""Lengths of a game's texts, and numbers of its problems, pairs and solutions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.hub_access import find_refusal
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.run.layout import RunFolder

SAMPLE_SIZE = 200  # number of problems that are tokenized

CHARACTERS_PER_TOKEN = 4  # used if there is no tokenizer

LONGEST_OF_A_BATCH = 0.95  # quantile of lengths that a batch is assumed to be padded to


@dataclass(frozen=True)
class Length:
    """Length of one kind of text in tokens."""

    mean: float
    high: float  # that a batch is padded to
    longest: int  # of the sample

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Length":
        return cls(float(np.mean(lengths)), float(np.quantile(lengths, LONGEST_OF_A_BATCH)), max(lengths))

    def __add__(self, other: "Length") -> "Length":
        return Length(self.mean + other.mean, self.high + other.high, self.longest + other.longest)

    @classmethod
    def combine(cls, *lengths: "Length") -> "Length":
        """Length of several kinds of texts that share a batch."""
        return cls(
            sum(length.mean for length in lengths) / len(lengths),
            max(length.high for length in lengths),
            max(length.longest for length in lengths),
        )

    def cap(self, limit: int) -> "Length":
        return Length(min(self.mean, limit), min(self.high, limit), min(self.longest, limit))


@dataclass(frozen=True)
class TextLengths:
    """Lengths of a game's texts."""

    prompt: dict[Role, Length]  # with the chat template applied
    solution: Length  # of reference solutions with an end token, as an estimate of the prover's
    verifier_input: Length  # of problems with their reference solutions
    is_estimated: bool  # from characters, because a tokenizer was missing


def measure_lengths(recipe: Recipe, problems: GameProblems) -> TextLengths:
    """Measure lengths on `SAMPLE_SIZE` of the prover's problems (D_pi), evenly spread."""
    rows = problems.sample("prover", SAMPLE_SIZE)
    prover, verifier = (find_tokenizer(*tokenizer_source(recipe, player)) for player in recipe.players)
    references = [row["reference"] for row in rows]
    written = [tokens + 1 for tokens in _count(references, prover)]
    return TextLengths(
        prompt={role: Length.of(_count(_write_prompts(problems, rows, role, prover), prover)) for role in Role},
        solution=Length.of(written).cap(recipe.prover.max_completion_length),
        verifier_input=Length.of(_verifier_inputs(recipe.verifier, rows, verifier)).cap(recipe.verifier.max_length),
        is_estimated=prover is None or verifier is None,
    )


def tokenizer_source(recipe: Recipe, player: str) -> tuple[str, str | None]:
    """Folder or Hub id, and revision, of a player's tokenizer; that of a new model is made with its weights."""
    config = recipe.player(player)
    if config.scratch:
        return str(RunFolder.of(recipe).models / player), config.revision
    return resolve_model(config.model, player), config.revision


def find_tokenizer(source: str, revision: str | None) -> PreTrainedTokenizerBase | None:
    """Find a tokenizer on this machine, else on the Hub; `None` if neither has it, e.g. if it is not trained yet."""
    try:
        return AutoTokenizer.from_pretrained(source, revision=revision, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):  # ValueError: there is a configuration of the model, but no tokenizer
        if find_refusal(source, revision) is not None:
            return None
    return load_tokenizer(source, revision)


def _write_prompts(
    problems: GameProblems, rows: list[dict[str, Any]], role: Role, tokenizer: PreTrainedTokenizerBase | None
) -> list[str]:
    if tokenizer is None:  # which has the chat template
        return [problems.prompts.text(row, role, honest_solution=row["reference"]) for row in rows]
    return [problems.prompt(row, role, tokenizer) for row in rows]


def _verifier_inputs(
    config: VerifierConfig, rows: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase | None
) -> list[int]:
    end_token = tokenizer.eos_token if tokenizer else None
    verifier_input = VerifierInput.of(config, end_token)
    texts, references = ([row[column] for row in rows] for column in ("problem", "reference"))
    if tokenizer is None:
        return _count([verifier_input.render(*pair) for pair in zip(texts, references, strict=True)], None)
    return [len(ids) for ids in verifier_input.encode(tokenizer, texts, references)]


def _count(texts: list[str], tokenizer: PreTrainedTokenizerBase | None) -> list[int]:
    if tokenizer is None:
        return [-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts]
    return [len(ids) for ids in tokenizer(texts)["input_ids"]]


@dataclass(frozen=True)
class Amounts:
    """Counts of a round, and of the phases before it."""

    recipe: Recipe  # with the round's overrides
    problems: GameProblems
    hardware: Hardware
    lengths: TextLengths
    memory: int = 0  # bytes of the GPU, or of this machine

    @property
    def num_processes(self) -> int:
        return self.hardware.num_processes

    def num_problems(self, *parts: str) -> int:
        """Number of problems in these parts of the split together."""
        return sum(len(self.problems.parts[part]) for part in parts)

    @property
    def num_verifier_problems(self) -> int:
        """Number of the verifier's problems (D_V) including held-out ones, for which solutions are minted."""
        return self.num_problems("verifier", "verifier_heldout")

    @property
    def max_pairs(self) -> int:
        """Number of the verifier's pairs if every problem has correct and incorrect solutions."""
        data, slots = self.recipe.data, self.recipe.data.solutions_per_problem
        of_problem = data.pair_share * slots * (slots - 1) / 2 if data.pairs == "all" else slots // 2
        return round(self.num_problems("verifier") * of_problem)

    @property
    def num_prompts(self) -> int:
        """Number of (problem, role) prompts of one training in the prover phase."""
        prover = self.recipe.prover
        return self.num_problems("prover") * len(prover.trained_roles) // prover.num_trainings

    @property
    def training_prompt(self) -> Length:
        """Length of prompts in the prover phase, in which the trained roles share a batch."""
        return Length.combine(*(self.lengths.prompt[role] for role in self.recipe.prover.trained_roles))

    @property
    def num_selecting_problems(self) -> int:
        """Number of held-out problems with which the best helpful checkpoint is selected."""
        return min(self.recipe.prover.eval_problems, self.num_problems("prover_heldout"))

    @property
    def num_selecting_solutions(self) -> int:
        """Number of solutions by which it is selected in a prover phase."""
        config = self.recipe.prover
        if Role.HELPFUL not in config.trained_roles:
            return 0
        num_evaluations = 1 + -(-config.training_of(Role.HELPFUL).max_steps // config.evaluation_steps)
        return num_evaluations * self.num_selecting_problems * config.eval_samples

    @property
    def num_test_solutions(self) -> int:
        """Number of solutions of test problems by both roles, in one round."""
        return len(GAME_ROLES) * self.num_problems("test") * self.recipe.mint.test_solutions_per_problem

    @property
    def num_crossed_solutions(self) -> int:
        """Number of solutions that an evaluation scores for the comparison with other rounds, in the mean over rounds."""
        rounds = np.minimum(np.arange(self.recipe.num_rounds), self.recipe.evaluation.crossed_rounds)
        return round(2 * rounds.mean() * self.num_test_solutions)  # other solutions, and by other verifiers
