from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pvg_hf import rewards
from pvg_hf.core.extensions import ExtensionError
from pvg_hf.rewards import REWARDS, Reward, as_reward, load_reward
from tests.support.own_rules import above_the_group, scaled_score

FORMULAS = Path(__file__).parents[2] / "docs" / "reference" / "formulas.md"


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("src", rewards.signed_relative_convincingness),
        ("cgc", rewards.correctness_gated_convincingness),
        ("goodhart", rewards.goodhart),
        ("correctness_only", rewards.correctness_only),
        ("standardized_src", rewards.standardized_relative_convincingness),
        ("acceptance", rewards.acceptance),
        ("composite", rewards.composite),
        ("gated_multiplicative", rewards.gated_multiplicative),
    ],
)
def test_rewards_are_found_by_name(name, function):
    assert load_reward(name).function is function


@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_is_the_same_by_name_path_or_function(name):
    record = load_reward(name)
    assert record.name == name
    place = f"pvg_hf.rewards:{record.function.__name__}"
    assert load_reward(place) == replace(record, name=place)
    assert as_reward(record.function, name) == record
    assert as_reward(record, name) == record


def test_a_custom_reward_is_what_it_declares():
    record = load_reward("tests.support.own_rules:above_the_group")
    assert record == replace(above_the_group, name="tests.support.own_rules:above_the_group")
    assert (record.is_relative, record.stop_rule) == (True, "parity")


def test_a_custom_reward_without_a_declaration_has_the_defaults():
    record = load_reward("tests.support.own_rules:scaled_score")
    assert record == Reward(scaled_score, False, "max_steps", name="tests.support.own_rules:scaled_score")


def test_formulas_page_lists_every_reward():
    cells = [[cell.strip() for cell in row.split(" | ")] for row in FORMULAS.read_text("utf-8").split("\n")]
    listed = {row[1].strip("`"): row for row in cells if len(row) == 7 and row[1].strip("`") in REWARDS}
    assert list(listed) == list(REWARDS)
    for name, (function, _, _, _, relative, stop_rule, _) in listed.items():
        record = REWARDS[name]
        assert function == f"| `{record.function.__name__}`"
        assert (relative == "yes", stop_rule) == (record.is_relative, f"`{record.stop_rule}`")


def test_a_reward_must_be_callable():
    with pytest.raises(ValueError, match="TOLERANCE` is a float"):
        load_reward("pvg_hf.rewards.convincingness:TOLERANCE")


def _call(function, scores=(1.0, 2.0, 3.0, 4.0), **options):
    scores = torch.tensor(scores)
    flags = torch.zeros(len(scores), dtype=torch.bool)
    return Reward(function, name="mine")(scores, flags, flags, group_size=2, answered=~flags, **options)


def test_a_custom_reward_may_leave_solutions_without_a_reward():
    paid = _call(lambda scores, *args, **options: scores.where(scores > 1, torch.nan))
    assert paid.isnan().tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda scores, *args, **options: scores.tolist(), ["returns a list"]),
        (lambda scores, *args, **options: scores[:2], ["(2,)", "(4,)"]),
        (lambda scores, *args, **options: scores > 0, ["torch.bool"]),
        (lambda scores, *args, **options: scores / 0, ["4 infinite"]),
        (lambda scores, *args, **options: {}["margin"], ["KeyError", "margin", "test_record.py, line"]),
        (lambda scores, correct, sneaky: scores, ["group_size"]),
    ],
    ids=["list", "shape", "type", "infinite", "error", "signature"],
)
def test_what_a_custom_reward_returns_is_checked(function, parts):
    with pytest.raises(ExtensionError) as caught:
        _call(function)
    assert [part for part in ["`mine`", *parts] if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "gated_multiplicative",
            {},
            "The reward `gated_multiplicative` needs `alpha`, which is not given; set it in `reward_options`.",
        ),
        ("composite", {}, "The reward `composite` needs `weights`, which is not given; set it in `reward_options`."),
        (
            "gated_multiplicative",
            {"alpha": 0.1, "aplha": 0.2},
            "The reward `gated_multiplicative` has no option `aplha`. Did you mean `alpha`?",
        ),
        ("src", {"margin": 1}, "The reward `src` has no option `margin`. Known are `floor`, `score_scale`."),
    ],
    ids=["gated_multiplicative", "composite", "misspelt", "an option too many"],
)
def test_the_options_of_a_reward_are_checked(name, options, message):
    reward = load_reward(name)
    flags = torch.zeros(2, dtype=torch.bool)
    signals = {signal: torch.ones(2) for signal in reward.signals}
    with pytest.raises(ExtensionError) as caught:
        reward(torch.ones(2), flags, flags, group_size=2, answered=~flags, **signals, **options)
    assert str(caught.value) == message


