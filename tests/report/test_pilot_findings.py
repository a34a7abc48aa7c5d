import re
from dataclasses import fields

import pytest

from pvg_hf import load_recipe
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.data.schema import describe_outcomes
from pvg_hf.report.pilot_findings import Pilot

CORRECT, WRONG, NONE, CUT = Outcome.VERIFIED, Outcome.PROOF_INVALID, Outcome.NO_ANSWER, Outcome.TRUNCATED
GOOD = {CORRECT: 10, WRONG: 10}


def rows(role: str, outcomes: dict[Outcome, int], **columns) -> list[dict]:
    """Solutions of a role with these numbers of outcomes."""
    row = {"problem": "2 + 2?", "solution": "It is 4.", "answer": None, "num_tokens": 50}
    return [
        {**row, "problem_id": f"{outcome}-{index}", "role": role, "outcome": outcome.value, **columns}
        for outcome, number in outcomes.items()
        for index in range(number)
    ]


def pilot(*overrides: str, base=GOOD, helpful=GOOD, sneaky=GOOD, **columns) -> Pilot:
    values = {"prover": {"model": "org/model", "max_completion_length": 200}}
    written = {"base": base, "helpful": helpful, "sneaky": sneaky}
    found = [row for role, outcomes in written.items() for row in rows(role, outcomes, **columns)]
    return Pilot(load_recipe(values, overrides), found)


def test_shares_in_a_line():
    # The first solutions of a 0.5 B model to GSM8K: 596, 4,977, 2,978 and 1,057 of 9,608.
    counts = {CORRECT: 596, WRONG: 4977, NONE: 2978, CUT: 1057}
    assert describe_outcomes(counts) == "6.2 % correct, 51.8 % wrong, 31.0 % no answer, 11.0 % cut"
    assert describe_outcomes({**counts, Outcome.UNCERTIFIED: 9608}).endswith("50.0 % uncertified")


@pytest.mark.parametrize(
    ("written", "reasons"),
    [
        ({}, []),
        ({"base": {CORRECT: 1, WRONG: 127}}, ["base: 1 of 128"]),  # at most 4.3 % are correct
        ({"base": {CORRECT: 2, WRONG: 126}}, []),  # at most 5.5 %
        ({"base": {CORRECT: 128}}, ["base: 0 of 128"]),
        ({"helpful": {WRONG: 128}}, ["helpful: 0 of 128"]),
        ({"helpful": {CORRECT: 128}}, []),  # this role needs no wrong ones
        ({"sneaky": {CORRECT: 128}}, ["sneaky: 0 of 128"]),
        ({"sneaky": {WRONG: 128}}, []),
        ({"sneaky": {NONE: 32}}, ["sneaky: 32 of 32"]),  # nothing is known about their being wrong
        ({"base": {CORRECT: 10, WRONG: 12, NONE: 5, CUT: 5}}, []),  # 10 of 32 are less than a third
        ({"base": {CORRECT: 40, WRONG: 33, NONE: 20, CUT: 35}}, ["base: 55 of 128"]),  # at least 35 % failed
        ({"base": {CORRECT: 40, WRONG: 36, NONE: 20, CUT: 32}}, []),  # 52: at least 32 %
    ],
)
def test_the_game_stops_for_what_a_role_surely_lacks(written, reasons):
    assert [reason[: reason.index(" (")] for reason in pilot(**written).stops()] == reasons


@pytest.mark.parametrize(
    ("written", "doubts"),
    [
        ({CORRECT: 0, WRONG: 3}, ["base: 0 of 3"]),  # at most 56 %
        ({CORRECT: 1, WRONG: 31}, ["base: 1 of 32"]),  # at most 16 %
        ({CORRECT: 2, WRONG: 30}, []),
        ({CORRECT: 10, WRONG: 11, NONE: 5, CUT: 6}, ["base: 11 of 32"]),  # at least 20 % failed
        ({CORRECT: 10, WRONG: 12, NONE: 5, CUT: 5}, []),
        ({NONE: 128}, []),  # sure
    ],
)
def test_a_share_that_is_bad_by_chance_asks_for_more_solutions(written, doubts):
    found = pilot(base=written)
    assert [doubt[: doubt.index(" (")] for doubt in found.doubts()] == doubts
    assert found.is_open(Role.BASE) == bool(doubts)
    assert not found.is_open(Role.HELPFUL)
    assert all(f"Not sure: {doubt}" in found.describe() for doubt in doubts)


def test_the_spread_is_the_share_of_groups_with_correct_and_other_solutions():
    groups = {"a": [CORRECT, WRONG, CORRECT], "b": [WRONG, NONE, WRONG], "c": [CORRECT] * 3, "d": [CORRECT]}
    drawn = [
        {**row, "problem_id": name, "sample_index": index}
        for name, outcomes in groups.items()
        for index, outcome in enumerate(outcomes)
        for row in rows("sneaky", {outcome: 1})
    ]
    found = Pilot(pilot().recipe, [*pilot(sneaky={}).rows, *drawn])
    assert found.spread(Role.SNEAKY).value == pytest.approx(1 / 3)  # of a, b and c
    assert found.spread(Role.HELPFUL).value is None
    assert found.counts(Role.SNEAKY) == {CORRECT: 3, WRONG: 1}  # one for each problem
    assert "Groups of the sneaky role with correct and other solutions: 1 of 3 (33 %" in found.describe()


