import pytest
import torch
from transformers import GPT2LMHeadModel, LlamaForCausalLM

from pvg_hf.config.player_sections import ScratchConfig
from pvg_hf.models.from_config import make_model, train_tokenizer

TEXTS = [
    "Ana has 12 pens.\nHow many pens does Ana have?",
    "Ana has 12\nBen has 3 more than Ana: 12 + 3 = 15\n#### 15",
] * 3
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}


def _make(seed: int = 0, **config):
    return make_model(ScratchConfig(model_type="llama", config={**SIZES, **config}, vocab_size=300), TEXTS, seed)


def test_model_and_tokenizer_fit():
    model, tokenizer = _make()
    assert isinstance(model, LlamaForCausalLM)
    assert model.get_input_embeddings().weight.shape == (len(tokenizer), 16)
    config = model.config
    assert (config.pad_token_id, config.eos_token_id, config.bos_token_id) == (
        tokenizer.pad_token_id,
        tokenizer.eos_token_id,
        None,
    )
    assert config.tie_word_embeddings
    assert not _make(tie_word_embeddings=False)[0].config.tie_word_embeddings
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


def test_arguments_may_go_by_the_architectures_other_names():
    config = ScratchConfig(model_type="gpt2", config={"hidden_size": 16, "n_head": 2, "n_layer": 1}, vocab_size=300)
    model, _ = make_model(config, TEXTS, seed=0)
    assert isinstance(model, GPT2LMHeadModel)
    assert model.config.n_embd == 16


def test_weights_come_from_the_seed():
    weights = [torch.cat([p.flatten() for p in _make(seed)[0].parameters()]) for seed in (0, 0, 1)]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_the_global_generator_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    _make(seed=1)
    assert torch.rand(3).equal(expected)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"hidden_sise": 16},
            "Unknown argument `hidden_sise` of the architecture `llama`. Did you mean `hidden_size`",
        ),
        ({"vocab_size": 300}, "`vocab_size` in `scratch.config` .*tokenizer"),
        ({"eos_token_id": 1}, "`eos_token_id` in `scratch.config`"),
    ],
)
def test_wrong_arguments_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        _make(**config)


def test_all_wrong_arguments_are_reported():
    with pytest.raises(ValueError, match=r"`hidden_sise`.*Unknown .*`zebra`.*`hidden_size`"):
        _make(hidden_sise=16, zebra=1)


@pytest.mark.parametrize(
    ("model_type", "message"), [("lama", "mean `llama`"), ("t5", "T5Config"), ("zzzzzz", "Known are .*`llama`")]
)
def test_wrong_architectures_are_refused(model_type, message):
    with pytest.raises(ValueError, match=message):
        make_model(ScratchConfig(model_type=model_type, vocab_size=300), TEXTS, seed=0)


@pytest.mark.parametrize(
    "text", [*TEXTS[:2], " two  spaces , and a comma", "naïve ½ of 10\t€", "日本語\r\n", "</s> and <pad>"]
)
def test_any_text_is_restored(text):
    tokenizer = train_tokenizer(TEXTS, 300)
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_tokenizing_adds_nothing_to_a_text():
    tokenizer = train_tokenizer(TEXTS, 300)
    assert tokenizer("")["input_ids"] == []
    assert tokenizer.pad_token_id not in tokenizer(TEXTS[0])["input_ids"]


def test_every_digit_is_a_token():
    tokenizer = train_tokenizer([*TEXTS, *["12 12 12 1212 15"] * 50], 300)
    assert tokenizer.tokenize("1215") == ["1", "2", "1", "5"]


def test_vocabulary_is_no_larger_than_asked():
    assert len(train_tokenizer(TEXTS, 300)) <= 300
    assert len(train_tokenizer(TEXTS, 270)) == 270
