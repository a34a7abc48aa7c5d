"""The texts that the proofs world's base model is trained on: proofs of each score, with their analyses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pvg_hf.analyses.form import ALLOWED_SCORES, CLOSING, OPENING, write_evaluation
from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.core.roles import Role
from pvg_hf.tasks.arithmetic.checker import FlawKind
from pvg_hf.tasks.arithmetic.corpus import CorpusConfig
from pvg_hf.tasks.arithmetic.flaws import STEP_FLAWS, sample_flawed_solution
from pvg_hf.tasks.arithmetic.grammar import Story, sample_story
from pvg_hf.tasks.arithmetic.solutions import reference_solution
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder
from pvg_hf.tasks.proofs.checker import CONCLUSION_MARK, Issue, IssueKind, OmissionKind, check_proof, grade_proof
from pvg_hf.tasks.proofs.language import MARKS, SEPARATOR, judge_issues, rate_analysis, true_marks, write_marks

PROOF_SETTINGS = ScoreVerifierSettings(
    evaluate_prompt="{{ problem }}\nproof:\n{{ proof }}\nevaluation:\n",
    judge_prompt="{{ problem }}\nproof:\n{{ proof }}\nanalysis:\n{{ analysis }}\nquality:\n",
    max_new_tokens=192,
    temperature=0.8,
)
"""What the world's models are asked: short, as a word costs them a token."""

SELF_EVALUATION_PROMPT = "{{ problem }}\nhelpful solution and evaluation:\n"
"""What asks the world's prover for a proof and its own evaluation of it."""

VERDICTS = {True: "true", False: "false"}

Marks = list[tuple[str, IssueKind | None]]


@dataclass(frozen=True)
class AnalysisRates:
    """
    How the texts err, as rates in [0, 1].

    Args:
        hallucinated (`float`):
            Of the lines without an issue, those that are said to have one.
        missed (`float`):
            Of the lines with an issue, those that are said to be fine.
        broken_form (`float`):
            Of the evaluations, those without a sentence or an allowed score.
        wrong_score (`float`):
            Of the evaluations, those whose score is drawn at random, whatever the analysis names.
    """

    hallucinated: float = 0.05
    missed: float = 0.15
    broken_form: float = 0.3
    wrong_score: float = 0.15


