"""Costs by the formulas of docs/recipes.md."""

from dataclasses import replace

import pytest
from trl.kernels import chunked_logprob
from trl.trainer import utils as trainer_utils

from pvg_hf.check.amounts import Length
from pvg_hf.check.costs import TILE, Work, forward, reading, sampling, training
from pvg_hf.check.speed import Machine
from tests.support.sized_players import SIZE as PLAYER


def test_a_forward_pass_computes_loads_and_starts():
    # 800 weights of 4 bytes, in two layers
    assert forward(PLAYER, 100, 3) == Work(flops=2 * 800 * 100, traffic=3 * 800 * 4, launches=3 * 2 * 120)


def test_time_is_that_of_computing_loading_and_starting():
    work = Work(flops=1e6, traffic=1e5, launches=100)
    assert Machine(flops=1e6, bandwidth=1e5, latency=0.01).seconds(work) == pytest.approx(1 / 0.4 + 1 + 1)


def test_training_passes_through_twice_and_once_more_for_what_is_trained():
    batch = {"num_batches": 3, "rows": 4, "text": Length(10, 20, 30), "num_logits": 5}
    once = 2 * 800 * (3 * 4 * 20)
    work = training(PLAYER, recomputes=False, **batch)
    assert work.flops == pytest.approx(2.5 * once)  # half of the weights are trained
    assert work.memory == 4 * (20 * 2 * 17 * 16 * 4 + 8 * 5 * 50)
    again = training(PLAYER, recomputes=True, **batch)
    assert again.flops == pytest.approx(3.5 * once)
    assert again.memory == 4 * (20 * (2 + 17) * 16 * 4 + 8 * 5 * 50)


def test_tiles_of_logits_are_those_of_trl():
    assert TILE == (chunked_logprob.TOKEN_CHUNK_SIZE, trainer_utils._CHUNKED_LOGPROB_CHUNK_SIZE)
    batch = {"num_batches": 1, "rows": 1000, "text": Length(10, 20, 30), "num_logits": 5, "recomputes": False}
    tiled, whole = training(PLAYER, is_tiled=True, **batch), training(PLAYER, **batch)
    assert whole.memory - tiled.memory == 8 * 5000 * 50 - 4 * 4096 * 50


def test_sampling_takes_a_pass_for_each_token_of_the_longest():
    work = sampling(
        PLAYER,
        num_prompts=5,
        num_samples=3,
        prompts_per_batch=2,
        prompt=Length(10, 12, 15),
        solution=Length(8, 9, 10),
        max_new_tokens=20,
    )
    assert work.launches == (3 + 3 * 9) * 2 * 120  # three batches: prompts, then 9 tokens
    assert work.flops == 2 * 800 * (5 * 12 + 5 * 3 * 8)
    cached = 2 * 32 * 4  # bytes of a token in both layers
    assert work.memory == 2 * 3 * ((12 + 20) * cached + 8 * 50)


def test_sampling_copies_keys_and_values_at_each_token():
    player = replace(PLAYER, num_multiplied=0)
    text = {"prompt": Length(10, 10, 10), "solution": Length(8, 8, 8), "max_new_tokens": 8}
    work = sampling(player, num_prompts=2, num_samples=1, prompts_per_batch=2, **text)
    assert work.traffic == 3 * 2 * 8 * (10 + 4) * 2 * 32 * 4


def test_reading_is_batched_by_tokens():
    work = reading(PLAYER, num_texts=10, text=Length(30, 33, 40), tokens_per_batch=128)
    assert work.launches == 3 * 2 * 120  # 300 tokens in batches of 128


def test_works_add_up_and_the_larger_peak_counts():
    assert (Work(1, 2, 3, 5) + Work(2, 3, 4, 3)) * 2 == Work(6, 10, 14, 5)
    assert Work(1, 2, 3, 5).holding(10) == Work(1, 2, 3, 15)
