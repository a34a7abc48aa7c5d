"""Plans for a graphics card that this machine does not have."""

import importlib.util
import re

import pytest
import torch

from pvg_hf import load_recipe
from pvg_hf.check.graphics_cards import CARDS, card_of_device, find_card, peak_flops
from pvg_hf.check.plan import describe_plan
from pvg_hf.check.round_plans import plan_rounds
from pvg_hf.config import RecipeError
from pvg_hf.data.problems import GameProblems


@pytest.mark.parametrize(
    ("name", "found"), [("rtx4090", "rtx4090"), ("RTX 4090", "rtx4090"), ("A100 80GB", "a100-80gb"), ("t4", "t4")]
)
def test_a_card_is_found_by_its_name(name, found):
    assert find_card(name) is CARDS[found]


@pytest.mark.parametrize("name", ["rtx4900", "a100", ""])
def test_an_unknown_card_lists_the_known_ones(name):
    with pytest.raises(ValueError, match=f"`{name}`") as refused:
        find_card(name)
    assert all(f"`{known}`" in str(refused.value) for known in CARDS)


@pytest.mark.parametrize(
    ("device_name", "found"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GeForce RTX 3060 Ti", None),
        ("NVIDIA RTX A6000", "a6000"),
        ("Tesla T4", "t4"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("AMD Instinct MI300X", None),
    ],
)
def test_a_card_is_found_by_the_name_of_its_device(device_name, found):
    assert card_of_device(device_name) is (found and CARDS[found])


def test_a_processor_has_no_peak():
    assert peak_flops(torch.device("cpu")) is None


def test_every_card_is_plausible():
    for card in CARDS.values():
        assert 1e13 < card.half * 1e12 < 1e16
        assert 2**32 < card.num_bytes < 2**38


@pytest.mark.parametrize(
    ("name", "num_sms", "clock", "operations"),
    [
        ("rtx3060", 28, 1.777, 512),
        ("rtx3090", 82, 1.695, 512),
        ("rtx4060", 24, 2.46, 512),
        ("rtx4080", 76, 2.505, 512),
        ("rtx4090", 128, 2.52, 512),
        ("rtx5090", 170, 2.407, 512),
        ("t4", 40, 1.59, 1024),
        ("l4", 58, 2.04, 1024),
        ("a10", 72, 1.695, 1024),
        ("a10g", 80, 1.71, 512),
        ("a6000", 84, 1.8, 1024),
        ("l40s", 142, 2.52, 1024),
        ("a100-40gb", 108, 1.41, 2048),
        ("a100-80gb", 108, 1.41, 2048),
        ("h100", 132, 1.83, 4096),
        ("h200", 132, 1.83, 4096),
    ],
)
def test_peak_rates_follow_from_units_and_clocks(name, num_sms, clock, operations):
    """GHz, and operations of an SM in a clock."""
    assert CARDS[name].half == pytest.approx(num_sms * clock * operations / 1000, rel=0.015)


def test_every_card_was_recalculated():
    (marks,) = [mark for mark in test_peak_rates_follow_from_units_and_clocks.pytestmark if mark.name == "parametrize"]
    assert {row[0] for row in marks.args[1]} == CARDS.keys()


def test_weights_are_planned_as_the_card_holds_them(values, monkeypatch):
    recipe = load_recipe(values, ["device=auto"])
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    world = GameProblems.load(recipe)
    here, there = plan_rounds(recipe, world)[0], plan_rounds(recipe, world, CARDS["l4"])[0]
    assert here.sizes["prover"].weight_bytes == 4  # on a processor
    assert there.sizes["prover"].weight_bytes == 4  # trained as a whole
    lora = load_recipe(values, ["device=auto", "prover.lora={}"])
    adapted = plan_rounds(lora, world, CARDS["l4"])[0]
    assert adapted.sizes["prover"].weight_bytes == 2
    assert adapted.amounts.memory == CARDS["l4"].num_bytes


def test_a_machine_without_a_gpu_plans_for_one(values, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    recipe = load_recipe(values, ["device=cuda"])
    with pytest.raises(RecipeError, match="`device` is `cuda`"):
        describe_plan(recipe)
    plan = " ".join(describe_plan(recipe, CARDS["rtx3060"]).split())
    assert "rtx3060 (not this one)" in plan
    assert "not measured yet. Very roughly" in plan


def test_a_processor_has_a_rough_time_for_players_of_some_size(values, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    large = ["prover.scratch.model_type=llama", "prover.scratch.config={hidden_size: 1024, num_hidden_layers: 8}"]
    plan = " ".join(describe_plan(load_recipe(values, large)).split())
    assert re.search(r"Very roughly [\d.]+ \w+ in all, if 20% of \d+ GFLOP/s, which products of matrices reach", plan)
    assert "Very roughly" not in " ".join(describe_plan(load_recipe(values)).split())


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
    assert "does not support bfloat16" in " ".join(describe_plan(recipe, CARDS["t4"]).split())
    assert "does not support bfloat16" not in " ".join(describe_plan(recipe, CARDS["l4"]).split())


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["prover.generation=vllm_colocate"], "`prover.generation` needs vLLM"),
        (["verifier.quantization=4bit", "verifier.lora={}"], "`verifier.quantization` needs bitsandbytes"),
        (["logging.report_to=[wandb]"], "`logging.report_to` needs wandb"),
    ],
)
def test_packages_that_are_missing_here_are_a_note_for_a_card(overrides, key, values, monkeypatch):
    """The other machine may have them."""
    here = importlib.util.find_spec
    absent = ("vllm", "bitsandbytes", "wandb")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name in absent else here(name, *rest))
    for module in ("check.plan", "check.machine", "models.quantization"):
        monkeypatch.setattr(f"pvg_hf.{module}.find_spec", importlib.util.find_spec)
    recipe = load_recipe(values, ["device=auto", *overrides])
    plan = " ".join(describe_plan(recipe, CARDS["l4"]).split())
    assert key in plan
    assert "not installed on this machine" in plan
    with pytest.raises(RecipeError, match=r"installed|bitsandbytes"):
        describe_plan(recipe)
