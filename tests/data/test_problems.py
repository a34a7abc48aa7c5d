from copy import deepcopy

import pytest

from pvg_hf import load_recipe
from pvg_hf.core.roles import Role
from pvg_hf.data.problems import GameProblems, load_recipe_task
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.grammar import NAMES, OBJECTS
from tests.support.recall_task import NUMBERS, RecallTask


def test_the_quickstart_recipes_problems_can_be_split(repository):
    recipe = load_recipe(repository / "recipes" / "quickstart.yaml")
    world = GameProblems.load(recipe)
    assert isinstance(world.task, ArithmeticTask)
    assert all(len(part) > 0 for part in world.parts.values())
    num_game = sum(len(world.parts[part]) for part in ("verifier", "verifier_heldout", "prover", "prover_heldout"))
    assert num_game == recipe.task.options["num_train"]


def test_a_custom_task_needs_no_answer_format(game):
    task = load_recipe_task(load_recipe(game()))
    assert type(task).__name__ == RecallTask.__name__
    with pytest.raises(ValueError, match=r"option `answer_format` of task `tests\.support.recall_task:RecallTask`"):
        load_recipe_task(load_recipe(game(task__answer_format="lenient")))


def test_answer_format_reaches_a_task_that_knows_it(game):
    task = load_recipe_task(load_recipe(game(task={"name": "arithmetic", "answer_format": "lenient"})))
    assert task.answer_format == "lenient"


def test_the_number_of_problems_can_be_limited(game):
    world = GameProblems.load(load_recipe(game(split__max_train=40, split__max_test=3)))
    assert sum(len(part) for name, part in world.parts.items() if name != "test") == 40
    assert world.parts["test"]["problem_id"][:] == ["test-0", "test-1", "test-2"]


def test_the_sneaky_role_sees_the_reference_if_configured(game, tokenizer):
    template = "{{ problem }}\nReference: {{ honest_solution }}\nsneaky solution:\n"
    world = GameProblems.load(
        load_recipe(game(task__sneaky_sees="honest_solution", task__prompts={"sneaky": template}))
    )
    problem = world.parts["prover"][0]
    assert problem["reference"] in world.prompt(problem, Role.SNEAKY, tokenizer)
    assert problem["reference"] not in world.prompt(problem, Role.HELPFUL, tokenizer)


SHOWING = "{{ problem }}\n{% if honest_solution %}Honest: {{ honest_solution }}\n{% endif %}sneaky solution:\n"


def test_what_the_sneaky_role_sees_may_differ_between_rounds(game, tokenizer):
    rounds = {1: {"task": {"sneaky_sees": "honest_solution"}}}
    recipe = load_recipe(game(num_rounds=2, task__prompts={"sneaky": SHOWING}, rounds=rounds))
    world = GameProblems.load(recipe)
    problem = world.parts["prover"][0]
    prompts = [world.for_round(recipe.for_round(k)).prompt(problem, Role.SNEAKY, tokenizer) for k in (0, 1)]
    assert ["Honest: " in prompt for prompt in prompts] == [False, True]
    assert problem["reference"] in prompts[1]


def test_an_own_solution_takes_the_place_of_the_reference(game, tokenizer):
    recipe = load_recipe(game(task__sneaky_sees="honest_solution", task__prompts={"sneaky": SHOWING}))
    first, second = (world := GameProblems.load(recipe)).parts["prover"].select([0, 1])
    shown = world.showing({first["problem_id"]: "my own words"})
    assert "Honest: my own words\n" in shown.prompt(first, Role.SNEAKY, tokenizer)
    assert second["reference"] in shown.prompt(second, Role.SNEAKY, tokenizer)
    assert "my own words" not in shown.prompt(first, Role.HELPFUL, tokenizer)


def test_the_provers_chat_template_sees_the_recipes_settings(game, tokenizer):
    world = GameProblems.load(load_recipe(game(prover__chat_template_kwargs={"enable_thinking": False})))
    assert world.prompts.chat_template_kwargs == {"enable_thinking": False}
    tokenizer = deepcopy(tokenizer)
    tokenizer.chat_template = "{{ messages[0].content }}{% if enable_thinking is false %} at once{% endif %}"
    assert world.prompt(world.parts["prover"][0], Role.HELPFUL, tokenizer).endswith(" at once")


def test_an_example_that_is_a_problem_of_the_game_is_refused(game):
    options = {"num_train": len(NAMES) * len(OBJECTS) * len(NUMBERS) - 8}  # the texts of all problems
    task = {"name": "tests.support.recall_task:ExampleRecallTask", "options": options}
    with pytest.raises(ValueError, match=r"`\w+-\d+` .*'Ana has 5 pens.'.* `task.few_shot`"):
        GameProblems.load(load_recipe(game(task=task)))
    assert GameProblems.load(load_recipe(game(task=task | {"few_shot": 0}))).prompts.examples == ()


def test_few_shot_examples_of_arithmetic_are_in_no_part(game):
    world = GameProblems.load(load_recipe(game(task={"name": "arithmetic", "few_shot": 3})))
    assert len(world.prompts.examples) == 3
