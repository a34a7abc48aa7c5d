"""Stories, of which proofs are written, their solutions, and a checker that finds every planted flaw."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.tasks.arithmetic import FlawKind
from pvg_hf.tasks.proofs import ProofsTask
from pvg_hf.tasks.proofs.flaw_detection import check_solution
from pvg_hf.tasks.proofs.stories import (
    MAX_START,
    MAX_VALUE,
    VERBS,
    parse_story,
    reference_solution,
    sample_story,
    story_mistake,
)
from pvg_hf.tasks.proofs.writing import FLAW_KINDS, write_flawed_solution
from tests.support.examples import examples

PROBLEM = (
    "Ana has 12 pens. On Monday Ben gives Ana 5 pens. Ben has 7 pens. On Tuesday Ana loses 3 pens. On Wednesday Ana"
    " doubles the pens. How many pens does Ana have?"
)
SOLUTION = (
    "has 12\nMonday gets 5: 12 + 5 = 17\nTuesday loses 3: 17 - 3 = 14\nWednesday doubles 2: 14 * 2 = 28\n#### 28"
)


def flaws(solution):
    return [(flaw.step, flaw.kind) for flaw in check_solution(parse_story(PROBLEM), solution).flaws]


def test_parse_leaves_out_the_distractor():
    story = parse_story(PROBLEM)
    assert [(event.verb, event.amount) for event in story.events] == [("gets", 5), ("loses", 3), ("doubles", 2)]
    assert story.values == [12, 17, 14, 28]
    assert reference_solution(story) == SOLUTION


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_text_and_truth_agree(seed, difficulty):
    story, text = sample_story(np.random.default_rng(seed), difficulty, distractor_rate=0.5)
    assert parse_story(text) == story
    assert len(story.events) == difficulty
    assert all(1 <= value <= MAX_VALUE for value in story.values)
    assert check_solution(story, reference_solution(story)).flaws == ()


@pytest.mark.parametrize(
    ("wrong", "step", "kind"),
    [
        (SOLUTION.replace("12 + 5 = 17", "12 + 5 = 18").replace("17 - 3 = 14", "18 - 3 = 15"), 1, "wrong_sum"),
        (SOLUTION.replace("has 12", "has 7"), 0, "wrong_operand"),
        (SOLUTION.replace("Monday gets 5: 12 + 5 = 17", "Monday gets 7: 12 + 7 = 19"), 1, "wrong_operand"),
        (SOLUTION.replace("Tuesday loses 3: 17 - 3", "Tuesday loses 3: 16 - 3"), 2, "wrong_operand"),
        (SOLUTION.replace("Monday gets 5: 12 + 5 = 17", "Monday gets 5: 12 - 5 = 7"), 1, "wrong_operation"),
        (SOLUTION.replace("Monday gets 5: 12 + 5 = 17", "Monday gives 5: 12 - 5 = 7"), 1, "wrong_operation"),
        (
            SOLUTION.replace(
                "Tuesday loses 3: 17 - 3 = 14\nWednesday doubles 2: 14 * 2 = 28", "Wednesday doubles 2: 17 * 2 = 34"
            ),
            2,
            "dropped_step",
        ),
        (SOLUTION.replace("#### 28", "#### 29"), 4, "contradicted_conclusion"),
        (SOLUTION.replace("#### 28", "Thursday sells 9: 28 - 9 = 19\n#### 19"), 4, "invented_step"),
        (SOLUTION.replace("Tuesday loses 3: 17 - 3 = 14", "so it is 14"), 2, "malformed"),
        (SOLUTION.removesuffix("\n#### 28"), 3, "malformed"),
        ("", 0, "malformed"),
        (SOLUTION.replace("12 + 5 = 17", f"12 + 5 = {'9' * 4000}"), 1, "malformed"),
    ],
)
def test_each_flaw_is_found_where_it_is(wrong, step, kind):
    assert flaws(wrong)[0] == (step, kind)


def test_a_wrong_value_used_later_is_not_a_second_flaw():
    wrong = (
        "has 12\nMonday gets 5: 12 + 5 = 18\nTuesday loses 3: 18 - 3 = 15\nWednesday doubles 2: 15 * 2 = 30\n#### 30"
    )
    assert flaws(wrong) == [(1, FlawKind.WRONG_SUM)]


@pytest.mark.parametrize("kind", FLAW_KINDS)
def test_planted_flaws_are_found(kind):
    rng = np.random.default_rng(0)
    named = flawed = 0
    for _ in range(500):
        story, _ = sample_story(rng, int(rng.integers(2, 7)), 0.5)
        solution = write_flawed_solution(rng, story, kind)
        if solution is not None:
            found = check_solution(story, solution).flaws
            assert found, solution
            flawed += 1
            named += found[0].kind == kind
    # A misread event may look like another event of the story that was moved, so a few are named otherwise.
    assert flawed > 300
    assert named / flawed > 0.9


edits = st.tuples(
    st.integers(0, len(SOLUTION)),  # where
    st.integers(0, 3),  # how many characters are taken out
    st.sampled_from(["", " ", "\n", "-", "0", "1", "7", "+", "28", "#", "x", "Monday", *SOLUTION.split("\n")]),
)


def edited(text, changes):
    for start, length, inserted in changes:
        text = text[:start] + inserted + text[start + length :]
    return text


@examples(500)
@given(st.lists(edits, max_size=3).map(lambda changes: edited(SOLUTION, changes)) | st.text(max_size=300))
def test_a_text_has_no_flaw_exactly_when_it_is_the_reference(text):
    without_leading_zeros = re.sub(r"\b0+(?=\d)", "", text.strip())  # `has 012` is right
    assert (flaws(text) == []) == (without_leading_zeros == SOLUTION)


def test_the_examples_are_flawless_and_show_every_verb():
    for example in ProofsTask.few_shot_examples:
        assert reference_solution(parse_story(example["problem"])) == example["solution"]
    stories = [parse_story(example["problem"]) for example in ProofsTask.few_shot_examples]
    shown = [event.verb for story in stories for event in story.events]
    assert sorted(shown) == sorted(verb.word for verb in VERBS)
    assert all(story.start > MAX_START for story in stories)  # so no split holds them


def test_a_problem_of_another_task_is_refused():
    with pytest.raises(ValueError, match="`NAME has N THINGS"):
        parse_story("What is love?")


@pytest.mark.parametrize("seed", range(3))
def test_every_problem_is_recognised_as_the_tasks(seed):
    task = ProofsTask(num_train=150, num_test=50, seed=seed, max_difficulty=6)
    for split in ("train", "test"):
        assert [task.problem_mistake(text) for text in task.problems(split)["problem"]] == [None] * len(
            task.problems(split)
        )


STORY = "Ana has 6 pens. On Monday Ana finds 4 pens. {} How many pens does Ana have?"


@pytest.mark.parametrize(
    ("problem", "part"),
    [
        ("What is 2 + 2?", "begin with"),
        ("", "begin with"),
        ("Zoe has 6 pens. On Monday Zoe finds 4 pens. How many pens does Zoe have?", "begin with"),
        (STORY.format(""), r"It has 1 event\(s\); a problem has 2 to 4"),
        (STORY.format("On Wednesday Ana loses 3 pens."), "`On Wednesday Ana loses 3 pens.`"),  # Tuesday is next
        (STORY.format("On Tuesday Ana eats 3 pens."), "`On Tuesday Ana eats 3 pens.`"),
        (STORY.format("On Tuesday Ana loses 3 coins."), "3 coins"),
        (STORY.format("On Tuesday Ana loses 30 pens."), "30 pens"),
        (STORY.format("On Tuesday Ana keeps a third of the pens."), "a third"),  # of 10
        (STORY.format("On Tuesday Ana loses 3 pens. Ben has 4 pens. Ben has 5 pens."), "Ben has 5 pens"),
        (STORY.format("On Tuesday Ana loses 3 pens. It rains."), "It rains"),
        ("Ana has 6 pens. On Monday Ana triples the pens. On Tuesday Ana doubles the pens. "
         "How many pens does Ana have?",
         r"\[6, 18, 36\]"),
        ("Ana has 6 pens. On Monday Ana finds 4 pens. On Tuesday Ana loses 3 pens.", "does not end with"),
    ],
)  # fmt: skip
def test_other_texts_are_not_recognised(problem, part):
    mistake = story_mistake(problem, (2, 4))
    assert mistake is not None
    assert re.search(part, mistake)


def test_a_story_with_a_distractor_is_recognised():
    assert story_mistake(STORY.format("Ben has 4 pens. On Tuesday Ben gives Ana 3 pens.")) is None
