"""Amounts and costs of each kind of verifier: training, scoring, and labelling of new proofs."""

from math import ceil
from typing import Protocol

from pvg_hf.check.amounts import Amounts, Length
from pvg_hf.check.costs import Work, reading, sampling, training
from pvg_hf.check.player_sizes import PlayerSize
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig
from pvg_hf.scoring.batching import CPU_TOKENS


class VerifierCosts(Protocol):
    """Protocol of a verifier's amounts and costs, with one implementation for each value of `verifier.kind`."""

    def describe_training(self, amounts: Amounts) -> str:
        """Describe a round's training in a few words and numbers."""

    def num_training_tokens(self, amounts: Amounts) -> float:
        """Return the number of tokens that a round's training reads or writes."""

    def training(self, amounts: Amounts, size: PlayerSize) -> Work:
        """Return the cost of a round's training."""

    def scoring(self, amounts: Amounts, size: PlayerSize, num_solutions: float) -> Work:
        """Return the cost of scoring solutions."""

    def labelling(self, amounts: Amounts, size: PlayerSize) -> Work:
        """Return the cost of labelling the round's new proofs of the verifier's problems (D_V)."""


class PairCosts:
    """A verifier that is trained on pairs and reads every solution once."""

    def num_logits(self, text: Length) -> float:
        """Return the number of places of a text with logits over the vocabulary."""
        return 0

    def describe_training(self, amounts: Amounts) -> str:
        steps, pairs, most = (
            amounts.recipe.verifier.max_steps,
            amounts.recipe.verifier.pairs_per_step,
            amounts.max_pairs,
        )
        at_once = describe_micro_batch(amounts.recipe.verifier)
        return (
            f"{steps:,} steps of {pairs:,} pairs{at_once}; at most {most:,} pairs ({steps * pairs / most:.1f} epochs)"
        )

    def num_training_tokens(self, amounts: Amounts) -> float:
        return (
            amounts.recipe.verifier.max_steps
            * amounts.recipe.verifier.pairs_per_step
            * 2
            * amounts.lengths.verifier_input.mean
        )

    def training(self, amounts: Amounts, size: PlayerSize) -> Work:
        config = amounts.recipe.verifier
        share = config.pairs_per_step // amounts.num_processes
        pairs = config.rows_at_once(share)
        return training(
            size,
            num_batches=config.max_steps * (share // pairs),
            rows=2 * pairs,
            text=amounts.lengths.verifier_input,
            num_logits=self.num_logits(amounts.lengths.verifier_input),
            recomputes=config.recomputes,
        )

    def scoring(self, amounts: Amounts, size: PlayerSize, num_solutions: float) -> Work:
        per_batch = amounts.recipe.verifier.tokens_per_batch or CPU_TOKENS
        text = amounts.lengths.verifier_input
        return reading(size, num_texts=num_solutions, text=text, tokens_per_batch=per_batch)

    def labelling(self, amounts: Amounts, size: PlayerSize) -> Work:
        return Work()  # the task itself labels solutions


class LikelihoodCosts(PairCosts):
    """A verifier that scores by likelihood."""

    def num_logits(self, text: Length) -> float:
        return text.high


class ScoreCosts:
    """A generative verifier, which writes analyses of every solution."""

    def describe_training(self, amounts: Amounts) -> str:
        steps, score = amounts.recipe.verifier.max_steps, amounts.recipe.verifier.score_settings
        at_once = describe_micro_batch(amounts.recipe.verifier)
        return f"{steps:,} steps of {score.proofs_per_step} proofs x {score.num_generations} evaluations{at_once}"

    def num_training_tokens(self, amounts: Amounts) -> float:
        score = amounts.recipe.verifier.score_settings
        text = amounts.lengths.verifier_input.mean + score.max_completion_length / 2
        return amounts.recipe.verifier.max_steps * score.proofs_per_step * score.num_generations * text

    def training(self, amounts: Amounts, size: PlayerSize) -> Work:
        """Cost of training: it writes, reads (KL reference) and trains on analyses, and is validated."""
        config, score = amounts.recipe.verifier, amounts.recipe.verifier.score_settings
        num_proofs, analysis = score.proofs_per_step / amounts.num_processes, _analysis_length(amounts)
        share = ceil(num_proofs * score.num_generations)
        rows = config.rows_at_once(share)
        text = amounts.lengths.verifier_input + analysis
        step = _analysing(amounts, size, num_proofs, score.num_generations) + training(
            size,
            num_batches=share // rows,
            rows=rows,
            text=text,
            num_logits=analysis.high,
            recomputes=config.recomputes,
            is_tiled=True,
        )
        if score.beta:
            step += reading(size, num_texts=share, text=text, tokens_per_batch=rows * text.high)
        validating = _analysing(amounts, size, score.eval_proofs, score.num_generations)
        num_validations = config.max_steps // score.eval_steps
        return step * config.max_steps + validating * num_validations

    def scoring(self, amounts: Amounts, size: PlayerSize, num_solutions: float) -> Work:
        return _analysing(amounts, size, num_solutions, amounts.recipe.verifier.score_settings.num_analyses)

    def labelling(self, amounts: Amounts, size: PlayerSize) -> Work:
        score = amounts.recipe.verifier.score_settings
        if score.labels != "auto":
            return Work()
        num_new = 2 * amounts.num_problems("verifier") * amounts.recipe.mint.solutions_per_problem
        return _analysing(amounts, size, num_new, score.label_analyses * (1 + score.label_checks))


def describe_micro_batch(config: PlayerConfig) -> str:
    """Describe how the rows of a step are divided, if a number says so: a recipe's, or what `auto` is on a GPU."""
    if not isinstance(config.micro_batch_size, int):
        return ""
    return f" ({config.micro_batch_size:,} at once{', activations recomputed' if config.recomputes else ''})"


def verifier_costs(recipe: Recipe) -> VerifierCosts:
    return recipe.verifier.implementation()


def _analysis_length(amounts: Amounts) -> Length:
    """Assumed length of an analysis: half of the maximum on average."""
    longest = amounts.recipe.verifier.score_settings.max_completion_length
    return Length(longest / 2, longest, longest)


def _analysing(amounts: Amounts, size: PlayerSize, num_proofs: float, num_samples: int) -> Work:
    """Cost of writing analyses of proofs."""
    return sampling(
        size,
        num_prompts=num_proofs,
        num_samples=num_samples,
        prompts_per_batch=min(32, max(1, round(num_proofs))),
        prompt=amounts.lengths.verifier_input,
        solution=_analysis_length(amounts),
        max_new_tokens=amounts.recipe.verifier.score_settings.max_completion_length,
    )
