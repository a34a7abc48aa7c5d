"""Recipes: defaults, overrides, rounds, and all mistakes reported together."""

import pytest
import yaml

from pvg_hf.config import RecipeError, load_recipe
from pvg_hf.config.load import dump_recipe, load_kept_recipe
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.core.roles import Role


def test_default_recipe_is_read_back_unchanged(tmp_path):
    recipe = load_recipe({})
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe.to_dict()))
    assert load_recipe(path) == recipe


def test_every_shipped_recipe_loads(repository):
    recipes = [
        path
        for path in sorted((repository / "recipes").rglob("*.yaml"))
        if path.parent.name not in ("accelerate", "messages")
    ]
    assert len(recipes) >= 4
    for path in recipes:
        assert load_recipe(path).name == path.stem


def test_later_override_wins_and_yaml_numbers_are_read():
    recipe = load_recipe(
        {"prover": {"beta": 0.1}}, ["prover.learning_rate=1e-5", "prover.beta=0.2", "prover.beta=0.3"]
    )
    assert recipe.prover.learning_rate == 1e-5
    assert recipe.prover.beta == 0.3


def test_rounds_section_overrides_single_rounds():
    recipe = load_recipe(
        {"prover": {"beta": 0.1}, "rounds": {1: {"prover": {"beta": 0.5}}}}, ["rounds.2.seed=7", "num_rounds=3"]
    )
    assert [recipe.for_round(k).prover.beta for k in range(3)] == [0.1, 0.5, 0.1]
    assert recipe.for_round(2).seed == 7


def test_all_mistakes_are_reported_together():
    with pytest.raises(RecipeError) as caught:
        load_recipe(
            {
                "verifer": {},
                "prover": {"learnig_rate": 1.0, "num_generations": 1, "lora": {"rank": 3}},
                "split": {"heldout_share": 50},
                "noise": {"epsilon": 0.5},
            }
        )
    message = str(caught.value)
    assert "6 mistake(s)" in message
    assert "Unknown key `learnig_rate` in section `prover`. Did you mean `learning_rate`?" in message
    assert "Unknown key `verifer`. Did you mean `verifier`?" in message
    assert "Unknown key `rank` in section `prover.lora`." in message
    for name in ("`split.heldout_share`", "`noise.epsilon`", "`prover.num_generations`"):
        assert name in message


def test_mistakes_in_rounds_come_with_the_others_and_their_place():
    with pytest.raises(RecipeError) as caught:
        load_recipe(
            {
                "verifer": {},
                "num_rounds": 3,
                "prover": {"beta": -1, "temperature": 0},
                "rounds": {
                    0: {"qqq": 1},
                    1: {"prover": {"betaa": 1, "lora": {"rank": 3}}, "noise": {"rho0": 0.6, "rho1": 0.5}},
                    2: {"prover": {"beta": -2, "max_steps": 0}},
                },
            }
        )
    count, *mistakes = str(caught.value).splitlines()
    assert count == "The recipe has 9 mistake(s):"
    assert [mistake[: mistake.index("`", 3) + 1] for mistake in mistakes if not mistake.startswith("- Unknown")] == [
        "- `prover.beta`",
        "- `prover.temperature`",
        "- `rounds.1.noise`",
        "- `rounds.2.prover.max_steps`",
        "- `rounds.2.prover.beta`",
    ]
    unknown = [mistake for mistake in mistakes if mistake.startswith("- Unknown")]
    assert unknown[0] == "- Unknown key `verifer`. Did you mean `verifier`?"
    assert unknown[1].startswith("- Unknown key `qqq` in section `rounds.0`. Known are `name`, `seed`")
    assert set(unknown[2:]) == {
        "- Unknown key `betaa` in section `rounds.1.prover`. Did you mean `beta`?",
        "- Unknown key `rank` in section `rounds.1.prover.lora`. Known are `r`, `alpha`, `dropout`, `target_modules`.",
    }


@pytest.mark.parametrize("override", [{"prover": {"beta": -1}}, {"prover": {"beta": -1, "max_steps": 9}}])
def test_a_mistake_repeated_in_a_round_is_reported_twice(override):
    """If it were reported once and corrected at the top only, it would be reported again."""
    with pytest.raises(RecipeError, match=r"2 mistake\(s\)(.|\n)*`prover\.beta`(.|\n)*`rounds\.1\.prover\.beta`"):
        load_recipe({"prover": {"beta": -1}, "rounds": {1: override}})


