"""Extracting the final answer from a solution."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvg_hf.tasks.answers import extract_answer

MARKS = ("#### {}", "A: {}", "Answer: {}", "**Answer:** {}", r"So \boxed{{{}}} it is.", r"$\boxed{{{}}}$")
DECORATIONS = (
    "{}",
    "${}",
    "**{}**",
    "{} dollars",
    "{}.",
    r"\({}\)",
    "${}$",
    "= {}",
    r"{} \text{{ cm}}^2",
    "{}%",
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("2 + 2 = 4\n#### 4", "4"),
        ("#### 4 ", "4"),
        ("####4", "4"),
        ("so 4\nA: 4", "4"),
        ("Answer: 4", "4"),
        ("**Answer**: 4", "4"),
        ("### Answer: 4", "4"),
        ("#### Answer: 4", "4"),
        ("Final Answer: 4", "4"),
        ("**Final Answer**: 4", "4"),
        ("**Final answer:** 4", "4"),
        ("## FINAL ANSWER: $4", "4"),
        ("> answer: 4", "4"),
        ("A: 4\r\nbye", "4"),
        (r"\boxed{4}", "4"),
        (r"\boxed {4}", "4"),
        (r"\boxed{\frac{3}{4}}", "3/4"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"A: $\boxed{\text{4 apples}}$", "4"),
        (r"#### \boxed{5} apples", "5"),
        ("#### 3\nWait.\n#### 4", "4"),
        ("#### 3\nA: 4", "4"),
        (r"A: 4 and \boxed{5}, no: #### 6", "6"),
        ("#### \u200b18\ufeff", "18"),
        ("#### \N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT EIGHT}", "18"),
        ("#### 18.25 \N{ALMOST EQUAL TO} 18", "18"),
        (r"#### 18.2 = 18.20 \approx 18", "18"),
        ("#### x = 1,000 = 1000", "1000"),
        ("#### 120 = 2 hours", "2"),
    ],
)
def test_the_last_mark_gives_the_answer(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "The answer is 4",
        "so the answer: 4",
        "The final answer: 4",
        "It is A: 4",
        "Q: 4",
        "#### ",
        "#### unknown",
        "#### none",
        "#### 18 or 20",
        "#### 18 not 20",
        "#### Step 2: multiply",
        "A: She makes 18 dollars",
        "A: 3 hours 20 minutes",
        "A: 5:30 pm",
        "A:\n4",
        r"\boxed{}",
        r"\boxed{4",
        r"\boxed{\frac{3}{4}",
        "#### 4\n#### ",
        "#### 1/0",
        "#### (5",
        "#### 9**9**9",
        "#### 18 (since 16 + 2 = 18)",
        "#### 3.14.15",
        "#### 2x = 18",
        "#### half of it = 9",
        "#### 18 =",
        "#### 17 = 18",
        "#### 18 = 17",
        r"\boxed{17 = 18.0}",
        "#### 16 + 2 = 18 = 19",
        "#### 12 + 7 = 18",
        "#### 1 + 1 = 9",
        "#### 5 x 4 = 18",
        "#### $16 + $3 = $18",
        "#### 18 = 36/3",
        "#### 10/3 = 3.34",
        "#### (2 + 3) * 4 = 18",
    ],
)
def test_unmarked_empty_or_ambiguous_texts_have_no_answer(text):
    assert extract_answer(text) is None


numbers = st.integers() | st.integers(min_value=10**20, max_value=10**60)


@settings(deadline=None)
@given(numbers, st.sampled_from(DECORATIONS), st.sampled_from(MARKS), st.booleans())
def test_a_decorated_integer_survives_the_round_trip(number, decoration, mark, has_separators):
    written = f"{number:,}" if has_separators else str(number)
    answer = extract_answer("Some steps.\n" + mark.format(decoration.format(written)))
    assert answer == str(number)
