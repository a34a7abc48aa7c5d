import math

import pytest

from pvg_hf.noise import Duration, Tier


@pytest.mark.parametrize(
    ("duration", "draw", "expected"),
    [
        pytest.param(Duration("fixed", ms=70), 0.3, 70, id="fixed"),
        pytest.param(Duration("uniform", min_ms=10, max_ms=30), 0.25, 15, id="uniform"),
        pytest.param(Duration("uniform", min_ms=10, max_ms=10), 0.9, 10, id="uniform over one value"),
        pytest.param(Duration("exponential", mean_ms=100), 0.0, 0, id="exponential at 0"),
        pytest.param(Duration("exponential", mean_ms=100), 0.5, 100 * math.log(2), id="exponential at the median"),
    ],
)
def test_a_draw_becomes_milliseconds(duration, draw, expected):
    assert duration.quantile(draw) == pytest.approx(expected)
    assert duration.quantile(draw, longest_ms=12) == pytest.approx(min(expected, 12))


@pytest.mark.parametrize(
    ("duration", "mean", "mean_up_to_20"),
    [
        pytest.param(Duration("fixed", ms=70), 70, 20, id="fixed"),
        pytest.param(
            Duration("uniform", min_ms=10, max_ms=30), 20, 17.5, id="uniform"
        ),  # half of them at 20, the others at 15 in the mean
        pytest.param(Duration("uniform", min_ms=40, max_ms=50), 45, 20, id="uniform beyond the limit"),
        pytest.param(Duration("exponential", mean_ms=20), 20, 20 * (1 - math.exp(-1)), id="exponential"),
        pytest.param(Duration("exponential", mean_ms=0), 0, 0, id="exponential of mean 0"),
    ],
)
def test_the_mean_is_that_of_the_draws(duration, mean, mean_up_to_20):
    draws = [(index + 0.5) / 20_000 for index in range(20_000)]
    for longest, expected in ((math.inf, mean), (20, mean_up_to_20)):
        assert duration.mean(longest) == pytest.approx(expected)
        assert sum(duration.quantile(draw, longest) for draw in draws) / len(draws) == pytest.approx(
            expected, rel=1e-3
        )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "normal"}, r"kind\s.*'fixed', 'uniform' or 'exponential'.*'normal'"),
        ({"kind": "fixed"}, "takes `ms`; got"),
        ({"kind": "fixed", "ms": 1, "mean_ms": 2}, "takes `ms`; got .*mean_ms"),
        ({"kind": "uniform", "min_ms": 5, "max_ms": 1}, "`min_ms` .* `max_ms`; got 5 and 1"),
        ({"kind": "exponential", "mean_ms": -1}, r"mean_ms\s.*input_value=-1,"),
    ],
)
def test_invalid_duration_settings_are_errors(values, message):
    with pytest.raises(ValueError, match=message):
        Duration(**values)


def test_a_timeout_lasts_the_whole_budget_by_default_and_never_longer():
    assert Tier("lean", budget_seconds=2).timeout_ms(0.4) == 2000
    assert Tier("lean", budget_seconds=2, timeout_duration=Duration("fixed", ms=9000)).timeout_ms(0.4) == 2000
