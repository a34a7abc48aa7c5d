"""Tokens and memory of each kind of verifier: training, scoring, and labelling of new proofs."""

from math import ceil
from typing import Protocol

from pvg_hf.check.amounts import Amounts
from pvg_hf.check.player_sizes import PlayerSize
from pvg_hf.config.player_sections import PlayerConfig
from pvg_hf.core.stopwatch import TRAINING, WRITING
from pvg_hf.sampling import Sampler
from pvg_hf.scoring.batching import CPU_TOKENS


class VerifierCosts(Protocol):
    """Protocol of a verifier's tokens and memory (in bytes, without weights), for each value of `verifier.kind`."""

    def describe_training(self, amounts: Amounts) -> str: ...

    def training_tokens(self, amounts: Amounts) -> dict[str, float]: ...  # by kind of work

    def training_memory(self, amounts: Amounts, size: PlayerSize) -> float: ...

    def scored_tokens(self, amounts: Amounts) -> float: ...  # that are read, or written, to score a solution

    def scoring_memory(self, amounts: Amounts, size: PlayerSize) -> float: ...

    def labelling_tokens(self, amounts: Amounts) -> float: ...  # that are written to label a round's new proofs


class PairCosts:
    """A verifier that is trained on pairs and reads every solution once."""

    has_logits = False  # over the vocabulary, at every position

    def describe_training(self, amounts: Amounts) -> str:
        config, most = amounts.recipe.verifier, amounts.max_pairs
        steps, pairs = config.max_steps, config.pairs_per_step
        return (
            f"{steps:,} steps of {pairs:,} pairs{describe_micro_batch(config)}; at most {most:,} pairs "
            f"({steps * pairs / most:.1f} epochs)"
        )

    def training_tokens(self, amounts: Amounts) -> dict[str, float]:
        config = amounts.recipe.verifier
        return {TRAINING: config.max_steps * config.pairs_per_step * 2 * amounts.lengths.verifier_input.mean}

    def training_memory(self, amounts: Amounts, size: PlayerSize) -> float:
        config, width = amounts.recipe.verifier, amounts.lengths.verifier_input.high
        pairs = config.rows_at_once(config.pairs_per_step // amounts.num_processes)
        num_logits = width if self.has_logits else 0
        return size.backward_bytes(2 * pairs, width, num_logits=num_logits, recomputes=config.recomputes)

    def scored_tokens(self, amounts: Amounts) -> float:
        return amounts.lengths.verifier_input.mean

    def scoring_memory(self, amounts: Amounts, size: PlayerSize) -> float:
        return size.reading_bytes(amounts.recipe.verifier.tokens_per_batch or CPU_TOKENS)

    def labelling_tokens(self, amounts: Amounts) -> float:
        return 0  # the task itself labels solutions


class LikelihoodCosts(PairCosts):
    """A verifier that scores by likelihood."""

    has_logits = True


class ScoreCosts:
    """A generative verifier, which writes analyses of every solution, assumed to be half as long as they may be."""

    def describe_training(self, amounts: Amounts) -> str:
        steps, score = amounts.recipe.verifier.max_steps, amounts.recipe.verifier.score_settings
        at_once = describe_micro_batch(amounts.recipe.verifier)
        return f"{steps:,} steps of {score.proofs_per_step} proofs x {score.num_generations} evaluations{at_once}"

    def training_tokens(self, amounts: Amounts) -> dict[str, float]:
        config, score = amounts.recipe.verifier, amounts.recipe.verifier.score_settings
        analysis, number = (
            score.max_completion_length / 2,
            config.max_steps * score.proofs_per_step * score.num_generations,
        )
        return {WRITING: number * analysis, TRAINING: number * (amounts.lengths.verifier_input.mean + analysis)}

    def training_memory(self, amounts: Amounts, size: PlayerSize) -> float:
        config, score = amounts.recipe.verifier, amounts.recipe.verifier.score_settings
        num_proofs, longest = score.proofs_per_step / amounts.num_processes, score.max_completion_length
        rows = config.rows_at_once(ceil(num_proofs * score.num_generations))
        width = amounts.lengths.verifier_input.high + longest
        learning = size.backward_bytes(rows, width, num_logits=longest, recomputes=config.recomputes, is_tiled=True)
        at_once = min(Sampler.default_prompts_per_batch, max(num_proofs, score.eval_proofs))
        return max(learning, size.loop_bytes(at_once * score.num_generations, width))

    def scored_tokens(self, amounts: Amounts) -> float:
        score = amounts.recipe.verifier.score_settings
        return score.num_analyses * score.max_completion_length / 2

    def scoring_memory(self, amounts: Amounts, size: PlayerSize) -> float:
        score = amounts.recipe.verifier.score_settings
        width = amounts.lengths.verifier_input.high + score.max_completion_length
        samples = max(
            score.num_analyses, *((score.label_analyses, score.label_checks) if score.labels == "auto" else (0,))
        )
        return size.loop_bytes(Sampler.default_prompts_per_batch * samples, width)

    def labelling_tokens(self, amounts: Amounts) -> float:
        score = amounts.recipe.verifier.score_settings
        if score.labels != "auto":
            return 0
        num_new = 2 * amounts.num_problems("verifier") * amounts.recipe.mint.solutions_per_problem
        return num_new * score.label_analyses * (1 + score.label_checks) * score.max_completion_length / 2


def describe_micro_batch(config: PlayerConfig) -> str:
    """Describe how the rows of a step are divided, if a number says so: a recipe's, or what `auto` is on a GPU."""
    if not isinstance(config.micro_batch_size, int):
        return ""
    return f" ({config.micro_batch_size:,} at once{', activations recomputed' if config.recomputes else ''})"
