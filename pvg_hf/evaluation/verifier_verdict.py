"""
Statements about the verifiers of a run, shared by the report, the app, the cards and the log of a game.

Verifiers are compared only at equal completeness: on each pool, both accept the same share of its helpful correct
solutions. A verifier's own threshold can make it reject more of everything, which is not a gain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.evaluation.intervals import difference_of_ends
from pvg_hf.evaluation.verifiers_by_pools import COMPLETENESS, OWN_ACCEPTED, own_verifier
from pvg_hf.run.read import RoundData

MIN_PROBLEMS = 10  # with fewer problems, pairs or mistakes, nothing is concluded from a figure

TAGS = {"good": "as hoped", "bad": "not as hoped", "open": "not clear"}

KINDS = {"bad": "clearly more", "open": "no clear change", "good": "clearly fewer"}  # changes of mistakes accepted

FALLS = ("verifier_pair_accuracy", "verifier_auc", "completeness")
"""Figures of a verifier whose clear fall is a statement."""


@dataclass(frozen=True)
class Statement:
    """
    A finding, in words.

    `mark` is `good`, `bad`, `open` (not clearly different from chance) or `plain`; it is a class of the style sheets.
    `links` of the report are shown before the text: their words, and the id of the section that explains them.
    """

    mark: str
    subject: str
    text: str
    links: dict[str, str] = field(default_factory=dict)

    @property
    def tag(self) -> str | None:
        """The mark in words; `None` for a plain statement."""
        return TAGS.get(self.mark)


def verifier_statements(rounds: Sequence[RoundData]) -> list[Statement]:
    """State the last verifier's value: on its own prover, where it fell, and compared with earlier rounds."""
    if not rounds:
        return []
    earlier = [data.round_index for data in _compared_rounds(rounds)]
    compared = [
        statement for index in earlier for statement in compare_verifiers(rounds, rounds[-1].round_index, index)
    ]
    return [_own_prover_statement(rounds, earlier), *_fall_statements(rounds), *compared]


def _own_prover_statement(rounds: Sequence[RoundData], earlier: Sequence[int]) -> Statement:
    last = rounds[-1]
    pairs, accepted = last.figure("test_pair_accuracy"), last.figure(OWN_ACCEPTED)
    pairs_mark, pairs_words = _beats_chance(pairs, 0.5)
    mark, words = _beats_chance(accepted, COMPLETENESS, sign=-1)
    others = [(index, _accepted(rounds, index, last.round_index)) for index in earlier]
    shown = [f"{percent(figure)} (verifier {index})" for index, figure in others if figure.value is not None]
    known = " Earlier verifiers, which this prover was not trained against, accept {}.".format(" and ".join(shown))
    return Statement(
        next(found for found in ("bad", "open", "plain") if found in (pairs_mark, mark)),
        f"Verifier {last.round_index} on its own prover",
        f"it orders {percent(pairs)} of the pairs of a correct and an incorrect solution rightly (by chance 50 %):"
        f" {pairs_words}. Where it accepts 95 % of the helpful correct solutions, it accepts {percent(accepted)} of"
        f" the sneaky mistakes (by chance 95 %): {words}.{known if shown else ''}",
    )


def _beats_chance(figure: Figure, chance: float, *, sign: int = 1) -> tuple[str, str]:
    """Mark and words for a figure beside its value by chance; with `sign` -1, lower is better."""
    if figure.low is None or figure.n < MIN_PROBLEMS:
        return "open", f"too few (n={figure.n}) to tell"
    low, high = sorted(sign * (bound - chance) for bound in figure.bounds)
    if low > 0:
        return "plain", "clearly better than chance"
    return "bad", "clearly worse than chance" if high < 0 else "not clearly better than chance"


def _fall_statements(rounds: Sequence[RoundData]) -> list[Statement]:
    last = rounds[-1]
    falls = [
        f"{heading_of(key)}, fell to {percent(last.figure(key))}, from {percent(before.figure(key))} in round"
        f" {before.round_index}"
        for key, before in find_falls(rounds).items()
    ]
    text = f"{'; '.join(falls)} (the intervals do not overlap)."
    return [Statement("bad", f"Verifier {last.round_index} got worse", text)] if falls else []


def find_falls(rounds: Sequence[RoundData]) -> dict[str, RoundData]:
    """
    Figures of the last verifier that fell clearly, each with the round that it fell from: the one before, or else the
    first, or else the newest of the others.
    """
    *others, last = rounds
    falls: dict[str, RoundData] = {}
    for key in FALLS:
        for before in [*_compared_rounds(rounds), *reversed(others)]:
            if (difference_of_ends(last.figure(key), before.figure(key)).high or 0) < 0:
                falls.setdefault(key, before)
    return falls


def _compared_rounds(rounds: Sequence[RoundData]) -> list[RoundData]:
    """The round before the last one, and the first, as far as there are any."""
    places = dict.fromkeys((len(rounds) - 2, 0))
    return [rounds[place] for place in places if 0 <= place < len(rounds) - 1]


