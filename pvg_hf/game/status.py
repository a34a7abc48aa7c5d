"""Describes the state of a run's folder, without loading any model, and even while another process plays."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.core.commands import delete_command, pvg_command
from pvg_hf.core.integrity import DamagedFileError, read_json, replay_advice
from pvg_hf.core.stopwatch import PAST_PARTICIPLES, SMALL, Spent, shares_of
from pvg_hf.core.units import show_percent, show_seconds
from pvg_hf.run.environment import full_command, launcher
from pvg_hf.run.layout import (
    BATCHES,
    BEST_HELPFUL,
    CHECKPOINTS,
    EXPECTED_ALERTS,
    POOL_SCORE_PARTS,
    PhaseKey,
    RunFolder,
    begun_phases,
    partial_of,
    schedule,
    unfinished,
)
from pvg_hf.run.lock import find_holder
from pvg_hf.run.phase_record import PhaseRecord, keeps_work, read_begun_record, read_record
from pvg_hf.run.resume import (
    TRAINING,
    check_same_recipe,
    describe_changes,
    describe_missing,
    find_damage,
    find_missing,
    free_settings,
    is_read_next,
    known_settings,
)
from pvg_hf.run.stored import CheckpointState

WIDTH = 80
LABEL = 12  # columns
CELLS = (20, 10, 9)  # columns of: phase, state, time


@dataclass(frozen=True)
class PhaseStatus:
    """Status of a phase."""

    key: PhaseKey
    state: str  # finished, damaged, begun or to do
    seconds: float | None = None
    text: str = ""  # summary of a finished phase, description of the damage, or progress
    spending: str = ""  # shares and rates of the kinds of work that a finished phase spent its time on


def status_figures(recipe: Recipe) -> dict[str, Any]:
    """State, time and summary of each phase of a game, its alerts, and why this recipe could not resume it."""
    folder = RunFolder.of(recipe)
    damage = find_damage(recipe, folder) if folder.root.exists() else {}
    phases = [phase_status(folder, key, damage.get(key)) for key in schedule(recipe)]
    return {
        "run": str(folder.root),
        "num_finished": sum(phase.state == "finished" for phase in phases),
        "num_phases": len(phases),
        "played_by_process": find_holder(folder.root),
        "phases": [
            {
                "phase": one.key.name,
                "round": one.key.round_index,
                "state": one.state,
                "seconds": one.seconds,
                "text": one.text,
            }
            for one in phases
        ],
        "alerts": [event for event in folder.read_events()[0] if event["event"] == "alert"],
        "error": folder.read_error(),
        "problems": list(_list_problems(folder, recipe)) if folder.root.exists() else [],
    }


def describe_status(recipe: Recipe, script_line: str) -> str:
    """
    Describe which phases of a game are finished, and how to resume it by `script_line`, a command without its
    launcher.

    Lines have at most 80 columns, except for paths and for commands, which are not broken.
    """
    folder = RunFolder.of(recipe)
    # With the launcher of the last start, as another number of processes could not resume a training phase.
    command = full_command(folder.read_environment().get("launcher", launcher()), script_line)
    if not folder.root.exists():
        return f"{folder.root} does not exist: nothing was played yet. To begin:\n  {command}"
    events, num_unreadable = folder.read_events()
    damage = find_damage(recipe, folder)
    phases = [phase_status(folder, key, damage.get(key)) for key in schedule(recipe)]
    lines = [*_header(folder, phases, with_report=recipe.logging.report), "", *_table(phases), *_time_table(phases)]
    lines += _headline(folder, recipe.num_rounds)
    for alert in (event for event in events if event["event"] == "alert"):
        lines += ["", *_wrap(_describe_alert(alert))]
    for problem in (*_list_problems(folder, recipe), *_unreadable_note(folder, num_unreadable)):
        lines += ["", *_wrap(f"Problem: {problem}")]
    refusal = _find_refusal(folder, recipe)
    for change in describe_changes(folder, recipe) if refusal is None else ():
        lines += ["", *_wrap(f"Changed: {change}")]
    holder = find_holder(folder.root)
    error = folder.read_error() if holder is None else None
    if error is not None and refusal is None:
        lines += ["", *_wrap(f"Stopped by an error: {error}"), "", *_change_note(folder, recipe, error, command)]
    elif holder is not None or refusal is None:
        lines += ["", *_next_note(recipe, phases, holder, command)]
    return "\n".join(lines)


def _headline(folder: RunFolder, num_rounds: int) -> list[str]:
    """The report's first sentence, once a round has been evaluated."""
    if not any(folder.evaluation(index).exists() for index in range(num_rounds)):
        return []
    # Imported late: pandas takes half a second.
    from pvg_hf.report.headline import write_headline
    from pvg_hf.run.read import load_figures

    rounds = load_figures(folder, range(num_rounds))
    headline = write_headline(rounds)
    return ["", *_wrap(f"{headline.subject}: {headline.text}")] if rounds else []


