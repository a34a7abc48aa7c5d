"""Plays a recipe, phase by phase."""

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object, parse_flag_from_env

from pvg_hf.check.graphics_cards import peak_flops
from pvg_hf.check.machine import choose_engine_for_game
from pvg_hf.check.memory_fit import LEARNERS
from pvg_hf.check.mistakes import refuse_mistakes
from pvg_hf.check.round_plans import fit_phase, keep_rates
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.files import write_json_lines
from pvg_hf.core.stopwatch import describe_shares
from pvg_hf.core.units import show_seconds
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.cli import ENDING_ERRORS
from pvg_hf.game.context import GameCallback, GameTracker, PhaseContext, open_tracker
from pvg_hf.game.first_writes import try_checkpoint, try_report
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.labels import summarize_calls
from pvg_hf.game.limits import naming_full_disk, naming_memory_settings
from pvg_hf.game.phases.bootstrap import run_bootstrap
from pvg_hf.game.phases.evaluate import run_evaluate
from pvg_hf.game.phases.mint import run_mint
from pvg_hf.game.phases.prover import run_prover
from pvg_hf.game.phases.verifier import run_verifier
from pvg_hf.game.phases.warmup import run_warmup
from pvg_hf.game.pilot import is_pilot_due, read_or_run_pilot
from pvg_hf.game.publish import begin_from_hub, is_report_due, publish_rounds, refresh_report, run_on_main_process
from pvg_hf.game.training import remove_training_files
from pvg_hf.models.hardware import Hardware, join_processes
from pvg_hf.report.pilot_findings import Pilot
from pvg_hf.run.environment import full_command, processes_asked, script_line
from pvg_hf.run.layout import (
    METRICS,
    PhaseKey,
    RunFolder,
    choose_phases,
    finished_phases,
    game_steps,
    phase_settings,
    unfinished,
)
from pvg_hf.run.lock import locked
from pvg_hf.run.phase_record import recording, staged
from pvg_hf.run.resume import check_same_recipe, describe_changes, prepare_resume, write_derived
from pvg_hf.sampling.engines import ENGINE_WORDS
from pvg_hf.tasks import Task

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = "out_of_memory"  # an event: a micro-batch that did not fit

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
    only_pilot: bool = False,
) -> RunFolder:
    """
    Play or resume a game. Phases with results in the run's folder are not played again.

    Args:
        phase (`str`, *optional*), round_index (`int`, *optional*):
            A single phase to play; all earlier phases must be finished.
        callbacks (`Sequence[GameCallback]`, *optional*):
            Called before and after each phase.
        only_pilot (`bool`, defaults to `False`):
            Whether to run the pilot alone, whatever it finds. It is kept in the run's folder.

    Raises:
        ValueError: if the recipe or the data has mistakes, the pilot stops the game, a verifier has too few pairs or
        is degenerate,
            or another process plays the run; finished phases are kept.
        UntrustedCodeError: if the recipe came with a pulled run and needs consent that the user has not given yet.
        DiskFullError: if the disk is full; finished phases are kept.
        GameInterrupted: if the user stopped the run; playing it again resumes it.
    """
    recipe = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    phases = choose_phases(recipe, phase, round_index)
    stop = StopRequest()
    processes = join_processes(recipe.device)
    if processes.num_processes == 1 and (asked := processes_asked()) > 1:
        logger.warning(
            "`accelerate launch` was asked for %d processes and started one, as it does on a CPU: start `torchrun"
            " --nproc_per_node %d` in its place.",
            asked,
            asked,
        )
    folder = RunFolder.of(recipe)
    for setting in admit_recipe(recipe):
        logger.info("The recipe %s %s", setting.effect.verb, setting)
    problems = GameProblems.load(recipe)
    refuse_mistakes(recipe, problems)  # before anything is written
    with naming_full_disk(folder.root), locked(folder.root, is_main=processes.is_main_process) as lock:
        stop.find_loss = lock.find_loss
        run_on_main_process(processes, partial(begin_from_hub, recipe, folder))
        if only_pilot:
            check_same_recipe(folder, recipe)
            _run_pilot(recipe, folder, problems, stop)
            return folder
        todo = pending_phases(recipe, phases)  # may refuse; done before the recipe is written to the folder
        # With one process for each phase, `pvg play --launcher` runs the pilot in one too.
        has_pilot = is_pilot_due(recipe, folder, todo) and _why_one_process_each(recipe.prover) is None
        if has_pilot and not recipe.prover.is_made:
            with _keeping_error(recipe, folder, processes):
                _check_pilot(recipe, folder, problems, stop)
        processes.wait_for_everyone()
        if processes.is_main_process:
            for line in describe_changes(folder, recipe):
                logger.info("Changed: %s", line)
            try_checkpoint(folder.root)
            prepare_resume(recipe, folder, problems, processes)
            if is_report_due(recipe, folder):
                refresh_report(recipe, folder)
            try_report(recipe, folder)
        processes.wait_for_everyone()
        with stop.listening(), _keeping_error(recipe, folder, processes), open_tracker(recipe, folder) as tracker:
            _publish(recipe, folder, processes)  # rounds that an earlier start did not publish
            pending = pending_phases(recipe, phases)
            is_alone = len(pending) == 1
            for key in pending:
                stop.check()
                if has_pilot and recipe.prover.is_made and key == PhaseKey("bootstrap"):
                    _check_pilot(recipe, folder, problems, stop)
                _play_phase(recipe, folder, key, problems, stop, tracker, callbacks, is_alone=is_alone)
    return folder


