"""Training texts for the base model of the proofs world: proofs of each score, with analyses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pvg_hf.analyses.form import ALLOWED_SCORES, CLOSING, OPENING, write_evaluation
from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.core.roles import Role
from pvg_hf.tasks.arithmetic.flaw import FlawKind
from pvg_hf.tasks.arithmetic.stories.flawed_solutions import STEP_FLAWS, sample_flawed_solution
from pvg_hf.tasks.arithmetic.stories.grammar import Story, sample_story
from pvg_hf.tasks.arithmetic.stories.solutions import reference_solution
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder
from pvg_hf.tasks.proofs.flaw_detection import (
    CONCLUSION_MARK,
    Issue,
    IssueKind,
    OmissionKind,
    find_issues,
    grade_proof,
)
from pvg_hf.tasks.proofs.language import MARKS, SEPARATOR, judge_issues, rate_analysis, true_marks, write_marks

PROOF_SETTINGS = ScoreVerifierSettings(
    evaluate_prompt="{{ problem }}\nproof:\n{{ proof }}\nevaluation:\n",
    judge_prompt="{{ problem }}\nproof:\n{{ proof }}\nanalysis:\n{{ analysis }}\nquality:\n",
    max_new_tokens=192,
    temperature=0.8,
)
"""Prompts for the world's models; short, because each word is one token."""

SELF_EVALUATION_PROMPT = "{{ problem }}\nhelpful solution and evaluation:\n"
"""Prompt that asks the world's prover for a proof and its own evaluation of it."""

VERDICTS = {True: "true", False: "false"}

Marks = list[tuple[str, IssueKind | None]]


@dataclass(frozen=True)
class AnalysisRates:
    """
    Error rates of the written analyses, in [0, 1].

    Args:
        hallucinated (`float`):
            Share of the lines without an issue that are marked as having one.
        missed (`float`):
            Share of the lines with an issue that are marked as fine.
        broken_form (`float`):
            Share of the evaluations without a required sentence or an allowed score.
        wrong_score (`float`):
            Share of the evaluations with a score drawn at random, regardless of the issues named.
    """

    hallucinated: float = 0.05
    missed: float = 0.15
    broken_form: float = 0.3
    wrong_score: float = 0.15


