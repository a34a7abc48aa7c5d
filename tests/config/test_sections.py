"""Stated and derived values of a recipe's sections."""

from dataclasses import asdict
from typing import Annotated

import pytest
import yaml
from pydantic import Field, TypeAdapter

from pvg_hf.config import Recipe, RecipeError, load_recipe
from pvg_hf.config import fields as f


def test_epsilon_sets_both_rates_and_is_read_back():
    recipe = load_recipe({"noise": {"epsilon": 0.1}})
    assert (recipe.noise.rho0, recipe.noise.rho1) == (0.1, 0.1)
    again = load_recipe(yaml.safe_load(yaml.safe_dump(recipe.to_dict())))
    assert again == recipe
    assert (again.noise.rho0, again.noise.rho1) == (0.1, 0.1)


def test_epsilon_can_be_overridden_in_a_round():
    recipe = load_recipe({"noise": {"epsilon": 0.1}, "rounds": {1: {"noise": {"epsilon": 0.3}}}})
    assert [recipe.for_round(k).noise.rho0 for k in range(2)] == [0.1, 0.3]


@pytest.mark.parametrize(
    ("stated", "override", "rates"),
    [
        ({"rho0": 0.2, "rho1": 0.1}, {"epsilon": 0.3}, (0.3, 0.3)),
        ({"rho0": 0.2}, {"epsilon": 0}, (0, 0)),
        ({"epsilon": 0.3}, {"rho0": 0.2}, (0.2, 0.3)),
        ({"epsilon": 0.3}, {"rho0": 0.2, "rho1": 0.1}, (0.2, 0.1)),
        ({"epsilon": 0.3}, {"epsilon": None, "rho0": 0.2}, (0.2, 0)),
        ({"rho0": 0.2, "rho1": 0.1}, {"rho1": 0.3}, (0.2, 0.3)),
        ({"rho0": 0.2}, {"epsilon": None}, (0.2, 0)),
        ({"epsilon": 0.3}, {"level": "pair"}, (0.3, 0.3)),
    ],
)
def test_rates_of_an_override_replace_those_stated_in_the_other_way(stated, override, rates):
    noise = load_recipe({"noise": stated, "rounds": {1: {"noise": override}}}).for_round(1).noise
    assert (noise.rho0, noise.rho1) == rates
    pairs = [f"noise.{key}={'null' if value is None else value}" for key, value in override.items()]
    noise = load_recipe({"noise": stated}, pairs).noise
    assert (noise.rho0, noise.rho1) == rates


def test_epsilon_together_with_rho_is_an_error_in_a_round_too():
    with pytest.raises(RecipeError, match=r"`rounds\.1\.noise`: give either `epsilon` or"):
        load_recipe({"rounds": {1: {"noise": {"epsilon": 0.1, "rho0": 0.1}}}})


def test_different_rates_are_written_as_stated():
    recipe = load_recipe({"noise": {"rho0": 0.2, "rho1": 0.1}})
    assert recipe.to_dict()["noise"] == {
        "epsilon": None,
        "rho0": 0.2,
        "rho1": 0.1,
        "level": "label",
        "resample": "fixed",
        "applies_to": "verifier",
        "soft_labels": False,
        "schedule": None,
        "checker": None,
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [("config", "base"), ("split", "sneaky"), ("revision", "round-000"), ("columns", {"label": "human"})],
)
def test_import_settings_without_a_source_are_an_error(key, value):
    with pytest.raises(RecipeError, match=rf"`bootstrap`: `import_{key}` .*`import_from`, which is not"):
        load_recipe({"bootstrap": {f"import_{key}": value}})
    bootstrap = load_recipe({"bootstrap": {"import_from": "org/solutions", f"import_{key}": value}}).bootstrap
    assert asdict(bootstrap)[f"import_{key}"] == value


def keys_of(section):
    """Each key of a section and of those in it, with its section and the names of the plain types that it takes."""
    for key, schema in TypeAdapter(section).json_schema()["properties"].items():
        yield section, key, {part.get("type") for part in (schema, *schema.get("anyOf", ()))}
    for _, inner in f.sections_of(section):
        yield from keys_of(inner)


KEYS = list(keys_of(Recipe))


def test_no_number_is_made_of_a_truth_value_and_no_truth_value_of_a_number():
    numbers = [(section, key) for section, key, types in KEYS if types & {"integer", "number"}]
    flags = [(section, key) for section, key, types in KEYS if types == {"boolean"}]
    assert len(numbers) > 100
    assert len(flags) > 10
    for section, key in numbers:
        with pytest.raises(ValueError, match=f"`{key}` is True"):
            f.check_option(section, key, True)
    for section, key in flags:
        with pytest.raises(ValueError, match=f"`{key}` is 1"):
            f.check_option(section, key, 1)


def test_every_number_but_a_seed_has_an_upper_bound():
    numbers = [(section, key) for section, key, types in KEYS if types & {"integer", "number"}]
    unbounded = []
    for section, key in numbers:
        try:
            f.check_option(section, key, 10**10)
            unbounded.append(key)
        except ValueError:
            pass
    assert sorted(unbounded) == ["seed"]


def test_an_unquoted_off_of_yaml_is_accepted():
    values = yaml.safe_load("watchdogs: {goodharting: off}")
    assert values == {"watchdogs": {"goodharting": False}}
    assert load_recipe(values).watchdogs.goodharting == "off"


