"""Operations per token, by hand for models of known sizes."""

import pytest
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

from pvg_hf.models.token_flops import flops_per_token, num_multiplied

VOCABULARY, WIDTH = 50, 8
SIZES = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12, "hidden_size": WIDTH}
BODY = 4 * WIDTH**2 + 3 * WIDTH * 12 + 3 * WIDTH  # attention, MLP, and three norms


@pytest.mark.parametrize(
    ("is_tied", "architecture", "multiplied"),
    [
        (True, LlamaForCausalLM, BODY + VOCABULARY * WIDTH),
        (False, LlamaForCausalLM, BODY + VOCABULARY * WIDTH),  # the embedding is only looked up
        (False, LlamaForSequenceClassification, BODY + WIDTH),
    ],
)
def test_an_embedding_that_is_only_looked_up_is_left_out(is_tied, architecture, multiplied):
    config = LlamaConfig(vocab_size=VOCABULARY, tie_word_embeddings=is_tied, num_labels=1, pad_token_id=0, **SIZES)
    model = architecture(config)
    assert num_multiplied(model) == multiplied
    assert flops_per_token(model) == 2 * multiplied
    assert flops_per_token(model, is_trained=True) == 4 * multiplied + 2 * model.num_parameters()


def test_an_adapter_is_all_that_needs_gradients_of_weights():
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, tie_word_embeddings=True, **SIZES))
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"]))
    adapter = 2 * 2 * WIDTH
    multiplied = BODY + VOCABULARY * WIDTH + adapter
    assert flops_per_token(adapted, is_trained=True) == 4 * multiplied + 2 * adapter
