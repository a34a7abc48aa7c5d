"""The rules by which outputs are compared, worked by hand."""

import json
from dataclasses import replace

import pytest

from pvg_hf.experimental.programs.sandbox import CallCase, Comparison, StdinCase, outputs_agree
from pvg_hf.experimental.programs.sandbox.agreement import agrees_with_expected
from pvg_hf.experimental.programs.sandbox.inside.values import decode_value, encode_value

STRICT, LOOSE = Comparison(is_type_strict=True), Comparison(float_tolerance=1e-6)
ANY_ORDER = Comparison(is_ordered=False)
PYTHON, AS_SETS = Comparison(are_tuples_lists=False), Comparison(is_ordered=False, counts_repeats=False)
NAN = float("nan")


def written(value) -> str:
    return json.dumps(encode_value(value))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -0.0,
        "a\ud800",
        [1, [2]],
        (1, (2,)),
        {1, 2},
        pytest.param(frozenset("ab"), id="frozenset"),  # whose text differs between processes
        {"a": 1},
        {1: (2,)},
        {"__tuple__": [1]},
        b"\x00a",
        1 + 2j,
        {},
        (),
        set(),
    ],
    ids=repr,
)
def test_a_value_is_read_back_as_it_was_written(value):
    back = decode_value(json.loads(written(value)))
    assert back == value
    assert type(back) is type(value)


def test_a_subclass_is_written_by_its_base_class():
    class Sly(int):
        def __eq__(self, other):
            return True

        def __repr__(self):
            return "7"

        __hash__ = int.__hash__
        __int__ = __index__ = __pos__ = lambda self: 7

    class Dictionary(dict):
        def items(self):
            return [("a", 7)]

    assert written(Sly(3)) == "3"
    assert written(Dictionary(a=1)) == '{"a": 1}'


@pytest.mark.parametrize(
    "value", [iter([1]), range(3), object(), (x for x in ()), {}.keys()], ids=lambda v: type(v).__name__
)
def test_what_is_no_value_is_refused(value):
    with pytest.raises(TypeError, match=type(value).__name__):
        encode_value(value)


@pytest.mark.parametrize(
    ("first", "second", "rules", "agree"),
    [
        pytest.param(2, 2.0, Comparison(), True, id="integer and float"),
        pytest.param(2, 2.0, STRICT, False, id="integer and float, strict"),
        pytest.param(1, True, STRICT, False, id="integer and boolean, strict"),
        pytest.param((1, 2), [1, 2], Comparison(), True, id="tuple and list"),
        pytest.param((1, 2), [1, 2], STRICT, False, id="tuple and list, strict"),
        pytest.param([[1], (2,)], ([1], [2]), Comparison(), True, id="nested tuples"),
        pytest.param({1, 2}, [1, 2], Comparison(), False, id="set and list"),
        pytest.param({2, 1}, frozenset({1, 2}), Comparison(), True, id="set and frozen set"),
        pytest.param("2", 2, Comparison(), False, id="text and number"),
        pytest.param([1, 2], [1, 2, 3], Comparison(), False, id="prefix"),
        pytest.param([2, 1], [1, 2], Comparison(), False, id="order"),
        pytest.param([2, 1, 1], [1, 2, 1], ANY_ORDER, True, id="any order"),
        pytest.param([2, 1, 2], [1, 2, 1], ANY_ORDER, False, id="any order, counts"),
        pytest.param([[2, 1]], [[1, 2]], ANY_ORDER, False, id="inner order counts"),
        pytest.param(
            [0.3, 1], [1, 0.1 + 0.2], Comparison(1e-9, is_ordered=False), True, id="any order with a tolerance"
        ),
        pytest.param((1, 2), [1, 2], PYTHON, False, id="no tuple equals a list"),
        pytest.param([(1, {2})], [(1, frozenset({2}))], PYTHON, True, id="equal in Python"),
        pytest.param([2, 1, 1], {1, 2}, AS_SETS, True, id="as sets"),
        pytest.param((2, 1, 3), [1, 2], AS_SETS, False, id="as sets, one more"),
        pytest.param([[1, 1]], [[1]], AS_SETS, False, id="inner repeats count"),
        pytest.param(
            [0.3, 0.3], [0.1 + 0.2], replace(AS_SETS, float_tolerance=1e-9), True, id="as sets with a tolerance"
        ),
        pytest.param(0.1 + 0.2, 0.3, Comparison(), False, id="floats are equal to the last bit"),
        pytest.param(0.1 + 0.2, 0.3, LOOSE, True, id="tolerance"),
        pytest.param({"a": [1.0000001]}, {"a": [1]}, LOOSE, True, id="tolerance within"),
        pytest.param(10**30, 10**30 + 1, LOOSE, False, id="integers are exact"),
        pytest.param(NAN, 1.0, LOOSE, False, id="NaN and a number"),
        pytest.param(NAN, NAN, LOOSE, True, id="NaN and NaN"),
        pytest.param(float("inf"), 1e308, LOOSE, False, id="infinity"),
        pytest.param(10**400, 1.0, LOOSE, False, id="integer beyond floats"),
        pytest.param({1: "a", 2: "b"}, {2: "b", 1: "a"}, Comparison(), True, id="mappings have no order"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, Comparison(), False, id="missing key"),
        pytest.param(None, 0, Comparison(), False, id="None and 0"),
    ],
)
def test_values(first, second, rules, agree):
    case = CallCase("f", (), comparison=rules)
    assert outputs_agree(case, written(first), written(second)) is agree
    assert outputs_agree(case, written(second), written(first)) is agree
    assert agrees_with_expected(CallCase("f", (), second, rules), written(first)) is agree