def test_an_override_of_a_round_does_not_correct_a_mistake_at_the_top():
    with pytest.raises(RecipeError, match=r"1 mistake\(s\):\n- `prover\.beta`"):
        load_recipe({"prover": {"beta": -1}, "rounds": {1: {"prover": {"beta": 0.1}}}})


def test_overrides_of_rounds_that_are_not_played_are_errors():
    rounds = {"rounds": {1: {"prover": {"beta": 0.1}}, 2: {}, 5: {}}}
    with pytest.raises(RecipeError, match=r"`rounds`: round 2, 5 .*`num_rounds` is 2") as caught:
        load_recipe({**rounds, "prover": {"betaa": 1}})
    assert "2 mistake(s)" in str(caught.value)
    assert load_recipe(rounds, ["num_rounds=6"]).for_round(1).prover.beta == 0.1


@pytest.mark.parametrize(
    ("rounds", "part"),
    [([1], "`rounds`"), ({1: 3}, "`rounds.1`"), ({"first": {}}, "`rounds.first"), ({-1: {}}, "`rounds.-1")],
)
def test_rounds_of_another_form_are_mistakes(rounds, part):
    with pytest.raises(RecipeError, match=r"1 mistake\(s\)") as caught:
        load_recipe({"rounds": rounds})
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"prover": {"max_steps": 3.7}}, "prover.max_steps"),
        ({"prover": {"max_steps": "many"}}, "prover.max_steps"),
        ({"noise": {"checker": {}, "epsilon": 0.1}}, "`rho0`, `rho1`"),
        ({"noise": {"checker": {}, "resample": "step"}}, "`resample: step`"),
        ({"noise": {"applies_to": "both", "soft_labels": True}}, "must then be `verifier`"),
        ({"noise": {"level": "pair", "soft_labels": True}}, "`level: pair`"),
        ({"noise": {"schedule": {}}}, "`linear` needs `length`"),
        ({"noise": {"schedule": {"kind": "cyclic", "length": 3, "period": 2}}}, "does not take `length`"),
        ({"noise": {"checker": {"budget": {"total": 0}}}}, "greater than 0"),
        ({"noise": {"checker": {"tiers": {"balanced": {"timeout": 1}}}}}, "less than 1"),
        ({"noise": {"checker": {"tiers": {"blanced": {}}}}}, "Did you mean `balanced`"),
        ({"noise": {"checker": {"tier": "blanced"}}}, "'balanced' or 'slow_precise'"),
        ({"noise": {"checker": {"escalation_policy": "sometimes"}}}, "'always' or 'never'"),
        ({"noise": {"checker": {"slices": {3: {}}}}}, "`slices` needs `slice_by`"),
        ({"noise": {"checker": {"slice_by": "x", "slices": {3: {"teer": 1}}}}}, "Did you mean `tier`"),
        ({"noise": {"checker": {"base": "command"}}}, "together, or neither"),
        (
            {
                "noise": {
                    "checker": {
                        "tiers": {"balanced": {"timeout_duration": {"kind": "uniform", "min_ms": 2, "max_ms": 1}}}
                    }
                }
            },
            "must not be above `max_ms`",
        ),
        ({"noise": {"rho0": 0.6, "rho1": 0.5}}, "below 1"),
        ({"noise": {"epsilon": 0.1, "rho0": 0.1}}, "either"),
        ({"data": {"solutions_per_problem": 3}}, "multiple of 2"),
        ({"rounds": {1: {"prover": {"betaa": 1}}}}, "betaa"),
        ({"name": "a/b"}, "name"),
        ({"prover": {"roles": "both"}}, "prover.roles"),
        ({"logging": {"report_to": ["tensorbord"]}}, "logging.report_to.0"),
        ({"logging": {"report_to": ["tensorbord"]}}, "'trackio', 'wandb' or 'tensorboard'"),
    ],
)
def test_bad_values_are_named(values, part):
    with pytest.raises(RecipeError, match=part.replace(".", r"\.")):
        load_recipe(values)


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [1,"])
def test_files_that_are_not_recipes_are_errors(tmp_path, text):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=r"recipe\.yaml"):
        load_recipe(path)


