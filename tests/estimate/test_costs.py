"""Costs by the formulas of docs/recipes.md, on machines with a single bottleneck."""

from dataclasses import replace

import pytest

from pvg_hf.estimate.amounts import Length
from pvg_hf.estimate.costs import Work, forward_seconds, reading, sampling, training
from pvg_hf.estimate.speed import Machine
from tests.support.sized_players import SIZE as PLAYER

COMPUTING = Machine(flops=1e6, bandwidth=1e12, latency=0.0)
LOADING = Machine(flops=1e15, bandwidth=1e6, latency=0.0)
STARTING = Machine(flops=1e15, bandwidth=1e15, latency=1e-3)


def test_a_forward_pass_computes_loads_and_starts():
    assert forward_seconds(PLAYER, COMPUTING, 100, 1) == pytest.approx(2 * 800 * 100 / (0.4 * 1e6))
    assert forward_seconds(PLAYER, LOADING, 100, 3) == pytest.approx(3 * 800 * 4 / 1e6)
    assert forward_seconds(PLAYER, STARTING, 100, 3) == pytest.approx(3 * 2 * 120 * 1e-3, rel=1e-6)


def test_training_passes_through_twice_and_once_more_for_what_is_trained():
    batch = {"num_batches": 3, "rows": 4, "text": Length(10, 20, 30), "num_logits": 5}
    forward = 2 * 800 * (3 * 4 * 20) / (0.4 * 1e6)
    work = training(PLAYER, COMPUTING, recomputes=False, **batch)
    assert work.seconds == pytest.approx(2.5 * forward)  # half of the weights are trained
    assert work.memory == 4 * (20 * 2 * 17 * 16 * 4 + 8 * 5 * 50)
    again = training(PLAYER, COMPUTING, recomputes=True, **batch)
    assert again.seconds == pytest.approx(3.5 * forward)
    assert again.memory == 4 * (20 * (2 + 17) * 16 * 4 + 8 * 5 * 50)


def test_sampling_takes_a_pass_for_each_token_of_the_longest():
    work = sampling(
        PLAYER,
        STARTING,
        num_prompts=5,
        num_samples=3,
        prompts_per_batch=2,
        prompt=Length(10, 12, 15),
        solution=Length(8, 9, 10),
        max_new_tokens=20,
    )
    assert work.seconds == pytest.approx(
        (3 + 3 * 9) * 2 * 120 * 1e-3, rel=1e-6
    )  # three batches: prompts, then 9 tokens
    cached = 2 * 32 * 4  # bytes of a token in both layers
    assert work.memory == 2 * 3 * ((12 + 20) * cached + 8 * 50)


def test_sampling_copies_keys_and_values_at_each_token():
    machine = Machine(flops=1e15, bandwidth=1e3, latency=0.0)
    player = replace(PLAYER, num_multiplied=0)
    text = {"prompt": Length(10, 10, 10), "solution": Length(8, 8, 8), "max_new_tokens": 8}
    work = sampling(player, machine, num_prompts=2, num_samples=1, prompts_per_batch=2, **text)
    assert work.seconds == pytest.approx(3 * 2 * 8 * (10 + 4) * 2 * 32 * 4 / 1e3)


def test_reading_is_batched_by_tokens():
    work = reading(PLAYER, STARTING, num_texts=10, text=Length(30, 33, 40), tokens_per_batch=128)
    assert work.seconds == pytest.approx(3 * 2 * 120 * 1e-3, rel=1e-6)  # 300 tokens in batches of 128


def test_works_add_up_and_the_larger_peak_counts():
    assert (Work(1, 5) + Work(2, 3)) * 2 == Work(6, 5)
