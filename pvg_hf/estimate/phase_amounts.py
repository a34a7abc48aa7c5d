"""The work of each phase in words, and the numbers of its solutions and tokens."""

from dataclasses import dataclass

from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.estimate.amounts import Amounts
from pvg_hf.estimate.verifiers import verifier_costs


def describe_amount(amounts: Amounts, phase: str) -> str:
    """Describe the work of `phase` in a few words and numbers."""
    return {
        "warmup": _describe_warmup,
        "bootstrap": _describe_bootstrap,
        "verifier": verifier_costs(amounts).describe_training,
        "prover": _describe_prover,
        "mint": _describe_mint,
        "evaluate": _describe_evaluate,
    }[phase](amounts)


def _describe_warmup(amounts: Amounts) -> str:
    parts = []
    for name, config in amounts.recipe.players.items():
        if config.warmup:
            parts.append(f"{name}: {config.warmup.max_steps:,} steps of {config.warmup.batch_size} references")
        elif config.scratch:
            parts.append(f"{name}: random weights")
    return "; ".join(parts)


def _describe_bootstrap(amounts: Amounts) -> str:
    bootstrap = amounts.recipe.bootstrap
    on_test = f"{amounts.num_test_solutions:,} on test"
    if bootstrap.import_from:
        return f"solutions from {bootstrap.import_from}; {on_test}"
    return f"{amounts.num_verifier_problems * bootstrap.solutions_per_problem:,} solutions on D_V, {on_test}"


def _describe_prover(amounts: Amounts) -> str:
    prover = amounts.recipe.prover
    epochs = prover.num_batches * prover.prompts_per_step / amounts.num_prompts
    each = " for each role" if prover.num_trainings > 1 else ""
    batches = "" if prover.steps_per_batch == 1 else f", {prover.steps_per_batch} on each batch"
    return (
        f"at most {prover.max_steps:,} steps{each}{batches} of {prover.prompts_per_step} prompts x "
        f"{prover.num_generations} solutions; {amounts.num_prompts:,} prompts ({epochs:.1f} epochs)"
    )


def _describe_mint(amounts: Amounts) -> str:
    on_pool = len(GAME_ROLES) * amounts.num_verifier_problems * amounts.recipe.mint.solutions_per_problem
    return f"{on_pool:,} solutions on D_V, {amounts.num_test_solutions:,} on test"


def _describe_evaluate(amounts: Amounts) -> str:
    return f"{amounts.num_test_solutions:,} base solutions on test scored again"


def count_tokens(amounts: Amounts, phase: str) -> float:
    """
    Number of tokens that `phase` writes or trains on (for `evaluate`: scores), including prompts.

    Texts have their mean length, and no training stops early.
    """
    recipe, lengths = amounts.recipe, amounts.lengths
    if phase == "warmup":
        text = lengths.prompt[Role.HELPFUL].mean + lengths.solution.mean
        warmups = [player.warmup for player in (recipe.prover, recipe.verifier) if player.warmup]
        return sum(warmup.max_steps * warmup.batch_size for warmup in warmups) * amounts.num_processes * text
    if phase == "verifier":
        return verifier_costs(amounts).num_training_tokens(amounts)
    if phase == "prover":
        solutions = recipe.prover.num_batches * recipe.prover.num_trainings * amounts.solutions_per_step
        return solutions * (amounts.training_prompt.mean + lengths.solution.mean)
    if phase == "evaluate":
        return amounts.num_test_solutions * lengths.verifier_input.mean
    return sum(
        writing.num_problems * (lengths.prompt[writing.role].mean + writing.num_samples * lengths.solution.mean)
        for writing in writings(amounts, phase)
    )


@dataclass(frozen=True)
class Writing:
    """`num_samples` solutions for each of `num_problems` problems in a role."""

    role: Role
    num_problems: int
    num_samples: int


def writings(amounts: Amounts, phase: str) -> list[Writing]:
    """List what the prover writes in `bootstrap` or `mint`."""
    recipe = amounts.recipe
    on_test = amounts.num_problems("test"), recipe.mint.test_solutions_per_problem
    found = [Writing(role, *on_test) for role in GAME_ROLES]
    if phase == "bootstrap":
        if recipe.bootstrap.import_from is None:
            found.append(Writing(Role.BASE, amounts.num_verifier_problems, recipe.bootstrap.solutions_per_problem))
        return found
    on_pool = amounts.num_verifier_problems, recipe.mint.solutions_per_problem
    on_heldout = amounts.num_problems("verifier_heldout"), recipe.mint.test_solutions_per_problem
    return [*found, *(Writing(role, *on_pool) for role in GAME_ROLES), Writing(Role.HELPFUL, *on_heldout)]
