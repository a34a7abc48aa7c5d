"""Time and memory of whole phases."""

from dataclasses import replace

import pytest

from pvg_hf.check.phase_costs import PHASE_COSTS
from pvg_hf.check.speed import Machine
from tests.support.sized_players import SIZE, SIZES, TRAINING, WEIGHTS

MACHINE = Machine(flops=1e6, bandwidth=1e6, latency=1e-3)


def peak(amounts, phase):
    return PHASE_COSTS[phase].work(amounts, SIZES).memory


def seconds(amounts, phase):
    return MACHINE.seconds(PHASE_COSTS[phase].work(amounts, SIZES))


def test_weights_are_counted(amounts_of):
    assert peak(amounts_of(), "bootstrap") > WEIGHTS
    assert peak(amounts_of(), "mint") > 2 * WEIGHTS
    assert peak(amounts_of(), "evaluate") > WEIGHTS
    assert peak(amounts_of(), "verifier") > TRAINING


def test_a_verifier_that_scores_is_held_in_its_own_type(amounts_of):
    """It is in float32 here, even if its base is in bfloat16 below an adapter in training."""
    trained, evaluate = {"verifier": replace(SIZE, weight_bytes=2)}, PHASE_COSTS["evaluate"]
    assert evaluate.work(amounts_of(), trained) == evaluate.work(amounts_of(), SIZES)


def test_the_reference_is_a_second_copy_without_adapters(amounts_of):
    with_reference, without = peak(amounts_of(), "prover"), peak(amounts_of("prover.beta=0"), "prover")
    assert without > TRAINING + WEIGHTS  # and the verifier's
    assert with_reference - without == WEIGHTS
    assert peak(amounts_of("prover.lora={}"), "prover") == without


def test_a_smaller_micro_batch_needs_less_memory_and_more_time(amounts_of):
    whole, half = amounts_of(), amounts_of("prover.micro_batch_size=8")
    assert peak(half, "prover") < peak(whole, "prover")
    assert seconds(half, "prover") > seconds(whole, "prover")


def test_separate_roles_train_twice_and_choose_a_checkpoint_once(amounts_of):
    adapter = "prover.lora={}"
    separate = amounts_of("prover.roles=separate", adapter, "prover.max_steps=10", "prover.eval_steps=10")
    twice_as_long = amounts_of(adapter, "prover.max_steps=20", "prover.eval_steps=20")
    assert seconds(separate, "prover") == pytest.approx(seconds(twice_as_long, "prover"))


def test_only_a_helpful_prover_is_chosen(amounts_of):
    often, once = (amounts_of("prover.roles=sneaky_only", f"prover.eval_steps={steps}") for steps in (1, 5))
    assert seconds(often, "prover") == seconds(once, "prover")
    often, once = (amounts_of(f"prover.eval_steps={steps}") for steps in (1, 5))
    assert seconds(often, "prover") > seconds(once, "prover")


def test_imported_solutions_need_not_be_written(amounts_of):
    assert seconds(amounts_of("bootstrap.import_from=org/solutions"), "bootstrap") < seconds(amounts_of(), "bootstrap")


def test_a_warmup_trains_all_weights_in_spite_of_adapters(amounts_of):
    amounts = amounts_of("prover.warmup={max_steps: 2}")
    all_trained, warmup = {"prover": replace(SIZE, num_trained=1000)}, PHASE_COSTS["warmup"]
    assert warmup.work(amounts, SIZES) == warmup.work(amounts, all_trained)
