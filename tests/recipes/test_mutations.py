"""Recipes changed at random: each is refused with a message, or accepted; none of their code runs."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pvg_hf.check.plan import describe_plan
from pvg_hf.config import load_recipe
from pvg_hf.config.load import dump_recipe

VALUES = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        3.5,
        10**9,
        10**30,
        float("inf"),
        float("nan"),
        "",
        " ",
        "on",
        "é",
        "\0",
        "x" * 10**5,
    ),
    *([], [[1]], [None], {}, {"a": 1}, {1: 2}, "..", "/", "~", "$HOME", "/dev/null", "a:b", "sys:exit", "os:environ"),
    *("{{ 'x' * 10 ** 9 }}", "{% include 'x' %}", "2020-01-01", "!!python/object/apply:os.getcwd []", "grade", "auto"),
]
BYTES = [
    b"\xff",
    b"\0",
    b"\t",
    b"[" * 3000,
    b"&a *a",
    b"\n? ",
    b"!!python/object/apply:os.system ['touch PWNED']",
    b"\n---\n",
    b"'",
]


def leaves(values: Any, place: tuple = ()) -> list[tuple]:
    if not isinstance(values, dict) or not values:
        return [place]
    return [leaf for key, value in values.items() for leaf in ((*place, key), *leaves(value, (*place, key)))]


def mutated(text: str, rng: random.Random) -> tuple[bytes, dict[tuple, Any]]:
    """Text of a recipe with values, keys or some bytes changed, and the new values and keys by their place."""
    if rng.random() < 0.3:
        at = rng.randrange(len(text))
        return text.encode()[:at] + rng.choice(BYTES) + text.encode()[at:], {}
    values, changed = yaml.safe_load(text), {}
    for _ in range(rng.choice((1, 1, 2))):
        *path, key = rng.choice([leaf for leaf in leaves(values) if leaf])
        section, place = values, []
        for name in path:
            if isinstance(section.get(name), dict):
                section, place = section[name], [*place, name]
        if rng.random() < 0.2:
            key, value = f"{key}{rng.choice('aq_')}", section.pop(key, None)
        else:
            value = rng.choice(VALUES)
        section[key] = value
        place = (*place, key)
        # A later change can replace the section of an earlier one.
        changed = {**{old: was for old, was in changed.items() if old[: len(place)] != place}, place: value}
    return yaml.safe_dump(values).encode(), changed


def is_kept(values: Any, place: tuple, value: Any) -> bool:
    """Whether a loaded recipe has the value that was written, and not another one, such as 1.0 for `true`."""
    for name in place:
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    if isinstance(value, dict):  # with defaults for what it leaves out
        return isinstance(values, dict)
    return values == value and isinstance(values, bool) == isinstance(value, bool)


def shipped(repository: Path) -> list[Path]:
    return [
        path
        for path in sorted((repository / "recipes").rglob("*.yaml"))
        if path.parent.name not in ("accelerate", "messages")
    ]


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "PWNED").exists()


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 8))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_recipe_is_read_as_written_or_refused_by_the_names_of_what_changed(repository, in_folder, seed):
    rng, recipes, num_read, num_refused = random.Random(seed), shipped(repository), 0, 0
    for _ in range(60):
        path = in_folder / "mutated.yaml"
        text, changed = mutated(rng.choice(recipes).read_text(), rng)
        path.write_bytes(text)
        try:
            recipe = load_recipe(path)
        except ValueError as err:
            num_refused += 1
            message = str(err)
            assert max(map(len, message.splitlines())) < 2000
            # A change of bytes has a file and a place, or it renamed a key or its value.
            named = [re.search(rf"[`.]{re.escape(str(name))}[`.]", message) for *_, name in changed]
            assert any(named) if changed else re.search(r"mutated\.yaml|mistake\(s\)", message), (changed, message)
            continue
        num_read += 1
        values = recipe.to_dict()
        assert [place for place, value in changed.items() if not is_kept(values, place, value)] == []
        path.write_text(dump_recipe(recipe))
        assert load_recipe(path) == recipe
    assert min(num_read, num_refused) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_plan_of_a_changed_recipe_succeeds_or_ends_with_a_message(in_folder, tiny_prover, seed):
    small = {
        "device": "cpu",
        "output_dir": "runs",
        "task": {"options": {"num_train": 80, "num_test": 6}, "prompts": {"helpful": "{{ problem }}"}, "few_shot": 1},
        "data": {"mixture": "latest"},
        "noise": {"checker": {"base": "grade", "critical": "difficulty >= 3", "budget": {"total": 100}}},
        "stopping": {"rule": "auto"},
        "verifier": {"model": str(tiny_prover), "max_steps": 10, "pairs_per_step": 4, "trainer": {"adam_beta1": 0.9}},
        "prover": {
            **{"model": str(tiny_prover), "max_steps": 5, "prompts_per_step": 4, "num_generations": 4},
            **{
                "max_completion_length": 64,
                "reward": "src",
                "reward_options": {},
                "top_p": 0.9,
                "trainer": {"epsilon": 0.2},
            },
        },
    }
    rng, refusals = random.Random(seed), []
    for _ in range(5):
        path = in_folder / "mutated.yaml"
        path.write_bytes(mutated(yaml.safe_dump(small), rng)[0])
        try:
            assert describe_plan(load_recipe(path)).startswith("Run folder")
        except ValueError as err:
            refusals.append(str(err))
    assert all(len(message) < 20_000 for message in refusals)
