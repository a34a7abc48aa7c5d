"""The plan that `--plan` prints."""

import cProfile
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pvg_hf import load_recipe
from pvg_hf.check.graphics_cards import CARDS
from pvg_hf.check.plan import describe_plan
from pvg_hf.config import RecipeError


def test_a_plan_reports_mistakes_in_the_problems_with_the_others(values):
    recipe = load_recipe(values, ["split.stratify_by=colour", "prover.reward=srcc"])
    with pytest.raises(RecipeError, match=r"(?s)2 mistake\(s\).*colour.*srcc"):
        describe_plan(recipe)


def test_a_plan_shows_every_phase_within_80_columns_and_writes_nothing(values, tmp_path):
    plan = describe_plan(load_recipe(values, ["num_rounds=3", "rounds.1.prover.max_steps=7"]))
    lines = plan.splitlines()
    lines = lines[lines.index("") :]  # paths are in the lines above
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if "solutions on D_V" in line] == ["bootstrap", "mint", "mint", "mint"]
    assert [line for line in lines if line.startswith("Round")] == ["Round 0", "Round 1", "Round 2"]
    assert sum("at most 7 steps of 4 prompts x 4" in line for line in lines) == 1
    assert "~" not in plan
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("few_shot", "roles", "note"),
    [
        (2, "shared", "the prompts show 2 examples, but 1 of them in the sneaky role"),
        (1, "shared", None),
        (2, "helpful_only", None),
    ],
    ids=["one without a wrong solution", "each has one", "no sneaky role"],
)
def test_a_plan_says_how_many_examples_the_sneaky_role_is_shown(few_shot, roles, note, values):
    task = {"name": "tests.support.recall_task:ExemplifiedRecallTask", "few_shot": few_shot}
    plan = " ".join(describe_plan(load_recipe({**values, "task": task}, [f"prover.roles={roles}"])).split())
    assert (note or "") in plan
    assert ("the prompts show" in plan) == (note is not None)


def test_rounds_without_overrides_share_their_lines(values):
    assert "Rounds 0 to 4, each" in describe_plan(load_recipe(values, ["num_rounds=5"]))


def test_a_plan_states_the_verifiers_share_of_the_provers_pretraining(values, tiny_prover, tmp_path):
    for player, flops in (("prover", 4e12), ("verifier", 6e10)):
        folder = Path(shutil.copytree(tiny_prover, tmp_path / player))
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "pretraining_flops": flops}))
        values[player]["model"] = str(folder)
    plan = " ".join(describe_plan(load_recipe(values)).split())
    assert "the verifier took 1.5e-02 of the prover's operations (Kirchner et al.: 1e-3 to 1.6e-2 works" in plan


SCRATCH = "prover.scratch={config: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2}}"


@pytest.mark.parametrize(("overrides", "unknown"), [([], "the prover and the verifier"), ([SCRATCH], "the prover")])
def test_a_plan_says_which_pretraining_is_not_known(overrides, unknown, values, tiny_prover, tmp_path):
    folder = Path(shutil.copytree(tiny_prover, tmp_path / "stated"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "pretraining_flops": 1e9}))
    if overrides:
        values = {**values, **{player: {**values[player], "model": str(folder)} for player in ("prover", "verifier")}}
    plan = " ".join(describe_plan(load_recipe(values, overrides)).split())
    assert f"no share is known: the {unknown.removeprefix('the ')} is no well-known model" in plan


def test_a_plan_knows_the_pretraining_of_well_known_models(values, tiny_prover, tmp_path):
    """By their cards, 6 * .135e9 * 2e12 and 6 * .49e9 * 18e12 operations, also of a model that is warmed up."""
    for player, name in (("prover", "Qwen2.5-0.5B-Instruct"), ("verifier", "SmolLM2-135M")):
        values[player]["model"] = str(shutil.copytree(tiny_prover, tmp_path / name))
    for overrides in ([], ["prover.warmup={}"]):
        plan = " ".join(describe_plan(load_recipe(values, overrides)).split())
        assert "the verifier took 3.1e-02 of the prover's operations" in plan


def test_a_plan_of_very_many_rounds_does_not_check_each(values):
    """The first hundred rounds are checked one by one; further ones share lines and are counted."""

    def num_calls(num_rounds: int) -> int:
        recipe = load_recipe(values, ["device=auto", f"num_rounds={num_rounds}", "rounds.150.prover.max_steps=7"])
        profile = cProfile.Profile()
        plan = profile.runcall(describe_plan, recipe, CARDS["l4"])
        assert f"Rounds 151 to {num_rounds - 1}, each" in plan
        assert f"{1 + 4 * num_rounds} phases" in " ".join(plan.split())  # a long path wraps the line
        return sum(entry.callcount for entry in profile.getstats())

    num_calls(200)  # fill the caches
    # The mixture of the last round has a weight for each round before it, which takes 8 small calls to check.
    assert num_calls(20_000) - num_calls(200) < 10 * (20_000 - 200)


