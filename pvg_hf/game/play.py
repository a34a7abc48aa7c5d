"""Plays a recipe, phase by phase."""

import gc
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from accelerate import PartialState

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.evaluation.report import write_report
from pvg_hf.game.callbacks import GameCallback
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.disk import naming_full_disk
from pvg_hf.game.environment import describe_environment
from pvg_hf.game.folder import RunFolder, read_json_lines, staged, write_json, write_json_lines
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.phases.bootstrap import run_bootstrap
from pvg_hf.game.phases.evaluate import run_evaluate
from pvg_hf.game.phases.mint import run_mint
from pvg_hf.game.phases.prover import run_prover
from pvg_hf.game.phases.verifier import run_verifier
from pvg_hf.game.phases.warmup import run_warmup
from pvg_hf.game.plan import refuse_mistakes
from pvg_hf.game.resume import check_unchanged, check_weights
from pvg_hf.game.schedule import PhaseKey, game_steps, schedule
from pvg_hf.game.tracking import GameTracker, open_tracker
from pvg_hf.game.world import World

logger = logging.getLogger(__name__)

PHASES: dict[str, Callable[[PhaseContext, Path], str]] = {
    "warmup": run_warmup,
    "bootstrap": run_bootstrap,
    "verifier": run_verifier,
    "prover": run_prover,
    "mint": run_mint,
    "evaluate": run_evaluate,
}


def play(
    recipe: Recipe | str | Path,
    *,
    phase: str | None = None,
    round_index: int | None = None,
    callbacks: Sequence[GameCallback] = (),
) -> RunFolder:
    """
    Play a game, or go on with one: phases whose results stand in the run's folder are not played again.

    Args:
        recipe ([`Recipe`], `str` or `Path`):
            What to play.
        phase (`str`, *optional*), round_index (`int`, *optional*):
            Play this phase alone; all before it must be finished.
        callbacks (`Sequence[GameCallback]`, *optional*):
            Called before and after each phase.

    Returns:
        [`RunFolder`]: where everything is.

    Raises:
        ValueError: if the recipe, the data or a verifier is not in order; nothing that is finished is lost.
        DiskFullError: if there is no room for a phase's results; nothing that is finished is lost.
        GameInterrupted: if the user stopped the run; playing it again continues it.
    """
    recipe = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    processes = PartialState(cpu=recipe.device == "cpu" or not torch.cuda.is_available())
    folder = RunFolder(Path(recipe.output_dir) / recipe.name)
    world = World.load(recipe)
    refuse_mistakes(recipe, world)
    if processes.is_main_process:
        _open(folder, recipe)
    processes.wait_for_everyone()
    with (
        StopRequest().listening() as stop,
        naming_full_disk(folder.root),
        open_tracker(recipe, folder) as tracker,
    ):
        for key in _todo(recipe, folder, phase, round_index):
            stop.check()
            _play_phase(recipe, folder, key, world, stop, tracker, callbacks)
    return folder


def _open(folder: RunFolder, recipe: Recipe) -> None:
    """Make the run's folder, or check that the run in it is this one and can be gone on with."""
    folder.root.mkdir(parents=True, exist_ok=True)
    if folder.recipe.exists():
        check_unchanged(folder.read_recipe(), recipe)
    finished = _finished(recipe, folder)
    check_weights(key.target(folder) for key in finished)
    folder.write_recipe(recipe)
    write_json(folder.root / "run.json", describe_environment(recipe))
    folder.mend_events()
    _publish_locally(recipe, folder)  # a crash may have come between a phase's results and this
    if _is_report_due(folder, finished):
        write_report(folder.root)


def _finished(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    return [key for key in schedule(recipe) if key.target(folder).exists()]


def _is_report_due(folder: RunFolder, finished: list[PhaseKey]) -> bool:
    """Whether a round was evaluated after the report was written."""
    evaluated = [key.target(folder) / "metrics.json" for key in finished if key.name == "evaluate"]
    written = folder.report.stat().st_mtime if folder.report.exists() else 0.0
    return any(figures.stat().st_mtime > written for figures in evaluated)


def _todo(recipe: Recipe, folder: RunFolder, name: str | None, round_index: int | None) -> list[PhaseKey]:
    """The phases to play now."""
    phases = schedule(recipe)
    if name is None:
        return [key for key in phases if not key.target(folder).exists()]
    wanted = PhaseKey(name, round_index)
    if wanted not in phases:
        raise ValueError(f"The game has no phase `{wanted}`; it has {', '.join(map(str, phases))}.")
    missing = [str(key) for key in phases[: phases.index(wanted)] if not key.target(folder).exists()]
    if missing:
        raise ValueError(f"Phase `{wanted}` comes after {', '.join(missing)}, not finished yet.")
    return [] if wanted.target(folder).exists() else [wanted]


def _play_phase(
    recipe: Recipe,
    folder: RunFolder,
    key: PhaseKey,
    world: World,
    stop: StopRequest,
    tracker: GameTracker,
    callbacks: Sequence[GameCallback],
) -> None:
    round_recipe = recipe if key.round_index is None else recipe.for_round(key.round_index)
    context = PhaseContext(round_recipe, folder, key, world, stop, game_steps(recipe, key), tracker)
    is_main = context.processes.is_main_process
    for callback in callbacks:
        callback.on_phase_begin(context)
    started = time.monotonic()
    with staged(key.target(folder), is_main=is_main) as output:
        context.processes.wait_for_everyone()
        line = PHASES[key.name](context, output)
        seconds = time.monotonic() - started
        if is_main:
            write_json_lines(output / "metrics.jsonl", context.metrics)
            # Told before the results appear: a crash in between has it told twice, never not at all.
            context.event("phase_finished", seconds=seconds, summary=line)
    context.processes.wait_for_everyone()
    if is_main:
        _publish_locally(recipe, folder)
        if key.name == "evaluate":
            write_report(folder.root)
    logger.info("%s: %s (%.0f s)", key, line, seconds)
    for callback in callbacks:
        callback.on_phase_end(context)
    gc.collect()  # one phase's models are gone before the next loads its own
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _publish_locally(recipe: Recipe, folder: RunFolder) -> None:
    """Bring `state.json` and `metrics.jsonl` up to the finished phases; both follow from the phases' folders."""
    finished = _finished(recipe, folder)
    write_json(folder.state, {"finished": [str(key) for key in finished]})
    lines = [line for key in finished for line in read_json_lines(key.target(folder) / "metrics.jsonl")]
    write_json_lines(folder.metrics, lines)
