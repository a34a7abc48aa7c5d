"""
Plays a few steps of every phase of a recipe, and compares each phase's speed and memory with the plan.

The prover's phase, in which a game spends most of its time, is measured first: in a run with as little before it as
possible. A second run then measures bootstrap and verifier.
"""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from pvg_hf import load_recipe, play
from pvg_hf.check.round_plans import RoundPlan, plan_rounds
from pvg_hf.config import Recipe
from pvg_hf.data.problems import GameProblems
from pvg_hf.run.layout import ROUND_PHASES
from pvg_hf.sampling import Sampler
from tools.gpu_check.measures import PhaseMeasures, Save
from tools.gpu_check.stand_ins import make_player, make_problems, make_wrong_solutions

RECIPES = Path(__file__).parents[2] / "recipes"
PLAYERS = ("prover", "verifier")
Settings = Mapping[str, Any]

# A few steps on a few problems. Random weights solve no problem, end no solution, and order pairs by chance.
FEW: Settings = {
    "split.max_train": 48,
    "split.verifier_share": 0.34,
    "split.heldout_share": 0.2,
    "split.stratify_by": "null",
    "bootstrap.pilot_problems": 0,
    "data.correct_source": "dataset",
    "verifier.max_steps": 3,
    "prover.max_steps": 3,
    "prover.eval_problems": 4,
    "stopping.rule": "max_steps",
    "watchdogs.max_truncated": 1.0,
    "watchdogs.min_pair_accuracy": 0.0,
}
# The least before the prover's phase.
EARLY: Settings = {"split.max_test": 2, "verifier.max_steps": 1}
QUIET: Settings = {"logging.progress": "false", "logging.report": "false"}
# For parts that only try a launcher.
SHORT: Settings = {"prover.max_completion_length": 64, "prover.prompts_per_step": 4}
TOY: Settings = {
    "verifier.max_steps": 2,
    "prover.max_steps": 2,
    "prover.prompts_per_step": 2,
    "prover.num_generations": 2,
    "prover.max_completion_length": 8,
    "mint.test_solutions_per_problem": 2,
    "mint.problems_per_batch": 4,
    "evaluation.bootstrap_samples": 100,
    "watchdogs.min_pair_accuracy": 0.0,
}
TOY_OF_STAND_INS: Settings = {
    "verifier.pairs_per_step": 4,
    "verifier.micro_batch_size": 2,
    "prover.micro_batch_size": 1,
}
TOY_FROM_SCRATCH: Settings = {
    "task.options.num_train": 60,
    "task.options.num_test": 4,
    "verifier.pairs_per_step": 4,
    "watchdogs.max_truncated": 1.0,
    "data.correct_source": "dataset",
    **{
        f"{player}.{key}": value
        for player in PLAYERS
        for key, value in {
            "scratch.config.hidden_size": 32,
            "scratch.config.num_hidden_layers": 2,
            "scratch.config.num_attention_heads": 4,
            "scratch.config.num_key_value_heads": 4,
            "scratch.config.intermediate_size": 48,
            "scratch.vocab_size": 400,
            "warmup.max_steps": 2,
            "warmup.batch_size": 2,
        }.items()
    },
}


@dataclass(frozen=True)
class Game:
    """
    A recipe that the check plays.

    Args:
        recipe: A file in `recipes/`.
        settings: Settings that override the recipe.
        phases: Phases to play; all phases of one round if empty.
        has_stand_ins: Whether stand-ins for the recipe's players take a few steps on a few problems; otherwise, the
            first round is played without changes.
    """

    recipe: str
    settings: Settings = field(default_factory=dict)
    phases: tuple[str, ...] = ()
    has_stand_ins: bool = True

    def runs(self, name: str) -> list["Run"]:
        """Runs that are played, with names that begin with `name`."""
        if self.phases or not self.has_stand_ins:
            return [Run(name, self.phases or (None,))]
        return [
            Run(f"{name}-prover", (None,), EARLY, measured=("prover", "mint", "evaluate")),
            Run(name, ("bootstrap", "verifier"), measured=("bootstrap", "verifier")),
        ]


@dataclass(frozen=True)
class Run:
    """
    A run of a game.

    Args:
        name: Name of the run.
        phases: Phases to play, one after the other; `None` for all.
        settings: Further settings.
        measured: Phases whose figures are kept.
    """

    name: str
    phases: tuple[str | None, ...]
    settings: Settings = field(default_factory=dict)
    measured: tuple[str, ...] = ("warmup", "bootstrap", *ROUND_PHASES)


UNTIL_TRAINED = ("bootstrap", "verifier", "prover")
GAMES = {
    "gsm8k": Game("gsm8k.yaml"),
    "gsm8k-small": Game("gsm8k-small.yaml"),
    "gsm8k-qlora": Game("gsm8k-qlora.yaml"),
    "continuous": Game("gsm8k.yaml", {"prover.generation": "continuous"}, UNTIL_TRAINED),
    "vllm": Game(
        "gsm8k.yaml",
        {"prover.generation": "vllm_colocate", "prover.trainer.vllm_gpu_memory_utilization": 0.3},
        UNTIL_TRAINED,
    ),
    "fsdp": Game("gsm8k.yaml", SHORT, UNTIL_TRAINED),
    "zero3": Game("gsm8k.yaml", SHORT, UNTIL_TRAINED),
    "arithmetic-gpu": Game("arithmetic-gpu.yaml", has_stand_ins=False),
}


