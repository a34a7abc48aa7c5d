"""Measures the base models on fresh problems."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

from pvg_hf.analyses.form import read_evaluation
from pvg_hf.config.sections import SneakySees
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.programs.functions import (
    FunctionsTask,
    specification_of,
    write_program,
)
from pvg_hf.experimental.programs.functions.programs import STYLES
from pvg_hf.sampling import Sampler, iterate_samples
from pvg_hf.scoring import GenerativeVerifier
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.grammar import puzzle_of
from pvg_hf.tasks.arithmetic.writer import FLAW_KINDS, sample_solution
from pvg_hf.tasks.arithmetic.writer import STYLES as SOLUTION_STYLES
from pvg_hf.tasks.base import Task
from pvg_hf.tasks.proofs import ProofsTask
from pvg_hf.tasks.proofs.language import PROOF_SETTINGS
from tools.pretraining.program_texts import sample_flawed_program


def measure(
    kind: str, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int = 500
) -> dict[str, float]:
    """
    Measure a base model on fresh problems of difficulty 2 to 4; return figures by name.

    `kind` is what the model was trained to write, a key of [`~pretraining.texts.WRITERS`].
    """
    measures = {
        "solutions": _solutions,
        "shown_solutions": _shown_solutions,
        "texts": _likelihoods,
        "evaluations": _evaluations_by_kind,
        "programs": _programs,
        "program_texts": _program_likelihoods,
    }
    return measures[kind](model.eval(), tokenizer, num_problems)


def _evaluations_by_kind(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int
) -> dict[str, float]:
    """
    Measure the form, score and quality of one evaluation of each proof, and of each analysis.

    Evaluations are sampled at the temperature of the prompts' settings, and once more nearly without chance: the share
    of flawed proofs that get their score then leaves out the errors that the model writes with a small probability.

    In addition, how well the model tells sound from flawed proofs by reading alone, without writing an evaluation: how
    often a sound proof's least likely token is more likely than that of a flawed one, to any problem.
    """
    task = ProofsTask(num_train=1, num_test=num_problems, seed=1)
    verifier = GenerativeVerifier(model, tokenizer, PROOF_SETTINGS, prompts_per_batch=100)
    proofs, analyses = task.rated_proofs("test"), task.rated_analyses("test")
    certain = GenerativeVerifier(model, tokenizer, replace(PROOF_SETTINGS, temperature=1e-3), prompts_per_batch=100)
    read, read_certain = (
        [
            read_evaluation(sample.text, is_cut=sample.is_truncated)
            for (sample,) in writer.evaluate(proofs["problem"], proofs["proof"], 1)
        ]
        for writer in (verifier, certain)
    )
    kept = [(row, evaluation) for row, evaluation in zip(proofs, read, strict=True) if evaluation.has_form]
    texts = [[row[name] for row, _ in kept] for name in ("problem", "proof")]
    qualities = task.rate_analyses(*texts, [evaluation.analysis or "" for _, evaluation in kept])
    said = verifier.rate_analyses(*(analyses[name] for name in ("problem", "proof", "analysis")))
    sampler = Sampler(model, tokenizer, max_new_tokens=96, prompts_per_batch=100)
    is_right, is_right_certain = (
        np.array([evaluation.score == score for evaluation, score in zip(written, proofs["score"], strict=True)])
        for written in (read, read_certain)
    )
    is_flawed = np.array(proofs["score"]) == 0
    of_score = {
        score: [(f"{row['problem']}\nproof:", row["proof"]) for row in proofs if row["score"] == score]
        for score in (1.0, 0.0)
    }
    sound, flawed = (_lowest_logprobs(model, tokenizer, texts) for texts in of_score.values())
    return {
        "right proof, role helpful": np.mean(list(_grades(task, sampler, Role.HELPFUL))).item(),
        "form kept": len(kept) / num_problems,
        "right score of a proof": is_right.mean().item(),
        "right score of a flawed proof": is_right[is_flawed].mean().item(),
        "right score of a proof, temperature 0.001": is_right_certain.mean().item(),
        "right score of a flawed proof, temperature 0.001": is_right_certain[is_flawed].mean().item(),
        "sound proof read as more likely than a flawed one": _share_above(sound, flawed),
        "quality of an analysis": np.mean(qualities).item() if qualities else 0.0,
        "right quality of an analysis": np.mean([q == s for q, s in zip(said, analyses["score"], strict=True)]).item(),
    }


def _solutions(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int) -> dict[str, float]:
    """
    Measure the share of correct solutions for each role and for harder problems, with one sample per problem at
    temperature 1, and the number of different correct texts among 16.
    """
    sampler = Sampler(model, tokenizer, max_new_tokens=128, prompts_per_batch=100)
    task = ArithmeticTask(num_train=1, num_test=num_problems, seed=1)
    figures = {f"correct, role {role}": np.mean(list(_grades(task, sampler, role))).item() for role in Role}
    for difficulty in (5, 6):
        hard = ArithmeticTask(
            num_train=1, num_test=num_problems, seed=1, min_difficulty=difficulty, max_difficulty=difficulty
        )
        correct = list(_grades(hard, sampler, Role.HELPFUL))
        figures[f"correct, role helpful, difficulty {difficulty}"] = np.mean(correct).item()
    few = ArithmeticTask(num_train=1, num_test=min(num_problems, 100), seed=1)
    figures["different correct texts of 16, role base"] = np.mean(list(_num_correct_texts(few, sampler, 16))).item()
    return figures


def _shown_solutions(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int
) -> dict[str, float]:
    """Measure what `_solutions` does, and the share of correct solutions where the sneaky role's prompt shows one."""
    sampler = Sampler(model, tokenizer, max_new_tokens=128, prompts_per_batch=100)
    task = ArithmeticTask(num_train=1, num_test=num_problems, seed=1)
    correct = list(_grades(task, sampler, Role.SNEAKY, sneaky_sees="honest_solution"))
    return {
        **_solutions(model, tokenizer, num_problems),
        "correct, role sneaky, shown a correct solution": np.mean(correct).item(),
    }