def phase_status(folder: RunFolder, key: PhaseKey, damage: DamagedFileError | None = None) -> PhaseStatus:
    """Status of a phase; `damage` is that of its finished folder, if any."""
    target = key.target(folder)
    partial = partial_of(target)
    if damage is not None:
        return PhaseStatus(key, "damaged", text=str(damage))
    if target.exists():
        record = read_record(target)
        if record is None:
            return PhaseStatus(key, "finished")
        return PhaseStatus(key, "finished", record.seconds, record.summary, _describe_spending(record))
    if partial.exists():
        return PhaseStatus(key, "begun", text=_describe_progress(partial, key.name in TRAINING))
    return PhaseStatus(key, "to do")


def _describe_spending(record: PhaseRecord) -> str:
    """
    Shares of the kinds of work with their rates, e.g. `61 % writing (1,339 tokens/s, MFU 2.1 %), 39 % training (...)`.
    """
    split = record.split
    parts = [
        f"{100 * share:.0f} % {kind}{_describe_rates(kind, split[kind], record.peak_flops)}"
        for kind, share in shares_of(split).items()
        if share >= SMALL
    ]
    return ", ".join(part.replace(" ", "\xa0") for part in parts)  # lines are broken between them


def _describe_rates(kind: str, spent: Spent, peak_flops: float | None) -> str:
    if kind not in PAST_PARTICIPLES or spent.tokens_per_second is None:
        return ""
    utilisation = spent.mfu(peak_flops)
    shown = "" if utilisation is None else f", MFU {show_percent(utilisation)}"
    return f" ({spent.tokens_per_second:,.0f} tokens/s{shown})"


def describe_stop(recipe: Recipe) -> str:
    """Describe what a run that was just stopped keeps and loses, in one or two sentences."""
    folder = RunFolder.of(recipe)
    begun = next((key for key in unfinished(recipe) if partial_of(key.target(folder)).exists()), None)
    if begun is None:
        return "All finished phases are kept."
    partial = partial_of(begun.target(folder))
    if _has_batches(partial):
        return f"All finished phases are kept; `{begun}` will resume after the batches that it has finished."
    checkpoint = find_checkpoint(partial) if begun.name in TRAINING else None
    if checkpoint is None:
        record = read_begun_record(partial)
        lost = f"; {show_seconds(record.seconds)} of work on it are lost" if record else ""
        return f"All finished phases are kept; `{begun}` will start again{lost}."
    return f"All finished phases are kept; `{begun}` will resume from its {checkpoint}."


def _has_batches(partial: Path) -> bool:
    """Whether a phase has kept batches of solutions or scores, after which it resumes."""
    return any(partial.glob(f"{BATCHES}/*/*.parquet")) or any(partial.glob(f"{POOL_SCORE_PARTS}/*.parquet"))


