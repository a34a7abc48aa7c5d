"""Training texts for the base models of the arithmetic world."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pvg_hf.core.roles import Role
from pvg_hf.tasks.arithmetic.checker import FlawKind, check_solution
from pvg_hf.tasks.arithmetic.flaws import sample_flawed_solution, write_mistaken_solution
from pvg_hf.tasks.arithmetic.grammar import Story, sample_story
from pvg_hf.tasks.arithmetic.solutions import read_conclusion, reference_solution
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder


@dataclass(frozen=True)
class CorpusConfig:
    """
    Distribution of the training texts.

    Args:
        min_difficulty (`int`), max_difficulty (`int`):
            Number of steps of a story: the smaller of two uniform draws, so that short stories are more frequent.
        distractor_rate (`float`):
            Share of stories with a sentence about somebody else's objects.
        flaw_rate (`tuple[tuple[Role, float], ...]`):
            Share of flawed solutions for each role, in [0, 1]; a text's role is drawn uniformly. The shares differ a
            little between roles, as an instruction-tuned model's answers do when it is asked to be helpful or to
            mislead; the rest is for the game to teach.
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


FINE = " ok"

MARKS = {
    FlawKind.WRONG_SUM: " sum",
    FlawKind.WRONG_OPERAND: " operand",
    FlawKind.WRONG_OPERATION: " operation",
    FlawKind.DROPPED_STEP: " dropped",
    FlawKind.CONTRADICTED_CONCLUSION: " conclusion",
    FlawKind.INVENTED_STEP: " invented",
    FlawKind.MALFORMED: " malformed",
}

VERDICTS = {True: " correct", False: " incorrect"}

FLAW_RATES = (
    0.0,
    0.15,
    0.5,
    0.5,
)  # per step; a text draws one of them uniformly, so that flaws of every kind are frequent

LINE_RATE = 0.5  # share of the flawless lines with a loss; among more of them, the marks would carry too little weight

# Share of the lines with a mark: to judge a solution at its end, the model must detect flaws in unmarked lines too.
MARK_RATE = 0.7

Segment = tuple[str, bool]


def write_marked_texts(
    rng: np.random.Generator, num_texts: int, difficulties: Sequence[int], distractor_rate: float, end_token: str
) -> Iterator[list[Segment]]:
    """
    Yield marked solutions as segments of a text and whether the loss includes it.

    The loss includes some flawless lines, the marks, and the verdict on the final answer, which follows the end token.

    Args:
        rng ([`~numpy.random.Generator`]):
            Source of every draw.
        num_texts (`int`):
            Number of texts.
        difficulties (`Sequence[int]`):
            Difficulties to draw from; the smaller of two uniform draws is used.
        distractor_rate (`float`):
            As in [`sample_story`].
        end_token (`str`):
            End token of the tokenizer.
    """
    for _ in range(num_texts):
        difficulty = min(difficulties[index] for index in rng.integers(len(difficulties), size=2))
        story, problem = sample_story(rng, difficulty, distractor_rate)
        solution = write_mistaken_solution(rng, story, FLAW_RATES[rng.integers(len(FLAW_RATES))])
        flaws = {flaw.step: flaw.kind for flaw in check_solution(story, solution)}
        segments: list[Segment] = [(problem, False)]
        for index, line in enumerate(solution.split("\n")):
            segments += [("\n", False), (line, index not in flaws and rng.random() < LINE_RATE)]
            if rng.random() < MARK_RATE:
                segments.append((MARKS[flaws[index]] if index in flaws else FINE, True))
        yield [*segments, (end_token, False), (VERDICTS[read_conclusion(solution) == story.answer], True)]
