"""Custom code that a recipe names is called before anything is played."""

import itertools
import textwrap

import pytest

from pvg_hf import load_recipe
from pvg_hf.game.plan import check_recipe
from pvg_hf.game.world import World

_NUMBERS = itertools.count()


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    """Writes a module that can be imported; returns its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> str:
        name = f"custom_{next(_NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return name

    return write


@pytest.fixture
def mistakes_of(values):
    """The mistakes of the recipe with overrides."""

    def check(*overrides: str) -> list[str]:
        recipe = load_recipe(values, overrides)
        return check_recipe(recipe, World.load(recipe))

    return check


STOP_RULES = {
    "a class": ("class rule:\n    def update(self, means): return False", ["is a class"]),
    "three arguments": ("def rule(step, means, config): return False", ["'config'"]),
    "no function": ("rule = 3", ["is a int"]),
    "no boolean": ("def rule(means, config): return means.get('accuracy/sneaky')", ["returns 0.5"]),
    "an error": ("def rule(means, config): return means['step'] / 0 > 1", ["ZeroDivisionError", ".py, line 1"]),
    "a missing mean": (
        "def rule(means, config): return means['score/sneaky_incorrect'] > 1",
        ["KeyError: 'score/sneaky_incorrect'", "means.get(key)"],
    ),
}


@pytest.mark.parametrize(("source", "parts"), STOP_RULES.values(), ids=STOP_RULES)
def test_a_stop_rule_that_would_fail_in_the_prover_phase(source, parts, write_module, mistakes_of):
    (mistake,) = mistakes_of(f"stopping.rule={write_module(source)}:rule")
    assert [part for part in ["`stopping.rule`", *parts] if part not in mistake] == []


def test_a_stop_rule_is_asked_about_the_roles_that_are_trained(write_module, mistakes_of):
    name = write_module("def rule(means, config): return means['accuracy/helpful'] > 1")
    assert mistakes_of(f"stopping.rule={name}:rule") == []
    (mistake,) = mistakes_of(f"stopping.rule={name}:rule", "prover={roles: separate, lora: {}}")
    assert "accuracy/helpful" in mistake


def test_a_stop_rule_with_options(write_module, mistakes_of):
    name = write_module("def rule(means, config, *, patience): return means['step'] > patience")
    assert mistakes_of(f"stopping={{rule: '{name}:rule', options: {{patience: 3}}}}") == []
    (mistake,) = mistakes_of(f"stopping={{rule: '{name}:rule', options: {{patience: x}}}}")
    assert "TypeError" in mistake
    (mistake,) = mistakes_of(f"stopping={{rule: '{name}:rule'}}")
    assert "'patience'" in mistake


REWARDS = {
    "NaN": ("return scores * float('nan')", ["NaN for 8 of 8"]),
    "some NaN": ("return scores / scores.where(scores != 0, float('nan'))", ["NaN for 1 of 8"]),
    "a list": ("return scores.tolist()", ["returns a list"]),
    "another shape": ("return scores.view(-1, group_size)", ["(2, 4)", "(8,)"]),
    "another type": ("return correct", ["torch.bool"]),
    "an error": ("return {}['margin']", ["KeyError: 'margin'", ".py, line 2"]),
}


@pytest.mark.parametrize(("body", "parts"), REWARDS.values(), ids=REWARDS)
def test_a_reward_that_would_fail_in_the_prover_phase(body, parts, write_module, mistakes_of):
    name = write_module(f"def pay(scores, correct, sneaky, *, group_size, answered=None):\n    {body}\n")
    (mistake,) = mistakes_of(f"prover.reward={name}:pay")
    assert [part for part in ["`prover.reward`", *parts] if part not in mistake] == []


def test_a_reward_that_is_a_class(write_module, mistakes_of):
    name = write_module("class Pay:\n    def __init__(self, margin): pass\n")
    (mistake,) = mistakes_of(f"prover.reward={name}:Pay")
    assert "`prover.reward`" in mistake
    assert "is a class; it must be a function" in mistake


def test_a_mixture_that_fails_in_a_later_round(write_module, mistakes_of):
    name = write_module("def weigh(k): return {-1: 1 / (1 - k)}")
    (mistake,) = mistakes_of(f"data.mixture={name}:weigh", "num_rounds=2")
    assert [part for part in ["`data.mixture`", "asked for round 1", "ZeroDivisionError"] if part not in mistake] == []


@pytest.mark.parametrize(
    ("body", "part"),
    [("return margins.mean() / 0", "must be finite"), ("return margins", "scalar"), ("return {}['e']", "KeyError")],
)
def test_an_invariance_penalty_that_fails(body, part, write_module, mistakes_of):
    name = write_module(f"def penalty(margins, environments):\n    {body}\n")
    (mistake,) = mistakes_of(f"verifier.invariance.method={name}:penalty")
    assert "`verifier.invariance.method`" in mistake
    assert part in mistake
