"""Formats the results of the check as Markdown, for docs/explanation/speed-and-memory.md."""

from collections.abc import Iterator, Mapping
from typing import Any

from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.stopwatch import OTHER, PAST_PARTICIPLES, Spent, describe_shares

Figures = Mapping[str, Any]
PHASES = ("warmup", "bootstrap", "verifier", "prover", "mint", "evaluate")
# Heading and figure of each column; shares are shown as percentages.
COLUMNS = (
    ("tokens written a second", "written_tokens_per_second"),
    ("MFU", "writing_mfu"),
    ("tokens scored a second", "scored_tokens_per_second"),
    ("step, s", "step_seconds"),
    ("tokens trained a second", "trained_tokens_per_second"),
    ("MFU", "training_mfu"),
    ("peak, GB", "peak_gb"),
    ("planned, GB", "planned_gb"),
    ("at these lengths, GB", "planned_at_lengths_gb"),
    ("peak / planned", "peak_over_planned"),
)
RATIOS = {"peak memory / planned": ("peak_over_planned", 0.85, 1.15)}
"""Goals of a ratio: the figure, and the bounds that every phase should keep."""

LEAST_MFU = 0.2  # of training, in the part `gsm8k`


def describe(results: Figures) -> str:
    """
    Format the results so far as Markdown.

    Args:
        results: Contents of `check_gpu.json`.
    """
    parts: Figures = results["parts"]
    blocks = [
        *_describe_machine(parts.get("probe", {}).get("figures", {}), is_toy=results.get("setting", {}).get("toy"))
    ]
    phases = [
        [
            name,
            phase,
            *(_show(figures.get(key), is_share=key.endswith("mfu")) for _, key in COLUMNS),
            describe_shares({kind: Spent(seconds) for kind, seconds in figures.get("seconds_of", {}).items()}),
        ]
        for name, part in parts.items()
        for phase, figures in sorted(
            part.get("figures", {}).get("phases", {}).items(), key=lambda item: PHASES.index(item[0])
        )
    ]
    if phases:
        blocks.append(markdown_table([["", "phase", *(heading for heading, _ in COLUMNS), "time"], *phases]))
    games = [_game_row(name, part["figures"]) for name, part in parts.items() if "weights" in part.get("figures", {})]
    if games:
        headings = [
            "",
            "prover, M",
            "verifier, M",
            "three bf16 copies, GB",
            "largest peak, GB",
            "hours of the recipe",
            "",
        ]
        blocks.append(markdown_table([headings, *games]))
    measured = {
        name: part["figures"]["phases"] for name, part in parts.items() if part.get("figures", {}).get("phases")
    }
    if measured:
        blocks.append(markdown_table([["goal", "measured", "reached"], *_goal_rows(measured)]))
    blocks.append(markdown_table([["part", "", "s", ""], *(_part_row(name, part) for name, part in parts.items())]))
    blocks += [_describe_bottleneck(name, parts[name]["figures"]) for name in measured]
    return "\n\n".join(blocks)


def _describe_machine(probe: Figures, *, is_toy: bool | None) -> Iterator[str]:
    if not probe:
        return
    rates = ", ".join(f"{rate} TFLOP/s in {dtype}" for dtype, rate in probe["matrix_tflops"].items())
    memory = f", {probe['memory_gb']} GB, compute capability {probe['compute_capability']}" if probe["cuda"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in probe["versions"].items() if version)
    yield f"{probe['device']}{memory}. Matrix products: {rates}. {versions}."
    if is_toy:
        yield "Toy sizes: these figures only show that the check runs; they do not describe a GPU."


def _game_row(name: str, figures: Figures) -> list[str]:
    peaks = [phase["peak_gb"] for phase in figures["phases"].values()]
    weights = [_show(round(figures["weights"][player] / 1e6, 1)) for player in ("prover", "verifier")]
    return [
        name,
        *weights,
        _show(figures["three_copies_gb"]),
        _show(max(peaks, default=None)),
        _show(sum(figures["hours"].values()) if "hours" in figures else None),
        figures["note"],
    ]


def _goal_rows(measured: Mapping[str, Mapping[str, Figures]]) -> Iterator[list[str]]:
    """Rows of the goals: what is wanted, what was measured, and whether that is enough."""
    for phase, what in (("verifier", "training the verifier"), ("prover", "the training in a prover step")):
        found = measured.get("gsm8k", {}).get(phase, {}).get("training_mfu")
        goal = f"MFU of {what} in `gsm8k` at least {100 * LEAST_MFU:.0f} %"
        yield [goal, _show(found, is_share=True), "" if found is None else _yes(found >= LEAST_MFU)]
    yield ["sampling at least .7 of compiled `generate`", "by `benchmarks/generation.py`", ""]
    for what, (key, low, high) in RATIOS.items():
        found = [
            (figures[key], f"{name} {phase}")
            for name, phases in measured.items()
            for phase, figures in phases.items()
            if key in figures
        ]
        ends = " to ".join(f"{_show(ratio)} ({where})" for ratio, where in (min(found), max(found))) if found else ""
        yield [
            f"{what} between {low:.2f} and {high:.2f} in every phase",
            ends,
            _yes(all(low <= ratio <= high for ratio, _ in found)) if found else "",
        ]


def _yes(is_reached: bool) -> str:
    return "yes" if is_reached else "no"


def _describe_bottleneck(name: str, figures: Figures) -> str:
    """The kind of work that takes most of a part's time: of the recipe's hours, or of the steps that were run."""
    phases, hours = figures["phases"], figures.get("hours", {})
    spent = {
        (phase, kind): (hours[phase] / of_phase["worked_seconds"] if hours else 1.0) * seconds
        for phase, of_phase in phases.items()
        for kind, seconds in of_phase.get("seconds_of", {}).items()
        if kind != OTHER and of_phase["worked_seconds"]
    }
    if not spent:
        return f"`{name}`: no time was measured."
    phase, kind = max(spent, key=spent.__getitem__)
    of_phase, whole = phases[phase], sum(spent.values())
    rate, mfu = of_phase.get(f"{PAST_PARTICIPLES.get(kind)}_tokens_per_second"), of_phase.get(f"{kind}_mfu")
    facts = [
        f"{_show(rate)} tokens a second" if rate else "",
        f"MFU {_show(mfu, is_share=True)}" if mfu else "",
    ]
    of_what = f"the recipe's {_show(whole)} hours" if hours else "the time that was measured"
    share = f"{100 * spent[phase, kind] / whole:.0f} %"
    return (
        f"Bottleneck of `{name}`: {kind} in the phase `{phase}`, {share} of {of_what}"
        f" ({', '.join(filter(None, facts))})."
    )


def _part_row(name: str, part: Figures) -> list[str]:
    figures = part.get("figures", {})
    counts = ", ".join(
        f"{value} {key}" for key, value in figures.items() if name == "tests" and isinstance(value, int)
    )
    last = part.get("last_lines", [])[-1:]
    why = "; ".join(filter(None, [part.get("reason", ""), counts, *last]))
    return [name, part["status"], _show(part.get("seconds")), why.replace("|", "\\|")]


def _show(value: float | None, *, is_share: bool = False) -> str:
    if value is None:
        return ""
    if is_share:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
