"""Measures the base models on fresh problems."""

from collections.abc import Iterator

import numpy as np
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

from pvg_hf.analyses.form import read_evaluation
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.sampling import Sampler, iterate_samples
from pvg_hf.scoring import GenerativeVerifier
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.corpus import VERDICTS
from pvg_hf.tasks.arithmetic.flaws import FLAW_KINDS, write_flawed_solution
from pvg_hf.tasks.arithmetic.grammar import parse_story
from pvg_hf.tasks.arithmetic.solutions import read_conclusion
from pvg_hf.tasks.base import Problem
from pvg_hf.tasks.proofs import ProofsTask
from pvg_hf.tasks.proofs.corpus import PROOF_SETTINGS


def measure(
    kind: str, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int = 500
) -> dict[str, float]:
    """
    Measure a base model on fresh problems of 2 to 4 steps; return rates in [0, 1] by name.

    `kind` is what the model was trained to write, a key of [`~pvg_hf.pretraining.texts.WRITERS`].
    """
    measures = {"solutions": _correct_by_role, "marked": _verdicts_by_kind, "evaluations": _evaluations_by_kind}
    return measures[kind](model.eval(), tokenizer, num_problems)


def _problems(num_problems: int) -> list[Problem]:
    return ArithmeticTask(num_train=1, num_test=num_problems, seed=1).problems("test").to_list()


def _evaluations_by_kind(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int
) -> dict[str, float]:
    """Measure the form, score and quality of one evaluation of each proof, and of each analysis."""
    task = ProofsTask(num_train=1, num_test=num_problems, seed=1)
    verifier = GenerativeVerifier(model, tokenizer, PROOF_SETTINGS, prompts_per_batch=100)
    proofs, analyses = task.rated_proofs("test"), task.rated_analyses("test")
    read = [
        read_evaluation(sample.text, is_cut=sample.is_truncated)
        for (sample,) in verifier.evaluate(proofs["problem"], proofs["proof"], 1)
    ]
    kept = [(row, evaluation) for row, evaluation in zip(proofs, read, strict=True) if evaluation.has_form]
    texts = [[row[name] for row, _ in kept] for name in ("problem", "proof")]
    qualities = task.rate_analyses(*texts, [evaluation.analysis or "" for _, evaluation in kept])
    said = verifier.rate_analyses(*(analyses[name] for name in ("problem", "proof", "analysis")))
    sampler = Sampler(model, tokenizer, max_new_tokens=96, prompts_per_batch=100)
    return {
        "right proof, role helpful": np.mean(list(_grades(task, sampler, Role.HELPFUL))).item(),
        "form kept": len(kept) / num_problems,
        "right score of a proof": np.mean([e.score == s for e, s in zip(read, proofs["score"], strict=True)]).item(),
        "quality of an analysis": np.mean(qualities).item() if qualities else 0.0,
        "right quality of an analysis": np.mean([q == s for q, s in zip(said, analyses["score"], strict=True)]).item(),
    }


def _correct_by_role(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int
) -> dict[str, float]:
    """Measure the share of correct solutions for each role, with one sample per problem at temperature 1."""
    sampler = Sampler(model, tokenizer, max_new_tokens=96, prompts_per_batch=100)
    task = ArithmeticTask(num_train=1, num_test=num_problems, seed=1)
    return {f"correct, role {role}": np.mean(list(_grades(task, sampler, role))).item() for role in Role}


def _grades(task: ArithmeticTask, sampler: Sampler, role: Role) -> Iterator[bool]:
    problems = task.problems("test").to_list()
    prompts = [PromptBuilder(task).text(problem, role) for problem in problems]

    def rngs(index: int) -> list[np.random.Generator]:
        return [derive_rng(0, "accuracy", role, problems[index]["problem"])]

    for indices, samples in iterate_samples(sampler, prompts, rngs):
        for index, (sample,) in zip(indices, samples, strict=True):
            yield task.grade(problems[index], sample.text).correct


def _verdicts_by_kind(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int
) -> dict[str, float]:
    """Measure the share of right verdicts on reference solutions, and on solutions with one flaw of each kind."""
    rng, problems = derive_rng(0, "verdicts"), _problems(num_problems)
    rates = {"right verdict, reference": _verdicts(model, tokenizer, [(p, p["reference"]) for p in problems], True)}
    for kind in FLAW_KINDS:
        flawed = [(p, write_flawed_solution(rng, parse_story(p["problem"]), kind)) for p in problems]
        wrong = [(p, text) for p, text in flawed if text and read_conclusion(text) != read_conclusion(p["reference"])]
        rates[f"right verdict, {kind.value}"] = _verdicts(model, tokenizer, wrong, False)
    return rates


@torch.no_grad()
def _verdicts(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, cases: list[tuple[Problem, str]], is_correct: bool
) -> float:
    """Return the share of the cases that the model judges correctly; all cases have the truth `is_correct`."""
    texts = [f"{problem['problem']}\n{solution}{tokenizer.eos_token}" for problem, solution in cases]
    batch = tokenizer(
        texts, padding=True, return_tensors="pt"
    )  # padding is on the left, so that the last token is the end token
    logits = model(**batch).logits[:, -1]
    right, other = (tokenizer.convert_tokens_to_ids(VERDICTS[verdict]) for verdict in (is_correct, not is_correct))
    return (logits[:, right] > logits[:, other]).float().mean().item()