PERFECT = AnalysisRates(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class ProofsCorpusConfig:
    """
    Distribution of the training texts.

    Args:
        min_difficulty (`int`), max_difficulty (`int`):
            Number of steps of a story: the smaller of two uniform draws, so that short stories are more frequent.
        distractor_rate (`float`):
            Share of stories with an event that the answer does not need, in [0, 1].
        judge_share (`float`), prove_share (`float`):
            Shares of the texts that evaluate an analysis and that are proofs, in [0, 1]; the others evaluate a proof.
        flaw_rate (`tuple[tuple[Role, float], ...]`):
            Share of flawed proofs for each role, in [0, 1]; a proof's role is drawn uniformly.
        omission_rate (`float`):
            Share of the flawless proofs with an omission, in [0, 1].
        rates (`AnalysisRates`):
            Error rates of the evaluations.
    """

    min_difficulty: int = 2
    max_difficulty: int = 4
    distractor_rate: float = 0.5
    judge_share: float = 0.25
    prove_share: float = 0.25
    flaw_rate: tuple[tuple[Role, float], ...] = ((Role.BASE, 0.3), (Role.HELPFUL, 0.15), (Role.SNEAKY, 0.4))
    omission_rate: float = 0.25
    rates: AnalysisRates = AnalysisRates()


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
    proof = write_proof(rng, story, float(rng.choice(ALLOWED_SCORES)))
    row = {"problem": problem, "proof": proof}
    if rng.random() >= config.judge_share / (1 - config.prove_share):
        completion = _evaluate(rng, proof, find_issues(story, proof), config.rates)
        return {"prompt": PROOF_SETTINGS.prompt(row), "completion": completion}
    issues = find_issues(story, proof)
    analysis = write_marks(sample_marks(rng, proof, issues, sample_rates(rng)))
    completion = finish(rng, write_judgment(analysis, issues), rate_analysis(analysis, issues), config.rates)
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
    evaluation = _evaluate(rng, proof, find_issues(story, proof), config.rates)
    return {"prompt": SELF_EVALUATION_PROMPT.replace("{{ problem }}", problem), "completion": f"{proof}\n{evaluation}"}


def _evaluate(rng: np.random.Generator, proof: str, issues: list[Issue], rates: AnalysisRates) -> str:
    marks = sample_marks(rng, proof, issues, rates)
    return finish(rng, write_marks(marks), score_of(marks), rates)


def sample_rates(rng: np.random.Generator) -> AnalysisRates:
    """Draw error rates for an analysis that will be judged: one in three has no errors, the others have many."""
    return PERFECT if rng.random() < 1 / 3 else AnalysisRates(hallucinated=0.2, missed=0.3)


def sample_marks(rng: np.random.Generator, proof: str, issues: list[Issue], rates: AnalysisRates) -> Marks:
    """Draw the marks of an analysis, with errors."""
    return [(quote, _sample_mark(rng, quote, kind, rates)) for quote, kind in true_marks(proof, issues)]


def _sample_mark(
    rng: np.random.Generator, quote: str, kind: IssueKind | None, rates: AnalysisRates
) -> IssueKind | None:
    if kind is not None:
        return None if rng.random() < rates.missed else kind
    return _plausible_issue(rng, quote) if rng.random() < rates.hallucinated else None


def _plausible_issue(rng: np.random.Generator, quote: str) -> IssueKind:
    """Draw an issue that a line of this kind can have."""
    if quote.startswith(CONCLUSION_MARK):
        return FlawKind.CONTRADICTED_CONCLUSION
    if quote.startswith("has "):
        return FlawKind.WRONG_OPERAND
    return STEP_FLAWS[rng.integers(len(STEP_FLAWS))]


def score_of(marks: Marks) -> float:
    """Score a proof by the issues that an analysis names."""
    return grade_proof(Issue(line, quote, kind) for line, (quote, kind) in enumerate(marks) if kind is not None)


def write_judgment(analysis: str, issues: list[Issue]) -> str:
    """Write a meta-verifier's judgement: each issue that an analysis names, and whether the proof has it."""
    verdicts = judge_issues(analysis, issues)
    lines = [f"{named.quote}{SEPARATOR}{named.mark}{SEPARATOR}{VERDICTS[is_real]}" for named, is_real in verdicts]
    if not lines:  # the analysis names no issue: list those that it missed
        lines = [f"{issue.quote}{SEPARATOR}{MARKS[issue.kind]}{SEPARATOR}missed" for issue in issues]
    return "\n".join(lines or ["ok"])


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


OMISSION_RATE = 0.3  # share of the flawed proofs that also have an omission

_CALCULATION = re.compile(r": .* = ")


def write_proof(rng: np.random.Generator, story: Story, score: float) -> str:
    """Write a proof with the given score: without an issue (1), with one omission (0.5), or with a flaw (0)."""
    if score == 1:
        return reference_solution(story)
    if score == 0.5:
        return leave_out(rng, reference_solution(story))
    while True:  # ends, because a contradicted conclusion is fatal whatever is omitted
        proof = sample_flawed_solution(rng, story)
        if rng.random() < OMISSION_RATE:
            proof = leave_out(rng, proof, OmissionKind.BARE_CLAIM)
        if grade_proof(find_issues(story, proof)) == 0:  # the omission may have removed the flaw, a miscopied number
            return proof


def leave_out(rng: np.random.Generator, proof: str, kind: OmissionKind | None = None) -> str:
    """Remove one step's calculation, or the conclusion; always the conclusion if there is no step."""
    *lines, conclusion = proof.split("\n")
    if kind is None:
        kind = list(OmissionKind)[rng.integers(len(OmissionKind))]
    if kind is OmissionKind.MISSING_CONCLUSION or len(lines) == 1:
        return "\n".join(lines)
    place = int(rng.integers(1, len(lines)))
    lines[place] = _CALCULATION.sub(": = ", lines[place])
    return "\n".join([*lines, conclusion])
