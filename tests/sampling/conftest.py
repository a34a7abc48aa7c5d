from collections.abc import Callable

import pytest

from pvg_hf.models.prover_model import load_prover


@pytest.fixture
def ending_prover(tiny_prover) -> Callable:
    """Load a tiny prover for which one token in `every` ends a solution, so that rows end at different times."""

    def load(every: int):
        model, tokenizer = load_prover(tiny_prover)
        model.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(5, len(tokenizer), every)]
        return model, tokenizer

    return load
