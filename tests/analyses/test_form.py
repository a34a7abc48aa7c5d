"""Texts that keep the form of an evaluation, and the score that is read from them."""

import pytest

from pvg_hf.analyses.form import (
    ALLOWED_SCORES,
    CLOSING,
    OPENING,
    is_reference_score,
    read_evaluation,
    text_before_evaluation,
    text_before_score,
    write_evaluation,
)


@pytest.mark.parametrize("score", ALLOWED_SCORES)
def test_written_evaluations_are_read_back(score):
    evaluation = read_evaluation(write_evaluation("has 3 | ok\nand \\boxed{0}", score))
    assert (evaluation.analysis, evaluation.score) == ("has 3 | ok\nand \\boxed{0}", score)
    assert evaluation.has_form


@pytest.mark.parametrize(
    ("text", "score", "has_form"),
    [
        (f"{OPENING} a {CLOSING} \\boxed{{1}}", 1.0, True),
        (f"Well.\n{OPENING}a{CLOSING}It is\n\\boxed{{ 0.5 }}.", 0.5, True),
        (f"{OPENING}\n\n{CLOSING}\n\\boxed {{.50}}", 0.5, True),  # an empty analysis
        (OPENING.replace(" ", "\n  ") + " a " + CLOSING.replace(" ", "\t") + "\\boxed\n{\n1.0\n}", 1.0, True),
        (f"{OPENING} so \\boxed{{1}}, but {CLOSING} \\boxed{{0}}", 0.0, True),  # within the analysis
        (f"{OPENING} a {CLOSING} \\boxed{{0}} \\boxed{{1}}", 0.0, True),  # the first of several
        (f"{OPENING} a {CLOSING} \\boxed{{0}} {CLOSING} \\boxed{{1}}", 0.0, True),
        (f"{OPENING} a {CLOSING} \\boxed{{2}} \\boxed{{1}}", None, False),  # the first one counts
        (f"{OPENING} a {CLOSING} \\boxed{{\\boxed{{1}}}}", None, False),
        (f"{OPENING} a {CLOSING} \\boxed{{1", None, False),
        (f"{OPENING} a {CLOSING} \\boxed1", None, False),
        (f"{OPENING} a {CLOSING} \\boxed{{}}", None, False),
        (f"{OPENING} a {CLOSING} \\boxed{{0.7}}", None, False),
        (f"{OPENING} a {CLOSING} \\boxed{{1e0}}", None, False),
        (f"{OPENING} a {CLOSING} \\boxed{{-0}}", None, False),
        (f"{OPENING} a {CLOSING} \\boxed{{nan}}", None, False),
        (f"{OPENING} a {CLOSING} \\boxed{{\u0661}}", None, False),  # another script's 1
        (f"{OPENING} a {CLOSING} \\boxedin{{0}} \\boxed{{1}}", 1.0, True),  # another command
        (f"{OPENING} a {CLOSING} 1", None, False),
        (f"{OPENING} a \\boxed{{1}} {CLOSING}", None, False),
        (f"a {CLOSING} \\boxed{{1}}", 1.0, False),
        (f"{CLOSING} \\boxed{{1}} {OPENING}", 1.0, False),  # the other order
        (f"{CLOSING} \\boxed{{1}} {OPENING} a {CLOSING} \\boxed{{0}}", 0.0, True),
        (f"{OPENING} a \\boxed{{1}}", None, False),
        (f"{OPENING.lower()} a {CLOSING} \\boxed{{1}}", 1.0, False),  # exact sentences
        (f"{OPENING} a {CLOSING.replace('overall ', '')} \\boxed{{1}}", None, False),
        ("\\boxed{1}", None, False),
        ("", None, False),
    ],
)
def test_score_and_form_of_hostile_texts(text, score, has_form):
    evaluation = read_evaluation(text)
    assert (evaluation.score, evaluation.has_form) == (score, has_form)


def test_a_truncated_evaluation_has_no_score():
    evaluation = read_evaluation(write_evaluation("a", 1.0), is_cut=True)
    assert (evaluation.analysis, evaluation.score, evaluation.has_form, evaluation.is_cut) == (None, None, False, True)


def test_a_long_text_is_read_in_linear_time():
    """Quadratic time would be hours."""
    for piece in (" ", "Here is ", f"{OPENING}\n", f"{CLOSING}\n", "\\boxed{", "\\boxed {"):
        assert not read_evaluation(piece * (2_000_000 // len(piece))).has_form


@pytest.mark.parametrize(
    ("value", "is_allowed"),
    [(0, True), (0.5, True), (1, True), (None, True), (float("nan"), True), (0.7, False), ("1", False), (-1, False)],
)
def test_reference_scores(value, is_allowed):
    assert is_reference_score(value) is is_allowed


@pytest.mark.parametrize(
    ("text", "before"),
    [
        (write_evaluation("fine", 0.5), write_evaluation("fine", 0.5).removesuffix("0.5}")),
        (f"\\boxed{{1}} {CLOSING} \\boxed{{0}} \\boxed{{1}}", f"\\boxed{{1}} {CLOSING} \\boxed{{"),
        (f"{CLOSING} 1", None),
        (f"{CLOSING} \\boxed", None),
        (f"{CLOSING} \\boxed1 see {{x}}", None),
        ("\\boxed{1}", None),
    ],
)
def test_analysis_is_the_text_before_the_score(text, before):
    assert text_before_score(text) == before


def test_proof_is_the_text_before_its_evaluation():
    assert text_before_evaluation("has 3\n#### 3\n" + write_evaluation("fine", 1)) == "has 3\n#### 3"
    assert text_before_evaluation("has 3\n#### 3") == "has 3\n#### 3"
