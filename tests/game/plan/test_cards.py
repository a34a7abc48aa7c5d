"""Plans for a graphics card that is not here."""

import subprocess
import sys

import pytest
import torch

from pvg_hf import load_recipe
from pvg_hf.config import RecipeError
from pvg_hf.game.plan import describe_plan
from pvg_hf.game.plan.cards import CARDS, find_card
from pvg_hf.game.plan.rounds import plan_rounds
from pvg_hf.game.world import World


@pytest.mark.parametrize(
    ("name", "found"), [("rtx4090", "rtx4090"), ("RTX 4090", "rtx4090"), ("A100 80GB", "a100-80gb"), ("t4", "t4")]
)
def test_a_card_by_its_name(name, found):
    assert find_card(name) is CARDS[found]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("rtx4900", "Did you mean `rtx4090`"), ("a100", "`a100-40gb` or `a100-80gb`"), ("mi300x", "Known are")],
)
def test_an_unknown_card_lists_the_known_ones(name, meant):
    with pytest.raises(ValueError, match=f"`{name}`") as refused:
        find_card(name)
    assert meant in str(refused.value)
    assert all(f"`{known}`" in str(refused.value) for known in CARDS)


def test_every_card_is_plausible():
    for card in CARDS.values():
        machine = card.machine(torch.bfloat16)
        assert 1e13 < machine.flops < card.half * 1e12
        assert 1e11 < machine.bandwidth < card.bandwidth * 1e9
        assert card.machine(torch.float32).flops < machine.flops
        assert 2**33 < card.num_bytes < 2**38


def test_weights_are_planned_as_the_card_holds_them(values, monkeypatch):
    recipe = load_recipe(values, ["device=auto"])
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    world = World.load(recipe)
    here, there = plan_rounds(recipe, world)[0], plan_rounds(recipe, world, CARDS["l4"])[0]
    assert here.sizes["prover"].weight_bytes == 4  # on a processor
    assert there.sizes["prover"].weight_bytes == 4  # trained as a whole
    lora = load_recipe(values, ["device=auto", "prover.lora={}"])
    adapted = plan_rounds(lora, world, CARDS["l4"])[0]
    assert adapted.sizes["prover"].weight_bytes == 2
    assert adapted.memory == CARDS["l4"].num_bytes
    assert adapted.players["prover"].machine == CARDS["l4"].machine(torch.bfloat16)


def test_a_machine_without_a_gpu_plans_for_one(values, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    recipe = load_recipe(values, ["device=cuda"])
    with pytest.raises(RecipeError, match="`device` is `cuda`"):
        describe_plan(recipe)
    plan = " ".join(describe_plan(recipe, CARDS["rtx3060"]).split())
    assert "rtx3060 (not measured)" in plan
    assert "No time was measured" in plan
    assert "GFLOP/s" not in plan


def test_a_phase_that_does_not_fit_names_the_card(values):
    huge = [
        "device=auto",
        "prover.scratch.model_type=llama",
        "prover.scratch.config={hidden_size: 8192, num_hidden_layers: 40}",
    ]
    plan = " ".join(describe_plan(load_recipe(values, huge), CARDS["rtx3060"]).split())
    assert "`rtx3060` has 12 GB" in plan


def test_a_recipe_for_the_processor_is_not_planned_for_a_card(values):
    with pytest.raises(RecipeError, match="`device` is `cpu`"):
        describe_plan(load_recipe(values), CARDS["t4"])


def test_a_card_without_bfloat16_is_noted(values):
    recipe = load_recipe(values, ["device=auto"])
    assert "no units for bfloat16" in " ".join(describe_plan(recipe, CARDS["t4"]).split())
    assert "no units for bfloat16" not in " ".join(describe_plan(recipe, CARDS["l4"]).split())


def test_for_belongs_to_plan(repository):
    script = [
        sys.executable,
        str(repository / "scripts" / "run_rounds.py"),
        str(repository / "recipes" / "quickstart.yaml"),
    ]
    ended = subprocess.run([*script, "--for", "t4"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "--plan" in ended.stderr
