"""Rows of people as problems with solutions and as pairs: paths, sides, ids, and known datasets."""

import math

import pandas as pd
import pytest

from pvg_hf.data.reading import PairForm, find_pairs, find_value, has_column, read_examples, solutions_frame

USER = {"role": "user", "content": "How many?"}
RIGHT, WRONG = {"role": "assistant", "content": "#### 5"}, {"role": "assistant", "content": "#### 6"}


def frame(*rows, needs_correct=False, **names):
    places = [(f"row {number}", row) for number, row in enumerate(rows)]
    return solutions_frame("own", list(read_examples(places, names)), needs_correct=needs_correct)


def pairs(*rows, writes_chats=False, kept=(), **names):
    found = find_pairs("own", list(read_examples([(f"row {n}", row) for n, row in enumerate(rows)], names)))
    form = PairForm.of(found, writes_chats=lambda: writes_chats)
    return form, form.write(found, kept)


ROW = {"a": {"b": [{"c": 1}, {"c": 2}]}, "x.y": 3}


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.b.0.c", 1), ("a.b.-1.c", 2), ("a.b.*.c", [1, 2]), ("x.y", 3), ("a", ROW["a"])],
)
def test_values_are_found_by_paths(path, value):
    assert find_value("row 0", ROW, path) == value
    assert has_column(ROW, path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a.c", r"row 0: there is no column `a.c`; `a` has \['b'\]"),
        ("a.b.2.c", r"`a.b` is \[\{'c': 1\}, \{'c': 2\}\]"),
        ("x.z", r"the row has \['a', 'x.y'\]"),
    ],
)
def test_a_path_that_leads_nowhere_is_named(path, message):
    with pytest.raises(ValueError, match=message):
        find_value("row 0", ROW, path)


def test_problems_are_grouped_by_text_up_to_white_space():
    texts = ["p", "p\n", "p\r\n", " p ", "q"]
    table = frame(*({"problem": text, "solution": "s"} for text in texts))
    assert table["problem_id"].tolist() == ["p"] * 4 + ["q"]
    assert table["sample_index"].tolist() == [0, 1, 2, 3, 0]
    assert table["problem"].tolist() == texts


@pytest.mark.parametrize("missing", [None, math.nan, ""])
def test_a_missing_id_is_none(missing):
    rows = [("1", "p"), (missing, "q"), (missing, "r"), (missing, "p\n"), (2.0, "s")]
    table = frame(*({"problem_id": key, "problem": text, "solution": "s"} for key, text in rows))
    assert table["problem_id"].tolist() == ["1", "q", "r", "1", "2"]


def test_one_id_with_two_texts_is_refused_with_both_rows():
    rows = [{"problem_id": 7, "problem": text, "solution": "s"} for text in ("p", "p\n", "q")]
    with pytest.raises(ValueError, match=r"`7` has two texts: 'p' \(row 0\) and 'q' \(row 2\).*`--column problem_id="):
        frame(*rows)
    with pytest.raises(ValueError, match="`7` has two texts"):
        pairs(*({**row, "correct": 1} for row in rows))


