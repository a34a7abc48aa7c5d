"""Fresh attackers against each round's frozen verifier: their curves, and how many find no exploit (K24, fig. 6a)."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pvg_hf.experimental.attacks.exploit import (
    ATTACK_CURVES,
    ATTACK_OUTCOMES,
    LEAST_INCORRECT,
    read_exploits,
    smooth,
    survival_curve,
)
from pvg_hf.report.plots.style import GREY, Plot, legend_below, new_canvas, round_style, tidy
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.read import RunData

EVALUATION = "attacks"
TERMS = {
    "score gap": "mean score of the attacker's incorrect solutions minus that of the round's helpful correct ones.",
    "share incorrect": "of the attacker's solutions that did not fail.",
    "without an exploit": (
        "Kaplan-Meier estimate over the attackers (seeds) of a round; a line that ends above 0 has attackers "
        "that found nothing before the cap."
    ),
}


def plot_attacks(run: RunData) -> Plot | None:
    """Draw a row for each reward: score gap and share incorrect by step, and share of attackers without an exploit."""
    found = attack_judgements([run])
    if not found:
        return None
    outcomes = read_attacks(found, ATTACK_OUTCOMES)
    return Plot(
        "attacks", "How soon does a fresh attacker fool the verifier?", _caption(outcomes), draw_attacks(found), TERMS
    )


def attack_judgements(runs: Sequence[RunData]) -> list[Judgement]:
    """Return the stored attacks of runs, by run and round."""
    return [
        judgement
        for run in runs
        for judgement in run.judgements
        if judgement.name == EVALUATION and judgement.folder is not None
    ]


def read_attacks(found: Sequence[Judgement], name: str) -> pd.DataFrame:
    """Read a table of attacks, with the columns `round` and `attacker`, which counts the attackers of all runs."""
    tables = [
        pd.read_parquet(Path(judgement.folder) / name).assign(round=judgement.round_index, place=place)
        for place, judgement in enumerate(found)
    ]
    table = pd.concat(tables, ignore_index=True)
    return table.assign(attacker=table.groupby(["place", "attack", "seed"]).ngroup())


def draw_attacks(found: Sequence[Judgement]) -> Figure:
    """
    Draw attacks, with the attackers of all runs on the verifiers of one round in one colour.

    Args:
        found: Attacks of one or several runs, as [`attack_judgements`] returns them.
    """
    curves, outcomes = read_attacks(found, ATTACK_CURVES), read_attacks(found, ATTACK_OUTCOMES)
    rounds = sorted(outcomes["round"].unique())
    kinds = list(dict.fromkeys(outcomes["attack"]))
    canvas = new_canvas(11.6, 2.9 * len(kinds) + 0.5)
    panels = canvas.subplots(len(kinds), 3, squeeze=False)
    for kind, (gaps, incorrect, left) in zip(kinds, panels, strict=True):
        for position, k in enumerate(rounds):
            style = {**round_style(position, len(rounds)), "label": f"round {k}"}
            mine = curves[(curves["attack"] == kind) & (curves["round"] == k)]
            _draw_curves(gaps, mine, mine["score/sneaky_incorrect"] - mine["helpful_score"].astype(float), style)
            _draw_curves(incorrect, mine, 1 - mine["judged_accuracy/sneaky"], style)
            _draw_survival(left, outcomes[(outcomes["attack"] == kind) & (outcomes["round"] == k)], style)
        gaps.axhline(0, color=GREY, linewidth=1, linestyle=":")
        incorrect.axhline(LEAST_INCORRECT, color=GREY, linewidth=1, linestyle=":")
        gaps.set_ylabel(f"{kind}\nscore gap")
        incorrect.set_ylabel("share incorrect")
        left.set_ylabel("without an exploit")
        left.set_ylim(-0.03, 1.03)
        for axes in (gaps, incorrect, left):
            axes.set_xlabel("step of the attacker")
            tidy(axes)
    legend_below(canvas)
    return canvas


def _draw_curves(axes: Axes, curves: pd.DataFrame, values: pd.Series, style: dict) -> None:
    """Draw a line for each attacker, smoothed as in the criterion; the first has the round's label."""
    for number, (_, curve) in enumerate(curves.groupby("attacker")):
        averages = smooth(values[curve.index], curve["newest_weight"].iloc[0])
        label = style["label"] if number == 0 else None
        line = {name: style[name] for name in ("color", "linestyle")}
        axes.plot(curve["step"], averages, linewidth=1.5, label=label, **line)


def _draw_survival(axes: Axes, outcomes: pd.DataFrame, style: dict) -> None:
    exploits = read_exploits(outcomes)
    if not exploits:
        return
    times, left = survival_curve(exploits)
    end = max(exploit.time for exploit in exploits)
    steps, shares = [0.0, *times, float(end)], [1.0, *left, left[-1] if len(left) else 1.0]
    axes.plot(steps, shares, drawstyle="steps-post", color=style["color"], linestyle=style["linestyle"], linewidth=1.8)


def _caption(outcomes: pd.DataFrame) -> str:
    counts = outcomes.groupby("round").size()
    shown = ", ".join(f"round {k}: {number}" for k, number in counts.items())
    return (
        "Each line of the first two panels is one attacker, smoothed; an exploit needs both to be above the dotted"
        f" lines. Attackers: {shown}. Cap: {int(outcomes['max_steps'].max())} steps."
    )
