"""What a plan says of a recipe that is allowed and seldom meant."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from pvg_hf.config import Recipe
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.label_rates import routed_rates
from pvg_hf.game.memory import list_knobs
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
    yield from _unlike_slices(plans)
    yield from _too_long(recipe, plans[0])
    yield from _too_large(recipe, plans)
    yield from _without_bfloat16(plans[0])
    if plans[0].card is not None:
        yield from _not_installed(plans)


def _without_figure(recipe: Recipe) -> Iterator[str]:
    samples = recipe.mint.test_solutions_per_problem
    out_of_reach = [str(number) for number in recipe.evaluation.best_of_n if number > samples]
    if out_of_reach:
        yield (
            f"best-of-{', '.join(out_of_reach)} will have no figure, as a test problem gets "
            f"`mint.test_solutions_per_problem` = {samples} solutions."
        )


def _unlike_slices(plans: Sequence[RoundPlan]) -> Iterator[str]:
    for key in dict.fromkeys(key for plan in plans for key in _corrected_by_means(plan.amounts.context)):
        yield (
            f"`{key}` assumes the mean of the rates of wrong labels over the problems, and these differ between slices or "
            "critical problems of the checker: it is unbiased at best on average over them, and `exact` not even then."
        )


def _corrected_by_means(context: PhaseContext) -> Iterator[str]:
    """The corrections that assume one pair of rates where the checker has several."""
    recipe, noise = context.recipe, context.recipe.noise
    if noise.checker is None:
        return
    if noise.is_for_verifier and recipe.verifier.correction != "none":
        yield from ["verifier.correction"] if len(set(routed_rates(context, "verifier"))) > 1 else []
    if noise.is_for_prover and recipe.prover.reward_correction != "none":
        yield from ["prover.reward_correction"] if len(set(routed_rates(context, "prover"))) > 1 else []


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
    available, card = plans[0].memory, plans[0].card
    where = f"`{card.name}`" if card else "this machine"
    phases = {name: (plan, plan.work(name)) for plan in reversed(plans) for name in plan.counts}
    for name, (plan, work) in phases.items():
        if work is not None and work.memory > available:
            of_round = recipe.for_round(plan.indices[0])
            yield (
                f"the {name} phase is estimated at {show_bytes(work.memory)}, and {where} has {show_bytes(available)}. In "
                f"order of effect: {list_knobs(of_round, name)}."
            )


def _without_bfloat16(first: RoundPlan) -> Iterator[str]:
    if first.card is not None and not first.card.has_bfloat16:
        yield (
            f"`{first.card.name}` has no units for bfloat16, so that `dtype: auto` is float32 there, which takes twice the memory."
        )


def _not_installed(plans: Sequence[RoundPlan]) -> Iterator[str]:
    """Packages that the recipe needs and this machine lacks, for a plan of another one."""
    needed: dict[str, str] = {}
    for recipe in (plan.amounts.recipe for plan in plans):
        if recipe.prover.generation.startswith("vllm_"):
            needed["`prover.generation` needs vLLM"] = "vllm"
        for player, config in (("prover", recipe.prover), ("verifier", recipe.verifier)):
            if config.quantization != "none":
                needed[f"`{player}.quantization` needs bitsandbytes"] = "bitsandbytes"
        needed |= {f"`logging.report_to` needs {name}": name for name in recipe.logging.report_to}
    for need, package in needed.items():
        if find_spec(package) is None:
            yield f"{need}, which is not installed on this machine: see to it that the other one has it (`pip install {package}`)."