@pytest.mark.parametrize(
    ("row", "names", "message"),
    [
        ({"problem": "p"}, {}, r"row 0: there is no column `solution`; .*`--column solution=NAME`"),
        ({"solution": "s"}, {}, "there is no column `problem`; .*`--column problem=NAME`"),
        ({"problem": "p", "solution": 4}, {}, "`solution` must be a text.* is 4"),
        ({"problem": None, "solution": "s"}, {}, "`problem` must be a text.* is None"),
        ({"problem": "p", "solution": []}, {}, r"`solution` must be .* is \[\]"),
        ({"problem": ["p", "q"], "solution": "s"}, {}, "`problem` must be one text"),
        ({"problem": "p", "solution": "s", "problem_id": math.inf}, {}, "`problem_id` must be .* is inf"),
        ({"problem": "p", "solution": "s", "problem_id": [1]}, {}, r"`problem_id` must be .* is \[1\]"),
        ({"problem": "p", "solution": "s", "correct": "perhaps"}, {}, "`correct` must be .*'perhaps'"),
        ({"problem": "p", "solution": "s", "correct": math.inf}, {}, "`correct` must be .*inf"),
        ({"problem": "p", "solution": "s", "correct": None}, {}, "`correct` must be 0 or 1, but it is missing"),
        ({"problem": "p", "solution": "s", "s": -math.inf}, {"correct": "s>=3"}, "`s` must be a finite number.*-inf"),
        ({"problem": "p", "solution": "s", "s": 1}, {"correct": "s>=x"}, "finite number.*'x'"),
        ({"problem": "p", "solution": ["s", "t"], "s": [1]}, {"correct": "s"}, "`s` has 1 values for 2 solutions"),
        ({"chosen": "a", "rejected": "b"}, {}, "the pair has no `prompt`"),
        ({"prompt": "p", "chosen": "a", "rejected": None}, {}, "`rejected` must be a text.* is None"),
        ({"prompt": "p", "chosen": 5, "rejected": "b"}, {}, "`chosen` must be a text.* is 5"),
        ({"prompt": "x", "chosen": [USER, RIGHT], "rejected": [USER, WRONG]}, {}, "the prompt 'x' is not among"),
        (
            {"problem": "p", "solution": [{"role": "assistant", "content": None, "tool_calls": []}]},
            {},
            "last message has no text",
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_named(row, names, message):
    with pytest.raises(ValueError, match=message):
        frame(row, needs_correct=True, **names)


@pytest.mark.parametrize(
    ("value", "correct"), [("1", True), ("0.0", False), (True, True), (0, False), (1.0, True), (" False ", False)]
)
def test_truth_values_are_read(value, correct):
    assert frame({"problem": "p", "solution": "s", "correct": value})["correct"].tolist() == [correct]


def test_solutions_of_which_only_some_are_labelled_are_refused():
    rows = [{"problem": "p", "solution": "s", "correct": correct} for correct in (1, "", None)]
    assert "correct" not in frame(*rows[1:])
    with pytest.raises(ValueError, match=r"row 1: .*missing, though other rows have it"):
        frame(*rows)


SHEPHERD = "Ana has 2 pens. How many? Step 1: She has 2. ки\nStep 2: The answer is: 2 ки"
TURNS = "\n\nHuman: Hi\n\nAssistant: Yes?\n\nHuman: How many?\n\nAssistant:"

# By dataset: a row, the columns that are named, and the problem with its solutions.
DATASETS = {
    "text pair": ({"prompt": "p", "chosen": "a", "rejected": "b"}, {}, "p", [("a", True), ("b", False)]),
    "mapped pair": ({"q": "p", "chosen": "a", "rejected": "b"}, {"prompt": "q"}, "p", [("a", True), ("b", False)]),
    "UltraFeedback": (
        {"prompt": "How many?", "chosen": [USER, RIGHT], "rejected": [USER, WRONG]},
        {},
        "How many?",
        [("#### 5", True), ("#### 6", False)],
    ),
    "chats without a prompt": (
        {"chosen": [USER, RIGHT], "rejected": [USER, WRONG]},
        {},
        "How many?",
        [("#### 5", True), ("#### 6", False)],
    ),
    "a chat as prompt": (
        {"prompt": [USER], "chosen": [RIGHT], "rejected": "#### 6"},
        {},
        "How many?",
        [("#### 5", True), ("#### 6", False)],
    ),
    "the answers alone are chats": (
        {"prompt": "How many?", "chosen": [RIGHT], "rejected": [WRONG]},
        {},
        "How many?",
        [("#### 5", True), ("#### 6", False)],
    ),
    "a system message": (
        {"chosen": [{"role": "system", "content": "Be brief."}, USER, RIGHT], "rejected": "#### 6"},
        {},
        "system: Be brief.\n\nuser: How many?",
        [("#### 5", True), ("#### 6", False)],
    ),
    "HH-RLHF": (
        {"chosen": f"{TURNS} Five.", "rejected": f"{TURNS} Six."},
        {},
        TURNS,
        [(" Five.", True), (" Six.", False)],
    ),
    "HH-RLHF, earlier turns differ": (
        {"chosen": f"{TURNS} Five.", "rejected": TURNS.replace("Yes?", "No.") + " Six."},
        {},
        "\n\nHuman: Hi\n\nAssistant:",
        [
            (" Yes?\n\nHuman: How many?\n\nAssistant: Five.", True),
            (" No.\n\nHuman: How many?\n\nAssistant: Six.", False),
        ],
    ),
    "SHP": (
        {"history": "p", "human_ref_A": "a", "human_ref_B": "b", "labels": 0},
        {},
        "p",
        [("b", True), ("a", False)],
    ),
    "RewardBench 2": (
        {"prompt": "p", "chosen": ["a"], "rejected": ["b", "c", "d"]},
        {},
        "p",
        [("a", True), ("b", False), ("c", False), ("d", False)],
    ),
    "HelpSteer": (
        {"prompt": "p", "response": "s", "correctness": 3},
        {"solution": "response", "correct": "correctness>=3"},
        "p",
        [("s", True)],
    ),
    "Math-Shepherd": (
        {"input": SHEPHERD, "label": SHEPHERD.replace("ки", "+", 1).replace("ки", "-"), "task": "GSM8K"},
        {},
        "Ana has 2 pens. How many?",
        [("Step 1: She has 2.\nStep 2: The answer is: 2", False)],
    ),
    "stepwise": (
        {"prompt": "p", "completions": ["a", "b"], "labels": [False, True]},
        {},
        "p",
        [("a\nb", True)],
    ),
    "vLLM": (
        {"prompt": "p", "outputs": [{"text": "a"}, {"text": "b"}]},
        {"solution": "outputs.*.text"},
        "p",
        [("a", None), ("b", None)],
    ),
    "lm-eval": (
        {"doc": {"question": "p"}, "resps": [["a", "b"]], "exact_match": 1.0},
        {"problem": "doc.question", "solution": "resps.0", "correct": "exact_match"},
        "p",
        [("a", True), ("b", True)],
    ),
    "OpenAI": (
        {"problem": "p", "response": {"body": {"choices": [{"message": {"content": "a"}}]}}},
        {"solution": "response.body.choices.*.message.content"},
        "p",
        [("a", None)],
    ),
}


@pytest.mark.parametrize(("row", "names", "problem", "expected"), DATASETS.values(), ids=DATASETS)
def test_known_datasets_are_read(row, names, problem, expected):
    table = frame(row, **names)
    assert set(table["problem"]) == {problem}
    assert table["solution"].tolist() == [solution for solution, _ in expected]
    known = [correct for _, correct in expected if correct is not None]
    assert ("correct" in table, table.get("correct", pd.Series()).tolist()) == (bool(known), known)


def test_every_solution_is_in_a_pair():
    rows = [("p", "a", 1), ("p", "b", 0), ("p\n", "c", 0), ("q", "d", 1)]
    form, written = pairs(*({"problem": p, "solution": s, "correct": c} for p, s, c in rows))
    assert form.template == "{{ problem }}\n{{ solution }}"
    assert written == [{"prompt": "p\n", "chosen": "a", "rejected": side} for side in ("b", "c")]


@pytest.mark.parametrize(
    ("row", "prompt", "template"),
    [
        ({"prompt": "p", "chosen": "a", "rejected": "b"}, "p\n", "{{ problem }}\n{{ solution }}"),
        ({"prompt": "p\n", "chosen": "a", "rejected": "b"}, "p\n", "{{ problem }}{{ solution }}"),
        ({"prompt": "p", "chosen": " a", "rejected": " b"}, "p", "{{ problem }}{{ solution }}"),
        ({"chosen": "a", "rejected": "b"}, "", "{{ problem }}{{ solution }}"),
    ],
)
def test_something_stands_between_a_problem_and_a_solution(row, prompt, template):
    form, [written] = pairs(row)
    assert (written["prompt"], form.template) == (prompt, template)


def test_chats_are_written_as_chats_if_the_model_has_a_template():
    rows = [{"chosen": [USER, RIGHT], "rejected": [USER, WRONG]}, {"prompt": "p", "chosen": "a", "rejected": "b"}]
    assert pairs(*rows)[1][0] == {"prompt": "How many?\n", "chosen": "#### 5", "rejected": "#### 6"}
    form, (first, second) = pairs(*rows, writes_chats=True)
    assert form.is_chat
    assert first == {"chosen": [USER, RIGHT], "rejected": [USER, WRONG]}
    assert second["chosen"] == [{"role": "user", "content": "p"}, {"role": "assistant", "content": "a"}]


def test_further_columns_of_pairs_are_kept_if_they_are_finite():
    row = {"prompt": "p", "chosen": "a", "rejected": "b", "margin": 1.5, "source": "x", "logprob": -math.inf}
    _, [written] = pairs(row, kept=("margin", "source", "chosen_key"))
    assert written == {"prompt": "p\n", "chosen": "a", "rejected": "b", "margin": 1.5, "source": "x"}
    with pytest.raises(ValueError, match="row 0: `margin` must be finite; got inf"):
        pairs({**row, "margin": math.inf}, kept=("margin",))


def test_without_a_correct_and_an_incorrect_solution_there_is_no_pair():
    with pytest.raises(ValueError, match="No problem of own has a correct and an incorrect"):
        pairs({"problem": "p", "solution": "s", "correct": 1}, {"problem": "q", "solution": "s", "correct": 0})
