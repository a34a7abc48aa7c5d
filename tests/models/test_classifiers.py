import pytest
import torch
from peft import LoraConfig, PeftModel, TrainableTokensConfig, get_peft_model
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaModel,
    ModernBertConfig,
    ModernBertForSequenceClassification,
)

from pvg_hf.models.score_head import (
    add_trained_head,
    check_classifier,
    check_classifier_source,
    empty_classifier,
    is_head_trained,
    score_head_modules,
)

SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
WORDS = {"vocab_size": 20, "pad_token_id": 0}


def _llama(num_labels: int = 1) -> LlamaForSequenceClassification:
    return LlamaForSequenceClassification(LlamaConfig(**SIZES, **WORDS, num_labels=num_labels))


def _modern_bert() -> ModernBertForSequenceClassification:
    ids = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    return ModernBertForSequenceClassification(ModernBertConfig(**SIZES, **WORDS, **ids, num_labels=1))


def _bert() -> BertForSequenceClassification:
    return BertForSequenceClassification(BertConfig(**SIZES, **WORDS, num_labels=1))


def _distilbert() -> DistilBertForSequenceClassification:
    sizes = {"dim": 16, "hidden_dim": 16, "n_layers": 1, "n_heads": 2}
    return DistilBertForSequenceClassification(DistilBertConfig(**sizes, **WORDS, num_labels=1))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (_llama, ["score"]),
        (_bert, ["classifier"]),
        (_modern_bert, ["head", "classifier"]),
        (_distilbert, ["pre_classifier", "classifier"]),
    ],
)
def test_the_head_is_found_and_trained_with_an_adapter(build, expected):
    model = build()
    assert score_head_modules(model) == expected
    peft_config = add_trained_head(LoraConfig(r=2, target_modules="all-linear"), model)
    assert peft_config.modules_to_save == expected
    adapted = get_peft_model(model, peft_config)
    assert score_head_modules(adapted) == expected
    trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    for module in expected:
        assert any(f".{module}.modules_to_save.default." in name for name in trained)


def test_a_head_that_is_named_already_is_not_named_twice_and_the_config_is_left():
    peft_config = LoraConfig(modules_to_save=["embed_tokens", "score"])
    assert add_trained_head(peft_config, _llama()).modules_to_save == ["embed_tokens", "score"]
    peft_config = LoraConfig()
    add_trained_head(peft_config, _llama())
    assert peft_config.modules_to_save is None


def test_an_adapter_that_cannot_train_the_head_is_refused():
    with pytest.raises(ValueError, match="`TrainableTokensConfig` cannot train a head"):
        add_trained_head(TrainableTokensConfig(token_indices=[1]), _llama())


def test_a_frozen_head_is_detected():
    model = _llama()
    assert is_head_trained(model)
    assert not is_head_trained(get_peft_model(_llama(), LoraConfig(r=2, target_modules=["q_proj"])))
    adapted = get_peft_model(_llama(), add_trained_head(LoraConfig(r=2, target_modules=["q_proj"]), model))
    assert isinstance(adapted, PeftModel)
    assert is_head_trained(adapted)


def test_two_logits_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"2 logits.*num_labels=1"):
        check_classifier(_llama(num_labels=2))


def test_a_model_without_head_is_refused():
    with pytest.raises(ValueError, match=r"`LlamaModel` .*head"):
        check_classifier(LlamaModel(LlamaConfig(**SIZES, **WORDS, num_labels=1)))


def test_a_trained_classifier_with_two_labels_is_refused_by_its_folder(tmp_path):
    _llama(num_labels=2).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"2 labels.*model_init_kwargs"):
        check_classifier_source(str(tmp_path))


def test_an_adapter_folder_is_refused(tmp_path):
    get_peft_model(_llama(), LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds a PEFT adapter"):
        check_classifier_source(str(tmp_path))


@pytest.mark.parametrize("has_head", [False, True])
def test_language_models_and_verifiers_pass(tmp_path, has_head):
    model = _llama() if has_head else LlamaForCausalLM(LlamaConfig(**SIZES, **WORDS))
    model.save_pretrained(tmp_path)
    check_classifier_source(str(tmp_path))
    empty = empty_classifier(str(tmp_path))
    assert score_head_modules(empty) == ["score"]
    assert empty.score.weight.shape == (1, 16)
    assert empty.device == torch.device("meta")
