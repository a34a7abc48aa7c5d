"""Systematic errors of a checker, in the form of the study's files."""

import math

import numpy as np
import pytest
import yaml

from pvg_hf.config import RecipeError, load_recipe
from pvg_hf.config.noise_section import CheckerConfig, ErrorsConfig
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
  - selector: { path: "rel_error", op: "lt", value: 1.0e-1 }
    FPR: 1.0
"""


def errors(*buckets, seed=0, **rates):
    strategy = {} if buckets else {"strategy": "uniform"}
    return ErrorBuckets(ErrorsConfig(targeted_buckets=list(buckets), **strategy, **rates), seed)


def bucket(FPR=1.0, **selector):
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
        ({"path": "signed_rel_error", "op": "lt", "value": 0}, True),
        ({"path": "signed_rel_error", "op": "gt", "value": 0}, False),
        ({"path": "abs_error", "op": "eq", "value": 3}, True),
        ({"path": "pred_abs", "op": "between", "range": [97, 98]}, True),
        ({"path": "completion_extracted", "op": "regex", "value": "7$"}, True),
        ({"path": "completion_extracted", "op": "in", "values": ["97"]}, True),
        ({"path": "completion_extracted", "op": "nin", "values": ["97"]}, False),
        ({"path": "completion_full", "op": "contains", "value": "Certainly"}, True),
        ({"path": "completion_full_chars", "op": "ge", "value": 100}, False),
        ({"path": "difficulty", "op": "eq", "value": 4}, True),
        ({"path": "difficulty", "op": "ne", "value": 4}, False),
        ({"path": "missing", "op": "lt", "value": 4}, False),
        ({"path": "weight", "op": "le", "value": 0.1}, True),  # as written, although the float .1 is above 1/10
        ({"path": "weight", "op": "in", "values": [0.1]}, True),
        ({"path": "rel_error", "op": "in", "values": [0.03]}, True),
        ({"path": "rel_error", "op": "between", "range": [0.01, math.inf]}, True),
        ({"path": "nan", "op": "lt", "value": 4}, False),
        (
            {"all": [{"path": "difficulty", "op": "eq", "value": 4}, {"path": "abs_error", "op": "gt", "value": 5}]},
            False,
        ),
        (
            {"any": [{"path": "difficulty", "op": "eq", "value": 4}, {"path": "abs_error", "op": "gt", "value": 5}]},
            True,
        ),
    ],
)
def test_a_selector_fits_by_its_value_and_operation(selector, is_accepted):
    assert errors(bucket(**selector)).judge(PROBLEM, "Certainly:\n#### 97", passed=False) == is_accepted


def test_the_first_bucket_that_fits_decides():
    first, second = bucket(0.0, path="abs_error", op="lt", value=5), bucket(1.0, path="abs_error", op="lt", value=9)
    found = errors(first, second)
    assert [found.judge(PROBLEM, f"#### {answer}", passed=False) for answer in (103, 107, 150)] == [False, True, False]


def test_rates_are_those_of_the_section():
    found = errors(TPR=0.7, FPR=0.2)
    texts = [f"#### {number}" for number in range(2000)]
    shares = [np.mean([found.judge(PROBLEM, text, passed=passed) for text in texts]) for passed in (True, False)]
    # Four standard errors of 2,000 draws: .041 and .036.
    assert shares == pytest.approx([0.7, 0.2], abs=0.041)


def test_a_draw_of_the_problem_accepts_all_wrong_solutions_to_some_problems():
    found = errors(bucket(path="problem_draw", op="lt", value=0.2))
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
    near = errors(bucket(path="rel_error", op="lt", value=0.1))
    outcome = ImperfectChecker(None, Tier("plain"), errors=near).check(PROBLEM, "#### 99", verdict=Verdict(False))
    assert (outcome.label, outcome.is_flagged) == (1, False)
    config = CheckerConfig(errors=yaml.safe_load(PUBLISHED), noise_enabled=False)
    checker = make_checker(config, seed=0)
    assert [checker.check(PROBLEM, f"#### {answer}", verdict=Verdict(False)).label for answer in (99, 50)] == [1, 0]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"targeted_buckets": []}, "is `targeted` and needs `targeted_buckets`"),
        ({"strategy": "uniform"}, "remove the 1 `targeted_buckets`"),
        ({"targeted_buckets": [bucket(path="rel_error", op=["lt"], value=1)]}, r"\['lt'\]"),
        ({"targeted_buckets": [bucket(path="rel_error", op="below", value=1)]}, "'below'"),
        ({"targeted_buckets": [bucket(path="rel_error", op="lt")]}, "`value`"),
        ({"targeted_buckets": [bucket(path="rel_error", op="lt", value="small")]}, "'small'"),
        ({"targeted_buckets": [bucket(path="rel_error", op="between", range=[1])]}, "`range`"),
        ({"targeted_buckets": [bucket(path="completion_full", op="regex", value="(")]}, "regular expression"),
        ({"targeted_buckets": [bucket(any=[])]}, "`any`"),
        ({"targeted_buckets": [bucket(path="rel_error", op="lt", value=1, token_id=3)]}, "token_id"),
    ],
)
def test_a_mistake_in_the_section_is_named(changes, match):
    section = {**yaml.safe_load(PUBLISHED), **changes}
    with pytest.raises(RecipeError, match=match):
        load_recipe({"noise": {"checker": {"errors": section}}})


@pytest.mark.parametrize(
    "selector",
    [
        {"path": "completion_extracted", "op": "eq", "value": 97},
        {"path": "completion_extracted", "op": "in", "values": ["96", 97]},
        {"path": "difficulty", "op": "ne", "value": "4"},
    ],
)
def test_a_text_is_not_compared_with_a_number(selector):
    """They are never equal, so that the bucket would silently have no solutions, or all."""
    with pytest.raises(ValueError, match=selector["path"]):
        errors(bucket(**selector)).judge(PROBLEM, "#### 97", passed=False)


def test_a_range_has_its_lower_end_first():
    with pytest.raises(ValueError, match=r"\[0.2, 0.1\]"):
        errors(bucket(path="rel_error", op="between", range=[0.2, 0.1]))