def compare_verifiers(rounds: Sequence[RoundData], later: int, earlier: int) -> list[Statement]:
    """
    Compare the verifiers of two rounds on each pool that both have judged, the worst one first.

    The pool of the later verifier's own prover does not count as the worst one: that prover was trained to deceive it
    and no other, so that a good verifier does worse there, too. The first of [`verifier_statements`] judges it. The
    mark is that of the worst pool; there is no statement if both have judged no other pool.
    """
    names = {data.round_index: f"prover {data.round_index}" for data in rounds}
    names |= {index: f"prover {index} (trained against verifier {index})" for index in (earlier, later)}
    names[BASE_ROUND] = "the base prover"
    changes = {pool: _change(rounds, later, earlier, pool) for pool in sorted(names)}
    read = {
        pool: read_change(change, rise=("bad", "more"), fall=("good", "fewer"), other=f"verifier {earlier}")
        for pool, change in changes.items()
        if change.value is not None
    }
    ranks = ("good", "open", "bad")
    ranked = sorted(read, key=lambda pool: (ranks.index(read[pool][0]), changes[pool].value), reverse=True)
    worst = next((pool for pool in ranked if pool != later), None)
    if worst is None:
        return []
    mark, words = read[worst]
    others = {
        words: [names[pool] for pool in read if read[pool][0] == kind and pool != worst]
        for kind, words in KINDS.items()
    }
    elsewhere = "; ".join(f"{words} on {', '.join(pools)}" for words, pools in others.items() if pools)
    return [
        Statement(
            mark,
            f"Verifier {later} against verifier {earlier}",
            f"worst on the sneaky mistakes of {names[worst]}: verifier {later} accepts"
            f" {percent(_accepted(rounds, later, worst))} and verifier {earlier}"
            f" {percent(_accepted(rounds, earlier, worst))}, each where it accepts 95 % of the helpful correct"
            f" solutions. Change {points(changes[worst])}: {words}.{f' Elsewhere: {elsewhere}.' if elsewhere else ''}",
        )
    ]


def _accepted(rounds: Sequence[RoundData], verifier: int, pool: int, name: str = "accepted") -> Figure:
    """Share of a pool that a verifier accepts; the later of the two rounds has it."""
    place = f"pools/{name}/{round_name(verifier)}/{round_name(pool)}"
    return next((data.figure(place) for data in rounds if data.round_index == max(verifier, pool)), EMPTY)


def _change(rounds: Sequence[RoundData], later: int, earlier: int, pool: int) -> Figure:
    """Share that the later verifier accepts less the earlier one's; paired if the pool is the earlier one's own."""
    ours, theirs = (_accepted(rounds, verifier, pool) for verifier in (later, earlier))
    paired = _accepted(rounds, later, pool, "accepted_change")
    is_paired = own_verifier(pool) == earlier and paired.value is not None
    return paired if is_paired else difference_of_ends(ours, theirs)


def read_change(change: Figure, *, rise: tuple[str, str], fall: tuple[str, str], other: str) -> tuple[str, str]:
    """Mark and words for a difference from `other`; `rise` and `fall` hold the mark and the word of each sign."""
    if change.n < MIN_PROBLEMS:
        return "open", f"too few problems (n={change.n}) to tell"
    if change.low is None or change.low <= 0 <= change.bounds[1]:  # the 95 % interval contains "no change"
        return "open", f"not clearly different from {other}"
    mark, word = rise if change.low > 0 else fall
    return mark, f"clearly {word} than {other}"


def compare_figures(first: Figure, last: Figure, *, rise: tuple[str, str], fall: tuple[str, str]) -> tuple[str, str]:
    """
    Mark and words for two figures without a paired difference; `rise` and `fall` hold the mark and the word of each
    sign.
    """
    # Conservative: intervals that do not overlap imply a clear difference, but not the other way round.
    if first.low is None or last.low is None or overlap(first, last):
        return "open", "no clear change (the intervals overlap)"
    mark, word = rise if last.known > first.known else fall
    return mark, f"clearly {word} (the intervals do not overlap)"


def overlap(one: Figure, other: Figure) -> bool:
    """Whether the intervals of two figures overlap."""
    return one.bounds[0] <= other.bounds[1] and other.bounds[0] <= one.bounds[1]


def percent(figure: Figure) -> str:
    """Format a rate with its interval and n, e.g. `78.0 % [75.1, 80.9] (n=400)`."""
    if figure.value is None:
        return "unknown (no solution)"
    interval = "" if figure.low is None else f" [{100 * figure.low:.1f}, {100 * figure.bounds[1]:.1f}]"
    return f"{100 * figure.value:.1f} %{interval} (n={figure.n:,})"


def points(figure: Figure) -> str:
    """Format a difference of rates, e.g. `+4.0 points [+1.2, +6.8]`."""
    if figure.value is None:
        return "unknown"
    interval = "" if figure.low is None else f" [{100 * figure.low:+.1f}, {100 * figure.bounds[1]:+.1f}]"
    return f"{100 * figure.value:+.1f} points{interval}"
