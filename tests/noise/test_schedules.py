import pytest

from pvg_hf.noise import RateSchedule


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        pytest.param(RateSchedule("constant"), [1, 1, 1], id="constant"),
        pytest.param(RateSchedule("constant", end=0.5), [0.5, 0.5], id="constant half"),
        pytest.param(RateSchedule("linear", length=4), [0, 0.25, 0.5, 0.75, 1, 1], id="linear"),
        pytest.param(
            RateSchedule("linear", start=1, end=0, warmup=2, length=2),
            [1, 1, 1, 0.5, 0, 0],
            id="linear falling after a warm-up",
        ),
        pytest.param(RateSchedule("cosine", length=2), [0, 0.5, 1, 1], id="cosine"),
        pytest.param(RateSchedule("cosine", warmup=1, length=3), [0, 0, 0.25, 0.75, 1], id="cosine after a warm-up"),
        pytest.param(RateSchedule("cyclic", start=0.2, period=4), [0.2, 0.6, 1, 0.6, 0.2, 0.6], id="cyclic"),
        pytest.param(RateSchedule("cyclic", warmup=1, period=2), [0, 0, 1, 0, 1], id="cyclic after a warm-up"),
    ],
)
def test_factors_of_each_kind_by_hand(schedule, expected):
    assert [schedule.factor(moment) for moment in range(len(expected))] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "liner", "length": 3}, r"linear.*'liner'"),
        ({"kind": "linear"}, "`linear` needs `length`"),
        ({"kind": "constant", "period": 3}, "`constant` does not take `period`"),
        ({"kind": "cyclic", "period": 1}, r"period\s.*input_value=1,"),
        ({"kind": "constant", "end": 1.5}, r"end\s.*input_value=1.5,"),
        ({"kind": "constant", "warmup": -1}, r"warmup\s.*input_value=-1,"),
    ],
)
def test_invalid_schedule_settings_are_errors(values, message):
    with pytest.raises(ValueError, match=message):
        RateSchedule(**values)