def _programs(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int) -> dict[str, float]:
    """Measure the share of correct programs for each role, with one sample per problem at temperature 1."""
    sampler = Sampler(model, tokenizer, max_new_tokens=128, prompts_per_batch=100)
    # The model's closed vocabulary has no imports and no names of files, so its programs need no isolation.
    task = FunctionsTask(num_train=1, num_test=num_problems, seed=1, sandbox="none")
    return {f"correct, role {role}": np.mean(list(_grades(task, sampler, role))).item() for role in Role}


def _program_likelihoods(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int
) -> dict[str, float]:
    """
    Measure how often the honest program is more likely than a flawed one in the same style, by the least likely token
    of each.
    """
    rng = derive_rng(0, "program likelihoods")
    task = FunctionsTask(num_train=1, num_test=num_problems, seed=1)
    wins = []
    for index, problem in enumerate(task.problems("test")["problem"]):
        specification, style = specification_of(problem), STYLES[index % len(STYLES)]
        texts = (write_program(specification, style), sample_flawed_program(rng, specification, style))
        honest, flawed = _lowest_logprobs(model, tokenizer, [(problem, text) for text in texts]).tolist()
        wins.append((honest > flawed) + (honest == flawed) / 2)
    return {"honest program ranked above a flawed one": np.mean(wins).item()}


@torch.no_grad()
def _lowest_logprobs(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[tuple[str, str]],
    *,
    numbers_only: bool = False,
) -> torch.Tensor:
    """
    Return the lowest log-probability among the tokens, or the numbers, of each second text after the first, shape
    (N,).
    """
    lowest = []
    for before, text in texts:
        start = len(tokenizer(f"{before}\n")["input_ids"])
        ids = torch.tensor([tokenizer(f"{before}\n{text}")["input_ids"]])
        logs = torch.log_softmax(model(input_ids=ids).logits[0, :-1], dim=-1)
        said = logs.gather(1, ids[0, 1:, None])[start - 1 :, 0]
        if numbers_only:
            numbers = [token.strip().isdigit() for token in tokenizer.convert_ids_to_tokens(ids[0, start:])]
            said = said[torch.tensor(numbers)]
        lowest.append(said.min())
    return torch.stack(lowest)


def _share_above(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return how often one of `first` is above one of `second`; a tie counts half."""
    wins = (first[:, None] > second[None]).float() + (first[:, None] == second[None]).float() / 2
    return wins.mean().item()


def _num_correct_texts(task: ArithmeticTask, sampler: Sampler, num_samples: int) -> Iterator[int]:
    problems = task.problems("test").to_list()
    prompts = [PromptBuilder(task).text(problem, Role.BASE) for problem in problems]

    def rngs(index: int) -> list[np.random.Generator]:
        return [derive_rng(0, "texts", problems[index]["problem"], sample) for sample in range(num_samples)]

    for indices, samples in iterate_samples(sampler, prompts, rngs):
        for index, drawn in zip(indices, samples, strict=True):
            yield len({sample.text for sample in drawn if task.grade(problems[index], sample.text).correct})


def _grades(task: Task, sampler: Sampler, role: Role, *, sneaky_sees: SneakySees = "nothing") -> Iterator[bool]:
    problems, builder = task.problems("test").to_list(), PromptBuilder(task, sneaky_sees=sneaky_sees)
    prompts = [builder.text(problem, role, honest_solution=problem["reference"]) for problem in problems]

    def rngs(index: int) -> list[np.random.Generator]:
        return [derive_rng(0, "accuracy", role, problems[index]["problem"])]

    for indices, samples in iterate_samples(sampler, prompts, rngs):
        for index, (sample,) in zip(indices, samples, strict=True):
            yield task.grade(problems[index], sample.text).correct


def _likelihoods(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, num_problems: int) -> dict[str, float]:
    """
    Measure how often a flawless solution's least likely number is more likely than that of a flawed one, for each kind
    of flaw; and the same for the least likely token, for each style of both, with any kind of flaw.
    """
    rng, task = derive_rng(0, "likelihoods"), ArithmeticTask(num_train=1, num_test=num_problems, seed=1)
    puzzles = [puzzle_of(problem) for problem in task.problems("test")["problem"]]
    texts = [(puzzle.text, sample_solution(rng, puzzle)) for puzzle in puzzles]
    right = _lowest_logprobs(model, tokenizer, texts, numbers_only=True)
    figures = {}
    for kind in FLAW_KINDS:
        texts = [(puzzle.text, sample_solution(rng, puzzle, kind)) for puzzle in puzzles]
        flawed = _lowest_logprobs(model, tokenizer, texts, numbers_only=True)
        figures[f"flawless ranked above {kind.value}"] = _share_above(right, flawed)
    for style in SOLUTION_STYLES:
        drawn = {kind: [] for kind in ("flawless", "flawed")}
        for puzzle in puzzles:
            flaw = FLAW_KINDS[rng.integers(len(FLAW_KINDS))]
            drawn["flawless"].append((puzzle.text, sample_solution(rng, puzzle, None, (style,))))
            drawn["flawed"].append((puzzle.text, sample_solution(rng, puzzle, flaw, (style,))))
        right, flawed = (_lowest_logprobs(model, tokenizer, texts) for texts in drawn.values())
        figures[f"flawless ranked above flawed, {style}"] = _share_above(right, flawed)
    return figures
