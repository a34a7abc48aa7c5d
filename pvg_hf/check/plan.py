"""Describes the plan of a game as text for a terminal or a file."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from textwrap import wrap
from typing import Any

from pvg_hf.check.custom_code import seems_relative
from pvg_hf.check.graphics_cards import Card, device_name
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.check.phase_costs import TextLengths, describe_phase
from pvg_hf.check.player_sizes import PlayerSize, has_adapter_critic, read_pretraining_flops
from pvg_hf.check.round_plans import (
    RoundPlan,
    memory_excess,
    plan_rounds,
    planned_hardware,
    rough_rates,
)
from pvg_hf.config import Recipe
from pvg_hf.config.load import refuse
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.extensions import AskedSetting, Effect
from pvg_hf.core.project import install_extra
from pvg_hf.core.roles import Role
from pvg_hf.core.units import show_bytes, show_count, show_seconds
from pvg_hf.data.label_rates import routed_rates
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.sources import PACKAGED, cpu_has_bfloat16
from pvg_hf.rewards import load_reward
from pvg_hf.run.layout import ROUND_PHASES, RunFolder, finished_phases, num_phases
from pvg_hf.run.resume import check_same_problems, check_same_recipe
from pvg_hf.tasks.prompts import PromptBuilder, shown_examples

logger = logging.getLogger(__name__)

WIDTH = 80
LABEL = 12  # columns
CELLS = (11, 43, 8, 9, 9)  # columns of: phase, what is done, tokens, memory, time

MEMORY = (
    "Tokens are those that are written, scored and trained on. Memory is that of the models, for each process, and"
    " rough (docs/reference/recipes.md)."
)


def list_notes(recipe: Recipe, plans: Sequence[RoundPlan]) -> Iterator[str]:
    """Warn about valid but unusual settings, in one or two sentences each."""
    samples = recipe.mint.test_solutions_per_problem
    out_of_reach = [str(number) for number in recipe.evaluation.best_of_n if number > samples]
    if out_of_reach:
        yield (
            f"best-of-{', '.join(out_of_reach)} will have no figure, as a test problem gets "
            f"`mint.test_solutions_per_problem` = {samples} solutions."
        )
    yield from dict.fromkeys(note for plan in plans for note in _reward_notes(plan.amounts.recipe))
    yield from dict.fromkeys(
        note for plan in plans for note in _mean_rate_notes(plan.amounts.recipe, plan.amounts.problems)
    )
    yield from _example_notes(recipe, plans[0].amounts.problems.prompts)
    yield from _length_notes(recipe.prover, plans[0])
    yield from memory_excess(recipe, plans)  # without a GPU, a refusal
    card, hardware = plans[0].card, plans[0].amounts.hardware
    emulated = [name for name, config in recipe.players.items() if config.dtype == "bfloat16"]
    if emulated and not hardware.has_gpu and not cpu_has_bfloat16():
        yield (
            f"{' and '.join(f'`{name}.dtype`' for name in emulated)} is `bfloat16`, which this processor emulates:"
            " products of matrices took eight times as long as in `float32` on a processor without AVX512-BF16."
        )
    if card is not None:
        if not card.has_bfloat16:
            yield (
                f"`{card.name}` does not support bfloat16, so that `dtype: auto` is float32 there, which takes twice"
                " the memory."
            )
        yield from _not_installed(plans)


def _reward_notes(recipe: Recipe) -> Iterator[str]:
    prover = recipe.prover
    selects = Role.HELPFUL in prover.trained_roles and prover.self_evaluation is None
    is_custom = ":" in prover.reward
    if is_custom and selects and not load_reward(prover.reward).is_relative and seems_relative(prover):
        yield (
            f"`{prover.reward}` seems to be relative to its group, and its mean selects the helpful checkpoint, which"
            " then measures little. If it is relative, declare it by `@reward(is_relative=True)`: CGC then selects."
        )


def _example_notes(recipe: Recipe, prompts: PromptBuilder) -> Iterator[str]:
    shown = [len(list(shown_examples(prompts.examples, role))) for role in (Role.BASE, Role.SNEAKY)]
    if Role.SNEAKY in recipe.prover.trained_roles and shown[0] > shown[1]:
        yield (
            f"the prompts show {shown[0]} examples, but {shown[1] or 'none'} of them in the sneaky role: the others"
            " have no `wrong_solution` (docs/reference/tasks.md#prompts)."
        )


def _mean_rate_notes(recipe: Recipe, problems: GameProblems) -> Iterator[str]:
    """Notes on corrections that assume one pair of rates although the checker has several."""
    noise = recipe.noise
    corrections = {
        "verifier": ("verifier.correction", recipe.verifier.correction, noise.is_for_verifier),
        "prover": ("prover.reward_correction", recipe.prover.reward_correction, noise.is_for_prover),
    }
    for part, (key, correction, is_noisy) in corrections.items():
        if noise.checker is None or not is_noisy or correction == "none":
            continue
        if len(set(routed_rates(noise.checker, problems.parts[part]))) > 1:
            yield (
                f"`{key}` assumes the mean of the rates of wrong labels over the problems, and these differ between"
                " slices or critical problems of the checker: it is unbiased at best on average over them, and"
                " `exact` not even then."
            )


def _length_notes(config: ProverConfig, first: RoundPlan) -> Iterator[str]:
    lengths = first.amounts.lengths
    prompt = max(length.longest for length in lengths.prompt.values())
    written = prompt + config.max_completion_length
    needed = {"prover": written, "critic": written, "verifier": lengths.verifier_input.longest}
    for name, size in first.sizes.items():
        if size.max_positions is not None and needed[name] > size.max_positions:
            yield (
                f"texts may reach {needed[name]:,} tokens, and the {name}'s configuration ends at "
                f"`max_position_embeddings` = {size.max_positions:,}."
            )


def _not_installed(plans: Sequence[RoundPlan]) -> Iterator[str]:
    """Notes on packages that the recipe needs and this machine lacks, in a plan for another machine."""
    needed: dict[str, tuple[str, str]] = {}  # package and extra
    for recipe in (plan.amounts.recipe for plan in plans):
        if recipe.prover.generation.startswith("vllm_"):
            needed["`prover.generation` needs vLLM"] = ("vllm", "vllm")
        for player, config in recipe.players.items():
            if config.quantization != "none":
                needed[f"`{player}.quantization` needs bitsandbytes"] = ("bitsandbytes", "quant")
        needed |= {f"`logging.report_to` needs {name}": (name, "track") for name in recipe.logging.report_to}
    for need, (package, extra) in needed.items():
        if find_spec(package) is None:
            yield (
                f"{need}, which is not installed on this machine: make sure that the other one has it"
                f" ({install_extra(extra)})."
            )


@dataclass(frozen=True)
class GamePlan:
    """A recipe without mistakes, and what playing it costs, on this machine or a card; see [`plan_game`]."""

    recipe: Recipe
    problems: GameProblems
    rounds: list[RoundPlan]
    settings: list[AskedSetting]  # what the recipe does beyond the run

    def describe(self) -> str:
        """Describe the plan in lines of at most 80 columns."""
        recipe, plans = self.recipe, self.rounds
        header = [*_header(recipe, self.problems, plans[0])]
        header += list(_describe_effects(self.settings))
        lines = [*header, "", _row("Phase", "What is done", "Tokens", "Memory", "Time")]
        for plan in plans:
            lines += _rows(plan)
        lines += [*_describe_times(recipe, plans), *wrap(MEMORY, WIDTH)]
        for note in list_notes(recipe, plans):
            lines += wrap(f"Note: {note}", WIDTH)
        return "\n".join(lines)

    def figures(self) -> dict[str, Any]:
        """
        Tokens, memory and time of each phase, and the seconds that are left to play; `None` where a rate is not known.
        """
        phases = [
            {
                "phase": phase,
                "rounds": None if phase in plan.early else list(plan.indices),
                "tokens": {kind: round(number) for kind, number in plan.tokens(phase).items()},
                "memory_bytes": round(plan.memory(phase)),
                "seconds": time.seconds if (time := plan.times.get(phase)) else None,
            }
            for plan in self.rounds
            for phase in plan.counts
        ]
        left = _times_left(self.recipe, self.rounds)
        seconds_left = [None if seconds is None else number * seconds for *_, number, seconds in left]
        return {
            "run": str(RunFolder.of(self.recipe).root),
            "seconds_left": None if None in seconds_left else sum(filter(None, seconds_left)),
            "phases": phases,
            "notes": list(list_notes(self.recipe, self.rounds)),
        }


def describe_plan(recipe: Recipe, card: Card | None = None) -> str:
    """Check a recipe and describe its plan as text; see [`plan_game`]."""
    return plan_game(recipe, card).describe()


def plan_game(recipe: Recipe, card: Card | None = None) -> GamePlan:
    """
    Check a recipe and plan what playing it costs, on this machine or a card.

    Nothing is written, and no weights are downloaded. Models' configurations and tasks on the Hub are read from there.

    Raises `RecipeError` if the recipe has mistakes; all of them are listed.
    Raises `UntrustedCodeError` if the recipe came with a pulled run and needs consent that the user has not given yet.
    """
    settings = admit_recipe(recipe)
    problems, mistakes = None, []
    try:
        problems = GameProblems.load(recipe)
    except ValueError as err:
        mistakes.append(str(err))
    others = _check_folder(recipe, problems)
    if card is not None:
        if recipe.device == "cpu":
            others.append(
                "`device` is `cpu`, and the plan is for a graphics card; leave `device` out, or set it to `cuda`."
            )
        recipe = replace(recipe, device="auto")  # a GPU that this machine lacks is no mistake
    mistakes += [*check_recipe(recipe, problems, planned_hardware(recipe.device, card)), *others]
    for setting in settings if mistakes else ():
        logger.info("The recipe %s %s", setting.effect.verb, setting)
    refuse(mistakes)
    assert problems is not None  # else that is a mistake
    return GamePlan(recipe, problems, plan_rounds(recipe, problems, card), settings)


def _check_folder(recipe: Recipe, problems: GameProblems | None) -> list[str]:
    """List a mistake if the folder holds another run, or one with other problems."""
    folder = RunFolder.of(recipe)
    try:
        check_same_recipe(folder, recipe)
        if problems is not None:
            check_same_problems(folder, recipe, problems)
    except ValueError as err:
        return [str(err)]
    return []


def _header(recipe: Recipe, problems: GameProblems, first: RoundPlan) -> list[str]:
    folder = RunFolder.of(recipe)
    num_finished = len(finished_phases(recipe, folder))
    finished = f", {num_finished} of them finished" if num_finished else ""
    size = {name: f"{len(part):,}" for name, part in problems.parts.items()}
    when = "after the warm-up" if recipe.prover.is_made else "before the game begins"
    pilot = f"{recipe.bootstrap.pilot_problems} problems of D_V or more, once in each role, {when}"
    entries = {
        "Run folder": f"{folder.root}: {num_phases(recipe)} phases{finished}",
        "Machine": _describe_machine(first),
        "Task": problems.task.name,
        **({} if problems.task.isolation is None else {"Sandbox": problems.task.isolation}),
        "D_V": f"{size['verifier']} problems for the verifier, and {size['verifier_heldout']} held out",
        "D_pi": f"{size['prover']} problems for the prover, and {size['prover_heldout']} held out",
        "Test": f"{size['test']} problems",
        **{name.capitalize(): _describe_player(recipe, first, name) for name in recipe.players},
        "Pretraining": _describe_pretraining(recipe),
        **_describe_critic(recipe.prover, first),
        "Tokens": _describe_lengths(first.amounts.lengths),
        **({"Pilot": pilot} if has_pilot(recipe) else {}),
    }
    return [line for label, text in entries.items() for line in _entry(label, text)]


def _describe_effects(settings: Sequence[AskedSetting]) -> Iterator[str]:
    """Lines with what a recipe does beyond the run, by its effect, each effect explained once."""
    for effect in Effect:
        found = [setting for setting in settings if setting.effect is effect]
        for setting in found:
            yield from _entry(effect.verb.capitalize(), str(setting))
        if found:
            yield from _entry("", f"({effect.what})")


def _describe_machine(first: RoundPlan) -> str:
    hardware = first.amounts.hardware
    number = f"{hardware.num_processes} process{'es' if hardware.num_processes > 1 else ''}"
    if first.card is not None:
        card = first.card
        dtype = "bfloat16" if card.has_bfloat16 else "float16"
        return (
            f"{card.name} (not this one), {number}; {show_bytes(card.num_bytes)}, {card.half:,.0f} TFLOP/s in {dtype}"
            " at best"
        )
    bfloat16 = "" if hardware.has_gpu else f"; bfloat16 {'computed' if cpu_has_bfloat16() else 'emulated'}"
    return f"{device_name(hardware.device)}, {number}; {show_bytes(first.amounts.memory)}{bfloat16}"


def _describe_player(recipe: Recipe, first: RoundPlan, name: str) -> str:
    config, size = recipe.player(name), first.sizes[name]
    source = f"a new {config.scratch.model_type}" if config.scratch else config.model
    return f"{source}, {_describe_size(size)}"


def _describe_pretraining(recipe: Recipe) -> str:
    flops = {name: read_pretraining_flops(config, name) for name, config in recipe.players.items()}
    prover, verifier = flops["prover"], flops["verifier"]
    if not prover or not verifier:
        unknown = [name for name, number in flops.items() if not number]
        ratio = (
            f"no share is known: the {' and the '.join(unknown)} is no well-known model, and its configuration has no"
            " `pretraining_flops`"
        )
    else:
        ratio = f"the verifier took {verifier / prover:.1e} of the prover's operations"
    return f"{ratio} (Kirchner et al.: 1e-3 to 1.6e-2 works, 1 gains no robustness)"


def _describe_critic(config: ProverConfig, first: RoundPlan) -> dict[str, str]:
    if "critic" not in first.sizes:
        return {}
    critic = config.ppo_settings.critic or "a copy of the prover's body"
    what = "an adapter on the prover's base" if has_adapter_critic(config) else critic
    return {"Critic": f"{what}, {_describe_size(first.sizes['critic'])}"}


def _describe_size(size: PlayerSize) -> str:
    is_full = size.num_trained == size.num_parameters
    trained = "all" if is_full else show_count(size.num_trained)
    return f"{show_count(size.num_parameters)} parameters, {trained} trained"


def _describe_lengths(lengths: TextLengths) -> str:
    how = "characters / 4, without a tokenizer" if lengths.is_estimated else "means"
    return (
        f"prompt {lengths.prompt[Role.HELPFUL].mean:.0f}, reference solution {lengths.solution.mean:.0f}, verifier's"
        f" input {lengths.verifier_input.mean:.0f} ({how})"
    )


def _rows(plan: RoundPlan) -> Iterator[str]:
    for phase in plan.early:
        yield from _phase_rows(plan, phase, phase)
    first, last = plan.indices[0], plan.indices[-1]
    yield f"Round {first}" if first == last else f"Rounds {first} to {last}, each"
    for phase in ROUND_PHASES:
        yield from _phase_rows(plan, phase, f"  {phase}")


def _phase_rows(plan: RoundPlan, phase: str, label: str) -> Iterator[str]:
    time = plan.times.get(phase)
    tokens = f"{'~' if plan.amounts.lengths.is_estimated else ''}{show_count(sum(plan.tokens(phase).values()))}"
    first, *more = wrap(describe_phase(phase, plan.amounts), CELLS[1] - 1)
    yield _row(label, first, tokens, show_bytes(plan.memory(phase)), show_seconds(time.seconds) if time else "?")
    for text in more:
        yield _row("", text, "", "", "")


def _describe_times(recipe: Recipe, plans: Sequence[RoundPlan]) -> Iterator[str]:
    """
    Lines with the time of what is left to play, where the rates of each phase were measured, and what was not
    measured.
    """
    to_play = _times_left(recipe, plans)
    known = sum(number * seconds for *_, number, seconds in to_play if seconds is not None)
    unknown = [(plan, name, number) for plan, name, number, seconds in to_play if seconds is None]
    total = show_seconds(known) if known or not unknown else ""
    yield _row("To play", "", "", "", f"> {total}" if unknown and total else total or "?")
    yield ""
    places: dict[str, dict[str, None]] = {}
    for plan in plans:
        for name, time in plan.times.items():
            if time is not None:
                places.setdefault(" and ".join(time.where), {})[name] = None
    for place, names in places.items():
        yield from wrap(f"Time of {', '.join(names)}: measured {place}.", WIDTH)
    if unknown:
        phases = ", ".join(dict.fromkeys(name for _, name, _ in unknown))
        yield from wrap(f"Time of {phases}: not measured yet. {_describe_rough_time(plans[0], unknown)}", WIDTH)


def _times_left(recipe: Recipe, plans: Sequence[RoundPlan]) -> list[tuple[RoundPlan, str, int, float | None]]:
    """List the phases that are left to play, as (plan, name, number of them, seconds of each); `None` if not known."""
    finished = finished_phases(recipe, RunFolder.of(recipe))
    left = [(plan, plan.counts - Counter(key.name for key in finished if plan.covers(key))) for plan in plans]
    return [
        (plan, name, number, time.seconds if (time := plan.times.get(name)) else None)
        for plan, counts in left
        for name, number in counts.items()
    ]


def _describe_rough_time(first: RoundPlan, unknown: Sequence[tuple[RoundPlan, str, int]]) -> str:
    rates = rough_rates(first.amounts.hardware, first.card, first.sizes["prover"].num_parameters)
    if rates is None:
        return (
            "It is known when this game, or another one with the same players on this machine, has played such a"
            " phase."
        )
    rough = show_seconds(sum(number * plan.rough_seconds(name, rates) for plan, name, number in unknown))
    return f"Very roughly {rough} in all, {rates.source}."


def _entry(label: str, text: str) -> list[str]:
    first, *more = wrap(text, WIDTH - LABEL, break_long_words=False, break_on_hyphens=False)  # paths stay whole
    return [f"{label:<{LABEL}}{first}", *(" " * LABEL + line for line in more)]


def _row(label: str, text: str, tokens: str, memory: str, time: str) -> str:
    left = f"{label:<{CELLS[0]}}{text:<{CELLS[1]}}"
    return f"{left}{tokens:>{CELLS[2]}}{memory:>{CELLS[3]}}{time:>{CELLS[4]}}".rstrip()


def has_pilot(recipe: Recipe) -> bool:
    """
    Whether a game has a pilot: before it begins, or after the warm-up that makes its prover. A prover that ships with
    the package needs none.
    """
    prover = recipe.prover
    return recipe.bootstrap.pilot_problems > 0 and (prover.is_made or prover.model not in PACKAGED)
