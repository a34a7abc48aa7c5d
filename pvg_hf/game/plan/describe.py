"""The plan of a game, as text for a terminal or a file."""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import wrap

from pvg_hf.config import Recipe, RecipeError
from pvg_hf.config.trust import admit_code
from pvg_hf.game.folder import RunFolder
from pvg_hf.game.plan.amounts import count_tokens, describe_amount
from pvg_hf.game.plan.cards import BANDWIDTH_SHARE, MATRIX_SHARE, Card
from pvg_hf.game.plan.checks import check_recipe, list_mistakes
from pvg_hf.game.plan.costs import REACHED_SHARE
from pvg_hf.game.plan.critic import stands_on_prover
from pvg_hf.game.plan.lengths import TextLengths
from pvg_hf.game.plan.notes import list_notes
from pvg_hf.game.plan.players import PlayerSize
from pvg_hf.game.plan.rounds import RoundPlan, plan_rounds
from pvg_hf.game.resume import check_recipe_of
from pvg_hf.game.schedule import ROUND_PHASES, finished_phases, num_phases
from pvg_hf.game.units import show_bytes, show_count, show_seconds
from pvg_hf.game.world import World
from pvg_hf.roles import Role

logger = logging.getLogger(__name__)

WIDTH = 80
LABEL = 12  # columns
CELLS = (11, 43, 8, 9, 9)  # columns of: phase, what is done, tokens, memory, time
ROUGH = (
    "Times and memory are rough: within a factor of about 3, for all planned steps. Memory is that of the models, for each "
    "process. The formulas stand in docs/recipes.md."
)

NOT_MEASURED = (
    f"No time was measured: the card is taken to reach {MATRIX_SHARE * REACHED_SHARE:.0%} of its peak rate and "
    f"{BANDWIDTH_SHARE:.0%} of its bandwidth. Expect a factor of 3 either way. Memory is that of the models, for each process. "
    "The formulas stand in docs/recipes.md."
)


def describe_plan(recipe: Recipe, card: Card | None = None) -> str:
    """
    Check a recipe and say what playing it will come to. Nothing is written and no weights are downloaded; a model's
    configuration and a task that live on the Hub are read from there.

    Args:
        recipe ([`Recipe`]):
            What would be played.
        card ([`~pvg_hf.game.plan.cards.Card`], *optional*):
            The graphics card that it would be played on; this machine by default.

    Returns:
        `str`: lines of at most 80 columns: the run's folder, the task, the players, and each phase with its amount,
        tokens, memory and time.

    Raises:
        RecipeError: with all mistakes, if there are any.
        UntrustedCodeError: if the recipe came with a pulled run and names code that the user does not trust yet.
    """
    code = admit_code(recipe)
    world, mistakes = _load_world(recipe)
    others = _check_folder(recipe)
    if card is not None:
        others += _check_card(recipe)
        recipe = replace(recipe, device="auto")  # what this machine lacks is no mistake
    mistakes += [*check_recipe(recipe, world, planned_bfloat16=card.has_bfloat16 if card else None), *others]
    if mistakes or world is None:
        for line in code:
            logger.info("The recipe runs %s", line)
        raise RecipeError(list_mistakes(mistakes))
    plans = plan_rounds(recipe, world, card)
    header = [*_header(recipe, world, plans[0]), *(line for named in code for line in _entry("Runs", named))]
    lines = [*header, "", _row("Phase", "What is done", "Tokens", "Memory", "Time")]
    for plan in plans:
        lines += _rows(plan)
    lines += [
        _row("To play", "", "", "", _show_total(recipe, plans)),
        "",
        *wrap(NOT_MEASURED if card else ROUGH, WIDTH),
    ]
    for note in list_notes(recipe, plans):
        lines += wrap(f"Note: {note}", WIDTH)
    return "\n".join(lines)


def _load_world(recipe: Recipe) -> tuple[World | None, list[str]]:
    try:
        return World.load(recipe), []
    except ValueError as err:
        return None, [str(err)]


def _run_folder(recipe: Recipe) -> RunFolder:
    return RunFolder(Path(recipe.output_dir) / recipe.name)


def _check_folder(recipe: Recipe) -> list[str]:
    """A run that stands in the folder must be this one."""
    try:
        check_recipe_of(_run_folder(recipe), recipe)
    except ValueError as err:
        return [str(err)]
    return []


def _check_card(recipe: Recipe) -> list[str]:
    """A plan for a graphics card of a recipe that uses none."""
    if recipe.device != "cpu":
        return []
    return ["`device` is `cpu`, and the plan is for a graphics card; leave `device` out, or set it to `cuda`."]


