"""The report's tables of an imperfect checker."""

from typing import Any

from pvg_hf.evaluation.report.run_data import RunData
from pvg_hf.evaluation.report.tables import MISSING, Cell, Table
from pvg_hf.noise.telemetry import NOISE_TYPES
from pvg_hf.outcomes import ABSTENTIONS, ACCEPTING

DIGITS_OF_DIGEST = 12


def checks_table(run: RunData) -> Table:
    """What the checks of each phase came to."""
    headers = ["", "calls", "accepted", "rejected", "no label", "flagged", "cost", "waited, s", "digest"]
    return Table(headers, [(_place(told), _counts(told)) for told in run.checks])


def noise_table(run: RunData) -> Table:
    """Of each phase, tier and slice: the rates of the noise that was injected, and those configured."""
    found = {
        (_place(told), one["tier"], one["slice"], one["noise"]): one for told in run.checks for one in told["rates"]
    }
    places = dict.fromkeys(key[:3] for key in found)
    rows = [(", ".join(place), [_rate(found.get((*place, noise))) for noise in NOISE_TYPES]) for place in places]
    return Table(["", *(noise.replace("_", " ") for noise in NOISE_TYPES)], rows)


def escalation_table(run: RunData) -> Table:
    """Of each phase and transition: further calls, and the share of them that accepted."""
    rows = [
        (f"{_place(told)}, {transition}", [Cell(f"{figure['n']:,}"), _share(figure)])
        for told in run.checks
        for transition, figure in told["escalations"].items()
    ]
    return Table(["", "further calls", "of them, accepting"], rows)


def channel_table(run: RunData) -> Table:
    """The channel of the last phase that checked, from end to end, by slice; computed, not counted."""
    channels = run.checks[-1]["channels"] if run.checks else {}
    headers = [
        "",
        "false accept",
        "false reject",
        "no label, correct",
        "no label, incorrect",
        "calls, correct",
        "calls, incorrect",
    ]
    rows = []
    for name, channel in channels.items():
        correct, incorrect = channel["correct"], channel["incorrect"]
        rates = (incorrect["accept"], correct["reject"], correct["abstain"], incorrect["abstain"])
        calls = (correct["num_calls"], incorrect["num_calls"])
        rows.append((name, [Cell(f"{value:.4f}") for value in rates] + [Cell(f"{value:.2f}") for value in calls]))
    return Table(headers, rows)


def _place(told: dict[str, Any]) -> str:
    return told["phase"] if told["round"] < 0 else f"round {told['round']} {told['phase']}"


def _counts(told: dict[str, Any]) -> list[Cell]:
    codes = told["codes"]
    accepted = sum(number for code, number in codes.items() if code in ACCEPTING)
    rejected = sum(number for code, number in codes.items() if code not in ACCEPTING | ABSTENTIONS)
    numbers = (told["calls"], accepted, rejected, told["abstained"], told["flagged"])
    cells = [Cell(f"{number:,}") for number in numbers]
    cells += [Cell(f"{told['cost']:,g}"), Cell(f"{told['duration_ms'] / 1000:,.0f}")]
    return [*cells, Cell(told["digest"][:DIGITS_OF_DIGEST])]


def _rate(one: dict[str, Any] | None) -> Cell:
    if one is None:
        return Cell(MISSING)
    cell = _share(one)
    return Cell(f"{cell.value} (set to {one['configured']:g})", cell.interval, cell.n)


def _share(figure: dict[str, Any]) -> Cell:
    interval = f"[{figure['low']:.4f}, {figure['high']:.4f}]"
    return Cell(f"{figure['value']:.4f}", interval, f"n={figure['n']:,}")