@pytest.mark.parametrize(
    ("first", "second", "rules", "agree"),
    [
        pytest.param("1 \n2\r\n\n", "1\n2", Comparison(), True, id="spaces at ends of lines and of the text"),
        pytest.param(" 1\n2", "1\n2", Comparison(), False, id="leading space"),
        pytest.param("1\n\n2", "1\n2", Comparison(), False, id="empty line within"),
        pytest.param("1\n2", "1\n2\n3", Comparison(), False, id="prefix"),
        pytest.param("1\n2\n3", "1\n2", Comparison(), False, id="more than expected"),
        pytest.param("", "1", Comparison(), False, id="nothing"),
        pytest.param("0.30000000000000004 x", "0.3 x", LOOSE, True, id="tolerance"),
        pytest.param("0.30000000000000004", "0.3", Comparison(), False, id="no tolerance"),
        pytest.param("1000001", "1000000", Comparison(0.1), False, id="integers are texts"),
        pytest.param("nan", "1.5", LOOSE, False, id="NaN"),
        pytest.param("b\na", "a\nb", ANY_ORDER, True, id="any order of lines"),
        pytest.param("b\na", "a\nb", Comparison(), False, id="order of lines"),
    ],
)
def test_lines(first, second, rules, agree):
    assert outputs_agree(StdinCase("", comparison=rules), first, second) is agree
    assert agrees_with_expected(StdinCase("", second, rules), first) is agree


def test_a_case_without_an_expected_value_takes_every_output():
    assert agrees_with_expected(CallCase("f", ()), "17")
    assert agrees_with_expected(StdinCase(""), "whatever")
    assert not agrees_with_expected(CallCase("f", (), expected=None), "17")


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "1" * 5000, "nonsense"], ids=["empty", "open", "deep", "long", "word"]
)
def test_an_output_that_is_no_json_agrees_with_nothing(text):
    assert not agrees_with_expected(CallCase("f", (), 1), text)


def test_cases_and_rules_are_checked():
    with pytest.raises(ValueError, match=r"`f`.*generator"):
        CallCase("f", ((x for x in ()),))
    with pytest.raises(ValueError, match=r"float_tolerance.*-1"):
        Comparison(float_tolerance=-1)
