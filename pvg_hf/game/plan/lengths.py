"""How long prompts, solutions and verifier inputs are, in tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from pvg_hf.config.sections import PlayerConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.hub_files import is_on_hub
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.roles import Role

SAMPLE_SIZE = 200  # problems that are tokenised
CHARACTERS_PER_TOKEN = 4  # where no tokenizer is at hand
LONGEST_OF_A_BATCH = 0.95  # the quantile that a batch is taken to be padded to


@dataclass(frozen=True)
class Length:
    """
    Tokens of one kind of text.

    Args:
        mean (`float`):
            Of the sample.
        high (`float`):
            What a batch is padded to.
        longest (`int`):
            Of the sample.
    """

    mean: float
    high: float
    longest: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Length":
        return cls(float(np.mean(lengths)), float(np.quantile(lengths, LONGEST_OF_A_BATCH)), max(lengths))

    def __add__(self, other: "Length") -> "Length":
        return Length(self.mean + other.mean, self.high + other.high, self.longest + other.longest)

    @classmethod
    def mixed(cls, *lengths: "Length") -> "Length":
        """Of kinds of texts that share a batch."""
        return cls(
            sum(length.mean for length in lengths) / len(lengths),
            max(length.high for length in lengths),
            max(length.longest for length in lengths),
        )

    def capped(self, limit: int) -> "Length":
        return Length(min(self.mean, limit), min(self.high, limit), min(self.longest, limit))


@dataclass(frozen=True)
class TextLengths:
    """
    Args:
        prompt (`dict[Role, Length]`):
            Prompts per role, as the prover reads them.
        solution (`Length`):
            Reference solutions with an end token, which stand for what the prover will write.
        verifier_input (`Length`):
            A problem with its reference solution, as the verifier reads them.
        is_estimated (`bool`):
            Whether a tokenizer was missing, so that characters were counted.
    """

    prompt: dict[Role, Length]
    solution: Length
    verifier_input: Length
    is_estimated: bool


def measure_lengths(context: PhaseContext) -> TextLengths:
    """Of `SAMPLE_SIZE` problems of D_pi, spread evenly over it."""
    problems = context.world.parts["prover"]
    places = np.linspace(0, len(problems) - 1, min(SAMPLE_SIZE, len(problems))).astype(int)
    problems = problems.select(places).to_list()
    prover, verifier = (
        find_tokenizer(context, config, player)
        for player, config in (("prover", context.recipe.prover), ("verifier", context.recipe.verifier))
    )
    references = [problem["reference"] for problem in problems]
    written = [tokens + 1 for tokens in _count(references, prover)]
    return TextLengths(
        prompt={role: Length.of(_count(_prompts(context, problems, role, prover), prover)) for role in Role},
        solution=Length.of(written).capped(context.recipe.prover.max_completion_length),
        verifier_input=Length.of(_verifier_inputs(context, problems, verifier)).capped(
            context.recipe.verifier.max_length
        ),
        is_estimated=prover is None or verifier is None,
    )


def find_tokenizer(context: PhaseContext, config: PlayerConfig, player: str) -> PreTrainedTokenizerBase | None:
    """
    The tokenizer of a model that is, or plays, this player, from this machine or else from the Hub; `None` if neither has
    it, as of one that is yet to be trained.
    """
    source = str(context.folder.models / player) if config.scratch else resolve_model(config.model, player)
    try:
        return AutoTokenizer.from_pretrained(
            source, revision=config.revision, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError):  # the latter where the model's configuration is there and no tokenizer
        if not is_on_hub(source, config.revision):
            return None
    return load_tokenizer(source, config.revision)


def _prompts(
    context: PhaseContext, problems: list[dict[str, Any]], role: Role, tokenizer: PreTrainedTokenizerBase | None
) -> list[str]:
    if tokenizer is not None:
        return [context.world.prompt(problem, role, tokenizer) for problem in problems]
    write = context.world.prompts.text  # without a chat template, which comes with the tokenizer
    return [write(problem, role, honest_solution=problem["reference"]) for problem in problems]


def _verifier_inputs(
    context: PhaseContext, problems: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase | None
) -> list[int]:
    config = context.recipe.verifier
    end_token = tokenizer.eos_token if tokenizer else None
    verifier_input = VerifierInput(config.template, end_token, config.max_length)
    texts, references = ([problem[column] for problem in problems] for column in ("problem", "reference"))
    if tokenizer is None:
        return _count([verifier_input.render(*pair) for pair in zip(texts, references, strict=True)], None)
    return [len(ids) for ids in verifier_input.encode(tokenizer, texts, references)]


def _count(texts: list[str], tokenizer: PreTrainedTokenizerBase | None) -> list[int]:
    if tokenizer is None:
        return [-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts]
    return [len(ids) for ids in tokenizer(texts)["input_ids"]]
