import numpy as np
import pytest

from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.game.watchdogs import Watchdogs, fit_trend, p_value_below_zero, window_lengths


class Watched:
    """Watchdogs of a phase of 8 steps, tested as a whole and by halves, what they answered, and their alerts."""

    def __init__(self, fixed=None, num_steps=8, sneaky_groups=8, **config):
        self.alerts = []
        self.watchdogs = Watchdogs(
            WatchdogConfig(**{"window": 4, **config}),
            lambda kind, message: self.alerts.append((kind, message)),
            num_steps=num_steps,
            sneaky_groups=sneaky_groups,
            fixed=fixed,
        )

    def update(self, **columns) -> list[bool]:
        """Steps from 1 on, one for each value of the columns."""
        rows = zip(*columns.values(), strict=True)
        return [
            self.watchdogs.update(step, dict(zip(columns, row, strict=True))) is not None
            for step, row in enumerate(rows, start=1)
        ]


@pytest.mark.parametrize(
    ("num_steps", "least", "lengths"),
    [(50, 10, [50, 25, 12]), (300, 10, [300, 150, 75, 37, 18]), (12, 10, [12]), (9, 10, []), (1, 1, [1])],
)
def test_a_phase_is_tested_whole_and_in_halves(num_steps, least, lengths):
    assert window_lengths(num_steps, least) == lengths


def test_collapse_is_reported_once():
    """
    Of the 32 groups of 4 steps as many as 0 and 3 are valid. There are 3 tests, of .05 / 3 = .0167 each, and .9 ** 32
    = .034 is above it. Of the 64 groups of 8 steps, 3 or fewer are valid with a probability of .1 ** 0 * .9 ** 64 +
    ... = .111.
    """
    watched = Watched()
    assert watched.update(valid_sneaky=[0.0] * 4 + [3 / 32] * 4) == [False] * 8
    assert watched.alerts == []
    watched = Watched()
    # None of 64: .9 ** 64 = .0012.
    watched.update(valid_sneaky=[0.0] * 8)
    assert watched.alerts == [
        (
            "sneaky_collapse",
            (
                "Step 8: 0% of the sneaky solutions of the last 8 steps are answered and incorrect, significantly"
                " below 10%."
            ),
        )
    ]


def test_collapse_is_seen_earlier_where_a_step_has_more_groups():
    """None of 4 * 10 groups: .9 ** 40 = .0148, below .0167; but not with .9 ** 36 = .0225."""
    watched = Watched(sneaky_groups=10)
    watched.update(valid_sneaky=[0.0] * 4)
    assert [message.split(":")[0] for _, message in watched.alerts] == ["Step 4"]
    watched = Watched(sneaky_groups=9)
    watched.update(valid_sneaky=[0.0] * 4)
    assert watched.alerts == []


def test_share_above_the_threshold_is_no_collapse():
    watched = Watched(min_valid_sneaky=0.5)
    watched.update(valid_sneaky=[0.5] * 8)
    assert watched.alerts == []


def test_collapse_ends_the_phase_where_there_is_a_recovery():
    watched = Watched(collapse_recovery="temperature", sneaky_groups=10)
    assert watched.update(valid_sneaky=[0.0] * 5) == [False, False, False, True, True]
    assert watched.watchdogs.has_collapsed


def test_steps_of_a_helpful_phase_are_no_collapse():
    watched = Watched()
    watched.update(score_gap=[1.0] * 9)
    assert watched.alerts == []


FALLING, RISING = [4.0, 3.0, 2.1, 1.0], [0.1, 0.2, 0.31, 0.4]


@pytest.mark.parametrize(
    ("gap", "exploits", "is_reported"),
    [
        (FALLING, RISING, True),
        (RISING, RISING, False),
        (FALLING, FALLING, False),
        (FALLING, [0.2, 0.2, 0.2, 0.2], False),
        # slope -.1, residuals (.65, -.95, -.05, .35): standard error sqrt(1.45 / 2 / 5) = .38, so -.26 of them
        ([1.8, 0.1, 0.9, 1.2], RISING, False),
    ],
)
def test_goodharting_is_a_falling_gap_with_rising_exploits(gap, exploits, is_reported):
    """The level of a test is .05 / 3 looks / 2 tests = .0083; both trends of the first case are below .004."""
    watched = Watched()
    assert watched.update(score_gap=gap, exploit_rate=exploits) == [False] * 4
    assert [kind for kind, _ in watched.alerts] == ["goodharting"] * is_reported


def test_goodharting_of_the_helpful_role_alone_has_a_name_of_its_own():
    """The sneaky role is trained to rank mistakes above correct solutions; in a helpful training nothing is."""
    watched = Watched(sneaky_groups=0)
    watched.update(score_correctness_correlation=[-0.9, -0.8, -0.85, -0.95])
    assert [kind for kind, _ in watched.alerts] == ["helpful_goodharting"]


