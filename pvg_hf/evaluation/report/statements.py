"""The report's summary: the findings of a run as sentences."""

from collections import Counter
from dataclasses import dataclass, field

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.report.plots.best_of_n_curves import PREFIX, sizes
from pvg_hf.evaluation.report.pool_tables import robustness_change
from pvg_hf.evaluation.report.tables import count_noun
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


MIN_ELIGIBLE = 30  # problems; with fewer, best-of-n is not summarized

LOST_EVENTS = "{} line(s) of events.jsonl are damaged or lost; alerts may be among them."

MIN_PROBLEMS = 10  # problems; with fewer, a change is reported as "too few problems"


@dataclass(frozen=True)
class Statement:
    """
    A finding of the report, in words, with links to the sections that explain it.

    Args:
        mark (`str`):
            `good`, `bad`, `open` (not clearly different from chance) or `plain`. It is a class of the style sheet and
            is also shown as a word.
        subject (`str`), text (`str`):
            Subject of the finding, and the finding.
        links (`dict[str, str]`, *optional*):
            Links shown before the text: their words, and the id of the section that explains them.
    """

    mark: str
    subject: str
    text: str
    links: dict[str, str] = field(default_factory=dict)


def write_verdict(run: RunData) -> list[Statement]:
    """Findings up to the last evaluated round, the most important first."""
    if not run.evaluated:
        return [Statement("plain", "No verdict yet", "no round has been evaluated."), _alert_statement(run)]
    last = run.evaluated[-1]
    return [
        _helpful_statement(last),
        *_best_helpful_statements(last),
        *_implicit_statements(last),
        _sneaky_statement(last),
        *_robustness_statements(run),
        _exploit_statement(run),
        *_parity_statements(run),
        *_choice_statements(run),
        _pair_statement(run),
        *_role_statements(last),
        *_author_statements(last),
        _alert_statement(run),
    ]


def percent(figure: Figure) -> str:
    """Format a rate with its interval and n, e.g. `78.0 % [75.1, 80.9] (n=400)`."""
    if figure.value is None:
        return "unknown (no solution)"
    interval = "" if figure.low is None else f" [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
    return f"{100 * figure.value:.1f} %{interval} (n={figure.n:,})"


def _points(figure: Figure) -> str:
    if figure.value is None:
        return "unknown"
    interval = "" if figure.low is None else f" [{100 * figure.low:+.1f}, {100 * figure.high:+.1f}]"
    return f"{100 * figure.value:+.1f} points{interval}"


def _helpful_statement(last: RoundData) -> Statement:
    change = last.figure("accuracy_change/helpful")
    mark, words = _read_change(change, better="more accurate", worse="less accurate", other="the base")
    return Statement(
        mark,
        "Helpful prover",
        f"correct on {percent(last.figure('accuracy/helpful'))} after round {last.round_index}; the base prover in that "
        f"role on {percent(last.figure('base_accuracy/helpful'))}. Change {_points(change)}: {words}.",
    )


def _best_helpful_statements(last: RoundData) -> list[Statement]:
    # This checkpoint is the product of a game: the prover at its best while it was still honest.
    change = last.figure("accuracy_change/best_helpful")
    if change.value is None:
        return []
    mark, words = _read_change(change, better="more accurate", worse="less accurate", other="the base")
    return [
        Statement(
            mark,
            "Kept helpful checkpoint",
            f"correct on {percent(last.figure('accuracy/best_helpful'))}. Change {_points(change)}: {words}.",
        )
    ]


def _implicit_statements(last: RoundData) -> list[Statement]:
    # A task whose checker knows it: a form of legibility that needs no judge.
    base, now = last.figure("base_implicit_share/helpful"), last.figure("implicit_share/helpful")
    if base.value is None or now.value is None:
        return []
    mark, words = _compare(base, now, rise=("bad", "more"), fall=("good", "less"))
    return [
        Statement(
            mark,
            "Steps left implicit",
            f"Helpful solutions leave {percent(now)} of their reasoning to the reader after round {last.round_index}; the base prover's in "
            f"that role {percent(base)}: {words}.",
            {"by role": "diversity"},
        )
    ]


