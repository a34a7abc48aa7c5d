import math

import pytest

from pvg_hf.data.mixture import mixture_weights


@pytest.mark.parametrize(
    ("kind", "round_index", "kwargs", "expected"),
    [
        ("equal_per_round", 0, {}, [1]),
        ("equal_per_round", 3, {}, [1 / 4, 1 / 4, 1 / 4, 1 / 4]),
        ("latest", 0, {}, [1]),
        ("latest", 3, {}, [0, 0, 0, 1]),
        ("exponential", 0, {}, [1]),
        ("exponential", 2, {}, [1 / 7, 2 / 7, 4 / 7]),
        ("exponential", 3, {}, [1 / 15, 2 / 15, 4 / 15, 8 / 15]),
        ("sliding", 0, {"window": 2}, [1]),
        ("sliding", 1, {"window": 2}, [1 / 2, 1 / 2]),
        ("sliding", 3, {"window": 2}, [0, 0, 1 / 2, 1 / 2]),
        ("custom", 0, {"custom": {-1: 1, 0: 3}}, [1]),
        ("custom", 2, {"custom": {-1: 1, 0: 3}}, [1 / 4, 3 / 4, 0]),
        ("custom", 1, {"custom": {0: 5.0, 7: 1.0}}, [0, 1]),
    ],
)
def test_weights_of_each_mixture_by_hand(kind, round_index, kwargs, expected):
    weights = mixture_weights(kind, round_index, **kwargs)
    assert list(weights) == list(range(-1, round_index))
    assert list(weights.values()) == pytest.approx(expected)


@pytest.fixture
def mixtures(tmp_path, monkeypatch):
    (tmp_path / "my_mixtures.py").write_text(
        "def first_and_last(round_index):\n"
        "    return {-1: 1, round_index - 1: 3}\n"
        "def from_the_future(round_index):\n"
        "    return {round_index: 1}\n"
        "def nothing(round_index):\n"
        "    return None\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("kind", "kwargs"), [("custom", {"custom": "my_mixtures:first_and_last"}), ("my_mixtures:first_and_last", {})]
)
@pytest.mark.usefixtures("mixtures")
def test_a_custom_function_gives_the_weights(kind, kwargs):
    assert mixture_weights(kind, 2, **kwargs) == {-1: 0.25, 0: 0, 1: 0.75}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("from_the_future", r"sources \[2\], .*-1 \(base\) to 1"),
        ("nothing", "a mapping .*got None"),
        ("number", "is a int; it must be a function"),
        ("nowhere", "has no `nowhere`"),
    ],
)
@pytest.mark.usefixtures("mixtures")
def test_refuses_a_mixture_that_is_not_a_function(name, message):
    with pytest.raises(ValueError, match=message):
        mixture_weights(f"my_mixtures:{name}", 2)


@pytest.mark.parametrize(
    ("kind", "round_index", "kwargs", "message"),
    [
        ("newest", 1, {}, "mixture `newest`"),
        ("latest", -1, {}, "`round_index` .*0 or more"),
        ("sliding", 1, {}, "`sliding` needs `window`; got None"),
        ("sliding", 1, {"window": 0}, "at least 1; got 0"),
        ("latest", 1, {"window": 2}, "`latest` .*`window`; got 2"),
        ("latest", 1, {"custom": {0: 1}}, "`latest` does not take `custom`"),
        ("custom", 1, {}, "`custom` needs `custom`"),
        ("custom", 1, {"custom": {-2: 1}}, r"sources \[-2\], .*-1 \(base\) to 0"),
        ("custom", 1, {"custom": {"base": 1}}, r"sources \['base'\]"),
        ("custom", 1, {"custom": {-1: -1.0, 0: 2.0}}, r"got \{-1: -1.0\}"),
        ("custom", 1, {"custom": {-1: math.nan, 0: 2.0}}, "finite numbers"),
        ("custom", 1, {"custom": {-1: "half"}}, "finite numbers"),
        ("custom", 1, {"custom": {-1: 0}}, "a weight above 0"),
        ("custom", 0, {"custom": {0: 1}}, "a weight above 0"),
    ],
)
def test_invalid_mixtures_are_errors(kind, round_index, kwargs, message):
    with pytest.raises(ValueError, match=message):
        mixture_weights(kind, round_index, **kwargs)
