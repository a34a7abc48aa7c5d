import pytest

from pvg_hf import load_recipe
from pvg_hf.game.play import pending_phases
from pvg_hf.models.hardware import Hardware
from pvg_hf.preflight.machine import check_generation
from pvg_hf.preflight.players import check_shared_base
from pvg_hf.run.schedule import schedule
from pvg_hf.trainers.arguments import TrainerRun, prover_arguments


@pytest.mark.parametrize("generation", ["transformers", "continuous"])
def test_engines_that_are_always_there(generation, context_of):
    assert list(check_generation(context_of(f"prover.generation={generation}"))) == []


@pytest.mark.parametrize("generation", ["vllm_colocate", "vllm_server"])
def test_vllm_is_refused_where_it_is_missing_or_wrong(generation, context_of):
    overrides = [f"prover.generation={generation}", "prover.quantization=4bit", "prover.lora={}"]
    missing, rounded = check_generation(context_of(*overrides))
    assert "vLLM is not installed: `pip install 'pvg_hf[vllm]'`" in missing
    assert "in 4 bits an adapter is rounded away" in rounded


def test_vllm_in_the_same_process_plays_a_phase_at_a_time(values):
    recipe = load_recipe(values, ["prover.generation=vllm_colocate"])
    phases = schedule(recipe)
    with pytest.raises(ValueError, match=r"`python scripts/run_phases.py RECIPE`"):
        pending_phases(recipe, phases)
    assert pending_phases(recipe, phases[:1]) == phases[:1]


def test_deepspeed_plays_a_phase_at_a_time(values, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    recipe = load_recipe(values)
    phases = schedule(recipe)
    with pytest.raises(ValueError, match=r"The launcher starts DeepSpeed.*`python scripts/run_phases.py RECIPE`"):
        pending_phases(recipe, phases)
    assert pending_phases(recipe, phases[:1]) == phases[:1]


def test_continuous_batching_leaves_the_weights_in_their_type(values, tmp_path):
    recipe = load_recipe(values, ["prover.generation=continuous"])
    assert prover_arguments(recipe, TrainerRun(tmp_path, Hardware.here("cpu"))).bf16 is False


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
        ([*BOTH, "prover.warmup={}"], ["`prover` has weights of its own"]),
    ],
)
def test_a_base_is_shared_by_players_on_the_same_model(overrides, parts, context_of):
    mistakes = list(check_shared_base(context_of(*overrides)))
    assert len(mistakes) == len(parts)
    for mistake, part in zip(mistakes, parts, strict=True):
        assert part in mistake
