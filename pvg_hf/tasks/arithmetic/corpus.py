"""The texts that the base models of the arithmetic world are trained on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pvg_hf.roles import Role
from pvg_hf.tasks.arithmetic.flaws import sample_flawed_solution
from pvg_hf.tasks.arithmetic.grammar import Story, sample_story
from pvg_hf.tasks.arithmetic.solutions import reference_solution
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder


@dataclass(frozen=True)
class CorpusConfig:
    """
    Args:
        min_difficulty (`int`), max_difficulty (`int`):
            Steps of a story: the lesser of two even draws, so that short stories are the more frequent.
        distractor_rate (`float`):
            Share of stories with a sentence about somebody else.
        flaw_rate (`tuple[tuple[Role, float], ...]`):
            Each role with its share of flawed solutions, in [0, 1]; a text's role is an even draw among them. The roles
            differ a little, as an instruction-tuned model's answers do when it is told to be helpful or to mislead; the
            rest is the game's to teach.
    """

    min_difficulty: int = 2
    max_difficulty: int = 6
    distractor_rate: float = 0.5
    flaw_rate: tuple[tuple[Role, float], ...] = ((Role.BASE, 0.3), (Role.HELPFUL, 0.15), (Role.SNEAKY, 0.4))


def write_corpus(rng: np.random.Generator, num_texts: int, config: CorpusConfig) -> Iterator[dict[str, str]]:
    """Yield `num_texts` rows with `prompt` and `completion`."""
    prompts = PromptBuilder(ArithmeticTask())
    for _ in range(num_texts):
        difficulty = int(rng.integers(config.min_difficulty, config.max_difficulty + 1, size=2).min())
        story, problem = sample_story(rng, difficulty, config.distractor_rate)
        role, flaw_rate = config.flaw_rate[rng.integers(len(config.flaw_rate))]
        prompt = prompts.text({"problem": problem, "reference": ""}, role)
        yield {"prompt": prompt, "completion": _write_completion(rng, story, flaw_rate)}


def _write_completion(rng: np.random.Generator, story: Story, flaw_rate: float) -> str:
    if rng.random() >= flaw_rate:
        return reference_solution(story)
    return sample_flawed_solution(rng, story)
