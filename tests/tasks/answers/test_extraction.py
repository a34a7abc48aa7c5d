"""Extracting the final answer from a solution."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.tasks.answers import extract_answer, extract_last_number, grade_answer

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "grading.md"

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
        ("#### 3\n#### 3 + 1 = 5", None),
        ("#### 3 \\boxed{4} and \\boxed{5}", "4"),
        ("#### 3\nA: 4", "3"),
        ("#### 4\n#### ", "4"),
        ("#### 1) Add\n#### 2: Multiply them\n#### 6", "6"),
        (r"A: 4 and \boxed{5}, no: #### 6", "6"),
        (r"A: 4 and \boxed{5}", "5"),
        (r"\boxed{4} or \boxed{5", None),
        ("The answer is 4", "4"),
        ("so the answer: 4", "4"),
        ("The final answer: 4", "4"),
        ("### Final answer is `4`", "4"),
        ("The answer is 4.\r\nbye", "4"),
        ("# Answer\r\n\r\n4", "4"),
        ("A:\n4", "4"),
        ("Answer:\n```\n4\n```", "4"),
        ("[[ ## answer ## ]]\n4\n[[ ## completed ## ]]", "4"),
        ("A: 3\nB: 4", None),
        ("Pick one.\n**A:** 3\n\n**B:** 4", None),
        (r"\fbox{4}", "4"),
        (r"\boxed{4}, so \boxed{}", "4"),
        ("<Final_Answer> x = 4 </Final_Answer>", "4"),
        ("<answer>3 or 4</answer>", None),
        ("<answer>4", "4"),
        ("####\n4", None),
        ("Answer:\n\n\n\n4", None),
        ("Answer:\n### Step 1\n4", None),
        ("final_answer = 4", None),
        ("The answer to both is 4", None),
        ("#### \u200b18\ufeff", "18"),
        ("#### \N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT EIGHT}", "18"),
        ("#### 18.25 \N{ALMOST EQUAL TO} 18", "18"),
        (r"#### 18.2 = 18.20 \approx 18", "18"),
        ("#### x = 1,000 = 1000", "1000"),
        ("#### 120 = 2 hours", "2"),
    ],
)
def test_the_last_answer_of_the_best_rank_counts(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "It is 4, so the answer is 4",
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
        r"\boxed{}",
        r"\boxed{4",
        r"\boxed{\frac{3}{4}",
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


def read_table():
    """Return the rows of the table of texts and their readings in docs/reference/grading.md."""
    _, _, table = DOCUMENT.read_text(encoding="utf-8").partition("| text | strict | lenient |\n|---|---|---|\n")
    rows = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()]
    return [
        (text.strip("`").replace("⏎", "\n").replace(r"\|", "|"), *(None if x == "-" else x for x in read))
        for text, *read in rows
    ]


def test_the_table_in_the_documentation_is_found():
    assert len(read_table()) > 30


@pytest.mark.parametrize(("text", "strict", "lenient"), read_table())
def test_readings_are_those_of_the_table_in_the_documentation(text, strict, lenient):
    assert (extract_answer(text), extract_last_number(text)) == (strict, lenient)
    detail = grade_answer(text, "18").detail
    assert (detail["strict_answer"], detail["lenient_answer"]) == (strict, lenient)


RUN_ONS = (
    "\n\nProblem: Bob has 4 pens and buys 5. How many has he?\nSolution:\n4 + 5 = 9\n#### 9",
    "\n### Next problem\n\\boxed{9}",
    "\r\n**Question:** Bob?\r\nAnswer: 9",
    "\nHuman: Bob has 9.",
    "\n#### ",
)


@pytest.mark.parametrize("run_on", RUN_ONS)
@pytest.mark.parametrize(
    "solution",
    [
        "3 + 4 = 7\n#### 7",
        "#### 3\n#### 7",
        "**Answer:**\n7",
        "A: 7",
        "The answer is 7.",
        "<answer>7</answer>",
        r"First \boxed{3}, so \boxed{7}.",
    ],
)
def test_another_problem_or_an_empty_mark_does_not_change_the_grade(solution, run_on):
    assert grade_answer(solution + run_on, "7") == grade_answer(solution, "7")


numbers = st.integers() | st.integers(min_value=10**20, max_value=10**60)


@given(numbers, st.sampled_from(DECORATIONS), st.sampled_from(MARKS), st.booleans())
def test_a_decorated_integer_survives_the_round_trip(number, decoration, mark, has_separators):
    written = f"{number:,}" if has_separators else str(number)
    answer = extract_answer("Some steps.\n" + mark.format(decoration.format(written)))
    assert answer == str(number)
