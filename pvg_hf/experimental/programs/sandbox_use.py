"""Use of the sandbox in a phase, for tasks whose solutions are programs."""

from collections import Counter
from typing import Any

from accelerate.utils import gather_object

from pvg_hf.experimental.programs.code import ProgramTask
from pvg_hf.experimental.programs.sandbox import SandboxCounts
from pvg_hf.game.context import PhaseContext


def take_sandbox_use(context: PhaseContext) -> dict[str, Any] | None:
    """
    Return what the sandboxes of all processes did since the last call, and send it to the tracker.

    It depends on the machine and on where a phase was resumed, and is therefore no part of the run's metrics.

    Returns:
        `dict`, *optional*: `programs` that ran, `cache_hits`, `seconds` of wall time, `lost_workers`, and `outcomes`, the number
        of cases by outcome; `None` if no program ran, and for tasks without programs.
    """
    task = context.problems.task
    if not isinstance(task, ProgramTask):
        return None
    found = [Counter(counts) for counts in gather_object([_flat(task.take_counts())])]
    total = sum(found, Counter())
    if not total["programs"] + total["cache_hits"]:
        return None
    context.track({f"sandbox/{name}": number for name, number in total.items()})
    names = ("programs", "cache_hits", "seconds", "lost_workers")
    outcomes = {name.removeprefix("cases/"): number for name, number in total.items() if name.startswith("cases/")}
    return {name: total[name] for name in names} | {"outcomes": dict(sorted(outcomes.items()))}


def _flat(counts: SandboxCounts) -> dict[str, float]:
    numbers = dict(vars(counts))
    return numbers | {f"cases/{name}": number for name, number in numbers.pop("outcomes").items()}