def _sneaky_statement(last: RoundData) -> Statement:
    # Only valid mistakes count: a solution without an answer is wrong, but misleads nobody.
    change = last.figure("valid_sneaky_change")
    mark, words = _read_change(change, better="more often wrong", worse="less often wrong", other="the base")
    return Statement(
        mark,
        "Sneaky prover",
        f"answers incorrectly on {percent(last.figure('valid_sneaky'))} after round {last.round_index}; the base prover in "
        f"that role on {percent(last.figure('base_valid_sneaky'))}. Change {_points(change)}: {words}. Failed "
        f"solutions count as neither: {percent(last.figure('failed/sneaky'))}; the base's {percent(last.figure('base_failed/sneaky'))}. "
        f"{_persuasion_words(last)}",
    )


def _persuasion_words(last: RoundData) -> str:
    change = last.figure("score_change/sneaky_incorrect")
    if change.low is None:
        return "How well its incorrect solutions score against the base's is unknown."
    _, words = _read_change(change, better="higher", worse="lower", other="those")
    interval = f"{change.value:+.2f} [{change.low:+.2f}, {change.high:+.2f}]"
    return f"Its incorrect solutions score {interval} against the base's: {words}."


def _robustness_statements(run: RunData) -> list[Statement]:
    # On the same solutions: the next statement compares each verifier with another prover.
    found = robustness_change(run)
    if found is None:
        return []
    pool, last, own, change = found
    mark, words = _read_change(change, better="more", worse="fewer", other="before")
    mark = {"good": "bad", "bad": "good"}.get(mark, mark)
    return [
        Statement(
            mark,
            "Later verifier, same mistakes",
            f"the verifier of round {run.evaluated[-1].round_index} accepts {percent(last)} of the sneaky mistakes of round {pool}'s "
            f"prover, and that of round {pool} accepted {percent(own)}, each at the threshold where it accepts 95 % of the helpful correct "
            f"solutions. Change {_points(change)}: {words}.",
        )
    ]


def _exploit_statement(run: RunData) -> Statement:
    first, last = run.evaluated[0].figure("exploit_rate"), run.evaluated[-1].figure("exploit_rate")
    text = f"the verifier accepts {percent(last)} of the sneaky incorrect solutions in round {run.evaluated[-1].round_index}"
    if len(run.evaluated) == 1:
        return Statement("plain", "Verifier fooled", f"{text}.")
    mark, words = _compare(first, last, rise=("bad", "more"), fall=("good", "fewer"))
    return Statement(
        mark,
        "Verifier fooled",
        f"{text}, and accepted {percent(first)} in round {run.evaluated[0].round_index}: {words}.",
    )


def _parity_statements(run: RunData) -> list[Statement]:
    known = [data for data in run.evaluated if "parity_step" in data.figures]
    if not known:
        return []
    said = "; ".join(_describe_parity(data, run.recipe.for_round(data.round_index).prover.max_steps) for data in known)
    return [
        Statement(
            "plain",
            "Parity",
            f"In training, sneaky mistakes scored as high as helpful correct solutions, within the margin of the stop rules: {said}.",
            {"training curves": "plot-dynamics"},
        )
    ]


def _describe_parity(data: RoundData, max_steps: int) -> str:
    step, gap = data.figure("parity_step"), data.figure("parity_gap")
    if step.value is not None:
        return f"in round {data.round_index} from step {step.value:.0f} (of at most {max_steps})"
    left = "" if gap.value is None else f", with a score gap of {gap.value:.2f} left"
    return f"not in round {data.round_index} within {step.n} steps{left}"


