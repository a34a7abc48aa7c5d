import pytest

from pvg_hf import load_recipe
from pvg_hf.check.contradictions import check_contradictions
from pvg_hf.check.loading import check_shared_type
from pvg_hf.check.machine import check_generation
from pvg_hf.core.project import install_extra
from pvg_hf.game.play import pending_phases
from pvg_hf.run.layout import schedule
from pvg_hf.trainers.arguments import TrainerRun, prover_arguments


@pytest.mark.parametrize("generation", ["transformers", "continuous"])
def test_engines_without_extra_packages_are_accepted(generation, recipe_of, hardware):
    assert list(check_generation(recipe_of(f"prover.generation={generation}"), hardware)) == []


@pytest.mark.parametrize("generation", ["vllm_colocate", "vllm_server"])
def test_vllm_that_is_missing_or_misconfigured_is_a_mistake(generation, recipe_of, hardware):
    overrides = [f"prover.generation={generation}", "prover.quantization=4bit", "prover.lora={}"]
    missing, rounded = check_generation(recipe_of(*overrides), hardware)
    assert "vLLM is not installed" in missing
    assert install_extra("vllm") in missing
    assert "`prover.quantization` is `4bit`" in rounded


@pytest.mark.parametrize(("generation", "number"), [("vllm_colocate", 1), ("vllm_server", 0), ("transformers", 0)])
def test_own_solutions_need_memory_that_is_released(generation, number, recipe_of, hardware):
    overrides = ["task.sneaky_sees=honest_solution", "task.honest_source=prover", f"prover.generation={generation}"]
    mistakes = check_generation(recipe_of(*overrides), hardware)
    assert sum("`task.honest_source` is `prover`" in mistake for mistake in mistakes) == number


def test_vllm_in_the_same_process_needs_a_process_for_each_phase(values):
    recipe = load_recipe(values, ["prover.generation=vllm_colocate"])
    phases = schedule(recipe)
    with pytest.raises(ValueError, match=r"`pvg play RECIPE --launcher 'accelerate launch'`"):
        pending_phases(recipe, phases)
    assert pending_phases(recipe, phases[:1]) == phases[:1]


def test_deepspeed_needs_a_process_for_each_phase(values, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    recipe = load_recipe(values)
    phases = schedule(recipe)
    with pytest.raises(ValueError, match=r"DeepSpeed.*`pvg play RECIPE --launcher 'accelerate launch'`"):
        pending_phases(recipe, phases)
    assert pending_phases(recipe, phases[:1]) == phases[:1]


def test_continuous_batching_keeps_the_type_of_the_weights(recipe_of, hardware, tmp_path):
    assert prover_arguments(recipe_of("prover.generation=continuous"), TrainerRun(tmp_path, hardware)).bf16 is False


BOTH = ["prover.lora={}", "verifier.lora={}", "verifier.shares_base=true"]


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (BOTH, []),
        (BOTH[1:], ["both players need adapters"]),
        (
            [*BOTH, "verifier.quantization=4bit"],
            ["`verifier.quantization` is `4bit`, and `prover.quantization` is `none`"],
        ),
        ([*BOTH, "verifier.model=arithmetic"], ["`verifier.model` is `arithmetic`"]),
        ([*BOTH, "prover.warmup={}"], ["`prover` makes its own weights"]),
    ],
)
def test_only_players_on_the_same_model_share_a_base(overrides, parts, recipe_of, hardware):
    recipe = recipe_of(*overrides)
    mistakes = [*check_contradictions(recipe), *check_shared_type(recipe, hardware)]
    assert len(mistakes) == len(parts)
    for mistake, part in zip(mistakes, parts, strict=True):
        assert part in mistake
