"""Which mark of a text holds the final answer: all marks in all orders, and distractors around a known answer."""

from itertools import product

import pytest

from pvg_hf.tasks.answers import extract_answer, extract_last_number, reference_answer

MARKS = (
    "#### {}",
    "#### x = {}",
    "Answer: {}",
    "1. **Answer:** {}",
    "**Final answer** {}",
    "# Answer\n\n{}",
    "<answer>{}</answer>",
    "<answer>\nThe answer is: {}\n</answer>",
    "Thus, the answer is {}.",
    r"So \boxed{{{}}} pens.",
    r"A: \boxed{{{}}}",
)
WEAK_MARKS = ("A: {}", "**A:** {} pens")
ALL_MARKS = MARKS + WEAK_MARKS


@pytest.mark.parametrize("first", ALL_MARKS)
def test_the_last_mark_of_the_best_rank_decides(first):
    for marks in product([first], ALL_MARKS, ALL_MARKS):
        answers = dict(zip(("3", "5", "7"), marks))
        text = "\nThen 2 more.\n".join(mark.format(answer) for answer, mark in answers.items())
        ranked = [answer for answer, mark in answers.items() if mark in MARKS] or list(answers)
        assert extract_answer(text) == ranked[-1], text


BEFORE = (
    "",
    "We add 3 and 4.\n",
    "<think>\nIt is 3.\n#### 3\n</think>\n",
    "The options:\nA: 3\nB: 4\nC: 5\n\n",
    "#### unknown\n",
    "Answer: 3 or 4\n",
    "#### 1. Count 3 pens\n",
    "Put it in \\boxed{}.\n",
    "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n",
)
AFTER = (
    "",
    ".",
    "\n####",
    "<|im_end|>",
    "</s></s>",
    "<br>\n",
    "\n\nPut it in \\boxed{}.",
    "\n\nProblem: And 2 more?\nA: 9",
    "<|im_end|>\n<|im_start|>user\nAnd 2 more?<|im_end|>\n<|im_start|>assistant\n\\boxed{9}",
    "\n<think>\n#### 9",
)


@pytest.mark.parametrize("mark", ALL_MARKS)
def test_distractors_around_an_answer_do_not_change_it(mark):
    for before, after in product(BEFORE, AFTER):
        text = before + mark.format(7) + after
        assert (extract_answer(text), reference_answer(text)) == ("7", "7"), text


THOUGHTS = (
    ("<think>", "</think>"),
    ("", "</think>"),
    ("<THINK>", "</Think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<scratchpad>", "</scratchpad>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<seed:think>", "</seed:think>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)


@pytest.mark.parametrize(("begin", "end"), THOUGHTS)
def test_what_stands_before_the_end_of_a_thinking_block_is_not_read(begin, end):
    thought = f"{begin}\n#### 3\nWait.\n#### 5\n{end}"
    assert extract_answer(f"{thought}\n#### 7") == "7"
    assert extract_answer(f"#### 3\n{thought}\n{thought}\nSo \\boxed{{7}}.") == "7"
    assert (extract_answer(thought), extract_last_number(thought)) == (None, None)
    assert extract_last_number(f"{thought}\nIt is 7.") == "7"


@pytest.mark.parametrize("begin", [begin for begin, _ in THOUGHTS if begin])
def test_a_thinking_block_that_is_not_closed_is_not_read(begin):
    text = f"{begin}\n#### 3"
    assert (extract_answer(text), extract_last_number(text)) == (None, None)
    assert extract_answer(f"#### 7\n{text}") == "7"


def test_a_heading_reasoning_is_not_a_thinking_block():
    assert extract_answer("[Reasoning]\n3 + 4 = 7\n[Answer]\n7") == "7"


@pytest.mark.parametrize(
    "text",
    [
        "Final Answer: The final answer is $42$. I hope it is correct.",
        "Answer: The answer is 42",
        "**Final Answer:** the answer is **42**.",
    ],
)
def test_a_label_may_be_said_twice(text):
    assert extract_answer(text) == "42"


@pytest.mark.parametrize(
    "token",
    [
        "<|im_end|>",
        "</s>",
        "<|eot_id|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<eos>",
        "<EOT>",
        "[EOS]",
        "<turn|>",
        "<|end|>",
        "<|return|>",
        "<|END_OF_TURN_TOKEN|>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<pad><pad>",
        "<|im_end|>\n<|im_start|>user\n9",
        "[INST] 9 [/INST]",
        "<br>",
        "<br/>9",
        "</p>",
        "</b>",
    ],
)
@pytest.mark.parametrize("mark", ALL_MARKS)
def test_a_token_or_tag_does_not_hide_the_answer(mark, token):
    assert extract_answer(mark.format("**$7**") + token) == "7"
    assert extract_last_number(f"It is 7{token.rstrip('9')}") == "7"