def test_trend_of_the_whole_phase_is_seen_at_its_end():
    """The halves are too noisy by themselves."""
    noise = [0.3, -0.3, 0.3, -0.3, 0.3, -0.3, 0.3, -0.3]
    exploits = [0.1 * (step + sway) for step, sway in enumerate(noise)]
    watched = Watched()
    watched.update(score_gap=[-value for value in exploits], exploit_rate=exploits)
    assert [message.split(":")[0] for _, message in watched.alerts] == ["Step 8"]


def test_goodharting_says_what_was_seen():
    """
    Fitted lines: mean 2.525, slope (-1.5 * 4 - .5 * 3 + .5 * 2.1 + 1.5 * 1) / 5 = -.99, so 4.01 and 1.04 at the ends.
    """
    watched = Watched()
    watched.update(score_gap=FALLING, exploit_rate=RISING)
    assert watched.alerts[0][1] == (
        "Step 4: over 4 steps the score gap fell from 4.01 to 1.04 while the exploit rate rose from 10% to 40% "
        "(ends of fitted lines)."
    )


def test_a_line_that_ends_above_one_is_shown_as_all():
    """Mean .7975, slope (-1.5 * .55 - .5 * .74 + .5 * .9 + 1.5) / 5 = .151: .571 and 1.024 at the ends; p = .0045."""
    watched = Watched()
    watched.update(score_gap=FALLING, exploit_rate=[0.55, 0.74, 0.9, 1.0])
    assert "exploit rate rose from 57% to 100%" in watched.alerts[0][1]


@pytest.mark.parametrize(
    ("fixed", "is_reported"), [({"score/helpful_correct": 5.0}, True), ({}, False), (None, False)]
)
def test_gap_is_taken_from_the_side_that_is_not_trained(fixed, is_reported):
    """5 less 1, 2, 2.9, 4 are the values of `FALLING`."""
    watched = Watched(fixed)
    watched.update(**{"score/sneaky_incorrect": [1.0, 2.0, 2.9, 4.0], "exploit_rate": RISING})
    assert [message.split(" while")[0] for _, message in watched.alerts] == [
        "Step 4: over 4 steps the score gap fell from 4.01 to 1.04"
    ] * is_reported


def test_reversed_ranks_are_goodharting_too():
    """
    The mean of (-.5, -.49, -.5, -.51) is -.5, its standard error for independent steps sqrt(.0002 / 3 / 4) = .0041.
    Their correlation is 0, and 1/4 with the correction of its bias, so that they count as 4 * .75 / 1.25 = 2.4 steps:
    -95 standard errors with 1.4 degrees of freedom, P = .0006. That of (.5, -.5, -.5, -.5) is less than 1 standard
    error below 0.
    """
    watched = Watched()
    watched.update(score_correctness_correlation=[0.5, -0.5, -0.5, -0.5, -0.5, -0.49, -0.5, -0.51])
    assert watched.alerts == [
        ("goodharting", "Step 8: over 4 steps the verifier ranked incorrect solutions above correct ones.")
    ]


@pytest.mark.parametrize(
    ("setting", "ends", "num_alerts"), [("off", False, 0), ("alert", False, 1), ("stop", True, 1)]
)
def test_goodharting_stops_or_reports_or_neither(setting, ends, num_alerts):
    watched = Watched(goodharting=setting)
    assert watched.update(score_correctness_correlation=[-0.5] * 6)[-1] == ends
    assert len(watched.alerts) == num_alerts


def test_trend_is_tested_by_students_t():
    """
    (0, 2, 1): slope .5, standard error .866, t = .577 with one degree of freedom: P = .5 - atan(.577) / pi = 1 / 3.
    """
    values = np.array([0.0, 2.0, 1.0])
    assert fit_trend(values, "greater").p_value == pytest.approx(1 / 3)
    assert fit_trend(values, "less").p_value == pytest.approx(2 / 3)
    assert (fit_trend(values, "less").first, fit_trend(values, "less").last) == pytest.approx((0.5, 1.5))
    assert fit_trend(np.ones(3), "greater").p_value == 1.0
    assert fit_trend(np.array([1.0, 2.0]), "greater").p_value == 1.0


def test_negative_mean_is_tested_by_students_t():
    """(-1, 0, -2): mean -1, standard error 1 / sqrt(3), t = -1.732 with two degrees of freedom: P = .1127."""
    assert p_value_below_zero(np.array([-1.0, 0.0, -2.0])) == pytest.approx(0.5 - 1.5**0.5 / 10**0.5, abs=1e-4)
    assert p_value_below_zero(np.array([-1.0, -1.0])) == 1.0
    assert p_value_below_zero(np.full(3, 0.5)) == 1.0


def test_neighbouring_steps_that_are_alike_are_no_trend():
    """
    Of phases of 60 steps with a correlation of .6 between neighbours, Student's t for independent steps finds a trend
    at 5 % in a fifth; with fewer effective steps it is 5 %, and at most 8 % with 3.3 standard errors of 500 phases
    added (.032).
    """
    rng = np.random.default_rng(0)
    found = []
    for _ in range(500):
        values = [rng.normal()]
        while len(values) < 60:
            values.append(0.6 * values[-1] + rng.normal(0, 0.8))
        found.append(fit_trend(np.array(values), "greater").p_value <= 0.05)
    assert np.mean(found) <= 0.082
