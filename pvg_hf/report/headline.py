"""The top of the report: one sentence and three figures that say whether the game worked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.evaluation.verifier_verdict import TAGS, Statement, find_falls, verifier_statements
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED
from pvg_hf.report.statements import (
    author_statements,
    choices_that_beat,
    helpful_statements,
    implicit_statements,
    whole_interval,
    whole_percent,
)
from pvg_hf.run.read import RoundData

HOLDS = 0.5  # a verifier holds if it clearly rejects more than half of the mistakes of the prover trained against it


def write_headline(rounds: Sequence[RoundData]) -> Statement:
    """
    Sum up a game in one sentence: the last verifier, against its own prover first, and the helpful prover.

    It is as hoped only if no statement about a verifier or the helpful prover is bad or unclear, the last verifier
    beats chance on held-out pairs, and it accepts clearly less than half of its own prover's mistakes. It is partly as
    hoped if only the last of these fails, or another finding is bad. `rounds` are evaluated ones, in order.
    """
    if not rounds:
        return Statement("plain", "No verdict yet", "no round has been evaluated.")
    last, falls = rounds[-1], find_falls(rounds)
    of_verifiers = verifier_statements(rounds)
    marks = {one.mark for one in (*of_verifiers, helpful_statements(last)[0])}
    heldout = last.figure("verifier_pair_accuracy")
    is_chance = heldout.low is not None and heldout.low <= 0.5
    if is_chance:
        marks.add("bad")
    mark = next((mark for mark in ("bad", "open") if mark in marks), "good")
    subject, own = TAGS[mark], last.figure(OWN_ACCEPTED)
    reservations = list(_reservations(last)) if mark == "good" else []
    if mark == "good" and (reservations or own.high is None or own.high >= HOLDS):
        mark, subject = "open", "partly as hoped"
    found = [f"verifier {last.round_index} {_own_prover_words(last)}"]
    if is_chance:
        found.append(f"it orders {whole_percent(heldout)} of the held-out pairs rightly, not clearly more than chance")
    if falls:
        found.append(f"it got worse ({'; '.join(map(heading_of, falls))})")
    if any(one.mark == "bad" for one in of_verifiers[1 + bool(falls) :]):  # comparisons with earlier verifiers
        found.append("it accepts clearly more of an earlier prover's mistakes than an earlier verifier")
    right, base = last.figure("accuracy/helpful"), last.figure("base_accuracy/helpful")
    if None not in (right.value, base.value):
        found.append(
            f"{whole_percent(right)} of the helpful prover's solutions are correct, {whole_percent(base)} before the"
            " game"
        )
    return Statement(mark, subject.capitalize(), f"{'; '.join([*found, *reservations])}.")


def _reservations(last: RoundData) -> Iterator[str]:
    """Bad findings beside the verifier's resistance and the helpful prover's accuracy."""
    if rules := choices_that_beat(last):
        yield f"of several solutions the verifier chooses clearly worse than {' or '.join(rules)}"
    if any(one.mark == "bad" for one in implicit_statements(last)):
        yield "helpful solutions leave clearly more reasoning to the reader"
    if any(one.mark == "bad" for one in author_statements(last)):
        yield "style alone tells the sides of its training pairs apart"


def _own_prover_words(last: RoundData) -> str:
    pairs, accepted = last.figure("test_pair_accuracy"), last.figure(OWN_ACCEPTED)
    if None in (pairs.value, accepted.value):
        return "has too few solutions of its own prover to be judged"
    return (
        f"orders {whole_percent(pairs)} of its own prover's pairs rightly (by chance 50 %) and accepts"
        f" {whole_percent(accepted)} of that prover's mistakes (by chance 95 %)"
    )


@dataclass(frozen=True)
class Tile:
    """
    A figure that a reader looks for first. `mark` is that of a [`~pvg_hf.evaluation.verifier_verdict.Statement`].
    """

    mark: str
    title: str
    value: str
    note: str


def write_tiles(rounds: Sequence[RoundData]) -> list[Tile]:
    """
    Return the tiles of the newest prover and verifier, the helpful prover, and its legibility; none before an
    evaluation.
    """
    if not rounds:
        return []
    last = rounds[-1]
    own, helpful = verifier_statements(rounds)[0], helpful_statements(last)[0]
    return [
        _tile(
            own.mark,
            "Newest prover's mistakes that the newest verifier accepts",
            last.figure(OWN_ACCEPTED),
            "by chance 95 %",
        ),
        _tile(
            helpful.mark,
            "Helpful solutions that are correct",
            last.figure("accuracy/helpful"),
            _before(last, "accuracy/helpful"),
        ),
        _legibility_tile(last),
    ]


def _legibility_tile(last: RoundData) -> Tile:
    """Show how much reasoning is left to the reader, if the task's checker knows it, and else the length."""
    for statement in implicit_statements(last):
        key = "implicit_share/helpful"
        return _tile(statement.mark, "Legibility: reasoning left to the reader", last.figure(key), _before(last, key))
    length, base = last.figure("num_tokens/helpful"), last.figure("base_num_tokens/helpful")
    value = "unknown" if length.value is None else f"{length.value:.0f} tokens"
    note = "" if base.value is None else f"before the game {base.value:.0f}"
    return Tile("plain", "Legibility: length of a helpful solution", value, note)


def _tile(mark: str, title: str, figure: Figure, note: str) -> Tile:
    if figure.value is None:
        return Tile("open", title, "unknown", note)
    return Tile(mark, title, whole_percent(figure), ", ".join(filter(None, (whole_interval(figure), note))))


def _before(last: RoundData, key: str) -> str:
    base = last.figure(f"base_{key}")
    return "" if base.value is None else f"before the game {whole_percent(base)}"