def test_a_missing_file_and_an_unreadable_override_are_errors(tmp_path):
    with pytest.raises(RecipeError, match="No such file"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(RecipeError, match=r"section\.key=value"):
        load_recipe({}, ["prover.beta"])


REFUSED = {
    "name is the folder above": ("name: ..", ["`name`", "'..'"]),
    "name is the folder itself": ("name: .", ["`name`"]),
    "name is the lock": ("name: .lock", ["`name`", "'.lock'"]),
    "name is too long": (f"name: {'x' * 300}", ["`name`", "302 characters"]),
    "name is no folder's": ("name: a b", ["`name`", "letters, digits", "'a b'"]),
    "name off": ("name: off", ["`name`", "quote it", "False"]),
    "name is a number": ("name: 7", ["`name`", "quote it", "7"]),
    "name of bytes": ("name: !!binary eA==", ["!!binary", "line 1"]),
    "truth value as a rate": ("prover: {learning_rate: yes}", ["`prover.learning_rate`", "a number", "True"]),
    "truth value as a count": ("num_rounds: on", ["`num_rounds`", "whole number", "True"]),
    "truth value or auto": ("prover: {save_steps: on}", ["`prover.save_steps`: must be a whole number or 'auto'"]),
    "truth value in a list": ("sweep: {seeds: [yes]}", ["`sweep.seeds.0`", "True"]),
    "truth value as a round": ("rounds: {on: {}}", ["`rounds.1`", "True"]),
    "truth value in a round": ("rounds: {1: {prover: {beta: on}}}", ["`rounds.1.prover.beta`", "True"]),
    "number as a truth value": ("verifier: {shares_base: 1}", ["`verifier.shares_base`", "true or false", "1"]),
    "text as a truth value": ("verifier: {shares_base: 'yes'}", ["`verifier.shares_base`", "true or false", "'yes'"]),
    "time as a rate": ("prover: {learning_rate: 12:30}", ["`prover.learning_rate`", "'12:30'"]),
    "time as a count": ("num_rounds: 1:30", ["`num_rounds`", "'1:30'"]),
    "octal": ("seed: 010", ["`seed`", "'010'"]),
    "number as a key": ("task: {1: 2}", ["Unknown key `1` in section `task`", "`options`"]),
    "part of a round": ("num_rounds: 2.0", ["`num_rounds`", "whole number", "2.0"]),
    "mistaken rate": ("verifier: {learning_rate: 1e6}", ["`verifier.learning_rate`", "at most 10", "1000000"]),
    "mistaken temperature": ("prover: {temperature: 1e9}", ["`prover.temperature`", "at most 100", "1000000000"]),
    "mistaken weight": ("prover: {beta: 1e9}", ["`prover.beta`", "at most 1,000", "1000000000"]),
    "mistaken factor": ("verifier: {likelihood_scale: 1.0e+9}", ["`verifier.likelihood_scale`", "at most 1,000,000"]),
    "name is a date": ("name: 2020-01-01", ["`name`", "quote it", "2020"]),
    "key twice": ("prover:\n  beta: 0.1\nseed: 1\nprover:\n  beta: 0.2\n", ["`prover`", "lines 1 and 4"]),
    "key of a section twice": ("prover:\n  beta: 0.1\n  beta: 0.2\n", ["`beta`", "lines 2 and 3"]),
    "infinite": ("prover: {weight_decay: .inf}", ["`prover.weight_decay`", "inf"]),
    "no number": ("prover: {temperature: .nan}", ["`prover.temperature`", "nan"]),
    "infinite in a mapping": ("prover: {trainer: {adam_epsilon: .inf}}", ["`prover.trainer.adam_epsilon`"]),
    "infinite in a round": ("rounds: {1: {prover: {beta: -.inf}}}", ["`rounds.1.prover.beta`"]),
    "huge": (f"verifier: {{max_steps: 1{'0' * 30}}}", ["`verifier.max_steps`", "64 bits"]),
    "count too large": ("verifier: {max_length: 10000000000}", ["`verifier.max_length`", "1,000,000,000"]),
    "endless steps": ("prover: {max_steps: 1000000000}", ["`prover.max_steps`", "10,000,000"]),
    "endless attempts": ("noise: {checker: {max_attempts: 1000000000}}", ["`noise.checker.max_attempts`", "10,000"]),
    "endless attempts in a slice": (
        "noise: {checker: {slice_by: a, slices: {b: {max_attempts: 1000000000}}}}",
        ["`noise.checker.slices.b.max_attempts`", "10,000"],
    ),
    "endless solutions": (
        "mint: {test_solutions_per_problem: 1000000}",
        ["`mint.test_solutions_per_problem`", "10,000"],
    ),
    "endless resamples": ("evaluation: {bootstrap_samples: 1000000}", ["`evaluation.bootstrap_samples`", "100000"]),
    "too many rounds": ("num_rounds: 1000000000", ["`num_rounds`", "100,000"]),
    "group too large": ("prover: {num_generations: 1000000000}", ["`prover.num_generations`", "1,000,000"]),
    "rank too large": ("prover: {lora: {r: 1000000}}", ["`prover.lora.r`", "10,000"]),
    "unreadable number": (f"seed: 1{'0' * 5000}", ["cannot be read", "digits"]),
    "no such date": ("name: 2020-99-99", ["cannot be read", "month"]),
    "NUL in a path": ('output_dir: "a\\0b"', ["`output_dir`"]),
    "variable in a path": ("output_dir: $HOME/runs", ["`output_dir`", "`$HOME`"]),
    "unknown home": ("output_dir: ~nobody-of-this-name/runs", ["`output_dir`", "`~nobody-of-this-name`"]),
    "path too long": (f"task: {{path: {'x' * 300}}}", ["`task.path`", "255"]),
    "URL as a folder": ("output_dir: s3://bucket/runs", ["`output_dir`", "URL"]),
    "URL as a file": ("bootstrap: {import_from: 'https://host/a.jsonl'}", ["`bootstrap.import_from`", "URL"]),
    "mapping as a folder": ("output_dir: {runs 1}", ["`output_dir`", "mapping", "quote it"]),
    "list as a folder": ("output_dir: [runs 1]", ["`output_dir`", "list", "quote it"]),
    "time as a folder": ("output_dir: 2020-01-01 10:00:00", ["`output_dir`", "date", "quote it"]),
    "deep": (f"task: {'[' * 5000}", ["nested too deeply"]),
    "deep and closed": (f"task: {'[' * 5000}{']' * 5000}", ["nested too deeply"]),
    "no section": ("prover: 3", ["`prover`", "section", "3"]),
    "empty": ("", ["r.yaml", "empty"]),
    "comments alone": ("# play this\n\n", ["r.yaml", "empty"]),
    "list": ("- prover", ["r.yaml", "list"]),
    "tag": ("name: !!python/object/apply:os.getcwd []", ["not valid YAML", "python/object/apply"]),
    "no text as key": ("? [1]\n: 2", ["not valid YAML"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_about_nonsense_are_short_lines(case, tmp_path):
    text, parts = REFUSED[case]
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert [part for part in parts if part not in str(caught.value)] == []
    assert max(map(len, str(caught.value).splitlines())) < 1000


@pytest.mark.parametrize(
    ("written", "value"),
    [("1e-5", 1e-5), ("1E+0", 1.0), ("+.5", 0.5), ("5.e-1", 0.5), ("'0.5'", 0.5), ("0", 0.0), ("1_0", 10.0)],
)
def test_all_forms_of_a_number_are_read(written, value):
    assert load_recipe({}, [f"prover.beta={written}"]).prover.beta == value


@pytest.mark.parametrize("name", ["12:30", "007", "010"])
def test_what_yaml_1_1_would_take_for_another_number_stays_text(name, tmp_path):
    recipe = load_recipe({}, [f"task.options.name={name}"])
    assert recipe.task.options == {"name": name}
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_recipe(recipe))
    assert load_recipe(path) == recipe


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("/a/my runs", "/a/my runs"),
        ("/a/my, runs#1", "/a/my, runs#1"),
        (" it's {a} [b] ", "it's {a} [b]"),
        ("/a/größe \U0001f9ee", "/a/größe \U0001f9ee"),
        ('"/a/my runs #1"', "/a/my runs #1"),
        ("'a: b'", "a: b"),
    ],
)
def test_text_in_an_override_is_used_as_it_is_written(written, value):
    assert load_recipe({}, [f"output_dir={written}"]).output_dir == value


@pytest.mark.parametrize(
    "override",
    [
        "output_dir=/a/my runs #1",
        'output_dir="/a/my runs" #1',
        "task.path=#1",
        "task.options={path: a} #1",
        "output_dir=&a runs",
        "output_dir=--- runs",
        "output_dir=a\n  b",
    ],
)
def test_an_override_of_which_yaml_would_drop_something_is_refused(override):
    with pytest.raises(RecipeError, match=override.partition("=")[0]) as caught:
        load_recipe({}, [override])
    assert "quotes" in str(caught.value)


@pytest.mark.parametrize("key", ["name", "task.path", "prover.reward", "data.mixture", "prover.q"])
def test_a_long_value_is_shortened_in_the_error(key, tmp_path):
    with pytest.raises(RecipeError) as caught:
        load_recipe({}, [f"{key}={'q ' * 500_000}", f"{'z' * 100_000}=3", "num_rounds=many"])
    assert len(str(caught.value)) < 5000


def test_aliases_of_aliases_take_no_time(tmp_path):
    path = tmp_path / "r.yaml"
    lines = ["a0: &a0 [1]"] + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 12)]
    path.write_text("\n".join(lines))
    with pytest.raises(RecipeError, match="Unknown key `a0`") as caught:
        load_recipe(path)
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-32"])
def test_another_encoding_is_named_with_its_file(encoding, tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes("seed: 1  # größer\n".encode(encoding))
    with pytest.raises(RecipeError, match=r"r\.yaml .*UTF-8.* line 1 (.|\n)*iconv"):
        load_recipe(path)


def test_a_byte_order_mark_is_ignored(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("seed: 7\n", encoding="utf-8-sig")
    assert load_recipe(path).seed == 7


def test_a_tilde_is_replaced_by_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    recipe = load_recipe({}, ["output_dir=~/runs", "task.path=~/gsm8k", "verifier.model='~'"])
    assert recipe.output_dir == f"{tmp_path}/runs"
    assert recipe.task.path == f"{tmp_path}/gsm8k"
    assert recipe.verifier.model == str(tmp_path)


def test_merge_keys_of_yaml_may_be_overridden(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(
        "verifier: &player {learning_rate: 0.1, max_steps: 3}\nprover: {<<: *player, max_steps: 4}\nseed: 1\n"
    )
    recipe = load_recipe(path)
    assert (recipe.prover.learning_rate, recipe.prover.max_steps, recipe.verifier.max_steps) == (0.1, 4, 3)


def test_numbers_as_keys_of_a_free_mapping_stay_numbers(tmp_path):
    options = {"weights": {1: 0.5, "a": [1, {2: 3}]}}
    recipe = load_recipe({"prover": {"reward_options": options}, "rounds": {1: {"prover": {"beta": 0.1}}}})
    assert recipe.for_round(1).prover.reward_options == options
    recipe.task.prompts = {Role.BASE: "{{ problem }}"}
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe.to_dict(), sort_keys=False))
    assert load_recipe(path) == recipe


def test_an_empty_mapping_clears_a_mapping_and_leaves_a_section():
    values = {"prover": {"reward_options": {"bonus": 1.0}, "lora": {"r": 4}}, "task": {"options": {"num_test": 3}}}
    recipe = load_recipe(values, ["prover.reward_options={}", "prover.lora={}", "prover={}"])
    assert recipe.prover.reward_options == {}
    assert recipe.prover.lora.r == 4
    assert recipe.task.options == {"num_test": 3}
    of_round = {**values, "rounds": {1: {"prover": {"reward_options": {}}}}}
    assert load_recipe(of_round).for_round(1).prover.reward_options == {}
    added = load_recipe(values, ["prover.reward_options={}", "prover.reward_options.floor=2"])
    assert added.prover.reward_options == {"floor": 2}


def test_a_kept_recipe_is_read_back(tmp_path):
    recipe = load_recipe({"prover": {"beta": 0.07}, "rounds": {1: {"prover": {"beta": 0.1}}}})
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_recipe(recipe))
    assert load_kept_recipe(path) == load_recipe(path) == recipe


@pytest.mark.parametrize("text", ["", "\n", "name: game\n", "# a comment\n", "name: [", "- 1\nrounds: {}\n"])
def test_a_kept_recipe_that_was_cut_is_damaged(text, tmp_path):
    """Missing keys are not replaced by the defaults."""
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(DamagedFileError, match="Restore the recipe") as caught:
        load_kept_recipe(path)
    assert caught.value.path == path