def _header(recipe: Recipe, world: World, first: RoundPlan) -> list[str]:
    folder = _run_folder(recipe)
    num_finished = len(finished_phases(recipe, folder))
    finished = f", {num_finished} of them finished" if num_finished else ""
    size = {name: f"{len(part):,}" for name, part in world.parts.items()}
    entries = {
        "Run folder": f"{folder.root}: {num_phases(recipe)} phases{finished}",
        "Machine": _describe_machine(first),
        "Task": world.task.name,
        "D_V": f"{size['verifier']} problems for the verifier, and {size['verifier_heldout']} held out",
        "D_pi": f"{size['prover']} problems for the prover, and {size['prover_heldout']} held out",
        "Test": f"{size['test']} problems",
        "Prover": _describe_player(recipe, first, "prover"),
        "Verifier": _describe_player(recipe, first, "verifier"),
        **_describe_critic(recipe, first),
        "Tokens": _describe_lengths(first.amounts.lengths),
    }
    return [line for label, text in entries.items() for line in _entry(label, text)]


def _describe_machine(first: RoundPlan) -> str:
    processes = first.amounts.context.processes
    number = f"{processes.num_processes} process{'es' if processes.num_processes > 1 else ''}"
    if first.card is not None:
        card = first.card
        return (
            f"{card.name} (not measured), {number}; {show_bytes(card.num_bytes)}, {card.half:,.0f} TFLOP/s in "
            f"{'bfloat16' if card.has_bfloat16 else 'float16'}, {card.bandwidth:,.0f} GB/s at best"
        )
    count = f"{processes.device.type}, {number}"
    speeds = [f"{name} {player.machine.flops / 1e9:,.0f} GFLOP/s" for name, player in first.players.items()]
    return f"{count}; measured in matrices of the {', '.join(speeds)}" if speeds else count


def _describe_player(recipe: Recipe, first: RoundPlan, name: str) -> str:
    config, size = {"prover": recipe.prover, "verifier": recipe.verifier}[name], first.sizes[name]
    source = f"a new {config.scratch.model_type}" if config.scratch else config.model
    return f"{source}, {_describe_size(size)}"


def _describe_critic(recipe: Recipe, first: RoundPlan) -> dict[str, str]:
    if "critic" not in first.sizes:
        return {}
    critic = recipe.prover.ppo_settings.critic or "a copy of the prover's body"
    what = "an adapter on the prover's base" if stands_on_prover(recipe.prover) else critic
    return {"Critic": f"{what}, {_describe_size(first.sizes['critic'])}"}


def _describe_size(size: PlayerSize | None) -> str:
    if size is None:
        return "of unknown size: its configuration is not on this machine, and the Hub cannot be asked"
    is_full = size.num_trained == size.num_parameters
    trained = "all" if is_full else show_count(size.num_trained)
    return f"{show_count(size.num_parameters)} parameters, {trained} trained"


def _describe_lengths(lengths: TextLengths) -> str:
    how = "characters / 4, for want of a tokenizer" if lengths.is_estimated else "means"
    return (
        f"prompt {lengths.prompt[Role.HELPFUL].mean:.0f}, reference solution {lengths.solution.mean:.0f}, verifier's input "
        f"{lengths.verifier_input.mean:.0f} ({how})"
    )


def _rows(plan: RoundPlan) -> Iterator[str]:
    for phase in plan.early:
        yield from _phase_rows(plan, phase, phase)
    first, last = plan.indices[0], plan.indices[-1]
    yield f"Round {first}" if first == last else f"Rounds {first} to {last}, each"
    for phase in ROUND_PHASES:
        yield from _phase_rows(plan, phase, f"  {phase}")


def _phase_rows(plan: RoundPlan, phase: str, label: str) -> Iterator[str]:
    work = plan.work(phase)
    tokens = f"{'~' if plan.amounts.lengths.is_estimated else ''}{show_count(count_tokens(plan.amounts, phase))}"
    costs = (show_bytes(work.memory), show_seconds(work.seconds)) if work else ("unknown", "unknown")
    first, *more = wrap(describe_amount(plan.amounts, phase), CELLS[1] - 1)
    yield _row(label, first, tokens, *costs)
    for text in more:
        yield _row("", text, "", "", "")


def _show_total(recipe: Recipe, plans: list[RoundPlan]) -> str:
    """Time of the phases that are not finished."""
    finished = finished_phases(recipe, _run_folder(recipe))
    counts = [(plan, plan.counts - Counter(key.name for key in finished if plan.covers(key))) for plan in plans]
    works = [(plan.work(name), number) for plan, names in counts for name, number in names.items()]
    if any(work is None for work, _ in works):
        return "unknown"
    return show_seconds(sum(work.seconds * number for work, number in works))


def _entry(label: str, text: str) -> list[str]:
    first, *more = wrap(text, WIDTH - LABEL, break_long_words=False, break_on_hyphens=False)  # paths stay whole
    return [f"{label:<{LABEL}}{first}", *(" " * LABEL + line for line in more)]


def _row(label: str, text: str, tokens: str, memory: str, time: str) -> str:
    left = f"{label:<{CELLS[0]}}{text:<{CELLS[1]}}"
    return f"{left}{tokens:>{CELLS[2]}}{memory:>{CELLS[3]}}{time:>{CELLS[4]}}".rstrip()