@pytest.mark.parametrize(("mixed", "is_little"), [(1, True), (2, False)])
def test_little_spread_is_worth_advice(mixed, is_little):
    """One of eight groups, or two: a quarter."""
    drawn = [
        {**row, "problem_id": str(number), "sample_index": index}
        for number in range(8)
        for index in range(2)
        for row in rows("helpful", {WRONG if index and number < mixed else CORRECT: 1})
    ]
    advice = Pilot(pilot().recipe, [*pilot(helpful={}).rows, *drawn]).advice()
    assert ("Few groups of the helpful role" in " ".join(advice)) == is_little


@pytest.mark.parametrize(
    ("overrides", "bad"),
    [
        (["prover.roles=sneaky_only"], {"helpful": {NONE: 128}}),
        (["prover.roles=helpful_only"], {"sneaky": {CORRECT: 128}}),
        (["bootstrap.import_from=some/solutions"], {"base": {CUT: 128}}),
        (["data.correct_source=both"], {"base": {WRONG: 128}}),
    ],
)
def test_what_the_game_does_not_use_stops_nothing(overrides, bad):
    assert pilot(*overrides, **bad).stops() == []
    assert pilot(**bad).stops() != []


ADVICE = {
    "cut": ({"base": {CORRECT: 16, WRONG: 16, CUT: 32}}, {}, "`prover.max_completion_length=400`"),
    "cut after the answer": ({"base": {CUT: 32}}, {"strict_answer": "4"}, "Answered, but not ended: 32"),
    "cut in a loop": (
        {"base": {CUT: 32}},
        {"solution": "and so it goes on and on. " * 9},
        "Repeating the same words at the end: 32",
    ),
    "last number": (
        {"base": {CORRECT: 16, WRONG: 16, NONE: 32}},
        {"lenient_answer": "4", "lenient_correct": True},
        "finds an answer in 32 of them, and the right one in 32",
    ),
    "empty": ({"base": {NONE: 32}}, {"solution": "\n"}, "Empty: 32"),
    "programs": (
        {"base": {NONE: 32}},
        {"solution": "```python\nprint(4)\n```", "lenient_answer": None, "lenient_correct": False},
        "Programs: 32",
    ),
    "few correct": ({"base": {WRONG: 128}, "helpful": {WRONG: 128}}, {}, "`prover.temperature=0.7` (1 now)"),
    "few correct in one role": ({"helpful": {WRONG: 128}}, {}, "while 50 % are correct in the base role"),
    "few wrong": ({"base": {CORRECT: 128}}, {}, "harder problems"),
    "few wrong in the sneaky role": ({"sneaky": {CORRECT: 128}}, {}, "`task.sneaky_sees=reference_answer`"),
}


@pytest.mark.parametrize(("written", "columns", "part"), ADVICE.values(), ids=ADVICE)
def test_the_advice_follows_from_what_was_seen(written, columns, part):
    found = pilot(**written, **columns)
    assert part in " ".join(found.advice())
    with pytest.raises(ValueError, match=re.escape(part)):
        found.check()
    assert part not in " ".join(pilot(**columns).advice())


def test_the_advice_names_keys_of_the_recipe():
    for written, columns, _ in ADVICE.values():
        found = pilot(**written, **columns)
        for section, key in re.findall(r"`(\w+)\.(\w+)", " ".join(found.advice())):
            assert key in {field.name for field in fields(getattr(found.recipe, section))}


def test_failures_are_not_taken_for_too_easy_problems():
    assert "harder" not in " ".join(pilot(base={NONE: 32}, sneaky={NONE: 32}).advice())


def test_lenient_reading_is_no_advice_if_it_is_used():
    read = {"lenient_answer": "4", "lenient_correct": True}
    assert "lenient" not in " ".join(pilot("task.answer_format=lenient", base={NONE: 32}, **read).advice())


def test_a_good_pilot_gives_no_advice():
    found = pilot()
    found.check()
    assert found.advice() == []
    assert "The game can begin." in found.describe()


def test_examples_are_of_different_roles():
    examples = pilot(helpful={CORRECT: 5, CUT: 3}).examples()
    roles = {outcome: [row["role"] for row in found] for outcome, found in examples.items()}
    assert roles == {CORRECT: ["base", "helpful"], WRONG: ["base", "sneaky"], CUT: ["helpful", "helpful"]}


def test_the_description_shows_counts_lengths_and_texts():
    text = "\n".join(f"line {number}" for number in range(20)) + "\nthe end \x1b[2J"
    printed = pilot(base={CORRECT: 3, WRONG: 1, CUT: 4}, solution=text).describe()
    (line,) = (line for line in printed.splitlines() if line.startswith("base "))
    assert " ".join(line.split()) == "base 3 (38 %) 1 (12 %) 0 (0 %) 4 (50 %) 50 50"
    assert "  | line 0\n" in printed
    assert "line 9\n" not in printed  # the middle of a long text is left out
    assert "\x1b" not in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert Role.SNEAKY in printed