def _describe_progress(partial: Path, trains: bool) -> str:
    """
    Newest checkpoint or finished batches, and time since the last write. The folder may change or disappear meanwhile.
    """
    kept = "some batches are finished" if _has_batches(partial) else ""
    checkpoint = (find_checkpoint(partial) or "no checkpoint within the phase") if trains else kept
    newest = max(_changes(partial), default=None)
    written = "" if newest is None else f"last written {show_seconds(max(0.0, time.time() - newest))} ago"
    return "; ".join(part for part in (checkpoint, written) if part)


def _changes(folder: Path) -> Iterator[float]:
    for path in _files(folder):
        with suppress(FileNotFoundError):
            yield path.stat().st_mtime


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder; unlike `Path.rglob`, this tolerates folders that disappear in the meantime."""
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)


def find_checkpoint(partial: Path) -> str | None:
    """Newest checkpoint of a started phase, e.g. `checkpoint at step 20 of 50`; `None` if it has none."""
    steps = {}
    for path in _files(partial):
        if path.name != "trainer_state.json":
            continue
        try:
            state = read_json(path, CheckpointState)
        except ValueError:  # the file is being written or removed
            continue
        steps[state.global_step] = (state.max_steps, path.relative_to(partial).parts[0])
    if not steps:
        return None
    step = max(steps)
    planned, first = steps[step]
    role = "" if first == CHECKPOINTS else f"{first.strip('.').removesuffix('.partial')}: "
    return f"{role}checkpoint at step {step} of {planned}"


def _header(folder: RunFolder, phases: list[PhaseStatus], *, with_report: bool) -> Iterator[str]:
    finished = [phase for phase in phases if phase.state == "finished"]
    seconds = sum(phase.seconds or 0.0 for phase in finished)
    yield f"{'Run folder':<{LABEL}}{folder.root}"
    yield f"{'Finished':<{LABEL}}{len(finished)} of {len(phases)} phases, in {show_seconds(seconds)}"
    yield from _time_left(phases)
    absent = "none yet; it comes with the first evaluated round" if with_report else "none, by `logging.report`"
    if folder.pilot.exists():
        yield f"{'Pilot':<{LABEL}}{folder.pilot}; `{pvg_command('pilot', folder.root)}` prints it"
    report = folder.report if folder.report.exists() else absent
    yield f"{'Report':<{LABEL}}{report}"
    provers = folder.rounds("prover").values()
    best = [path for prover in provers for path in sorted(prover.glob(f"**/{BEST_HELPFUL}"))]
    yield f"{'Helpful':<{LABEL}}{best[-1] if best else 'no checkpoint of a helpful prover was kept yet'}"


def _time_left(phases: list[PhaseStatus]) -> Iterator[str]:
    """Time of the unfinished phases, if each takes as long as the last finished one of its name."""
    known = {phase.key.name: phase.seconds for phase in phases if phase.seconds is not None}
    left = [phase.key for phase in phases if phase.state != "finished"]
    timed = [known[key.name] for key in left if key.name in known]
    if timed:
        about = "about" if len(timed) == len(left) else "at least"
        yield f"{'To play':<{LABEL}}{about} {show_seconds(sum(timed))}, if phases take as long as in earlier rounds"


def _table(phases: list[PhaseStatus]) -> Iterator[str]:
    for phase in phases:
        seconds = "" if phase.seconds is None else show_seconds(phase.seconds)
        left = f"{phase.key!s:<{CELLS[0]}}{phase.state:<{CELLS[1]}}{seconds:>{CELLS[2] - 2}}  "
        yield from _column(left, phase.text)


def _time_table(phases: list[PhaseStatus]) -> Iterator[str]:
    """Describe the time split of each finished phase."""
    for number, phase in enumerate(phase for phase in phases if phase.spending):
        if not number:
            yield from ("", "What the time was spent on")
        name = f"{phase.key!s:<{CELLS[0]}}{show_seconds(phase.seconds or 0.0):>{CELLS[1] - 2}}  "
        yield from _column(name, phase.spending)


def _column(left: str, text: str) -> Iterator[str]:
    """Lines of a text to the right of its name."""
    for number, line in enumerate(_wrap_line(text, WIDTH - len(left)) or [""]):
        yield f"{' ' * len(left) if number else left}{line}".rstrip()


def _describe_alert(alert: dict[str, Any]) -> str:
    place = PhaseKey(str(alert.get("phase")), alert.get("round"))
    note = EXPECTED_ALERTS.get(str(alert.get("kind")))
    return f"Alert in {place} ({alert.get('kind')}): {alert.get('message')}{f' {note}' if note else ''}"


def _find_refusal(folder: RunFolder, recipe: Recipe) -> str | None:
    """Reason why this recipe cannot resume the run, if any."""
    try:
        check_same_recipe(folder, recipe)
    except ValueError as err:
        return str(err)
    return None


def _list_problems(folder: RunFolder, recipe: Recipe) -> Iterator[str]:
    if (refusal := _find_refusal(folder, recipe)) is not None:
        yield refusal
    # A pilot comes before the recipe is kept.
    if not folder.recipe.exists() and (begun_phases(recipe, folder) or not folder.pilot.exists()):
        yield f"{folder.recipe} is missing; resuming writes the current recipe."
    with suppress(DamagedFileError):  # of the list of files, which the phase's line names
        if missing := find_missing(folder, recipe):
            yield f"{describe_missing(missing)} {replay_advice(missing[0])}"


def _change_note(folder: RunFolder, recipe: Recipe, error: str, command: str) -> Iterator[str]:
    """Commands that continue a run that an error has ended, with other values of the settings that the error names."""
    found = [key for key in dict.fromkeys(re.findall(r"`([\w.]+)", error)) if key in known_settings()]
    named = [key for key in found if is_read_next(recipe, key)]
    free = free_settings(folder, recipe, named)
    begun = next((partial_of(key.target(folder)) for key in unfinished(recipe)), None)
    again = f"{delete_command(begun)} && {command}" if begun is not None and free and keeps_work(begun) else command
    if free:
        yield from _wrap(f"Of the settings that it names, {_list_names(free)} may still change in this run:")
        yield f"  {again} {free[0]}=VALUE"
    bound = [key for key in named if not any(name.endswith(key) for name in free)]
    if bound:
        yield from _wrap(f"Finished phases depend on {_list_names(bound)}; another value needs another `name`:")
        yield f"  {pvg_command('play', folder.recipe)} name=NEW_NAME {bound[0]}=VALUE"
    if not named:
        yield "To try again:"
        yield f"  {command}"


def _list_names(keys: list[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _unreadable_note(folder: RunFolder, number: int) -> Iterator[str]:
    if number:
        yield (
            f"{number} line(s) of {folder.events} cannot be read: half-written just now, or by a crash. No result"
            " depends on them."
        )


def _next_note(recipe: Recipe, phases: list[PhaseStatus], holder: str | None, command: str) -> Iterator[str]:
    unfinished = [phase for phase in phases if phase.state != "finished"]
    if holder is not None:
        yield from _wrap(f"It is being played by process {holder}, which ends in order on Ctrl-C or SIGTERM.")
    elif unfinished:
        yield f"Next is {unfinished[0].key}. To continue:"
        yield f"  {command}"
    else:
        yield "All phases are finished. To play one more round:"
        yield f"  {command} num_rounds={recipe.num_rounds + 1}"


def _wrap(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in _wrap_line(line, WIDTH)]


def _wrap_line(line: str, width: int) -> list[str]:
    # Text in backticks may be a command, which must stay on one line to be pasted.
    unbroken = re.sub("`[^`]*`", lambda quoted: quoted[0].replace(" ", "\xa0"), line)
    parts = wrap(unbroken, width, break_long_words=False, break_on_hyphens=False)
    return [part.replace("\xa0", " ") for part in parts]
