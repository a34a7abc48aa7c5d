"""Training texts for the base model of the proofs world: proofs of each score, with analyses."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pvg_hf.analyses.form import ALLOWED_SCORES, CLOSING, OPENING, write_evaluation
from pvg_hf.core.roles import Role
from pvg_hf.tasks.arithmetic.flaw import nearby_number
from pvg_hf.tasks.arithmetic.grammar import MAX_NUMBER
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder
from pvg_hf.tasks.proofs.flaw_detection import CheckedLine, Issue, check_lines, find_issues, grade_proof
from pvg_hf.tasks.proofs.language import (
    FINE,
    MARKS,
    PROOF_SETTINGS,
    SELF_EVALUATION_PROMPT,
    SEPARATOR,
    compare,
    judge_issues,
    rate_analysis,
    write_analysis,
)
from pvg_hf.tasks.proofs.stories import (
    Step,
    Story,
    conclusion_line,
    reference_solution,
    sample_story,
    start_line,
)
from pvg_hf.tasks.proofs.writing import (
    CALCULATION,
    FLAW_WRITERS,
    PERFECT,
    STEP_FLAWS,
    AnalysisRates,
    leave_out,
    sample_flawed_solution,
    sample_lines,
    sample_rates,
    write_proof,
)

TYPICAL = AnalysisRates()
VERDICTS = {True: "true", False: "false"}


@dataclass(frozen=True)
class ProofsCorpusConfig:
    """
    Distribution of the training texts.

    Args:
        min_difficulty, max_difficulty: Number of steps of a story: the smaller of two uniform draws, so that short
            stories are more frequent.
        distractor_rate: Share of stories with an event that the answer does not need, in [0, 1].
        judge_share, prove_share: Shares of the texts that evaluate an analysis and that are proofs, in [0, 1]; the
            others evaluate a proof.
        flaw_rate: Share of flawed proofs for each role, in [0, 1]; a proof's role is drawn uniformly.
        omission_rate: Share of the flawless proofs with an omission, in [0, 1].
        rates: Error rates of the evaluations.
        line_flaw_rate: Probability of a flaw in each line of a proof that is evaluated, and of half as many omissions.
            By default its score is drawn uniformly, and a flawed proof has one flaw.
    """

    min_difficulty: int = 2
    max_difficulty: int = 4
    distractor_rate: float = 0.5
    judge_share: float = 0.25
    prove_share: float = 0.25
    flaw_rate: tuple[tuple[Role, float], ...] = ((Role.BASE, 0.3), (Role.HELPFUL, 0.15), (Role.SNEAKY, 0.4))
    omission_rate: float = 0.25
    rates: AnalysisRates = TYPICAL
    line_flaw_rate: float | None = None


PRACTICE = ProofsCorpusConfig(
    flaw_rate=tuple((role, 0.0) for role in Role), omission_rate=0.0, rates=PERFECT, line_flaw_rate=0.3
)
"""
The texts that a model learns first. Nearly all lines of most proofs are right, so that a copy of the line is a good
guess of what it should be, and a small model does not learn more. Here each line can be wrong, and no evaluation is.
"""


def write_proofs_corpus(
    rng: np.random.Generator, num_texts: int, config: ProofsCorpusConfig
) -> Iterator[dict[str, str]]:
    """Yield `num_texts` rows with `prompt` and `completion`: evaluations of proofs and of analyses, and proofs."""
    for _ in range(num_texts):
        difficulty = int(rng.integers(config.min_difficulty, config.max_difficulty + 1, size=2).min())
        story, problem = sample_story(rng, difficulty, config.distractor_rate)
        if rng.random() < config.prove_share:
            yield _proving_row(rng, story, problem, config)
        else:
            yield _evaluating_row(rng, story, problem, config)


def _evaluating_row(
    rng: np.random.Generator, story: Story, problem: str, config: ProofsCorpusConfig
) -> dict[str, str]:
    if config.line_flaw_rate is None:
        proof = write_proof(rng, story, float(rng.choice(ALLOWED_SCORES)))
    else:
        proof = write_faulty_proof(rng, story, config.line_flaw_rate)
    row, lines = {"problem": problem, "proof": proof}, check_lines(story, proof)
    if rng.random() >= config.judge_share / (1 - config.prove_share):
        return {"prompt": PROOF_SETTINGS.prompt(row), "completion": _evaluate(rng, lines, config.rates)}
    analysis = write_analysis(sample_lines(rng, lines, sample_rates(rng)))
    quality = rate_analysis(analysis, find_issues(story, proof))
    completion = finish(rng, write_judgment(analysis, lines), quality, config.rates)
    return {"prompt": PROOF_SETTINGS.prompt({**row, "analysis": analysis}), "completion": completion}


def _proving_row(rng: np.random.Generator, story: Story, problem: str, config: ProofsCorpusConfig) -> dict[str, str]:
    """Write a proof in one of the roles, or one followed by the prover's own evaluation."""
    role, flaw_rate = config.flaw_rate[rng.integers(len(config.flaw_rate))]
    proof = sample_flawed_solution(rng, story) if rng.random() < flaw_rate else reference_solution(story)
    if not find_issues(story, proof) and rng.random() < config.omission_rate:
        proof = leave_out(rng, proof)
    if rng.random() < 0.5:
        prompt = PromptBuilder(ArithmeticTask()).text({"problem": problem, "reference": ""}, role)
        return {"prompt": prompt, "completion": proof}
    evaluation = _evaluate(rng, check_lines(story, proof), config.rates)
    return {"prompt": SELF_EVALUATION_PROMPT.replace("{{ problem }}", problem), "completion": f"{proof}\n{evaluation}"}


