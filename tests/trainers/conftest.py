"""Tokenizers of verifiers, and a prover for which only some solutions end."""

import pytest
from transformers import PreTrainedTokenizerFast

from pvg_hf.models.prover_model import load_prover
from tests.support.verifier_training import make_tokenizer


@pytest.fixture
def words() -> PreTrainedTokenizerFast:
    """A decoder's tokenizer: nothing around the text, and an end token."""
    return make_tokenizer(eos_token="[EOS]")


@pytest.fixture
def framed_words() -> PreTrainedTokenizerFast:
    """An encoder's tokenizer: `[CLS] ... [SEP]`, and no end token."""
    return make_tokenizer(cls_token="[CLS]", sep_token="[SEP]")


@pytest.fixture(scope="session")
def prover(tiny_prover, tmp_path_factory) -> str:
    """A prover for which a quarter of the vocabulary ends a solution, so that only some reach the maximum length."""
    folder = tmp_path_factory.mktemp("stopping") / "prover"
    model, tokenizer = load_prover(tiny_prover)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(5, len(tokenizer), 4)]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