def test_finished_phases_are_counted_and_not_timed(values, tmp_path):
    recipe = load_recipe(values, ["num_rounds=3", "rounds.1.prover.max_steps=7"])
    assert "of them finished" not in " ".join(describe_plan(recipe).split())
    for place in (
        "pool/base",
        "verifier/round-000",
        "verifier/round-001",
        "prover/.round-001.partial",
        "pool/round-003",
    ):
        (tmp_path / "runs" / "planned" / place).mkdir(parents=True)
    assert "13 phases, 3 of them finished" in " ".join(describe_plan(recipe).split())


def test_a_plan_notes_unusual_settings(values):
    plan = describe_plan(
        load_recipe(values, ["mint.test_solutions_per_problem=4", "prover.max_completion_length=250"])
    )
    assert "best-of-8 will have no figure" in plan
    assert "`max_position_embeddings` = 256" in " ".join(plan.split())


@pytest.mark.parametrize(
    ("reward", "is_noted"),
    [
        ("tests.support.own_rules:pays_by_the_others", True),
        ("tests.support.own_rules:above_the_group", False),  # declared to be relative
    ],
)
def test_a_plan_notes_a_relative_reward_that_is_not_declared_so(reward, is_noted, values):
    plan = describe_plan(load_recipe(values, [f"prover.reward={reward}"]))
    assert ("@reward(is_relative=True)" in plan) == is_noted


@pytest.mark.parametrize(
    ("checker", "correction", "is_noted"),
    [
        ("{slice_by: difficulty, slices: {2: {noise_enabled: false}}}", "forward", True),
        ("{critical: difficulty == 2}", "forward", True),
        ("{slice_by: difficulty, slices: {2: {noise_enabled: false}}}", "none", False),
        ("{slice_by: difficulty}", "forward", False),
    ],
)
def test_a_plan_notes_that_a_correction_assumes_the_mean_of_unlike_slices(checker, correction, is_noted, values):
    overrides = [f"noise.checker={checker}", f"verifier.correction={correction}", "num_rounds=2"]
    plan = " ".join(describe_plan(load_recipe(values, overrides)).split())
    assert plan.count("`verifier.correction` assumes the mean of the rates") == is_noted
    assert "`prover.reward_correction` assumes" not in plan


def test_what_does_not_fit_is_noted_for_a_card_and_refused_on_a_cpu(values, monkeypatch):
    """
    The verifier has 200 billion weights, most of them in its embedding, and the disk has room for them. A kernel ends
    a process for which memory has run out, and a card's driver raises an error.
    """
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10**15))
    sizes = {"hidden_size": 2**17, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    values["verifier"]["scratch"] = {"model_type": "llama", "vocab_size": 1_000_000, "config": sizes}
    values["verifier"]["warmup"] = {"max_steps": 1}
    plan = " ".join(describe_plan(load_recipe({**values, "device": "auto"}), CARDS["h200"]).split())
    assert "Note: the verifier phase is estimated at" in plan
    lower = "In order of effect: `verifier.micro_batch_size` (lower, now auto); "
    assert lower in plan
    with pytest.raises(RecipeError, match="On a CPU, the verifier phase is estimated at") as refusal:
        describe_plan(load_recipe(values))
    assert lower in str(refusal.value)
    assert "and this machine has" not in " ".join(describe_plan(load_recipe({**values, "verifier": {}})).split())


def test_bfloat16_that_a_processor_emulates_is_noted(values, monkeypatch):
    values["prover"]["dtype"] = "bfloat16"
    for has_it in (True, False):
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda has_it=has_it: {"avx512_bf16": has_it})
        plan = " ".join(describe_plan(load_recipe(values)).split())
        assert ("`prover.dtype` is `bfloat16`, which this processor emulates" in plan) != has_it
        assert f"; bfloat16 {'computed' if has_it else 'emulated'}" in plan


def test_the_plan_states_how_programs_are_isolated(values):
    options = {"num_train": 60, "num_test": 6, "sandbox": "none"}
    players = {name: {"model": "functions"} for name in ("prover", "verifier")}
    recipe = load_recipe({**values, **players, "task": {"name": "functions", "options": options}})
    assert "Sandbox none: no isolation. Programs run with your rights" in " ".join(describe_plan(recipe).split())


def test_a_task_without_programs_has_no_sandbox_in_its_plan(values):
    assert "Sandbox" not in describe_plan(load_recipe(values))