def _evaluate(rng: np.random.Generator, lines: list[CheckedLine], rates: AnalysisRates) -> str:
    written = sample_lines(rng, lines, rates)
    return finish(rng, write_analysis(written), score_of(written), rates)


def score_of(lines: Iterable[CheckedLine]) -> float:
    """Score a proof by the issues that an analysis names."""
    return grade_proof(
        Issue(index, line.quote, line.kind) for index, line in enumerate(lines) if line.kind is not None
    )


def write_judgment(analysis: str, lines: list[CheckedLine]) -> str:
    """
    Write a meta-verifier's judgement: each issue that an analysis names, what the line should be, and whether the
    proof has the issue.

    Args:
        lines: The proof's lines with their true issues.
    """
    issues = [Issue(index, line.quote, line.kind) for index, line in enumerate(lines) if line.kind is not None]
    of_quote = {line.quote: line for line in lines}
    verdicts = [
        (of_quote[named.quote].expected, compare(of_quote[named.quote]), named.mark, VERDICTS[is_real])
        for named, is_real in judge_issues(analysis, issues)
    ]
    if not verdicts:  # the analysis names no issue: list those that it missed
        verdicts = [
            (line.expected, compare(line), MARKS[line.kind], "missed") for line in lines if line.kind is not None
        ]
    return "\n".join(map(SEPARATOR.join, verdicts)) or FINE


def finish(rng: np.random.Generator, body: str, score: float, rates: AnalysisRates) -> str:
    """Write an evaluation with `body`, sometimes with a wrong score or in a broken form."""
    if rng.random() < rates.wrong_score:
        score = float(rng.choice(ALLOWED_SCORES))
    text = write_evaluation(body, score)
    return _break_form(rng, text, body) if rng.random() < rates.broken_form else text


def _break_form(rng: np.random.Generator, text: str, body: str) -> str:
    broken = (
        text.removeprefix(f"{OPENING}\n"),  # no first sentence
        text.replace(f"{CLOSING}\n", ""),  # no second one
        f"{OPENING}\n{body}\n{CLOSING}",  # no box
        f"{OPENING}\n{body}\n{CLOSING}\n\\boxed{{2}}",  # a score that is not allowed
    )
    return broken[rng.integers(len(broken))]


def write_faulty_proof(rng: np.random.Generator, story: Story, rate: float) -> str:
    """
    Write a proof in which each line has a flaw of a random kind with probability `rate`; later lines continue from the
    wrong value. Half as often a line leaves something out.
    """
    while True:  # ends, because a proof without a flaw is always possible
        proof = _draw_faulty_proof(rng, story, rate)
        texts = (text for line in check_lines(story, proof) for text in (line.expected, line.quote))
        if all(0 <= int(number) <= MAX_NUMBER for text in texts for number in re.findall(r"(?<!\S)-?\d+", text)):
            return proof


def _draw_faulty_proof(rng: np.random.Generator, story: Story, rate: float) -> str:
    value = start = story.start if rng.random() >= rate else nearby_number(rng, story.start)
    steps: list[Step] = []
    for event in story.events:
        is_flawed = rng.random() < rate
        kind = STEP_FLAWS[rng.integers(len(STEP_FLAWS))]
        written = FLAW_WRITERS[kind](rng, event, value) if is_flawed else [Step.of(event, value)]
        steps += written
        value = written[-1].result if written else value
    lines = [start_line(start)]
    lines += [CALCULATION.sub(": = ", str(step)) if rng.random() < rate / 2 else str(step) for step in steps]
    conclusion = value if rng.random() >= rate else nearby_number(rng, value)
    return "\n".join(lines if rng.random() < rate / 2 else [*lines, conclusion_line(conclusion)])
