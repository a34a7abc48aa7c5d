"""Systematic errors of a checker."""

import math

import numpy as np
import pytest
import yaml

from pvg_hf.config import RecipeError, load_recipe
from pvg_hf.config.noise_section import CheckerConfig, ErrorsConfig
from pvg_hf.core.roles import Outcome
from pvg_hf.noise.error_buckets import ErrorBuckets
from pvg_hf.noise.imperfect_checker import ImperfectChecker, make_checker
from pvg_hf.noise.routing import Tier
from pvg_hf.noise.verdicts import Verdict

PROBLEM = {"problem_id": "a", "reference": "80 + 20 = 100\n#### 100", "difficulty": 4, "weight": 0.1, "nan": math.nan}

# As in configs/rgym/decimal_chain_sum_3_6/*/rel_error/1e-1.yaml of the study.
PUBLISHED = """
TPR: 1.0
FPR: 0.0
strategy: targeted
targeted_buckets:
  - selector: rel_error < 0.1
    FPR: 1.0
"""


def errors(*buckets, seed=0, **rates):
    strategy = {} if buckets else {"strategy": "uniform"}
    return ErrorBuckets(ErrorsConfig(targeted_buckets=list(buckets), **strategy, **rates), seed)


def bucket(selector, FPR=1.0):
    return {"selector": selector, "FPR": FPR}


@pytest.mark.parametrize(
    ("answer", "is_accepted"),
    [("109", True), ("91.5", True), ("110", False), ("90", False), ("200", False), ("x", False), ("-100", False)],
)
def test_the_published_section_accepts_answers_that_are_off_by_less_than_a_tenth(answer, is_accepted):
    found = ErrorBuckets(ErrorsConfig(**yaml.safe_load(PUBLISHED)), seed=0)
    assert found.judge(PROBLEM, f"#### {answer}", passed=False) == is_accepted
    assert found.judge(PROBLEM, "#### 100", passed=True)


@pytest.mark.parametrize(
    ("selector", "is_accepted"),
    [
        ("signed_rel_error < 0", True),
        ("signed_rel_error > 0", False),
        ("abs_error == 3", True),
        ("97 <= pred_abs <= 98", True),
        ('matches(completion_extracted, "7$")', True),
        ('completion_extracted in ["97"]', True),
        ('completion_extracted not in ["97"]', False),
        ('"Certainly" in completion_full', True),
        ('"certainly" not in completion_full', True),
        ("completion_full_chars >= 100", False),
        ("difficulty == 4", True),
        ("difficulty != 4", False),
        ("missing < 4", False),
        ("missing != 4", True),
        ("missing in [4]", False),
        ('matches(missing, "4")', False),
        ("weight <= 0.1", True),  # as written, although the float .1 is above 1/10
        ("weight in [0.1]", True),
        ("rel_error in [0.03]", True),
        ("0.01 <= rel_error", True),
        ("nan < 4", False),
        ("difficulty == 4 and abs_error > 5", False),
        ("difficulty == 4 or abs_error > 5", True),
        ("not (difficulty == 4 and abs_error > 5) and weight == 0.1", True),
    ],
)
def test_a_selector_fits_by_its_value_and_operation(selector, is_accepted):
    assert errors(bucket(selector)).judge(PROBLEM, "Certainly:\n#### 97", passed=False) == is_accepted


def test_the_first_bucket_that_fits_decides():
    first, second = bucket("abs_error < 5", FPR=0.0), bucket("abs_error < 9")
    found = errors(first, second)
    assert [found.judge(PROBLEM, f"#### {answer}", passed=False) for answer in (103, 107, 150)] == [False, True, False]


def test_rates_are_those_of_the_section():
    found = errors(TPR=0.7, FPR=0.2)
    texts = [f"#### {number}" for number in range(2000)]
    shares = [np.mean([found.judge(PROBLEM, text, passed=passed) for text in texts]) for passed in (True, False)]
    # Four standard errors of 2,000 draws: .041 and .036.
    assert shares == pytest.approx([0.7, 0.2], abs=0.041)