PERFECT = AnalysisRates(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class ProofsCorpusConfig:
    """
    Args:
        min_difficulty (`int`), max_difficulty (`int`), distractor_rate (`float`):
            As of [`CorpusConfig`].
        judge_share (`float`), prove_share (`float`):
            Shares of the texts that evaluate an analysis, and that prove, in [0, 1]; the others evaluate a proof.
        flaw_rate (`tuple[tuple[Role, float], ...]`):
            As of [`CorpusConfig`].
        omission_rate (`float`):
            Share of the flawless proofs that leave something out, in [0, 1].
        rates (`AnalysisRates`):
            Of the errors.
    """

    min_difficulty: int = 2
    max_difficulty: int = 4
    distractor_rate: float = 0.5
    judge_share: float = 0.25
    prove_share: float = 0.25
    flaw_rate: tuple[tuple[Role, float], ...] = CorpusConfig().flaw_rate
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
        completion = _evaluate(rng, proof, check_proof(story, proof), config.rates)
        return {"prompt": PROOF_SETTINGS.prompt(row), "completion": completion}
    issues = check_proof(story, proof)
    analysis = write_marks(sample_marks(rng, proof, issues, sample_rates(rng)))
    completion = finish(rng, write_judgment(analysis, issues), rate_analysis(analysis, issues), config.rates)
    return {"prompt": PROOF_SETTINGS.prompt({**row, "analysis": analysis}), "completion": completion}


def _proving_row(rng: np.random.Generator, story: Story, problem: str, config: ProofsCorpusConfig) -> dict[str, str]:
    """A proof in one of the roles, or one with the prover's own evaluation behind it."""
    role, flaw_rate = config.flaw_rate[rng.integers(len(config.flaw_rate))]
    proof = sample_flawed_solution(rng, story) if rng.random() < flaw_rate else reference_solution(story)
    if not check_proof(story, proof) and rng.random() < config.omission_rate:
        proof = leave_out(rng, proof)
    if rng.random() < 0.5:
        prompt = PromptBuilder(ArithmeticTask()).text({"problem": problem, "reference": ""}, role)
        return {"prompt": prompt, "completion": proof}
    evaluation = _evaluate(rng, proof, check_proof(story, proof), config.rates)
    return {"prompt": SELF_EVALUATION_PROMPT.replace("{{ problem }}", problem), "completion": f"{proof}\n{evaluation}"}


def _evaluate(rng: np.random.Generator, proof: str, issues: list[Issue], rates: AnalysisRates) -> str:
    marks = sample_marks(rng, proof, issues, rates)
    return finish(rng, write_marks(marks), score_of(marks), rates)


def sample_rates(rng: np.random.Generator) -> AnalysisRates:
    """Of an analysis that is to be judged: one in three errs nowhere, and the others often."""
    return PERFECT if rng.random() < 1 / 3 else AnalysisRates(hallucinated=0.2, missed=0.3)


def sample_marks(rng: np.random.Generator, proof: str, issues: list[Issue], rates: AnalysisRates) -> Marks:
    """An analysis, with its errors."""
    return [(quote, _sample_mark(rng, quote, kind, rates)) for quote, kind in true_marks(proof, issues)]


def _sample_mark(
    rng: np.random.Generator, quote: str, kind: IssueKind | None, rates: AnalysisRates
) -> IssueKind | None:
    if kind is not None:
        return None if rng.random() < rates.missed else kind
    return _plausible_issue(rng, quote) if rng.random() < rates.hallucinated else None


def _plausible_issue(rng: np.random.Generator, quote: str) -> IssueKind:
    """An issue that a line of this kind can have."""
    if quote.startswith(CONCLUSION_MARK):
        return FlawKind.CONTRADICTED_CONCLUSION
    if quote.startswith("has "):
        return FlawKind.WRONG_OPERAND
    return STEP_FLAWS[rng.integers(len(STEP_FLAWS))]


def score_of(marks: Marks) -> float:
    """The score of a proof with the issues of an analysis."""
    return grade_proof(Issue(line, quote, kind) for line, (quote, kind) in enumerate(marks) if kind is not None)


def write_judgment(analysis: str, issues: list[Issue]) -> str:
    """What a meta-verifier writes of an analysis: each issue that it names, with whether the proof has it."""
    verdicts = judge_issues(analysis, issues)
    lines = [f"{named.quote}{SEPARATOR}{named.mark}{SEPARATOR}{VERDICTS[is_real]}" for named, is_real in verdicts]
    if not lines:  # it names none: what is there to be found then
        lines = [f"{issue.quote}{SEPARATOR}{MARKS[issue.kind]}{SEPARATOR}missed" for issue in issues]
    return "\n".join(lines or ["ok"])


def finish(rng: np.random.Generator, body: str, score: float, rates: AnalysisRates) -> str:
    """An evaluation with `body`, now and then with another score, or in a form that is broken."""
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


OMISSION_RATE = 0.3  # share of the flawed proofs that leave something out as well

_CALCULATION = re.compile(r": .* = ")


def write_proof(rng: np.random.Generator, story: Story, score: float) -> str:
    """A proof whose score is `score`: without an issue (1), with one omission (0.5), or with a flaw (0)."""
    if score == 1:
        return reference_solution(story)
    if score == 0.5:
        return leave_out(rng, reference_solution(story))
    while True:  # a contradicted conclusion is fatal whatever is left out, so this ends
        proof = sample_flawed_solution(rng, story)
        if rng.random() < OMISSION_RATE:
            proof = leave_out(rng, proof, OmissionKind.BARE_CLAIM)
        if grade_proof(check_proof(story, proof)) == 0:  # a miscopied number can be what was left out
            return proof


def leave_out(rng: np.random.Generator, proof: str, kind: OmissionKind | None = None) -> str:
    """The proof with one step's calculation, or the conclusion, left out; without a step, the conclusion."""
    *lines, conclusion = proof.split("\n")
    if kind is None:
        kind = list(OmissionKind)[rng.integers(len(OmissionKind))]
    if kind is OmissionKind.MISSING_CONCLUSION or len(lines) == 1:
        return "\n".join(lines)
    place = int(rng.integers(1, len(lines)))
    lines[place] = _CALCULATION.sub(": = ", lines[place])
    return "\n".join([*lines, conclusion])