@pytest.mark.parametrize(
    ("roles", "trained", "num_trainings", "planned_steps"),
    [
        ("shared", ["helpful", "sneaky"], 1, 40),
        ("separate", ["helpful", "sneaky"], 2, 80),
        ("sneaky_only", ["sneaky"], 1, 40),
        ("helpful_only", ["helpful"], 1, 40),
    ],
)
def test_roles_of_the_prover_set_what_is_trained_and_for_how_long(roles, trained, num_trainings, planned_steps):
    prover = load_recipe({"prover": {"roles": roles, "max_steps": 40}}).prover
    assert list(prover.trained_roles) == trained
    assert (prover.num_trainings, prover.planned_steps) == (num_trainings, planned_steps)


def test_the_helpful_role_may_have_other_steps_than_the_sneaky_one():
    prover = load_recipe({"prover": {"roles": "separate", "max_steps": 40, "helpful_max_steps": 15}}).prover
    assert [(roles, training.max_steps) for roles, training in prover.trainings.items()] == [
        (("helpful",), 15),
        (("sneaky",), 40),
    ]
    assert prover.planned_steps == 55
    assert (prover.training_of("helpful").max_steps, prover.training_of("sneaky").max_steps) == (15, 40)
    with pytest.raises(RecipeError, match="`helpful_max_steps` is for `roles: separate`, and `roles` is `shared`"):
        load_recipe({"prover": {"helpful_max_steps": 15}})


@pytest.mark.parametrize(("ema", "max_steps", "weight"), [(None, 100, 0.05), (None, 4, 1.0), (0.02, 100, 0.02)])
def test_newest_step_weighs_five_in_the_planned_steps_unless_stated(ema, max_steps, weight):
    assert load_recipe({"stopping": {"ema": ema}}).stopping.newest_weight(max_steps) == pytest.approx(weight)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": "given", "rho0": 0.6, "rho1": 0.4}, r"`rho0 \+ rho1` is 0.6 \+ 0.4 = 1.0"),
        ({"rho0": 0.1}, "need `source: given`, and `source` is `noise`"),
        ({"source": "trusted", "rho1": 0.1}, "`source` is `trusted`"),
        ({"source": "trusted", "trusted_share": 0}, "greater than 0"),
    ],
)
def test_impossible_rates_are_errors(values, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe({"rates": values})


def test_settings_of_ppo_without_ppo_are_an_error():
    with pytest.raises(RecipeError, match=r"`prover`: `ppo` .*`algorithm` is `grpo`"):
        load_recipe({"prover": {"ppo": {"gamma": 0.9}}})
    prover = load_recipe({"prover": {"algorithm": "ppo", "max_steps": 10}}).prover
    assert (prover.steps_per_batch, prover.num_batches, prover.ppo_settings.gae_lambda) == (4, 3, 0.95)
    prover = load_recipe({"prover": {"algorithm": "ppo", "ppo": {"num_iterations": 1}, "max_steps": 10}}).prover
    assert (prover.steps_per_batch, prover.num_batches) == (1, 10)
    assert load_recipe({"prover": {"max_steps": 10}}).prover.num_batches == 10


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"max_steps": 300}, 30),
        ({"max_steps": 301}, 31),
        ({"max_steps": 50}, 10),
        ({"max_steps": 50, "save_steps": 7}, 7),
        ({"max_steps": 50, "save_steps": None}, None),
        ({"max_steps": 50, "algorithm": "ppo", "ppo": {"num_iterations": 4}}, 12),
        ({"max_steps": 50, "trainer": {"num_iterations": 3}}, 12),
        ({"max_steps": 50, "trainer": {"num_iterations": "three"}}, 10),  # refused elsewhere
    ],
    ids=[
        "a tenth",
        "rounded up",
        "at least 10",
        "stated",
        "none",
        "whole PPO batches",
        "whole GRPO batches",
        "not a number",
    ],
)
def test_checkpoints_are_a_tenth_of_the_phase_apart(settings, steps):
    assert load_recipe({"prover": settings}).prover.checkpoint_steps == steps


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"eval_steps": 7}, 7),
        # 200 solutions count as one batch of 512. Of 100 batches, 17 evaluations would be 15 %; a tenth of the phase
        # is enough.
        ({"max_steps": 100, "prompts_per_step": 64}, 10),
        # 60 batches of 128: 200 solutions count as 1.56 batches, and 6 evaluations as 9.4 of the 69.4. The first is at
        # step 0.
        ({"max_steps": 60}, 12),
        # 28 batches, half of them of the helpful role: 4 evaluations are 12.5 % of all sampling; the first is at step
        # 0.
        ({"max_steps": 14, "prompts_per_step": 64, "roles": "separate", "lora": {}}, 5),
        # 14 batches: two evaluations, at the beginning and at the end.
        ({"max_steps": 14, "prompts_per_step": 64}, 14),
        # Half as many batches as steps.
        ({"max_steps": 120, "algorithm": "ppo", "ppo": {"num_iterations": 2}}, 24),
    ],
    ids=str,
)
def test_automatic_evaluations_take_a_small_share_of_the_sampling(settings, steps):
    assert load_recipe({"prover": settings}).prover.evaluation_steps == steps


@f.section
class Described:
    number: Annotated[int, f.Sets()] = 1
    """Text over
    two lines."""
    plain: int = 2


@f.section
class Inherits(Described):
    names: list[str] = Field(default_factory=list)
    """Names."""


def test_the_text_below_a_field_is_its_description_also_where_it_is_inherited():
    described = {name: info.description for name, info in f.fields_of(Inherits).items()}
    assert described == {"number": "Text over two lines.", "plain": None, "names": "Names."}
    assert f.marked_keys(Inherits, f.Sets) == ["number"]
    assert Inherits() == Inherits(number=1, plain=2, names=[])
