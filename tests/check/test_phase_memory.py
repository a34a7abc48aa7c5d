"""Memory of whole phases."""

from dataclasses import replace

from pvg_hf.check.phase_costs import peak_memory
from tests.support.sized_players import SIZE, SIZES, TRAINING, WEIGHTS


def peak(amounts, phase):
    return peak_memory(phase, amounts, SIZES)


def test_weights_are_counted(amounts_of):
    assert peak(amounts_of(), "bootstrap") > WEIGHTS
    assert peak(amounts_of(), "mint") > 2 * WEIGHTS
    assert peak(amounts_of(), "evaluate") > WEIGHTS
    assert peak(amounts_of(), "verifier") > TRAINING


def test_a_verifier_that_scores_is_held_in_its_own_type(amounts_of):
    """It is in float32 here, even if its base is in bfloat16 below an adapter in training."""
    trained = {"verifier": replace(SIZE, weight_bytes=2)}
    assert peak_memory("evaluate", amounts_of(), trained) == peak(amounts_of(), "evaluate")


def test_the_reference_is_a_second_copy_without_adapters(amounts_of):
    with_reference, without = peak(amounts_of(), "prover"), peak(amounts_of("prover.beta=0"), "prover")
    assert without > TRAINING + WEIGHTS  # and the verifier's
    assert with_reference - without == WEIGHTS
    assert peak(amounts_of("prover.lora={}"), "prover") == without


def test_a_smaller_micro_batch_needs_less_memory(amounts_of):
    whole, half = amounts_of(), amounts_of("prover.micro_batch_size=8")
    assert peak(half, "prover") < peak(whole, "prover")


def test_a_warmup_trains_all_weights_in_spite_of_adapters(amounts_of):
    amounts = amounts_of("prover.warmup={max_steps: 2}")
    all_trained = {"prover": replace(SIZE, num_trained=1000)}
    assert peak_memory("warmup", amounts, all_trained) == peak(amounts, "warmup")
