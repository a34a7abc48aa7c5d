"""Formats the results of the check as Markdown, for docs/performance.md."""

from collections.abc import Iterator, Mapping
from typing import Any

from pvg_hf.core.markdown import markdown_table

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
    ("time / planned", "worked_over_planned"),
)


def describe(results: Figures) -> str:
    """
    Format the results so far as Markdown.

    Args:
        results (`Mapping[str, Any]`):
            Contents of `check_gpu.json`.
    """
    parts: Figures = results["parts"]
    blocks = [
        *_describe_machine(parts.get("probe", {}).get("figures", {}), is_toy=results.get("setting", {}).get("toy"))
    ]
    phases = [
        [name, phase, *(_show(figures.get(key), is_share=key.endswith("mfu")) for _, key in COLUMNS)]
        for name, part in parts.items()
        for phase, figures in sorted(
            part.get("figures", {}).get("phases", {}).items(), key=lambda item: PHASES.index(item[0])
        )
    ]
    if phases:
        blocks.append(markdown_table([["", "phase", *(heading for heading, _ in COLUMNS)], *phases]))
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
    blocks.append(markdown_table([["part", "", "s", ""], *(_part_row(name, part) for name, part in parts.items())]))
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
        _show(figures.get("hours_of_recipe")),
        figures["note"],
    ]


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
