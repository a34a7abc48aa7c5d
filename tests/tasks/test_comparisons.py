"""The world of comparisons: problems, solutions in many forms, and a checker that reads them all."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.flaw_detection import check_solution
from pvg_hf.tasks.arithmetic.grammar import MAX_NUMBER, MAX_VALUE, parse_puzzle, sample_puzzle
from pvg_hf.tasks.arithmetic.lines import read_line
from pvg_hf.tasks.arithmetic.writer import FLAW_KINDS, reference_solution, sample_solution
from tests.support.examples import examples
from tools.pretraining.solution_texts import CorpusConfig, sample_text

PROBLEM = (
    "Ana has 7 pens.\nDev has 4 pens.\nBen has 3 more than Ana.\nCleo has twice as many as Ben.\nHow many pens does"
    " Cleo have?"
)
SOLUTION = "Ana has 7\nBen has 3 more than Ana: 7 + 3 = 10\nCleo has twice as many as Ben: 10 * 2 = 20\n#### 20"
PUZZLE = parse_puzzle(PROBLEM)
TOGETHER = parse_puzzle(
    "Ana has 8 pens.\nFay has 5 pens.\nBen has half as many as Ana.\nEli has as many as Ben and Fay together.\n"
    "How many pens does Eli have?"
)


def flaws(solution, puzzle=PUZZLE):
    return [(flaw.step, flaw.kind.value) for flaw in check_solution(puzzle, solution).flaws]


def test_a_problem_is_parsed_to_its_truth():
    assert PUZZLE.values == {"Ana": 7, "Ben": 10, "Cleo": 20, "Dev": 4}
    assert PUZZLE.needed == ("Ana", "Ben", "Cleo")
    assert PUZZLE.calculated == ("Ben", "Cleo")
    assert PUZZLE.answer == 20
    assert PUZZLE.text == PROBLEM
    assert reference_solution(PUZZLE) == SOLUTION


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_text_and_truth_agree(seed, difficulty):
    puzzle = sample_puzzle(np.random.default_rng(seed), difficulty, distractor_rate=0.5)
    assert parse_puzzle(puzzle.text) == puzzle
    assert len(puzzle.calculated) == difficulty
    assert all(1 <= value <= MAX_VALUE for value in puzzle.values.values())
    reading = check_solution(puzzle, reference_solution(puzzle))
    assert reading.flaws == ()
    assert reading.implicit_share == 0


@pytest.mark.parametrize(
    "line",
    [
        "Ben has 3 more than Ana: 7 + 3 = 10",
        "Ben has 3 more than Ana, so 7 + 3 = 10",
        "Ben has 7 + 3 = 10",
        "7 + 3 = 10",
        "Ben has 10",
        "Cleo has (7 + 3) * 2 = 20",
        "4 + 4 + 4 = 12",
        "Gus has a third as many as Ben: 9 / 3 = 3",
        "Eli has as many as Ben and Fay together: 4 + 5 = 9",
        "Dev is not needed",
    ],
)
def test_a_line_is_written_as_it_is_read(line):
    assert str(read_line(line)) == line


@pytest.mark.parametrize(
    "line", ["", "12", "Ben: 10", "Ben 7", "so Ben has 7", "Ben has 3 more than Ana: 10", f"Ben has {'9' * 40}"]
)
def test_other_lines_are_not_read(line):
    assert read_line(line) is None


@pytest.mark.parametrize(
    ("solution", "implicit_share"),
    [
        (SOLUTION, 0.0),
        (
            (
                "Ben has 3 more than Ana: 7 + 3 = 10\nDev is not needed\nCleo has twice as many as Ben, so 2 * 10 ="
                " 20\n#### 20"
            ),
            0.0,
        ),
        ("Ben has 3 more than Ana: 7 + 3 = 10\nBen has 10\nCleo has 10 + 10 = 20\n#### 20", 1 / 6),
        ("Ben has 10\nCleo has 20\n#### 20", 4 / 6),
        ("7 + 3 = 10\n10 * 2 = 20\n#### 20", 4 / 6),
        ("Cleo has (3 + 7) * 2 = 20\n#### 20", 3 / 6),
        ("Cleo has twice as many as Ben: 10 * 2 = 20\n#### 20", 3 / 6),  # Ben's number is the reader's to find
        ("#### 20", 1.0),
    ],
)
def test_a_correct_solution_has_many_forms_which_state_more_or_less(solution, implicit_share):
    reading = check_solution(PUZZLE, solution)
    assert reading.flaws == ()
    assert reading.implicit_share == pytest.approx(implicit_share)


@pytest.mark.parametrize(
    "solution",
    [
        "Fay has 5\nBen has 8 / 2 = 4\nEli has as many as Fay and Ben together: 5 + 4 = 9\n#### 9",
        "Eli has (8 / 2) + 5 = 9\n#### 9",
        "8 / 2 = 4\n4 + 5 = 9\n#### 9",
    ],
)
def test_steps_may_come_in_any_order_and_be_merged(solution):
    assert flaws(solution, TOGETHER) == []


@pytest.mark.parametrize(
    ("solution", "step", "kind"),
    [
        (SOLUTION.replace("7 + 3 = 10", "7 + 3 = 11").replace("10 * 2 = 20\n#### 20", "11 * 2 = 22\n#### 22"), 1,
         "wrong_sum"),
        ("Ben has 11\nCleo has 11 * 2 = 22\n#### 22", 0, "wrong_sum"),
        (SOLUTION.replace("Ana has 7", "Ana has 9"), 0, "wrong_operand"),
        (SOLUTION.replace("7 + 3 = 10", "7 + 2 = 9"), 1, "wrong_operand"),
        (SOLUTION.replace("3 more than Ana: 7 + 3 = 10", "2 more than Ana: 7 + 2 = 9"), 1, "wrong_operand"),
        (SOLUTION.replace("7 + 3 = 10", "7 - 3 = 4"), 1, "wrong_operation"),
        (SOLUTION.replace("3 more than Ana", "3 fewer than Ana"), 1, "wrong_operation"),
        (SOLUTION.replace("3 more than Ana: 7 + 3 = 10", "3 more than Dev: 4 + 3 = 7"), 1, "wrong_source"),
        ("Ben has 4 + 3 = 7\nCleo has 7 * 2 = 14\n#### 14", 0, "wrong_source"),
        ("Cleo has twice as many as Ben: 7 * 2 = 14\n#### 14", 0, "dropped_step"),  # Ana's number stands for Ben's
        ("Ben has 3 more than Ana: 7 + 3 = 10\n#### 10", 1, "dropped_step"),
        (SOLUTION.replace("#### 20", "#### 21"), 3, "contradicted_conclusion"),
        ("Gus has 3\n#### 20", 0, "invented_step"),
        ("Ben is not needed\n#### 20", 0, "invented_step"),
        ("Ana has 4 + 3 = 7\n#### 20", 0, "invented_step"),
        (SOLUTION.replace("Ana has 7", "Ana has seven"), 0, "malformed"),
        (SOLUTION.removesuffix("\n#### 20"), 2, "malformed"),
        (f"#### 20\n{SOLUTION}", 0, "malformed"),
        ("", 0, "malformed"),
    ],
)  # fmt: skip
def test_each_flaw_is_found_where_it_is(solution, step, kind):
    assert flaws(solution)[0] == (step, kind)


def test_a_number_carried_on_is_no_second_flaw():
    wrong = "Ben has 3 more than Ana: 7 + 3 = 11\nCleo has twice as many as Ben: 11 * 2 = 22\n#### 22"
    assert flaws(wrong) == [(0, "wrong_sum")]


def test_flawless_solutions_are_correct_and_of_many_texts():
    rng = np.random.default_rng(0)
    for _ in range(100):
        puzzle = sample_puzzle(rng, int(rng.integers(2, 7)), 0.5)
        texts = {sample_solution(rng, puzzle) for _ in range(16)}
        assert len(texts) >= 8
        for text in texts:
            assert check_solution(puzzle, text).flaws == ()
            assert text.endswith(f"\n#### {puzzle.answer}")
            assert all(int(number) <= MAX_NUMBER for number in re.findall(r"\d+", text))


@pytest.mark.parametrize("kind", FLAW_KINDS)
def test_planted_flaws_are_found(kind):
    rng = np.random.default_rng(0)
    wrong = named = 0
    for _ in range(200):
        puzzle = sample_puzzle(rng, int(rng.integers(2, 7)), 0.5)
        solution = sample_solution(rng, puzzle, kind)
        found = check_solution(puzzle, solution).flaws
        if not solution.endswith(f"\n#### {puzzle.answer}"):
            assert found, solution
            wrong += 1
            named += found[0].kind == kind
    # A flaw of a line that states little can be read in several ways, so a part of them is named otherwise.
    assert wrong > 130
    assert named / wrong > 0.6


lines = st.sampled_from(
    [*SOLUTION.split("\n"), "Ben has 10", "7 + 3 = 10", "Dev is not needed", "Ana has 2 * 2 * 2 = 8"]
)
edits = st.tuples(
    st.integers(0, 80), st.integers(0, 3), st.sampled_from(["", " ", "\n", "-", "0", "(", "+", "#", "Ana"])
)


def edited(text, changes):
    for start, length, inserted in changes:
        text = text[:start] + inserted + text[start + length :]
    return text


@examples(200)
@given(
    st.builds(edited, st.lists(lines, max_size=6).map("\n".join), st.lists(edits, max_size=3)) | st.text(max_size=200)
)
def test_any_text_is_read_and_a_wrong_answer_always_has_a_flaw(text):
    reading = check_solution(PUZZLE, text)
    assert 0 <= reading.implicit_share <= 1
    if not re.fullmatch(r"#### 0*20", text.strip().split("\n")[-1]):
        assert reading.flaws


def test_training_texts_are_flawed_as_often_as_their_role_says():
    rng, config = np.random.default_rng(0), CorpusConfig()
    drawn = [sample_text(rng, config) for _ in range(900)]
    for role, rate in config.flaw_rate:
        texts = [(puzzle, text) for puzzle, drawn_role, text in drawn if drawn_role is role]
        wrong = np.mean([not text.endswith(f"\n#### {puzzle.answer}") for puzzle, text in texts])
        assert rate - 0.15 < wrong < rate + 0.05  # some flaws leave the answer as it is


def test_the_examples_are_flawless_and_in_no_split():
    for example in ArithmeticTask.few_shot_examples:
        puzzle = parse_puzzle(example["problem"])
        assert reference_solution(puzzle) == example["solution"]


TWO = "Ana has 7 pens.\nBen has 3 more than Ana.\n{}How many pens does Cleo have?"


@pytest.mark.parametrize(
    ("problem", "part"),
    [
        ("What is 2 + 2?", "does not end with"),
        ("", "does not end with"),
        (TWO.format(""), "0 sentences.* Cleo"),
        (TWO.format("Cleo has 3 pens.\nCleo has twice as many as Ben.\n"), "2 sentences.* Cleo"),
        (TWO.format("Cleo has twice as many as Cleo.\n"), "depends on itself"),
        (TWO.format("Cleo has 3 coins.\n"), "`Cleo has 3 coins.`"),
        (TWO.format("Cleo eats 3 pens.\n"), "`Cleo eats 3 pens.`"),
        (TWO.format("Cleo has a third as many as Ben.\n"), "no whole number"),
        (TWO.format("Cleo has 30 more than Ben.\n"), "2, 9"),
        (TWO.format("Cleo has 3 more than Ana.\nZoe has 4 pens.\n"), "Zoe"),
        (TWO.format("Cleo has 3 more than Ana.\n"), r"1 calculation\(s\)"),
        (TWO.format("Cleo has 3 more than Dev.\nDev has twice as many as Ben.\n"), "later sentence introduces"),
        (TWO.format("Cleo has twice as many as Ben.\n").replace("\n", " "), "one a line"),
    ],
)
def test_other_texts_are_not_recognised(problem, part):
    mistake = ArithmeticTask(num_train=1, num_test=1).problem_mistake(problem)
    assert mistake is not None
    assert re.search(part, mistake)
