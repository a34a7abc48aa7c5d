"""Custom code that a recipe names is called before anything is played."""

import itertools
import json
import textwrap

import pytest

from pvg_hf import load_recipe
from pvg_hf.check.custom_code import seems_relative
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.data.problems import GameProblems

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
        recipe = load_recipe({**values, "task": {"options": {"num_train": 60, "num_test": 4}}}, overrides)
        return check_recipe(recipe, GameProblems.load(recipe))

    return check


@pytest.fixture
def mistakes_of_task(values):
    """The mistakes of the recipe with a custom task, and players whose tokenizers are trained on its texts."""
    new = {"scratch": {"config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}}, "warmup": {}}

    def check(name: str) -> list[str]:
        recipe = load_recipe({**values, "task": {"name": name}, "prover": new, "verifier": new})
        return check_recipe(recipe, GameProblems.load(recipe))

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
def test_a_stop_rule_that_would_fail_in_the_prover_phase_is_a_mistake(source, parts, write_module, mistakes_of):
    (mistake,) = mistakes_of(f"stopping.rule={write_module(source)}:rule")
    assert [part for part in ["`stopping.rule`", *parts] if part not in mistake] == []


def test_a_stop_rule_is_called_with_the_roles_that_are_trained(write_module, mistakes_of):
    name = write_module("def rule(means, config): return means['accuracy/helpful'] > 1")
    assert mistakes_of(f"stopping.rule={name}:rule") == []
    (mistake,) = mistakes_of(f"stopping.rule={name}:rule", "prover={roles: separate, lora: {}}")
    assert "accuracy/helpful" in mistake


def test_options_of_a_stop_rule_are_passed_and_checked(write_module, mistakes_of):
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
def test_a_reward_that_would_fail_in_the_prover_phase_is_a_mistake(body, parts, write_module, mistakes_of):
    name = write_module(f"def pay(scores, correct, sneaky, *, group_size, answered=None):\n    {body}\n")
    (mistake,) = mistakes_of(f"prover.reward={name}:pay")
    assert [part for part in ["`prover.reward`", *parts] if part not in mistake] == []


COMPOSITES = {
    "no weights": ("composite", {}, "`weights`"),
    "an unknown signal": ("composite", {"weights": {"certfied": 1.0}}, "Did you mean `certified`"),
    "a signal that the task lacks": ("composite", {"weights": {"certified": 1.0}}, "`certified` is NaN for 8 of 8"),
    "gated, of a task without signals": ("gated_multiplicative", {"alpha": 0.5}, "is NaN for 8 of 8"),
    "gated, alpha out of range": ("gated_multiplicative", {"alpha": 2.0}, "`alpha` is 2.0"),
}


@pytest.mark.parametrize(("reward", "options", "part"), COMPOSITES.values(), ids=COMPOSITES)
def test_a_reward_of_several_signals_that_would_fail_in_the_prover_phase_is_a_mistake(
    reward, options, part, mistakes_of
):
    (mistake,) = mistakes_of(f"prover={json.dumps({'reward': reward, 'reward_options': options})}")
    assert [wanted for wanted in ["`prover.reward`", part] if wanted not in mistake] == []


def test_a_reward_of_several_signals_with_a_task_that_states_them(mistakes_of):
    task = "task.name=tests.support.recall_task:TestedRecallTask"
    weights = {"test_pass_rate": 2.0, "certified": 1.0, "dissimilarity": 1.0}
    for reward, options in (("composite", {"weights": weights}), ("gated_multiplicative", {"alpha": 0.5})):
        assert mistakes_of(task, f"prover={json.dumps({'reward': reward, 'reward_options': options})}") == []


def test_a_reward_that_is_a_class_is_a_mistake(write_module, mistakes_of):
    name = write_module("class Pay:\n    def __init__(self, margin): pass\n")
    (mistake,) = mistakes_of(f"prover.reward={name}:Pay")
    assert "`prover.reward`" in mistake
    assert "is a class; it must be a function" in mistake


def test_a_mixture_that_fails_in_a_later_round_is_a_mistake(write_module, mistakes_of):
    name = write_module("def weigh(k): return {-1: 1 / (1 - k)}")
    (mistake,) = mistakes_of(f"data.mixture={name}:weigh", "num_rounds=2")
    assert [part for part in ["`data.mixture`", "asked for round 1", "ZeroDivisionError"] if part not in mistake] == []


@pytest.mark.parametrize(
    ("body", "part"),
    [("return margins.mean() / 0", "must be finite"), ("return margins", "scalar"), ("return {}['e']", "KeyError")],
)
def test_an_invariance_penalty_that_fails_is_a_mistake(body, part, write_module, mistakes_of):
    name = write_module(f"def penalty(margins, environments):\n    {body}\n")
    (mistake,) = mistakes_of(f"verifier.invariance.method={name}:penalty")
    assert "`verifier.invariance.method`" in mistake
    assert part in mistake


TASK = """
from typing import ClassVar
import random
from datasets import Dataset, Value
from pvg_hf.core.roles import Role
from pvg_hf.tasks import Grade, Task
from pvg_hf.tasks.answers import grade_answer

class Sums(Task):
    name = "sums"
    columns: ClassVar = {{"size": Value("int32")}}
    detail_columns: ClassVar = {{"num_lines": Value("int32")}}
    prompts: ClassVar = {{role: "{{{{ problem }}}} " + role + "\\n" for role in Role}}

    def rows(self, split):
        numbers = range(3) if split == "test" else range(10, 90)
        return [
            {{"problem_id": f"{{split}}-{{n}}", "problem": f"{{n}} + 1", "reference": f"#### {{n + 1}}", "size": n}}
            for n in numbers
        ]

    def problems(self, split):
        return Dataset.from_list(self.rows(split))

    def grade(self, problem, solution):
        grade = grade_answer(solution, problem["reference"])
        return Grade(grade.answer, grade.correct, detail={{"num_lines": solution.count("\\n")}})

class Broken(Sums):
    {body}
"""

NO_PROBLEMS = {
    "a list": ("def problems(self, split): return self.rows(split)", ["'train'", "returns a list"]),
    "a missing column": (
        "def problems(self, split): return super().problems(split).remove_columns('size')",
        ["lacks the columns ['size']"],
    ),
    "another type": (
        (
            "def problems(self, split): return super().problems(split).remove_columns('size').add_column('size', ['x']"
            " * len(self.rows(split)))"
        ),
        ["the column `size`", "declared as int32", "'x'"],
    ),
    "numbers as ids": (
        "def rows(self, split): return [{**row, 'problem_id': n} for n, row in enumerate(super().rows(split))]",
        ["`problem_id` of type int64", "must be text"],
    ),
    "no reference": (
        (
            "def rows(self, split): return [{**row, 'reference': None if n == 2 else '#### 1'} for n, row in"
            " enumerate(super().rows(split))]"
        ),
        ["no `reference` in row 2"],
    ),
    "an error": ("def problems(self, split): return 1 / 0", ["'train'", "ZeroDivisionError", ".py, line"]),
    "an error of the class": ("def __init__(self): self.n = [][0]", ["IndexError", ".py, line"]),
}


@pytest.mark.parametrize(("body", "parts"), NO_PROBLEMS.values(), ids=NO_PROBLEMS)
def test_problems_that_no_game_can_use_are_a_mistake(body, parts, write_module, values):
    name = write_module(TASK.format(body=body))
    recipe = load_recipe({**values, "task": {"name": f"{name}:Broken"}})
    with pytest.raises(ValueError) as caught:
        GameProblems.load(recipe)
    assert [part for part in parts if part not in str(caught.value)] == []


TASKS = {
    "other problems at each call": (
        "def rows(self, split): return random.sample(super().rows(split), 3 if split == 'test' else 80)",
        ["problems('train')", "the same at every call", "derive_rng"],
    ),
    "fewer problems at each call": (
        "def rows(self, split):\n"
        "        Broken.calls = getattr(Broken, 'calls', 0) + 1\n"
        "        return super().rows(split)[:80 - Broken.calls]",
        ["problems('train')", "no row"],
    ),
    "a boolean": (
        "def grade(self, problem, solution): return 'x' in solution",
        ["asked about the problem `train-", "returns False, a bool", "'#### "],
    ),
    "a missing detail": (
        "def grade(self, problem, solution): return Grade('1', True)",
        ["`detail` without `num_lines`"],
    ),
    "a detail of another type": (
        "def grade(self, problem, solution): return Grade('1', True, detail={'num_lines': 'none'})",
        ["`detail['num_lines']`", "declared as int32"],
    ),
    "an answer that is a number": (
        "def grade(self, problem, solution): return Grade(3, True, detail={'num_lines': 1})",
        ["`answer=3`"],
    ),
    "correct without an answer": (
        "def grade(self, problem, solution): return Grade(None, True, detail={'num_lines': 1})",
        ["`correct=True` without an `answer`"],
    ),
    "an error on some texts": (
        "def grade(self, problem, solution):\n"
        "        solution.split('####')[1]\n"
        "        return super().grade(problem, solution)",
        ["`train-", "the solution ''", "IndexError", ".py, line"],
    ),
    "everything is correct": (
        "def grade(self, problem, solution): return Grade('1', True, detail={'num_lines': 1})",
        ["the solution ''", "an empty text is"],
    ),
    "references that are graded wrong": (
        "def grade(self, problem, solution): return super().grade(problem, solution.replace('####', ''))",
        ["8 of 8 references are graded as wrong", "`train-", "`references_are_correct = False`"],
    ),
    "no certificate": (
        "def grade(self, problem, solution):\n"
        "        grade = super().grade(problem, solution)\n"
        "        return Grade(grade.answer, grade.correct, certified=False, detail=grade.detail)",
        ["references are graded as wrong", "without a certificate"],
    ),
    "a prompt that cannot be written": (
        "prompts: ClassVar = {**Sums.prompts, Role.SNEAKY: '{{ problem }}{{ size / 0 }}'}",
        ["the prompt of the problem `train-", "role `sneaky`", "ZeroDivisionError"],
    ),
    "a role without a prompt": (
        "prompts: ClassVar = {Role.BASE: '{{ problem }}', Role.HELPFUL: '{{ problem }}'}",
        ["no prompt template for role `sneaky`"],
    ),
    "a wrong example that is right": (
        "few_shot_examples: ClassVar = ({'problem': '2 + 2?', 'solution': '#### 4', 'wrong_solution': '#### 4.0'},)",
        ["`wrong_solution`", "'#### 4.0'", "graded as correct"],
    ),
    "a column of the pool": (
        "columns: ClassVar = {**Sums.columns, 'label': Value('int32')}\n"
        "    def rows(self, split): return [{**row, 'label': 1} for row in super().rows(split)]",
        ["['label']", "a pool has them"],
    ),
    "a column that the trainer takes for pictures": (
        "def rows(self, split): return [{**row, 'images': 'x'} for row in super().rows(split)]",
        ["['images']", "the trainer"],
    ),
    "a column that the game writes": (
        "def rows(self, split): return [{**row, 'prompt': 'x'} for row in super().rows(split)]",
        ["['prompt']", "the trainer"],
    ),
    "an answer that is no text": ("def read_answer(self, solution): return 3", ["`read_answer` returns 3"]),
    "a solution that is no text": ("def solution_in(self, text): return None", ["`solution_in` returns None"]),
}


@pytest.mark.parametrize(("body", "parts"), TASKS.values(), ids=TASKS)
def test_a_task_that_would_fail_in_a_phase_is_a_mistake(body, parts, write_module, mistakes_of_task):
    name = write_module(TASK.format(body=body))
    (mistake,) = mistakes_of_task(f"{name}:Broken")
    assert [part for part in parts if part not in mistake] == []


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "references_are_correct = False\n"
        "    def grade(self, problem, solution): return Grade(None, False, detail={'num_lines': 1})",
    ],
    ids=["sound", "references that are graded wrong by intention"],
)
def test_a_valid_task_has_no_mistake(body, write_module, mistakes_of_task):
    name = write_module(TASK.format(body=body))
    assert mistakes_of_task(f"{name}:Broken") == []


@pytest.mark.parametrize(
    ("reward", "is_relative"),
    [
        ("src", True),
        ("standardized_src", True),
        ("tests.support.own_rules:pays_by_the_others", True),
        ("cgc", False),
        ("goodhart", False),
        ("correctness_only", False),
    ],
)
def test_a_reward_seems_relative_if_it_pays_for_being_better_than_the_group(reward, is_relative, values):
    assert seems_relative(load_recipe(values, [f"prover.reward={reward}"]).prover) == is_relative
