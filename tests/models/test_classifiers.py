import copy
from contextlib import nullcontext

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
    RobertaConfig,
    RobertaForSequenceClassification,
)

from pvg_hf.models.score_head import (
    add_trained_head,
    check_classifier,
    check_classifier_source,
    empty_classifier,
    is_head_trained,
    keep_head_precise,
    score_head_modules,
    subtract_logits,
)
from pvg_hf.models.verifier_model import load_classifier

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


def test_an_adapter_for_another_kind_of_model_is_refused():
    with pytest.raises(ValueError, match=r"`task_type=CAUSAL_LM`.*SEQ_CLS"):
        add_trained_head(LoraConfig(task_type="CAUSAL_LM"), _llama())
    assert add_trained_head(LoraConfig(task_type="SEQ_CLS"), _llama()).modules_to_save == ["score"]
    add_trained_head(LoraConfig(task_type="CAUSAL_LM"), LlamaForCausalLM(LlamaConfig(**SIZES, **WORDS)))


def test_a_frozen_head_is_detected():
    model = _llama()
    assert is_head_trained(model)
    assert not is_head_trained(get_peft_model(_llama(), LoraConfig(r=2, target_modules=["q_proj"])))
    adapted = get_peft_model(_llama(), add_trained_head(LoraConfig(r=2, target_modules=["q_proj"]), model))
    assert isinstance(adapted, PeftModel)
    assert is_head_trained(adapted)


IDS = torch.tensor([[1, 5, 6, 7], [1, 9, 3, 4]])

TWO_LOGITS = {
    "llama": lambda: _llama(num_labels=2),
    "bert": lambda: BertForSequenceClassification(BertConfig(**SIZES, **WORDS, num_labels=2)),
    "roberta": lambda: RobertaForSequenceClassification(RobertaConfig(**SIZES, **WORDS, num_labels=2)),
    "half precision": lambda: _llama(num_labels=2).bfloat16(),
}

# Labels of the two logits, and the sign of the second minus the first.
LABELS = {
    "numbers": ({0: "LABEL_0", 1: "LABEL_1"}, 1),
    "correct last": ({0: "Incorrect", 1: "Correct"}, 1),
    "correct first": ({0: "correct", 1: "not correct"}, -1),
    "positive first": ({0: "POSITIVE", 1: "NEGATIVE"}, -1),
    "wrong last": ({0: "correct", 1: "wrong"}, -1),
}


@torch.inference_mode()
def _logits(model) -> torch.Tensor:
    return model.eval()(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("kind", TWO_LOGITS)
def test_two_logits_become_their_difference(kind, labels):
    torch.manual_seed(0)
    model = TWO_LOGITS[kind]()
    model.config.id2label, sign = LABELS[labels]
    for parameter in model.parameters():  # a head starts with a bias of 0
        torch.nn.init.normal_(parameter, std=0.5)
    keep_head_precise(model)  # so that the two logits are not rounded to half precision either
    first, second = _logits(model).T
    subtract_logits(model)
    assert _logits(model).shape == (2, 1)
    assert _logits(model)[:, 0].tolist() == pytest.approx((sign * (second - first)).tolist(), abs=1e-6)
    assert model.config.num_labels == model.num_labels == 1


def test_both_copies_of_an_adapters_head_get_one_logit():
    torch.manual_seed(0)
    model = get_peft_model(
        _llama(num_labels=2), add_trained_head(LoraConfig(r=2, target_modules="all-linear"), _llama())
    )
    with torch.no_grad():
        model.get_submodule("base_model.model.score.modules_to_save.default").weight.normal_()
    for is_trained in (True, False):
        with nullcontext() if is_trained else model.disable_adapter():
            first, second = _logits(model).T
        single = copy.deepcopy(model)
        subtract_logits(single)
        with nullcontext() if is_trained else single.disable_adapter():
            assert _logits(single)[:, 0].tolist() == pytest.approx((second - first).tolist(), abs=1e-6)
        assert is_head_trained(single)


def test_the_head_of_a_folder_is_loaded_as_its_difference(tmp_path):
    torch.manual_seed(0)
    model = _llama(num_labels=2)
    model.save_pretrained(tmp_path)
    first, second = _logits(model).T
    loaded = load_classifier(str(tmp_path))
    assert _logits(loaded)[:, 0].tolist() == pytest.approx((second - first).tolist(), abs=1e-6)
    assert loaded.config.problem_type == "regression"


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        ({0: "left", 1: "right"}, r"\['left', 'right'\].*id2label"),
        ({0: "HAPPY", 1: "SAD"}, r"\['HAPPY', 'SAD'\].*id2label"),
        ({0: "correct", 1: "correct"}, "unclear"),
        ({0: "a", 1: "b", 2: "c"}, "3 logits.*num_labels=1"),
    ],
)
def test_unclear_logits_are_refused_with_the_remedy(tmp_path, labels, part):
    model = _llama(num_labels=len(labels))
    model.config.id2label = labels
    with pytest.raises(ValueError, match=part):
        subtract_logits(model)
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=part):
        load_classifier(str(tmp_path))


def test_a_model_without_head_is_refused():
    with pytest.raises(ValueError, match=r"`LlamaModel` .*head"):
        check_classifier(LlamaModel(LlamaConfig(**SIZES, **WORDS, num_labels=1)))


def test_an_adapter_folder_is_refused(tmp_path):
    get_peft_model(_llama(), LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds a PEFT adapter"):
        check_classifier_source(str(tmp_path))


@pytest.mark.parametrize("has_head", [False, True])
def test_language_models_and_verifiers_pass(tmp_path, has_head):
    model = _llama() if has_head else LlamaForCausalLM(LlamaConfig(**SIZES, **WORDS))
    model.save_pretrained(tmp_path)
    assert check_classifier_source(str(tmp_path)) == 1
    empty = empty_classifier(str(tmp_path))
    assert score_head_modules(empty) == ["score"]
    assert empty.score.weight.shape == (1, 16)
    assert empty.device == torch.device("meta")
