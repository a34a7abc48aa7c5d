"""Costs of each kind of verifier: training, scoring, and labelling of new proofs."""

from typing import Protocol

from pvg_hf.estimate.amounts import Amounts, Length
from pvg_hf.estimate.costs import Work, reading, sampling, training
from pvg_hf.estimate.player_sizes import PlayerSize
from pvg_hf.estimate.speed import Machine
from pvg_hf.scoring.batching import CPU_TOKENS


class VerifierCosts(Protocol):
    """Protocol of a verifier's costs, with one implementation for each value of `verifier.kind`."""

    def training(self, amounts: Amounts, size: PlayerSize, machine: Machine) -> Work:
        """Return the cost of a round's training."""

    def describe_training(self, amounts: Amounts) -> str:
        """Describe a round's training in a few words and numbers."""

    def num_training_tokens(self, amounts: Amounts) -> float:
        """Return the number of tokens that a round's training reads or writes; texts have their mean length."""

    def scoring(self, amounts: Amounts, size: PlayerSize, machine: Machine, num_solutions: float) -> Work:
        """Return the cost of scoring solutions."""

    def labelling(self, amounts: Amounts, size: PlayerSize, machine: Machine) -> Work:
        """Return the cost of labelling the round's new proofs of the verifier's problems (D_V)."""


class BradleyTerryCosts:
    """Costs of a verifier with a score head, which reads every solution once."""

    def training(self, amounts: Amounts, size: PlayerSize, machine: Machine) -> Work:
        config = amounts.recipe.verifier
        return training(
            size,
            machine,
            num_batches=config.max_steps * config.gradient_accumulation_steps,
            rows=2 * config.pairs_per_step,
            text=amounts.lengths.verifier_input,
            num_logits=0,
            recomputes=config.gradient_checkpointing,
        )

    def describe_training(self, amounts: Amounts) -> str:
        steps, pairs, most = amounts.recipe.verifier.max_steps, amounts.pairs_per_step, amounts.max_pairs
        return f"{steps:,} steps of {pairs:,} pairs; at most {most:,} pairs ({steps * pairs / most:.1f} epochs)"

    def num_training_tokens(self, amounts: Amounts) -> float:
        return amounts.recipe.verifier.max_steps * amounts.pairs_per_step * 2 * amounts.lengths.verifier_input.mean

    def scoring(self, amounts: Amounts, size: PlayerSize, machine: Machine, num_solutions: float) -> Work:
        return reading(
            size,
            machine,
            num_texts=num_solutions,
            text=amounts.lengths.verifier_input,
            tokens_per_batch=amounts.recipe.verifier.tokens_per_batch or CPU_TOKENS,
        )

    def labelling(self, amounts: Amounts, size: PlayerSize, machine: Machine) -> Work:
        return Work()  # the task itself labels solutions


class ScoreCosts:
    """Costs of a generative verifier, which writes analyses of every solution."""

    def training(self, amounts: Amounts, size: PlayerSize, machine: Machine) -> Work:
        """Cost of training: it writes, reads (KL reference) and trains on analyses, and is validated."""
        config, score = amounts.recipe.verifier, amounts.recipe.verifier.score_settings
        rows, evaluation = score.proofs_per_step * score.num_generations, _evaluation_length(amounts)
        text = amounts.lengths.verifier_input + evaluation
        learning = training(
            size,
            machine,
            num_batches=1,
            rows=rows,
            text=text,
            num_logits=evaluation.high,
            recomputes=config.gradient_checkpointing,
        )
        reference = reading(size, machine, num_texts=rows, text=text, tokens_per_batch=rows * text.high)
        step = _evaluating(amounts, size, machine, score.proofs_per_step, score.num_generations) + learning
        step += reference if score.beta else Work()
        validations = config.max_steps // score.eval_steps
        validating = _evaluating(amounts, size, machine, score.eval_proofs, score.num_generations)
        return step * (config.max_steps * config.gradient_accumulation_steps) + validating * validations

    def describe_training(self, amounts: Amounts) -> str:
        steps, score = amounts.recipe.verifier.max_steps, amounts.recipe.verifier.score_settings
        return f"{steps:,} steps of {score.proofs_per_step} proofs x {score.num_generations} evaluations"

    def num_training_tokens(self, amounts: Amounts) -> float:
        steps, score = amounts.recipe.verifier.max_steps, amounts.recipe.verifier.score_settings
        text = amounts.lengths.verifier_input.mean + _evaluation_length(amounts).mean
        return steps * score.proofs_per_step * score.num_generations * text

    def scoring(self, amounts: Amounts, size: PlayerSize, machine: Machine, num_solutions: float) -> Work:
        return _evaluating(amounts, size, machine, num_solutions, amounts.recipe.verifier.score_settings.num_analyses)

    def labelling(self, amounts: Amounts, size: PlayerSize, machine: Machine) -> Work:
        score = amounts.recipe.verifier.score_settings
        if score.labels != "auto":
            return Work()
        new = 2 * amounts.num_problems("verifier") * amounts.recipe.mint.solutions_per_problem
        return _evaluating(amounts, size, machine, new, score.label_analyses * (1 + score.label_checks))


COSTS: dict[str, VerifierCosts] = {"bradley_terry": BradleyTerryCosts(), "score": ScoreCosts()}


def verifier_costs(amounts: Amounts) -> VerifierCosts:
    return COSTS[amounts.recipe.verifier.kind]


def _evaluation_length(amounts: Amounts) -> Length:
    """Assumed length of an analysis: half of the maximum on average."""
    longest = amounts.recipe.verifier.score_settings.max_completion_length
    return Length(longest / 2, longest, longest)


def _evaluating(amounts: Amounts, size: PlayerSize, machine: Machine, num_proofs: float, num_samples: int) -> Work:
    """Cost of writing analyses of proofs."""
    return sampling(
        size,
        machine,
        num_prompts=num_proofs,
        num_samples=num_samples,
        prompts_per_batch=min(32, max(1, round(num_proofs))),
        prompt=amounts.lengths.verifier_input,
        solution=_evaluation_length(amounts),
        max_new_tokens=amounts.recipe.verifier.score_settings.max_completion_length,
    )
