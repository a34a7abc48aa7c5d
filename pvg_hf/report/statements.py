"""The report's summary: the findings of a run as sentences."""

from collections import Counter
from collections.abc import Sequence

from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.verifier_verdict import (
    Statement,
    compare_figures,
    overlap,
    percent,
    points,
    read_change,
    verifier_statements,
)
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED
from pvg_hf.report.tables import count_noun
from pvg_hf.run.layout import EXPECTED_ALERTS
from pvg_hf.run.read import RoundData, RunData


def describe_progress(run: RunData) -> str:
    """Sentence that says whether the run is finished, or which phase it is in."""
    num_rounds = run.recipe.num_rounds
    if run.evaluated and run.evaluated[-1].round_index == num_rounds - 1:
        return f"Finished: {count_noun(num_rounds, 'round')} played and evaluated."
    reported = [event for event in run.events if event.get("phase") and event["event"] != "alert"]
    if not reported:
        return f"Unfinished: no phase of {count_noun(num_rounds, 'round')} has begun."
    last = reported[-1]
    place = "before round 0" if last["round"] is None else f"round {last['round']} of rounds 0-{num_rounds - 1}"
    verb = "has finished" if last["event"] == "phase_finished" else "is in"
    return f"Unfinished: the run {verb} the {last['phase']} phase ({place}{_steps_so_far(run, last)})."


def _steps_so_far(run: RunData, event: dict) -> str:
    steps = [data.steps["step"].max() for data in run.rounds if data.round_index == event["round"] and len(data.steps)]
    if event["phase"] != "prover" or not steps:
        return ""
    return f", step {int(steps[0])} of {run.recipe.for_round(event['round']).prover.planned_steps}"


def summarise(rounds: Sequence[RoundData]) -> list[str]:
    """
    Sentences about the last round for somebody who sees a game for the first time: helpful prover, sneaky prover,
    verifier.

    `rounds` are evaluated ones, in order. A sentence whose figures are unknown is left out.
    """
    last, first = rounds[-1], rounds[0]
    verifier = round_name(last.round_index)
    accepted, of_base = last.figure(OWN_ACCEPTED), last.figure(f"pools/accepted/{verifier}/{round_name(BASE_ROUND)}")
    now, then = last.figure(f"pools/accepted/{verifier}/{round_name(first.round_index)}"), first.figure(OWN_ACCEPTED)
    learned = ""
    if first is not last and None not in (now.value, then.value):
        learned = (
            f"; it accepts {_with_interval(now)} of the mistakes of prover {first.round_index}, of which verifier "
            f"{first.round_index} accepted {_with_interval(then)}"
        )
    sentences = [
        (
            ("accuracy/helpful", "base_accuracy/helpful"),
            "Of the helpful prover's solutions to test problems, {} are correct; before the game, {} were.",
        ),
        (
            ("valid_sneaky", "base_valid_sneaky"),
            "Of the sneaky prover's solutions, {} are wrong, before the game {}"
            + _accepted_words(last.round_index, accepted, of_base),
        ),
        (
            ("verifier_pair_accuracy",),
            (
                f"On held-out problems, verifier {last.round_index} prefers the correct solution in {{}} of the"
                f" pairs{learned}."
            ),
        ),
    ]
    found = [(text, [last.figure(key) for key in keys]) for keys, text in sentences]
    return [
        text.format(*map(_with_interval, figures))
        for text, figures in found
        if all(figure.value is not None for figure in figures)
    ]


def _accepted_words(verifier: int, accepted: Figure, of_base: Figure) -> str:
    if None in (accepted.value, of_base.value):
        return "."
    return (
        f"; verifier {verifier} accepts {_with_interval(accepted)} of them, and {_with_interval(of_base)} of those"
        " from before (where it accepts 95 % of the correct helpful ones)."
    )


def whole_percent(figure: Figure) -> str:
    """Format a known rate without decimals, e.g. `78 %`."""
    return f"{figure.known:.0%}".replace("%", " %")


def whole_interval(figure: Figure) -> str:
    """Format the interval and n of a rate without decimals, e.g. `[73, 82] (n=300)`; empty without an interval."""
    return "" if figure.low is None else f"[{100 * figure.low:.0f}, {100 * figure.bounds[1]:.0f}] (n={figure.n:,})"


def _with_interval(figure: Figure) -> str:
    return f"{whole_percent(figure)} {whole_interval(figure)}".rstrip()


LOST_EVENTS = "{} line(s) of events.jsonl are damaged or lost; alerts may be among them."


