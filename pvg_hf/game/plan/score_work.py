"""Time and memory of a verifier that writes. An evaluation is taken to be half as long as the longest."""

from pvg_hf.game.plan.amounts import Amounts
from pvg_hf.game.plan.costs import Work, reading, sampling, training
from pvg_hf.game.plan.lengths import Length
from pvg_hf.game.plan.machine import Machine
from pvg_hf.game.plan.players import PlayerSize


def evaluation_length(amounts: Amounts) -> Length:
    """Of an evaluation, which nobody knows before one is written."""
    longest = amounts.recipe.verifier.score_settings.max_completion_length
    return Length(longest / 2, longest, longest)


def score_training(amounts: Amounts, size: PlayerSize, machine: Machine) -> Work:
    """Evaluations are written, read by the KL reference and trained on; now and then some are validated."""
    config, score = amounts.recipe.verifier, amounts.recipe.verifier.score_settings
    rows, evaluation = score.proofs_per_step * score.num_generations, evaluation_length(amounts)
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
    step = evaluating(amounts, size, machine, score.proofs_per_step, score.num_generations) + learning
    step += reference if score.beta else Work()
    validations = config.max_steps // score.eval_steps
    validating = evaluating(amounts, size, machine, score.eval_proofs, score.num_generations)
    return step * (config.max_steps * config.gradient_accumulation_steps) + validating * validations


def evaluating(amounts: Amounts, size: PlayerSize, machine: Machine, num_proofs: float, num_samples: int) -> Work:
    """Evaluations of proofs."""
    return sampling(
        size,
        machine,
        num_prompts=num_proofs,
        num_samples=num_samples,
        prompts_per_batch=min(32, max(1, round(num_proofs))),
        prompt=amounts.lengths.verifier_input,
        solution=evaluation_length(amounts),
        max_new_tokens=amounts.recipe.verifier.score_settings.max_completion_length,
    )
