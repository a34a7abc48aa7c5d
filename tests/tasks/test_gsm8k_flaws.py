import numpy as np
import pytest

from pvg_hf.tasks.gsm8k_flaws import draw_near_misses

PROBLEM = "A shop sells 17 pens at $3 each and 13 books at $8 each. It gives back 15 dollars. What does it earn?"
REFERENCE = "The pens bring 17*3=$51.\nThe books bring 13*8=$104.\nThat is 51+104=155.\nIt earns 155-15=140.\n#### 140"


def draw(reference=REFERENCE, problem=PROBLEM, seeds=range(30)):
    """All texts of each kind that some seeds give."""
    found: dict[str, set[str]] = {}
    for seed in seeds:
        for kind, text in draw_near_misses(problem, reference, np.random.default_rng(seed)).items():
            found.setdefault(kind, set()).add(text)
    return found


def test_each_kind_has_one_mistake_that_is_carried_on():
    drawn = draw()
    assert drawn["dropped_step"] == {
        # Later steps use the dropped step's first number, 17, 13 or 51, in place of its result.
        "The books bring 13*8=$104.\nThat is 17+104=121.\nIt earns 121-15=106.\n#### 106",
        "The pens bring 17*3=$51.\nThat is 51+13=64.\nIt earns 64-15=49.\n#### 49",
        "The pens bring 17*3=$51.\nThe books bring 13*8=$104.\nIt earns 51-15=36.\n#### 36",
    }
    assert drawn["other_answer"] == {REFERENCE.replace("#### 140", f"#### {other}") for other in (51, 104, 155)}
    assert REFERENCE.replace("155-15=140", "155+15=170").replace("#### 140", "#### 170") in drawn["wrong_operation"]
    for text in drawn["wrong_last_result"]:
        *lines, equation, answer = text.splitlines()
        assert lines == REFERENCE.splitlines()[:3]
        assert equation.removesuffix(".").partition("=")[2] == answer.removeprefix("#### ") != "140"
    wrong = "The pens bring 17*3=$52.\nThe books bring 13*8=$104.\nThat is 52+104=156.\nIt earns 156-15=141.\n#### 141"
    assert wrong in drawn["wrong_result"]


def test_a_result_that_may_also_be_another_number_is_not_changed():
    # 15 is a number of the problem: a later 15 need not be this result. And 15-17 is negative.
    drawn = draw("It is 5*3=15.\nThat is 15+17=32.\n#### 32")
    assert drawn.keys() == {"wrong_last_result", "other_answer"}


def test_an_equation_that_cannot_be_computed_again_is_not_made_false():
    drawn = draw("The pens bring 17*3=$51.\nThe books bring 13*8=$104.\nTwice is (51+104) * 2 = 310.\n#### 310")
    assert drawn.keys() == {"other_answer"}


@pytest.mark.parametrize("reference", ["17", "It is 17.\n#### 17", "It is 3/0=2.\n#### 2", "It is 2+2=5.\n#### 5"])
def test_a_reference_without_equations_that_hold_has_none(reference):
    assert draw(reference, seeds=[0]) == {}


def test_an_equal_generator_draws_equal_texts():
    assert draw(seeds=[3]) == draw(seeds=[3])