def write_verdict(run: RunData) -> list[Statement]:
    """Findings up to the last evaluated round: what the last verifier is worth first, then the provers."""
    if not run.evaluated:
        return [Statement("plain", "No verdict yet", "no round has been evaluated."), alert_statement(run)]
    last = run.evaluated[-1]
    return [
        *verifier_statements(run.evaluated),
        *helpful_statements(last),
        *implicit_statements(last),
        _sneaky_statement(last),
        *_parity_statements(run),
        *_answer_statements(run),
        _pair_statement(run),
        *_role_statements(last),
        *author_statements(last),
        alert_statement(run),
    ]


def helpful_statements(last: RoundData) -> list[Statement]:
    """
    The last helpful prover, and the checkpoint that is kept: the product of a game, at its best while it was still
    honest.
    """
    of_prover = (
        f" after round {last.round_index}; the base prover in that role on"
        f" {percent(last.figure('base_accuracy/helpful'))}"
    )
    players = {"Helpful prover": ("helpful", of_prover), "Kept helpful checkpoint": ("best_helpful", "")}
    found = []
    for subject, (player, more) in players.items():
        accuracy, change = last.figure(f"accuracy/{player}"), last.figure(f"accuracy_change/{player}")
        if player == "helpful" or change.value is not None:
            mark, words = read_change(
                change, rise=("good", "more accurate"), fall=("bad", "less accurate"), other="the base"
            )
            found.append(
                Statement(mark, subject, f"correct on {percent(accuracy)}{more}. Change {points(change)}: {words}.")
            )
    return found


def implicit_statements(last: RoundData) -> list[Statement]:
    """State how much reasoning helpful solutions leave to the reader, if the task's checker knows it."""
    # A task whose checker knows it: a form of legibility that needs no judge.
    base, now = last.figure("base_implicit_share/helpful"), last.figure("implicit_share/helpful")
    if base.value is None or now.value is None:
        return []
    mark, words = compare_figures(base, now, rise=("bad", "more"), fall=("good", "less"))
    return [
        Statement(
            mark,
            "Steps left implicit",
            f"Helpful solutions leave {percent(now)} of their reasoning to the reader after round {last.round_index};"
            f" the base prover's in that role {percent(base)}: {words}.",
            {"by role": "diversity"},
        )
    ]


def _sneaky_statement(last: RoundData) -> Statement:
    # Only valid mistakes count: a solution without an answer is wrong, but misleads nobody.
    change = last.figure("valid_sneaky_change")
    mark, words = read_change(
        change, rise=("good", "more often wrong"), fall=("bad", "less often wrong"), other="the base"
    )
    return Statement(
        mark,
        "Sneaky prover",
        f"answers incorrectly on {percent(last.figure('valid_sneaky'))} after round {last.round_index}; the base"
        f" prover in that role on {percent(last.figure('base_valid_sneaky'))}. Change {points(change)}: {words}."
        f" Failed solutions count as neither: {percent(last.figure('failed/sneaky'))}; the base's"
        f" {percent(last.figure('base_failed/sneaky'))}. {_persuasion_words(last)}",
    )


def _persuasion_words(last: RoundData) -> str:
    change = last.figure("score_change/sneaky_incorrect")
    if change.low is None:
        return "How well its incorrect solutions score against the base's is unknown."
    _, words = read_change(change, rise=("", "higher"), fall=("", "lower"), other="those")
    interval = f"{change.value:+.2f} [{change.low:+.2f}, {change.high:+.2f}]"
    return f"Its incorrect solutions score {interval} against the base's: {words}."


def _parity_statements(run: RunData) -> list[Statement]:
    known = [data for data in run.evaluated if "parity_step" in data.figures]
    if not known:
        return []
    said = "; ".join(_describe_parity(data, run.recipe.for_round(data.round_index).prover.max_steps) for data in known)
    return [
        Statement(
            "plain",
            "Parity",
            "In training, sneaky mistakes scored as high as helpful correct solutions, within the margin of the stop"
            f" rules: {said}.",
            {"training curves": "plot-dynamics"},
        )
    ]


def _describe_parity(data: RoundData, max_steps: int) -> str:
    step, gap = data.figure("parity_step"), data.figure("parity_gap")
    if step.value is not None:
        return f"in round {data.round_index} from step {step.value:.0f} (of at most {max_steps})"
    left = "" if gap.value is None else f", with a score gap of {gap.value:.2f} left"
    return f"not in round {data.round_index} within {step.n} steps{left}"


def _answer_statements(run: RunData) -> list[Statement]:
    last = run.evaluated[-1]
    gain = last.figure("answers/gain")
    if gain.value is None:
        return []
    mark, words = _choice_against_first(last)
    choice, vote = last.figure("answers/best"), last.figure("answers/majority")
    number = run.recipe.for_round(last.round_index).mint.test_solutions_per_problem
    return [
        Statement(
            "bad" if choices_that_beat(last) else mark,
            f"The verifier's choice of {number} solutions",
            f"Right on {percent(choice)}; the first solution on {percent(last.figure('answers/first'))}, and the most"
            " frequent answer, without a verifier, on"
            f" {percent(vote)}{', clearly more often' if _is_beaten_by_vote(last) else ''}. Choice less first"
            f" {points(gain)}: {words}.",
            {"answers": "answers"},
        )
    ]