def play_and_measure(
    name: str, work: Path, *, is_toy: bool, phases: Sequence[str], known: Mapping[str, Any], save: Save
) -> None:
    """
    Play or resume a game, and measure its phases.

    Args:
        name: A key of [`GAMES`].
        work: Folder of the stand-ins and the run.
        is_toy: Whether players, texts and batches are tiny.
        phases: Phases to play in this process; all of the game's phases if empty.
        known: Figures of phases that an earlier process has played.
        save: Called with all figures after each phase.
    """
    game = GAMES[name]
    players = _players(game, work, is_toy=is_toy)
    figures = {"phases": {}, **known}
    measures = PhaseMeasures(figures, save)
    for run in game.runs(name):
        recipe = _shortened(game, run, players, work, is_toy=is_toy)
        (measures.plan,), measures.phases = plan_rounds(recipe, GameProblems.load(recipe)), run.measured
        figures |= _describe_players(game, recipe, measures.plan)
        if not known:  # finished phases would be skipped and not measured
            shutil.rmtree(work / "runs" / run.name, ignore_errors=True)
        for phase in phases or run.phases:
            play(recipe, phase=phase, round_index=0 if phase in ROUND_PHASES else None, callbacks=[measures])
    if not game.phases:
        whole = load_recipe(RECIPES / game.recipe, _as_overrides(players))
        figures["hours"] = _estimate_hours(whole, figures["phases"])
        save(figures)


def _players(game: Game, work: Path, *, is_toy: bool) -> Settings:
    """Settings that replace the recipe's players and problems by stand-ins."""
    if not game.has_stand_ins:
        return {}
    recipe = load_recipe(RECIPES / game.recipe)
    settings = {"task.path": make_problems(work / "problems", is_toy=is_toy)}
    for player, config in (("prover", recipe.prover), ("verifier", recipe.verifier)):
        settings[f"{player}.model"] = make_player(config.model, work / "models", is_toy=is_toy)
        if config.quantization == "4bit" and find_spec("bitsandbytes") is None:
            settings[f"{player}.quantization"] = "none"
    return settings


def _shortened(game: Game, run: "Run", players: Settings, work: Path, *, is_toy: bool) -> Recipe:
    """Recipe of a game's run with the changes of this check."""
    settings = {"name": run.name, "output_dir": work / "runs", "num_rounds": 1, **QUIET, **players}
    toy = {**TOY, **(TOY_OF_STAND_INS if game.has_stand_ins else TOY_FROM_SCRATCH)}
    settings |= (FEW if game.has_stand_ins else {}) | dict(game.settings) | (toy if is_toy else {})
    path = RECIPES / game.recipe
    if game.has_stand_ins:
        batch = load_recipe(path).mint.problems_per_batch or Sampler.default_prompts_per_batch
        settings["split.max_test"] = settings.get("mint.problems_per_batch", batch)
        settings |= run.settings
    if game.has_stand_ins or is_toy:  # players that solve nothing
        parts = GameProblems.load(load_recipe(path, _as_overrides(settings))).parts
        problems = chain(parts["verifier"], parts["verifier_heldout"])
        settings["bootstrap.import_from"] = make_wrong_solutions(problems, work / f"{run.name}-wrong.jsonl")
    return load_recipe(path, _as_overrides(settings))


def _as_overrides(settings: Settings) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


def _describe_players(game: Game, recipe: Recipe, plan: RoundPlan) -> dict[str, Any]:
    sizes = plan.sizes
    wanted = load_recipe(RECIPES / game.recipe).prover.quantization
    copies = 2 * (2 * sizes["prover"].num_parameters + sizes["verifier"].num_parameters)
    return {
        "recipe": game.recipe,
        "weights": {name: size.num_parameters for name, size in sizes.items()},
        "quantization": recipe.prover.quantization,
        "note": "without 4 bits: bitsandbytes is not installed" if wanted != recipe.prover.quantization else "",
        "three_copies_gb": round(copies / 1e9, 3),  # policy, reference and verifier in bfloat16
    }


def _estimate_hours(whole: Recipe, phases: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """
    Estimated hours of a whole recipe by phase, all rounds together, for the phases that were measured.

    They are the seconds of the few steps in proportion to the tokens.
    """
    hours: Counter[str] = Counter()
    for plan in plan_rounds(whole, GameProblems.load(whole)):
        for name in plan.counts.keys() & phases.keys():
            measured = phases[name]
            seconds = measured["worked_seconds"] * sum(plan.tokens(name).values()) / measured["planned_tokens"]
            hours[name] += plan.counts[name] * seconds / 3600
    return dict(hours)
