"""Writes `report.html` and `plots/` of a message game's run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pvg_hf.core.commands import pvg_command
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_bytes, write_text
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.experimental.messages.folder import GAME, MessageRunFolder
from pvg_hf.experimental.messages.judge import MessageJudgement, chance_of, passes_gate
from pvg_hf.experimental.messages.recipe import MessageRecipe, load_message_recipe
from pvg_hf.report.page import Image, embed, make_environment
from pvg_hf.report.plots.style import BLUE, GREEN, VERMILLION, Plot, Style, legend_below, new_canvas, tidy
from pvg_hf.report.tables import Table, TableCell

TEMPLATE = "message_report.html.jinja"

NAMES = {"prover": "the prover's messages", "none": "without messages", "witness": "the true witness"}
"""Heading of each game, by what the verifier sees as the message."""

FIGURES = {
    "accuracy": "share of test problems decided correctly.",
    "completeness": "P(accepted | yes), with the trained prover.",
    "soundness": "P(rejected | no), against the trained prover.",
    "soundness_fresh": "the same against a prover that was newly trained against the final verifier.",
    "soundness_attack": "the same against the best message that a direct search found for each problem.",
    "clean_loss": "cross-entropy on clean labels, in nats.",
    "accuracy_shuffled": (
        "accuracy if messages are exchanged among problems; equal to the accuracy if the verifier ignores them."
    ),
    "accuracy_same_class": "accuracy if a problem gets the message of another one with the same answer.",
    "accuracy_zeroed": "accuracy with zeros as the message.",
    "message_diversity": "standard deviation of an entry of the message over the problems.",
}
"""Explanation of each figure of the table; precision at coverage follows them."""

_STYLES: dict[str, Style] = {
    "prover": {"color": BLUE, "linestyle": "-"},
    "none": {"color": VERMILLION, "linestyle": "--"},
    "witness": {"color": GREEN, "linestyle": ":"},
}
_SMOOTHING = 10  # entries of the log in a moving average


def write_message_report(root: Path) -> Path:
    """
    Write `report.html` and `plots/*.png` into the folder of a judged run.

    Returns: the page, one file without scripts.
    Raises `ValueError` if the folder holds no judged message game.
    """
    recipe, judged = read_message_run(root)
    images = []
    for plot in plot_messages(root, judged):
        png = plot.to_png()
        write_bytes(root / "plots" / f"{plot.name}.png", png)
        images.append(embed(plot, png))
    page = root / "report.html"
    write_text(page, render_message_report(root, recipe, judged, images))
    return page


def read_message_run(root: Path) -> tuple[MessageRecipe, dict[str, MessageJudgement]]:
    """
    Read the recipe of a run and the figures of its games.

    Raises `ValueError` if the folder holds no judged message game.
    """
    folder = MessageRunFolder(root)
    if not folder.judgement.exists():
        raise ValueError(f"{root} holds no judged message game. Play it by `{pvg_command('play', folder.recipe)}`.")
    recipe = load_message_recipe(folder.recipe)
    found = read_json(folder.judgement, dict[str, dict[str, Figure]])
    games = [source for source in folder.sources(recipe) if source in found]
    return recipe, {source: MessageJudgement(found[source]) for source in games}


def render_message_report(
    root: Path, recipe: MessageRecipe, judged: dict[str, MessageJudgement], images: list[Image]
) -> str:
    """Render the page as HTML; every value is escaped."""
    folder = MessageRunFolder(root)
    text, environment = folder.recipe.read_text(encoding="utf-8"), read_json(folder.environment, dict[str, Any])
    terms = {name.replace("_", " "): text for name, text in FIGURES.items()}
    shown = {"verdict": describe_gate(judged), "table": figures_table(judged), "terms": terms, "images": images}
    template = make_environment(Path(__file__).parent).get_template(TEMPLATE)
    return template.render(**shown, recipe=recipe, recipe_text=text, environment=environment)


def describe_gate(judged: dict[str, MessageJudgement]) -> list[str]:
    """State in sentences whether the game learned, and whether the verifier uses the messages."""
    ours = judged[GAME].figures
    accuracy, shuffled = ours["accuracy"], ours["accuracy_shuffled"]
    lines = [f"Accuracy with the prover's messages: {accuracy:.3f}."]
    if "none" in judged:
        theirs = judged["none"].figures["accuracy"]
        words = "clearly" if passes_gate(judged[GAME], judged["none"]) else "not clearly"
        gate = "passes" if words == "clearly" else "fails"
        chance = chance_of(judged[GAME])
        lines.append(
            f"Without messages: {theirs:.3f}. The game {gate} the gate: it is {words} above both chance ({chance:.3f})"
            " and this."
        )
    is_used = accuracy.low is not None and shuffled.value < accuracy.low
    lines.append(
        f"With messages exchanged among problems: {shuffled:.3f}. The verifier"
        f" {'uses' if is_used else 'does not clearly use'} them."
    )
    return lines


def figures_table(judged: dict[str, MessageJudgement]) -> Table:
    """Return a table with a row per figure and a column per game."""
    names = list(dict.fromkeys(name for judgement in judged.values() for name in judgement.figures))
    ordered = [name for name in FIGURES if name in names] + [name for name in names if name not in FIGURES]
    rows = [
        (name.replace("_", " "), [_cell(judgement.figures.get(name)) for judgement in judged.values()])
        for name in ordered
    ]
    return Table(["figure", *(NAMES[source] for source in judged)], rows)


def _cell(figure: Figure | None) -> TableCell:
    if figure is None or figure.value is None:
        return TableCell("-")
    interval = "" if figure.low is None else f"[{figure.low:.3f}, {figure.high:.3f}]"
    return TableCell(f"{figure.value:.3f}", interval, f"n={figure.n:,}")


def plot_messages(root: Path, judged: dict[str, MessageJudgement]) -> Iterator[Plot]:
    """Plot the losses of both players over the rounds, and the norms of their gradients."""
    logs = {
        source: pd.DataFrame(read_json_lines(MessageRunFolder(root).game(source) / "log.jsonl")) for source in judged
    }
    panels = {
        "verifier_loss": "verifier's loss (nats)",
        "prover_loss": "prover's loss (nats)",
        "verifier_grad_norm": "verifier's gradient norm",
        "prover_grad_norm": "prover's gradient norm",
    }
    canvas = new_canvas(8.4, 5.6)
    for axes, (name, title) in zip(np.ravel(canvas.subplots(2, 2)), panels.items()):
        for source, log in logs.items():
            if name in log:
                known = log[log[name].notna()]
                smooth = known[name].rolling(_SMOOTHING, min_periods=1).mean()
                axes.plot(known["round"], smooth, linewidth=1.6, label=NAMES[source], **_STYLES[source])
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("round", fontsize=9)
        tidy(axes)
    legend_below(canvas)
    caption = (
        f"Moving averages over {_SMOOTHING} entries of the log, on the labels of the training, which may be noisy."
    )
    yield Plot("training", "The training", caption, canvas)
