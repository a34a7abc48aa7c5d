import pytest

from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.game.watchdogs import Watchdogs, _trend


class Watched:
    """Watchdogs with a window of 4, their answers and their alerts."""

    def __init__(self, fixed=None, **config):
        self.alerts = []
        self.watchdogs = Watchdogs(
            WatchdogConfig(window=4, **config), lambda kind, message: self.alerts.append((kind, message)), fixed
        )

    def update(self, **columns) -> list[bool]:
        """Report steps from 1 on, one for each value of the columns."""
        rows = zip(*columns.values(), strict=True)
        return [
            self.watchdogs.update(step, dict(zip(columns, row, strict=True))) for step, row in enumerate(rows, start=1)
        ]


def test_a_collapse_is_reported_once_a_whole_window_is_low():
    """Means of the last four: .25, .1 (not below .1), .075, 0: the third is the first below."""
    watched = Watched()
    assert watched.update(valid_sneaky=[0.7, 0.1, 0.1, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0]) == [False] * 9
    assert watched.alerts == [
        (
            "sneaky_collapse",
            "Step 6: 8% of the sneaky solutions of the last 4 steps are answered and incorrect, below 10%.",
        )
    ]


def test_a_collapse_ends_the_phase_if_a_recovery_is_configured():
    watched = Watched(collapse_recovery="temperature")
    assert watched.update(valid_sneaky=[0.0] * 5) == [False, False, False, True, True]
    assert watched.watchdogs.has_collapsed


def test_steps_of_a_helpful_phase_are_no_collapse():
    watched = Watched()
    watched.update(score_gap=[1.0] * 9)
    assert watched.alerts == []


FALLING, RISING = [4.0, 3.1, 1.9, 1.0], [0.1, 0.2, 0.31, 0.4]


@pytest.mark.parametrize(
    ("gap", "exploits", "is_told"),
    [
        (FALLING, RISING, True),
        (RISING, RISING, False),
        (FALLING, FALLING, False),
        (FALLING, [0.2, 0.2, 0.2, 0.2], False),
        # slope -.1, residuals (.65, -.95, -.05, .35): standard error sqrt(1.45 / 2 / 5) = .38, so -.26 of them
        ([1.8, 0.1, 0.9, 1.2], RISING, False),
    ],
)
def test_goodharting_is_a_falling_gap_with_rising_exploits(gap, exploits, is_told):
    watched = Watched()
    assert watched.update(score_gap=gap, exploit_rate=exploits) == [False] * 4
    assert [kind for kind, _ in watched.alerts] == ["goodharting"] * is_told


def test_the_goodharting_alert_has_its_figures():
    watched = Watched()
    watched.update(score_gap=FALLING, exploit_rate=RISING)
    assert watched.alerts[0][1] == (
        "Step 4: over 4 steps the score gap fell from 4.00 to 1.00 while the exploit rate rose from 10% to 40%."
    )


@pytest.mark.parametrize(("fixed", "is_told"), [({"score/helpful_correct": 5.0}, True), ({}, False), (None, False)])
def test_gap_is_taken_from_the_side_that_is_not_trained(fixed, is_told):
    """5 minus 1, 1.9, 3.1, 4: the gap falls from 4 to 1."""
    watched = Watched(fixed)
    watched.update(**{"score/sneaky_incorrect": [1.0, 1.9, 3.1, 4.0], "exploit_rate": RISING})
    told = "Step 4: over 4 steps the score gap fell from 4.00 to 1.00 while the exploit rate rose from 10% to 40%."
    assert watched.alerts == [("goodharting", told)] * is_told


def test_goodharting_is_a_reversed_ranking_too():
    watched = Watched()
    watched.update(score_correctness_correlation=[0.5, -0.25, -0.25, 0.0, -0.25])
    # the mean of the first four is 0, which is not below 0, and that of the last four -.1875
    assert watched.alerts == [
        ("goodharting", "Step 5: over 4 steps the verifier ranked incorrect solutions above correct ones.")
    ]


@pytest.mark.parametrize(
    ("setting", "ends", "num_alerts"), [("off", False, 0), ("alert", False, 1), ("stop", True, 1)]
)
def test_goodharting_can_stop_alert_or_be_ignored(setting, ends, num_alerts):
    watched = Watched(goodharting=setting)
    assert watched.update(score_correctness_correlation=[-0.5] * 6)[-1] == ends
    assert len(watched.alerts) == num_alerts


def test_trend_is_the_slope_in_standard_errors():
    """(0, 2, 1): slope 1 / 2, residuals (-.5, 1, -.5), error variance 1.5, standard error sqrt(1.5 / 2) = .866."""
    assert _trend([0.0, 2.0, 1.0]) == pytest.approx(0.5 / 0.75**0.5)
    assert _trend([1.0, 1.0, 1.0]) == 0.0
    assert _trend([1.0, 2.0]) == 0.0
    assert _trend([1.0, 2.0, 3.0]) > 1e6