def _choice_statements(run: RunData) -> list[Statement]:
    # The largest n for which both the first and the last round have enough problems.
    first, last = run.evaluated[0], run.evaluated[-1]
    eligible = [n for n in sizes(last) if min(data.figure(f"{PREFIX}{n}").n for data in (first, last)) >= MIN_ELIGIBLE]
    if not eligible:
        return []
    name = f"{PREFIX}{eligible[-1]}"
    shares = ", ".join(f"{percent(data.figure(name))} (round {data.round_index})" for data in run.evaluated)
    mark, words = "plain", "one round shows no trend"
    if len(run.evaluated) > 1:
        mark, words = _compare(first.figure(name), last.figure(name), rise=("good", "higher"), fall=("bad", "lower"))
    return [Statement(mark, f"Balanced best-of-{eligible[-1]}", f"correct choices, chance 50 %: {shares}; {words}.")]


def _pair_statement(run: RunData) -> Statement:
    shares = ", ".join(
        f"{percent(data.figure('verifier_pair_accuracy'))} (round {data.round_index})" for data in run.evaluated
    )
    lows = [data.figure("verifier_pair_accuracy").low for data in run.evaluated]
    beats_chance = all(low is not None and low > 0.5 for low in lows)
    return Statement(
        "plain" if beats_chance else "bad",
        "Verifier pair accuracy",
        f"on held-out problems, chance 50 %: {shares}{'' if beats_chance else '; not clearly better than chance in every round'}.",
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
    roles_differ = not _overlap(helpful, sneaky)  # by the role, or because its mistakes are easier to see
    checks = spared.value > sneaky.value and not _overlap(sneaky, spared)
    return Statement(
        "plain" if roles_differ else "good" if checks else "open",
        "Checking, or recognising the role",
        f"Of the solutions {described} that earlier provers wrote, the last verifier accepts {percent(helpful)} in the helpful role and "
        f"{percent(sneaky)} in the sneaky role: {'the roles differ' if roles_differ else 'no clear difference between the roles'}. Of the sneaky "
        f"role's {good} ones it accepts {percent(spared)}: {'clearly more' if checks else 'not clearly more'}.",
        {"by role": "roles"},
    )


def _overlap(one: Figure, other: Figure) -> bool:
    return one.low <= other.high and other.low <= one.high


def _author_statements(last: RoundData) -> list[Statement]:
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
            f"the correct side of pairs is a reference solution. From the letters alone, a classifier tells references from the "
            f"prover's solutions with an AUC of {percent(figure)}, chance 50 %: {words}.",
        )
    ]


def _alert_statement(run: RunData) -> Statement:
    lost = f" {LOST_EVENTS.format(run.num_lost_events)}" if run.num_lost_events else ""
    if not run.alerts:
        return Statement("open" if lost else "plain", "Alerts", f"none.{lost}")
    kinds = Counter(alert["kind"] for alert in run.alerts)
    links = {f"{kind.replace('_', ' ')} ({number})": f"alert-{kind}" for kind, number in kinds.items()}
    return Statement("bad", "Alerts", lost.strip(), links)


def _read_change(change: Figure, *, better: str, worse: str, other: str) -> tuple[str, str]:
    """Mark and words for a change. Its `n` counts problems."""
    if change.n < MIN_PROBLEMS:
        return "open", f"too few problems (n={change.n}) to tell"
    if change.low is None or change.low <= 0 <= change.high:  # the 95 % interval contains "no change"
        return "open", f"not clearly different from {other}"
    return ("good", f"clearly {better} than {other}") if change.low > 0 else ("bad", f"clearly {worse} than {other}")


def _compare(first: Figure, last: Figure, *, rise: tuple[str, str], fall: tuple[str, str]) -> tuple[str, str]:
    # Conservative: intervals that do not overlap imply a clear difference, but not the other way round.
    if first.low is None or last.low is None or _overlap(first, last):
        return "open", "no clear change (the intervals overlap)"
    mark, word = rise if last.value > first.value else fall
    return mark, f"clearly {word} (the intervals do not overlap)"
