"""Bar chart of the time split of each phase."""

from pvg_hf.core.stopwatch import EVALUATING, GRADING, KINDS, OTHER, SCORING, TRAINING, UNKNOWN, WRITING, shares_of
from pvg_hf.report.plots.style import BLUE, GREEN, ORANGE, SKY, VERMILLION, Plot, legend_below, new_canvas, tidy
from pvg_hf.run.read import RunData, name_phase

LIGHT, PALE = "#BBBBBB", "#EEEEEE"
COLORS = {
    WRITING: BLUE,
    GRADING: SKY,
    SCORING: ORANGE,
    TRAINING: VERMILLION,
    EVALUATING: GREEN,
    OTHER: LIGHT,
    UNKNOWN: PALE,
}
HAS_WHITE_TEXT = {WRITING, TRAINING, EVALUATING}
LABELLED = 0.05  # share of the longest bar from which a part is wide enough for its share
TERMS = {
    "writing, grading, scoring, training": (
        "the prover samples, the task grades, the verifier scores, weights are updated."
    ),
    "evaluating": (
        "held-out evaluations inside the phase of a prover or verifier, with all that they write, grade and score."
    ),
    "other": "everything else, such as loading models and writing files.",
    "unknown": "a start that was killed, of which only the duration is known.",
}
UNITS = (("hours", 3600), ("minutes", 60), ("seconds", 1))


def plot_time_split(run: RunData) -> Plot | None:
    """Stacked bars of time, one per finished phase; `None` before the first one."""
    splits = run.phase_splits()
    if not splits:
        return None
    longest = max(sum(spent.seconds for spent in split.values()) for split in splits.values())
    unit, length = next((unit, length) for unit, length in UNITS if longest >= 2 * length or length == 1)
    canvas = new_canvas(8.6, 1.5 + 0.34 * len(splits))
    axes = canvas.subplots()
    ends = [0.0] * len(splits)
    for kind in (kind for kind in KINDS if any(kind in split for split in splits.values())):
        widths = [split[kind].seconds / length if kind in split else 0.0 for split in splits.values()]
        bars = axes.barh(range(len(splits)), widths, left=ends, height=0.7, color=COLORS[kind], label=kind)
        shares = [shares_of(split).get(kind, 0.0) for split in splits.values()]
        labels = [
            f"{100 * share:.0f} %" if width * length >= LABELLED * longest else ""
            for share, width in zip(shares, widths, strict=True)
        ]
        color = "white" if kind in HAS_WHITE_TEXT else "black"
        axes.bar_label(bars, labels, label_type="center", fontsize=8, color=color)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    tidy(axes)
    axes.grid(visible=False, axis="y")
    axes.set_yticks(range(len(splits)), [name_phase(*key) for key in splits])
    axes.set_ylim(len(splits) - 0.5, -0.5)
    axes.set_xlabel(unit)
    legend_below(canvas, num_columns=len(KINDS))
    caption = "Time of the main process by kind of work, with the shares of the larger parts of each phase."
    has_unknown = any(UNKNOWN in split for split in splits.values())
    terms = {name: text for name, text in TERMS.items() if has_unknown or name != UNKNOWN}
    return Plot("time_split", "What the time was spent on", caption, canvas, terms)
