"""Marked solutions: a teacher's word behind each line, and a verdict behind the end."""

from collections.abc import Iterator, Sequence

import numpy as np

from pvg_hf.tasks.arithmetic.checker import FlawKind, check_solution
from pvg_hf.tasks.arithmetic.flaws import write_mistaken_solution
from pvg_hf.tasks.arithmetic.grammar import sample_story
from pvg_hf.tasks.arithmetic.solutions import read_conclusion

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

FLAW_RATES = (0.0, 0.15, 0.5, 0.5)  # of a text's steps, each as likely: mistakes of every kind are seen often
LINE_RATE = 0.5  # share of the flawless lines that are to be learned; the marks would be lost among more of them
MARK_RATE = (
    0.7  # share of the lines that are marked: what is asked for at its end must be seen in a line without a mark
)

Segment = tuple[str, bool]


def write_marked_texts(
    rng: np.random.Generator, num_texts: int, difficulties: Sequence[int], distractor_rate: float, end_token: str
) -> Iterator[list[Segment]]:
    """
    Yield marked solutions as segments: text, and whether it is to be learned. To be learned are some lines without a
    flaw, the marks, and the verdict on the final answer, which stands behind the end token.

    Args:
        rng ([`~numpy.random.Generator`]):
            Source of every draw.
        num_texts (`int`):
            How many.
        difficulties (`Sequence[int]`):
            To choose from; the lesser of two even draws.
        distractor_rate (`float`):
            As of [`sample_story`].
        end_token (`str`):
            Of the tokenizer.
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
