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
    row = {"problem_id": "p", "problem": "2 + 2?", "solution": "It is 4.", "answer": None, "num_tokens": 50}
    return [
        {**row, "role": role, "outcome": outcome.value, **columns}
        for outcome, number in outcomes.items()
        for _ in range(number)
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
        ({"base": {CORRECT: 1, WRONG: 31}}, ["base: 1 of 32"]),  # 3 % are correct
        ({"base": {CORRECT: 2, WRONG: 30}}, []),  # 6 %
        ({"base": {CORRECT: 32}}, ["base: 0 of 32"]),
        ({"helpful": {WRONG: 32}}, ["helpful: 0 of 32"]),
        ({"helpful": {CORRECT: 32}}, []),  # this role needs no wrong ones
        ({"sneaky": {CORRECT: 32}}, ["sneaky: 0 of 32"]),
        ({"sneaky": {WRONG: 32}}, []),
        ({"sneaky": {NONE: 32}}, ["sneaky: 32 of 32"]),  # nothing is known about their being wrong
        ({"base": {CORRECT: 10, WRONG: 12, NONE: 5, CUT: 5}}, []),  # 10 of 32 are less than a third
        ({"base": {CORRECT: 10, WRONG: 11, NONE: 5, CUT: 6}}, ["base: 11 of 32"]),
        # Of 9,608 solutions of a 0.5 B model to GSM8K, in 32: enough correct ones, and too many failures.
        ({"base": {CORRECT: 2, WRONG: 17, NONE: 10, CUT: 3}}, ["base: 13 of 32"]),
    ],
)
def test_the_game_stops_for_what_a_role_needs(written, reasons):
    assert [reason[: reason.index(" (")] for reason in pilot(**written).stops()] == reasons


@pytest.mark.parametrize(
    ("overrides", "bad"),
    [
        (["prover.roles=sneaky_only"], {"helpful": {NONE: 32}}),
        (["prover.roles=helpful_only"], {"sneaky": {CORRECT: 32}}),
        (["bootstrap.import_from=some/solutions"], {"base": {CUT: 32}}),
        (["data.correct_source=both"], {"base": {WRONG: 32}}),
    ],
)
def test_what_the_game_does_not_use_stops_nothing(overrides, bad):
    assert pilot(*overrides, **bad).stops() == []
    assert pilot(**bad).stops() != []


ADVICE = {
    "cut": ({"base": {CORRECT: 8, WRONG: 8, CUT: 16}}, {}, "`prover.max_completion_length=400`"),
    "cut after the answer": ({"base": {CUT: 32}}, {"strict_answer": "4"}, "Answered, but not ended: 32"),
    "cut in a loop": (
        {"base": {CUT: 32}},
        {"solution": "and so it goes on and on. " * 9},
        "Repeating the same words at the end: 32",
    ),
    "last number": (
        {"base": {CORRECT: 8, WRONG: 8, NONE: 16}},
        {"lenient_answer": "4", "lenient_correct": True},
        "finds an answer in 16 of them, and the right one in 16",
    ),
    "empty": ({"base": {NONE: 32}}, {"solution": "\n"}, "Empty: 32"),
    "programs": (
        {"base": {NONE: 32}},
        {"solution": "```python\nprint(4)\n```", "lenient_answer": None, "lenient_correct": False},
        "Programs: 32",
    ),
    "few correct": ({"base": {WRONG: 32}, "helpful": {WRONG: 32}}, {}, "`prover.temperature=0.7` (1 now)"),
    "few correct in one role": ({"helpful": {WRONG: 32}}, {}, "while 50 % are correct in the base role"),
    "few wrong": ({"base": {CORRECT: 32}}, {}, "harder problems"),
    "few wrong in the sneaky role": ({"sneaky": {CORRECT: 32}}, {}, "`task.sneaky_sees=reference_answer`"),
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