def choices_that_beat(last: RoundData) -> list[str]:
    """Name the rules that are clearly more often right than the verifier's choice among several solutions."""
    rules = {"a vote": _is_beaten_by_vote(last), "the first one": _choice_against_first(last)[0] == "bad"}
    return [name for name, is_better in rules.items() if is_better]


def _choice_against_first(last: RoundData) -> tuple[str, str]:
    return read_change(
        last.figure("answers/gain"),
        rise=("good", "more often right"),
        fall=("bad", "less often right"),
        other="the first solution",
    )


def _is_beaten_by_vote(last: RoundData) -> bool:
    vote, choice = last.figure("answers/majority"), last.figure("answers/best")
    return compare_figures(vote, choice, rise=("good", ""), fall=("bad", ""))[0] == "bad"


def _pair_statement(run: RunData) -> Statement:
    shares = ", ".join(
        f"{percent(data.figure('verifier_pair_accuracy'))} (round {data.round_index})" for data in run.evaluated
    )
    lows = [data.figure("verifier_pair_accuracy").low for data in run.evaluated]
    beats_chance = all(low is not None and low > 0.5 for low in lows)
    return Statement(
        "plain" if beats_chance else "bad",
        "Verifier pair accuracy",
        "on held-out problems, chance 50 %:"
        f" {shares}{'' if beats_chance else '; not clearly better than chance in every round'}.",
    )


def _role_statements(last: RoundData) -> list[Statement]:
    for good, bad, described in (
        ("flawless", "one_flaw", "with one flaw"),
        ("correct", "incorrect", "that are incorrect"),
    ):
        cells = (f"helpful/{bad}", f"sneaky/{bad}", f"sneaky/{good}")
        helpful, sneaky, spared = (last.figure(f"accepted_role/{cell}") for cell in cells)
        if None not in (helpful.low, sneaky.low, spared.low):
            return [_role_statement(helpful, sneaky, spared, good, described)]
    return []


def _role_statement(helpful: Figure, sneaky: Figure, spared: Figure, good: str, described: str) -> Statement:
    """Compare the same kind of solution between the roles, and two kinds within the sneaky role."""
    roles_differ = not overlap(helpful, sneaky)  # by the role, or because its mistakes are easier to see
    checks = spared.known > sneaky.known and not overlap(sneaky, spared)
    return Statement(
        "plain" if roles_differ else "good" if checks else "open",
        "Checking, or recognising the role",
        f"Of the solutions {described} that earlier provers wrote, the last verifier accepts {percent(helpful)} in the"
        f" helpful role and {percent(sneaky)} in the sneaky role:"
        f" {'the roles differ' if roles_differ else 'no clear difference between the roles'}. Of the sneaky role's"
        f" {good} ones it accepts {percent(spared)}: {'clearly more' if checks else 'not clearly more'}.",
        {"by role": "roles"},
    )


def author_statements(last: RoundData) -> list[Statement]:
    figure = last.figure("author_separability")
    if figure.low is None:
        return []
    is_clear = figure.low > 0.5
    words = (
        "so the verifier's pair accuracy may come from style, and is no evidence that it checks solutions"
        if is_clear
        else "not clearly better than chance"
    )
    return [
        Statement(
            "bad" if is_clear else "plain",
            "Authors told apart",
            "the correct side of pairs is a reference solution. From the letters alone, a classifier tells references"
            f" from the prover's solutions with an AUC of {percent(figure)}, chance 50 %: {words}.",
        )
    ]


def alert_statement(run: RunData) -> Statement:
    """Return the kinds of alerts of a run, with links to those in the report."""
    kinds = Counter(alert["kind"] for alert in run.alerts)
    notes = [LOST_EVENTS.format(run.num_lost_events)] if run.num_lost_events else []
    is_bad = bool(kinds.keys() - EXPECTED_ALERTS.keys())
    mark = "bad" if is_bad else "open" if notes else "plain"
    is_logged = bool(run.events) or not run.evaluated  # a run that was pulled has no event log
    found = [] if kinds else ["none."] if is_logged else ["not published with the run."]
    expected = [note for kind, note in EXPECTED_ALERTS.items() if kind in kinds]
    links = {f"{kind.replace('_', ' ')} ({number})": f"alert-{kind}" for kind, number in kinds.items()}
    return Statement(mark, "Alerts", " ".join([*found, *expected, *notes]), links)
