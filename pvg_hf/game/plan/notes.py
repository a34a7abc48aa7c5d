"""What a plan says of a recipe that is allowed and seldom meant."""

from collections.abc import Iterator, Sequence

from pvg_hf.config import Recipe
from pvg_hf.game.memory import list_knobs
from pvg_hf.game.plan.machine import total_memory
from pvg_hf.game.plan.rounds import RoundPlan
from pvg_hf.game.units import show_bytes


def list_notes(recipe: Recipe, plans: Sequence[RoundPlan]) -> Iterator[str]:
    """
    Args:
        recipe ([`Recipe`]):
            What would be played.
        plans (`Sequence[RoundPlan]`):
            Its rounds.

    Yields:
        `str`: a sentence or two.
    """
    yield from _without_figure(recipe)
    yield from _too_long(recipe, plans[0])
    yield from _too_large(recipe, plans)


def _without_figure(recipe: Recipe) -> Iterator[str]:
    samples = recipe.mint.test_solutions_per_problem
    out_of_reach = [str(number) for number in recipe.evaluation.best_of_n if number > samples]
    if out_of_reach:
        yield (
            f"best-of-{', '.join(out_of_reach)} will have no figure, as a test problem gets "
            f"`mint.test_solutions_per_problem` = {samples} solutions."
        )


def _too_long(recipe: Recipe, first: RoundPlan) -> Iterator[str]:
    lengths = first.amounts.lengths
    prompt = max(length.longest for length in lengths.prompt.values())
    written = prompt + recipe.prover.max_completion_length
    needed = {"prover": written, "critic": written, "verifier": lengths.verifier_input.longest}
    for name, size in first.sizes.items():
        if size is not None and size.max_positions is not None and needed[name] > size.max_positions:
            yield (
                f"texts may reach {needed[name]:,} tokens, and the {name}'s configuration ends at "
                f"`max_position_embeddings` = {size.max_positions:,}."
            )


def _too_large(recipe: Recipe, plans: Sequence[RoundPlan]) -> Iterator[str]:
    """Phases whose estimated peak is more than there is, each once."""
    available = total_memory(plans[0].amounts.context.processes.device)
    phases = {key.name: (plan, plan.work(key.name)) for plan in reversed(plans) for key in plan.phases}
    for name, (plan, work) in phases.items():
        if work is not None and work.memory > available:
            of_round = recipe.for_round(plan.indices[0])
            yield (
                f"the {name} phase is estimated at {show_bytes(work.memory)}, and this machine has {show_bytes(available)}. In "
                f"order of effect: {list_knobs(of_round, name)}."
            )