@contextmanager
def _keeping_error(recipe: Recipe, folder: RunFolder, processes: PartialState) -> Iterator[None]:
    """Keep an error that ends the game in the run's state, for `pvg status`; the next start drops it."""
    try:
        yield
    except ENDING_ERRORS as err:
        if processes.is_main_process and folder.root.exists():  # else it is not made again
            with suppress(OSError):  # a full disk
                folder.write_state(finished_phases(recipe, folder), str(err))
        raise


def _run_pilot(recipe: Recipe, folder: RunFolder, problems: GameProblems, stop: StopRequest) -> Pilot:
    with stop.listening(), naming_memory_settings(recipe, "bootstrap"):
        return read_or_run_pilot(recipe, folder, problems, stop)


def _check_pilot(recipe: Recipe, folder: RunFolder, problems: GameProblems, stop: StopRequest) -> None:
    pilot = _run_pilot(recipe, folder, problems, stop)
    logger.info(pilot.describe())
    pilot.check()


def pending_phases(recipe: Recipe, wanted: list[PhaseKey]) -> list[PhaseKey]:
    """Wanted phases that are not finished; all earlier phases must be finished."""
    todo = unfinished(recipe)
    chosen = [key for key in todo if key in wanted]
    missing = [str(key) for key in todo[: todo.index(chosen[0])]] if chosen else []
    if missing:
        raise ValueError(f"Phase `{chosen[0]}` comes after {', '.join(missing)}, not finished yet.")
    reason = _why_one_process_each(recipe.prover) if len(chosen) > 1 else None
    if reason:
        command = full_command("python", script_line("--launcher", "accelerate launch"))
        raise ValueError(f"{reason} Play each phase in a separate process: `{command}`.")
    return chosen


def _why_one_process_each(config: ProverConfig) -> str | None:
    """Reason why each phase needs a separate process, or `None`."""
    if config.generation == "vllm_colocate":
        return "`prover.generation` is `vllm_colocate`, and vLLM does not release its memory before its process ends."
    if parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"):
        return "The launcher starts DeepSpeed, which shards every model that is loaded after its first training."
    return None


def _play_phase(
    recipe: Recipe,
    folder: RunFolder,
    key: PhaseKey,
    problems: GameProblems,
    stop: StopRequest,
    tracker: GameTracker,
    callbacks: Sequence[GameCallback],
    *,
    is_alone: bool,
) -> None:
    round_recipe = recipe if key.round_index is None else recipe.for_round(key.round_index)
    # The step axis needs the whole game's recipe: rounds may have different numbers of steps.
    problems = problems.for_round(round_recipe)
    engine = choose_engine_for_game(round_recipe, Hardware.here(recipe.device), is_one_phase=is_alone)
    generation: Any = engine.name  # one of the key's values
    round_recipe = replace(round_recipe, prover=replace(round_recipe.prover, generation=generation))
    context = PhaseContext(round_recipe, folder, key, problems, stop, game_steps(recipe, key), tracker)
    is_main = context.processes.is_main_process
    if is_main and not folder.has_event("sampling", **engine._asdict()):
        folder.log_event("sampling", **engine._asdict())
        logger.info("Solutions are sampled %s, because %s.", ENGINE_WORDS[engine.name], engine.reason)
    for callback in callbacks:
        callback.on_phase_begin(context)
    with (
        staged(key.target(folder), is_main=is_main, settings=phase_settings(recipe, key)) as output,
        recording(
            output, context.processes.num_processes, is_main=is_main, peak_flops=peak_flops(context.processes.device)
        ) as record,
    ):
        context.processes.wait_for_everyone()  # the staging folder exists for all processes from here on
        with naming_memory_settings(round_recipe, key.name):
            # What belongs to no phase is dropped: that of checks before the game, or of a phase that failed.
            take_use(problems.task, context.track)
            _take_failures(problems.task)
            context, summary = _run_phase(context, output)
            record.summary = summary + _take_failures(problems.task)
            stop.is_asked()  # an error if the folder is gone, which the results would make again
            record.task_use = take_use(problems.task, context.track)
            if is_main and (calls := summarize_calls(round_recipe.noise, key, output)):
                context.record(calls)
            record.alerts = context.alerts()
        if is_main:
            write_json_lines(output / METRICS, context.metrics)
        remove_training_files(output, context.processes)
    context.processes.wait_for_everyone()
    if is_main:
        write_derived(recipe, folder)
        keep_rates(recipe, context.players.hardware, key.name, record.split)
        if key.name == "evaluate":
            refresh_report(recipe, folder)
    shares = describe_shares(record.split)
    logger.info("%s: %s (%s: %s)", key, record.summary, show_seconds(record.seconds), shares)
    if key.name == "evaluate":
        _publish(recipe, folder, context.processes)
    for callback in callbacks:
        callback.on_phase_end(context)
    gc.collect()  # free the phase's models before the next phase loads its own
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def take_use(task: Task, track: Callable[[dict[str, float]], None]) -> dict[str, float] | None:
    """
    Sum, over all processes, the counts of work that the task's helpers did since the last call; `None` if there was
    none.

    The helpers are programs of the task's own, such as a sandbox ([`~pvg_hf.tasks.Task.take_use`]). The tracker gets
    the sums, too.
    """
    total = sum((Counter(use) for use in gather_object([task.take_use()])), Counter())
    track({f"task/{name}": number for name, number in total.items()})
    return dict(total) or None


