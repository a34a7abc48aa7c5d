"""Beginning of every card of a round: the report's first sentence, a picture, and one pair of solutions."""

import math
import re
from dataclasses import replace

from pvg_hf.hub.layout import PICTURE
from pvg_hf.hub.publication import Publication
from pvg_hf.report.escaping import Line
from pvg_hf.report.examples import ExampleSolution, choose_examples
from pvg_hf.report.headline import write_headline
from pvg_hf.report.plots.pool_matrix import plot_pool_matrix
from pvg_hf.run.read import RunData, load_run

PICTURE_TEXT = (
    "Share of the sneaky mistakes of each prover that each verifier accepts, as a matrix and over the rounds"
)


def card_highlights(publication: Publication) -> dict[str, str]:
    """
    Values of the templates, as Markdown: `headline`, `picture` and `pair`; the latter two are empty if there is none.
    """
    run = _read_run(publication)
    plot, headline = plot_pool_matrix(run), write_headline(run.evaluated)
    return {
        "headline": f"**{headline.subject}:** {headline.text}",
        "picture": f"**{plot.title}**\n\n![{PICTURE_TEXT}]({PICTURE})\n\n{plot.caption}" if plot else "",
        "pair": _show_pair(run),
    }


def draw_picture(publication: Publication) -> bytes | None:
    """The picture as PNG: verifiers x pools; `None` if no verifier has scored a pool."""
    plot = plot_pool_matrix(_read_run(publication))
    return plot.to_png() if plot else None


def _read_run(publication: Publication) -> RunData:
    """The run up to the published round."""
    run = load_run(publication.folder.root)
    return replace(run, rounds=[data for data in run.rounds if data.round_index <= publication.round_index])


def _show_pair(run: RunData) -> str:
    found = choose_examples(run.evaluated[-1], 1)
    if not found or found[0].sneaky.special is not None:
        return ""
    helpful, sneaky = found[0].helpful, found[0].sneaky
    begin = "The wrong solution of this round's sneaky prover that the round's verifier scores highest"
    parts = [
        f"{begin}, after the best correct one of the helpful prover:" if helpful else f"{begin}:",
        _fence(found[0].problem),
    ]
    for solution in filter(None, (helpful, sneaky)):
        parts += [_describe(solution), _fence("\n".join(map(_show_line, solution.lines)))]
    return "\n\n".join(parts)


def _describe(solution: ExampleSolution) -> str:
    verdict = {None: "", True: ", accepted", False: ", rejected"}[solution.is_accepted]
    return (
        f"**{solution.title.capitalize()}**; score {solution.score:.2f}{verdict}, above"
        f" {math.floor(solution.percentile)} % of the round's test solutions:"
    )


def _show_line(line: Line) -> str:
    return line.text if line.note is None else f"{line.text}    <- {line.note}"


def _fence(text: str) -> str:
    """A code block that the text cannot end."""
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}text\n{text.strip()}\n{ticks}"