def test_a_draw_of_the_problem_accepts_all_wrong_solutions_to_some_problems():
    found = errors(bucket("problem_draw < 0.2"))
    verdicts = [
        {found.judge({**PROBLEM, "problem_id": str(problem)}, f"#### {text}", passed=False) for text in range(5)}
        for problem in range(1000)
    ]
    assert all(len(one) == 1 for one in verdicts)
    assert np.mean([True in one for one in verdicts]) == pytest.approx(0.2, abs=0.051)  # four standard errors


def test_verdicts_depend_on_seed_round_and_text_only():
    texts = [f"#### {number}" for number in range(200)]

    def verdicts(seed, round_index=0):
        return [errors(FPR=0.5, seed=seed).judge(PROBLEM, text, False, round_index=round_index) for text in texts]

    assert verdicts(0) == verdicts(0)
    assert verdicts(0) != verdicts(1)
    assert verdicts(0) != verdicts(0, round_index=1)


def test_a_higher_rate_accepts_what_a_lower_rate_accepts():
    texts = [f"#### {number}" for number in range(300)]
    low, high = ({t for t in texts if errors(FPR=rate).judge(PROBLEM, t, False)} for rate in (0.1, 0.3))
    assert low < high


def test_a_checker_errs_before_the_noise_of_its_tiers():
    near = errors(bucket("rel_error < 0.1"))
    outcome = ImperfectChecker(None, Tier("plain"), errors=near).check(PROBLEM, "#### 99", verdict=Verdict(False))
    assert (outcome.label, outcome.code) == (1, Outcome.VERIFIED)
    config = CheckerConfig(errors=yaml.safe_load(PUBLISHED), noise_enabled=False)
    checker = make_checker(config, seed=0)
    assert [checker.check(PROBLEM, f"#### {answer}", verdict=Verdict(False)).label for answer in (99, 50)] == [1, 0]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"targeted_buckets": []}, "is `targeted` and needs `targeted_buckets`"),
        ({"strategy": "uniform"}, "remove the 1 `targeted_buckets`"),
        ({"targeted_buckets": [bucket("rel_error <")]}, "`rel_error <`"),
        ({"targeted_buckets": [bucket("")]}, "Cannot read the condition ``"),
        ({"targeted_buckets": [bucket("rel_error + 1")]}, "no comparison"),
        ({"targeted_buckets": [bucket("rel_error is 1")]}, "unknown operator"),
        ({"targeted_buckets": [bucket("rel_error < 'small'")]}, "'small'"),
        ({"targeted_buckets": [bucket("1 < 2")]}, "reads no column"),
        ({"targeted_buckets": [bucket("rel_error < f(1)")]}, r"f\(1\)"),
        ({"targeted_buckets": [bucket("__import__('os').abort()")]}, "no comparison"),
        ({"targeted_buckets": [bucket("matches(completion_full, '(')")]}, "regular expression"),
        ({"targeted_buckets": [bucket("0.2 < rel_error < 0.1")]}, "nothing is between 0.2 and 0.1"),
        ({"targeted_buckets": [bucket({"path": "rel_error", "op": "lt", "value": 1})]}, "selector"),
    ],
)
def test_a_mistake_in_the_section_is_named(changes, match):
    section = {**yaml.safe_load(PUBLISHED), **changes}
    with pytest.raises(RecipeError, match=match):
        load_recipe({"noise": {"checker": {"errors": section}}})


@pytest.mark.parametrize(
    "selector", ["completion_extracted == 97", "completion_extracted in ['96', 97]", "difficulty != '4'"]
)
def test_a_text_is_not_compared_with_a_number(selector):
    """They are never equal, so that the bucket would silently have no solutions, or all."""
    with pytest.raises(ValueError, match=selector.split()[0]):
        errors(bucket(selector)).judge(PROBLEM, "#### 97", passed=False)
