"""Answers that count as equal."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.tasks.answers import answers_equal

numbers = st.integers() | st.integers(min_value=10**20, max_value=10**60)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("18", "18.0"),
        ("1,234", "1234"),
        ("$18", "18 dollars"),
        ("50%", "50"),
        ("50 cents", "50"),
        ("1/2", "0.5"),
        ("1 1/2", "3/2"),
        ("-3/4", "-0.75"),
        ("1.8 billion", "1,800,000,000"),
        ("2e3", "2000"),
        ("1e-2", "0.01"),
        ("5 + 3", "8"),
        ("2^{99}", "633825300114114700748351602688"),
        (r"\frac{\pi}{2}", "pi/2"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        ("2*sqrt(3)", r"\sqrt{12}"),
        ("2^{0.5}", r"\sqrt{2}"),
        ("(x+1)^2", "x^2 + 2x + 1"),
        (r"\{1, 2\}", r"\{2, 1\}"),
    ],
)
def test_answers_that_are_equal(a, b):
    assert answers_equal(a, b)
    assert answers_equal(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("18", "19"),
        ("5", "-5"),
        ("0.5", "50%"),  # a percent sign is a unit
        ("0.33", "1/3"),  # no rounding
        ("0.333333333333", "1/3"),
        ("1.414214", r"\sqrt{2}"),
        ("2 million", "2"),
        (str(10**30), str(10**30 + 1)),
        ("9007199254740993", "9007199254740992"),  # 2**53 + 1 is not a float
        ("2^{99}", "633825300114114700748351602689"),
        ("2x", "2"),
        ("2x", "2y"),
        ("x", "5"),
        ("10,0", "100"),
        ("1,23", "123"),
        ("18 or 20", "18"),
        ("unknown", "18"),
        ("", "0"),
        (None, "18"),
        (None, None),
    ],
)
def test_answers_that_are_not_equal(a, b):
    assert not answers_equal(a, b)
    assert not answers_equal(b, a)


@given(numbers, st.integers(min_value=1, max_value=9))
def test_integers_are_compared_exactly_however_large(number, difference):
    assert answers_equal(f"{number:,}", str(number))
    assert not answers_equal(str(number), str(number + difference))


@given(st.fractions())
def test_fractions_are_compared_exactly(value):
    written = f"{value.numerator}/{value.denominator}"
    doubled = rf"\frac{{{2 * value.numerator}}}{{{2 * value.denominator}}}"
    assert answers_equal(written, doubled.replace("{-", "{").replace(r"\frac", r"-\frac" if value < 0 else r"\frac"))
    assert not answers_equal(written, f"{value.numerator + 1}/{value.denominator}")


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=4))
def test_decimals_equal_themselves_with_zeros_and_as_fractions(value):
    assert answers_equal(f"{value:f}", f"{value:f}000")
    assert answers_equal(f"{value:,f}", f"{value * 10000:.0f}/10000")


def test_expressions_are_compared_outside_the_main_thread():
    results = []
    worker = threading.Thread(target=lambda: results.append(answers_equal("3*sqrt(2)", r"\sqrt{18}")))
    worker.start()
    worker.join()
    assert results == [True]