def _run_phase(context: PhaseContext, output: Path) -> tuple[PhaseContext, str]:
    """
    Run a phase, with the micro-batch that fits in memory.

    If memory runs out all the same, the phase continues from its last checkpoint with half the micro-batch. Several
    processes cannot do that together, and vLLM or DeepSpeed would still hold memory or shards, so that these end, and
    do it when they are started again.

    Returns: the context with the settings that were used, and the phase's summary.
    """
    given, phase = context, context.phase.name
    while True:
        events = given.folder.find_events(OUT_OF_MEMORY, **given.phase.fields)
        most = min((event["micro_batch_size"] for event in events), default=None)
        bound = None if most is None else most // 2  # half of the smallest micro-batch that ran out of memory
        recipe = fit_phase(given.recipe, given.problems, given.players.hardware, phase, bound)
        # A new context, as for a phase that is resumed: nothing of the attempt before is left in memory.
        context = replace(given, recipe=recipe, metrics=[])
        _log_micro_batch(context)
        try:
            return context, PHASES[phase](context, output)
        except torch.OutOfMemoryError:
            if not _can_halve(given.recipe, recipe, phase):
                raise
            size = recipe.player(phase).micro_batch_size
            assert isinstance(size, int)
            given.folder.log_event(OUT_OF_MEMORY, **given.phase.fields, micro_batch_size=size)
            if given.processes.num_processes > 1 or _why_one_process_each(given.recipe.prover) is not None:
                raise
        logger.warning("Micro-batches of %d do not fit in memory; the phase continues with %d.", size, size // 2)
        del context  # outside the handler, because its traceback keeps the tensors alive
        gc.collect()
        torch.cuda.empty_cache()


def _can_halve(given: Recipe, fitted: Recipe, phase: str) -> bool:
    """Whether a phase has a micro-batch that `auto` has chosen and that can be smaller."""
    if phase not in LEARNERS or given.player(phase).micro_batch_size != "auto":
        return False
    size = fitted.player(phase).micro_batch_size
    return isinstance(size, int) and size > 1 and not given.player(phase).needs_whole_steps


def _log_micro_batch(context: PhaseContext) -> None:
    """Log the micro-batch that was chosen for the phase, and keep it with the run."""
    if context.phase.name not in LEARNERS or not context.players.hardware.has_gpu:
        return
    config = context.recipe.player(context.phase.name)
    chosen = {"micro_batch_size": config.micro_batch_size, "gradient_checkpointing": config.recomputes}
    if not context.folder.has_event("micro_batch", **context.phase.fields, **chosen):
        context.event("micro_batch", **chosen)
    rows = config.rows_per_step // context.processes.num_processes
    how = "recomputed" if config.recomputes else "kept"
    logger.info("Micro-batches of %s of %d rows, with activations %s.", config.micro_batch_size, rows, how)


def _take_failures(task: Task) -> str:
    """Describe on how many solutions the task's `grade` failed since the last call; empty if on none."""
    counts = gather_object([task.tolerant_grader.take_counts()])
    num_graded, num_failed = map(sum, zip(*counts, strict=True))
    return f"; `grade` failed on {num_failed:,} of {num_graded:,} solutions" if num_failed else ""


def _publish(recipe: Recipe, folder: RunFolder, processes: PartialState) -> None:
    """Publish all evaluated rounds that are not published yet, if the recipe says so."""
    if recipe.hub.push:
        run_on_main_process(processes, partial(publish_rounds, recipe, folder))