def test_options_may_be_positional():
    def scaled(scores, correct, sneaky, group_size, answered=None, factor=1.0):
        return scores * factor

    assert _call(scaled, factor=2.0).tolist() == [2.0, 4.0, 6.0, 8.0]
    with pytest.raises(ExtensionError, match=r"`mine` has no option `fctor`\. Did you mean `factor`"):
        _call(scaled, fctor=2.0)


def test_scores_that_are_not_finite_are_not_blamed_on_the_reward():
    with pytest.raises(ValueError, match=r"1 of 2 scores .*finite"):
        _call(lambda scores, *args, **options: scores, scores=(1.0, float("nan")))


@pytest.mark.parametrize(
    ("name", "closest"), [("standardised_src", "standardized_src"), ("SRC", "src"), ("godhart", "goodhart")]
)
def test_the_error_of_an_unknown_name_has_the_closest_one(name, closest):
    with pytest.raises(ValueError, match=f"reward `{name}`.* `{closest}`"):
        load_reward(name)


def test_the_error_of_a_name_like_no_other_lists_all():
    with pytest.raises(
        ValueError, match=r"`zebra`.*`src`, `cgc`, .*`acceptance`, .*`gated_multiplicative`\. .*package\.module:Name"
    ):
        load_reward("zebra")


@pytest.mark.parametrize("name", ["src", "cgc", "standardized_src", "correctness_only", "goodhart", "acceptance"])
def test_a_gated_reward_never_pays_a_helpful_mistake(name):
    """Alone with mistakes and beside a correct solution; the others pay the most convincing mistake most."""
    scores = torch.tensor([-3.0, 0.0, 0.5, 6.0])
    for correct in (torch.zeros(4), torch.tensor([0.0, 1.0, 0.0, 0.0])):
        paid = load_reward(name)(scores, correct, torch.zeros(4), group_size=4)[correct == 0]
        assert bool((paid <= 0).all()) or not REWARDS[name].is_gated
        assert REWARDS[name].is_gated or bool((paid.diff() > 0).all())


@pytest.mark.parametrize("name", sorted(set(REWARDS) - {"correctness_only"}))
def test_a_reward_is_relative_if_a_better_policy_does_not_raise_it(name):
    """Every score rises by 8: a group-relative reward is unchanged, one that adds the score itself is not."""
    scores, correct, sneaky = torch.tensor([0.0, 1.0, 2.0, 5.0]), torch.ones(4), torch.zeros(4)
    passed = {"test_pass_rate": torch.ones(4), "certified": torch.ones(4), "similarity": torch.zeros(4)}
    options = {
        "composite": {"weights": {"acceptance_prob": 1.0}},
        "gated_multiplicative": {"alpha": 0.5, **passed},
    }.get(name, {})
    before = load_reward(name)(scores, correct, sneaky, group_size=4, **options)
    after = load_reward(name)(scores + 8, correct, sneaky, group_size=4, **options)
    assert torch.equal(before, after) == REWARDS[name].is_relative
