"""
The formulas against figures of a GPU: one NVIDIA H200, torch 2.11, transformers 5.23, trl 1.16, peft 0.21.

Memory is within 15 %.
"""

import json
from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config

import tools.gpu_check
from pvg_hf.check.graphics_cards import CARDS
from pvg_hf.check.player_sizes import PlayerSize, measure_size
from pvg_hf.check.round_plans import rough_rates
from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.core.stopwatch import TRAINING, WRITING
from pvg_hf.models.hardware import Hardware

CONFIGS = Path(tools.gpu_check.__file__).parent / "configs"


def size_of(name: str, *, has_lm_head: bool, lora: LoraConfig | None = None) -> PlayerSize:
    config = Qwen2Config(**json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8")), pad_token_id=0)
    return measure_size(config, has_lm_head=has_lm_head, dtype=torch.bfloat16, lora=lora, is_mixed=True)


@pytest.fixture(scope="module")
def verifier() -> PlayerSize:
    return size_of("Qwen2.5-0.5B", has_lm_head=False, lora=LoraConfig(r=16))


def test_memory_of_a_verifier_includes_the_copy_that_scores(verifier):
    """
    The trained verifier in bfloat16 stays while a copy in float32 scores held-out solutions: 3.28 GB in all.

    A step had 32 pairs of at most 400 tokens, in micro-batches of 8, with adapters and recomputed activations.
    """
    scorer = measure_size(verifier.config, has_lm_head=False, dtype=torch.float32, is_mixed=True)
    step = verifier.backward_bytes(16, 400, recomputes=True)
    memory = verifier.training_bytes + max(step, scorer.frozen_bytes + scorer.reading_bytes(16384))
    assert memory == pytest.approx(3.28e9, rel=0.15)


@pytest.mark.parametrize(
    ("kind", "num_tokens", "seconds"),
    [(WRITING, 256 * 200, 200 * 0.0117), (WRITING, 512 * 170, 30), (TRAINING, 64 * 130, 2.54)],
    ids=["a compiled generate", "a prover's step with the loop", "a verifier's step"],
)
def test_the_rough_time_is_of_the_right_order(kind, num_tokens, seconds, verifier):
    """
    It is for games of which nothing was measured. Small models wait for Python, so that it is too short for them.
    """
    rates = rough_rates(Hardware.here("cpu"), CARDS["h200"], 0)
    if kind == WRITING:
        rough = num_tokens * size_of("Qwen2.5-0.5B", has_lm_head=True).forward_flops / rates.writing
    else:
        rough = num_tokens * verifier.training_flops / rates.other
    assert 1 / 60 < rough / seconds < 3
