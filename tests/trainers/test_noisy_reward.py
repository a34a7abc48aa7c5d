import json
import logging
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedTokenizerFast,
    TrainerCallback,
)
from trl import RewardConfig

from pvg_hf.trainers.noisy_reward import NoisyRewardTrainer
from pvg_hf.trainers.noisy_reward_config import NoisyRewardConfig
from pvg_hf.trainers.pair_columns import PairCollator
from pvg_hf.trainers.pair_noise import noisy_labels

WORDS = ["[PAD]", "[UNK]", "[EOS]", "[CLS]", "[SEP]", "good", "bad", *(f"w{i}" for i in range(9))]
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def _tokenizer(**special) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if "sep_token" in special:
        ends = [("[CLS]", WORDS.index("[CLS]")), ("[SEP]", WORDS.index("[SEP]"))]
        tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", **special)


@pytest.fixture
def words() -> PreTrainedTokenizerFast:
    """A decoder's tokenizer: nothing around the text, and an end token."""
    return _tokenizer(eos_token="[EOS]")


@pytest.fixture
def framed_words() -> PreTrainedTokenizerFast:
    """An encoder's tokenizer: `[CLS] ... [SEP]`, and no end token."""
    return _tokenizer(cls_token="[CLS]", sep_token="[SEP]")


def _llama(num_labels: int = 1) -> LlamaForSequenceClassification:
    torch.manual_seed(0)
    ids = {"pad_token_id": 0, "eos_token_id": 2, "bos_token_id": None}
    return LlamaForSequenceClassification(
        LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=32, num_labels=num_labels, **SIZES, **ids)
    )


def _bert() -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(vocab_size=len(WORDS), num_labels=1, pad_token_id=0, **SIZES))


def _modern_bert() -> ModernBertForSequenceClassification:
    torch.manual_seed(0)
    ids = {"pad_token_id": 0, "bos_token_id": 3, "cls_token_id": 3, "eos_token_id": 4, "sep_token_id": 4}
    return ModernBertForSequenceClassification(
        ModernBertConfig(vocab_size=len(WORDS), num_labels=1, attn_implementation="sdpa", **SIZES, **ids)
    )


def _texts(num_pairs: int) -> Dataset:
    rows = [{"chosen": f"w{i % 9} good", "rejected": f"w{i % 9} w{i % 5} bad"} for i in range(num_pairs)]
    return Dataset.from_list(rows)


def _token_pairs(num_pairs: int, **columns) -> Dataset:
    """Every pair differs, and all sequences are of one length."""
    rows = [
        {"chosen_ids": [7 + i % 9, 7 + i % 7, 5, 2], "rejected_ids": [7 + i % 9, 7 + i % 7, 6, 2]}
        for i in range(num_pairs)
    ]
    return Dataset.from_list(
        [{**row, **{key: values[i] for key, values in columns.items()}} for i, row in enumerate(rows)]
    )


def _keys(num_pairs: int) -> torch.Tensor:
    """What the trainer knows the solutions of `_token_pairs` by."""
    return PairCollator(lambda _: {})([{"row_index": 0, **row} for row in _token_pairs(num_pairs)])["keys"]


def _trainer(
    tmp_path, dataset, tokenizer, model=None, *, peft_config=None, eval_dataset=None, callbacks=None, **settings
):
    settings = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no", **settings}
    return NoisyRewardTrainer(
        model or _llama(),
        args=NoisyRewardConfig(str(tmp_path / "out"), logging_steps=1, learning_rate=1e-2, **settings),
        train_dataset=dataset,
        eval_dataset=eval_dataset,
        processing_class=tokenizer,
        peft_config=peft_config,
        callbacks=callbacks,
    )


def _weights(model) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _sp(value: float) -> float:
    return math.log1p(math.exp(value))


class _KeepGradients(TrainerCallback):
    """The gradients of the last optimiser step."""

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def test_ten_lines_from_a_folder(tmp_path, words):
    _llama().save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    dataset = _texts(16)
    trainer = NoisyRewardTrainer(
        str(tmp_path / "base"),
        args=NoisyRewardConfig(str(tmp_path / "verifier"), max_steps=2, report_to="none", noise_rho0=0.1),
        train_dataset=dataset,
        eval_dataset=dataset,
    )
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_num_pairs"] == 16
    assert metrics["eval_clean_accuracy"] == metrics["eval_accuracy"]


def test_default_arguments(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    trainer = NoisyRewardTrainer(_llama(), train_dataset=_texts(2), processing_class=words)
    assert isinstance(trainer.args, NoisyRewardConfig)


def test_arguments_of_trl_are_refused(tmp_path, words):
    args = RewardConfig(str(tmp_path), bf16=False, report_to="none")
    with pytest.raises(ValueError, match="`args` is a `RewardConfig`"):
        NoisyRewardTrainer(_llama(), args=args, train_dataset=_texts(2), processing_class=words)


@pytest.mark.parametrize("build", [_llama, _bert, _modern_bert])
def test_every_weight_moves_and_the_verifier_learns(tmp_path, build, words, framed_words):
    tokenizer = words if build is _llama else framed_words
    trainer = _trainer(tmp_path, _texts(32), tokenizer, build(), max_steps=8, eval_dataset=_texts(9))
    before = _weights(trainer.model)
    trainer.train()
    still = [name for name, weight in _weights(trainer.model).items() if weight.equal(before[name])]
    assert still == []
    assert trainer.evaluate()["eval_accuracy"] == 1.0


def test_encoders_read_a_text_in_its_frame(tmp_path, framed_words):
    trainer = _trainer(tmp_path, _texts(1), framed_words, _bert())
    assert framed_words.convert_ids_to_tokens(trainer.train_dataset[0]["chosen_ids"]) == [
        "[CLS]",
        "w0",
        "good",
        "[SEP]",
    ]


def test_decoders_read_a_text_with_its_end(tmp_path, words):
    trainer = _trainer(tmp_path, _texts(1), words)
    assert words.convert_ids_to_tokens(trainer.train_dataset[0]["chosen_ids"]) == ["w0", "good", "[EOS]"]


def test_frozen_weights_stay(tmp_path, words):
    model = _llama()
    model.model.requires_grad_(False)
    trainer = _trainer(tmp_path, _texts(8), words, model, max_steps=2)
    before = _weights(model)
    trainer.train()
    moved = {name for name, weight in _weights(model).items() if not weight.equal(before[name])}
    assert moved == {"score.weight"}


def test_stream(tmp_path, words):
    stream = _texts(8).to_iterable_dataset()
    trainer = _trainer(tmp_path, stream, words, max_steps=2, noise_rho0=0.3, noise_rho1=0.3, eval_dataset=stream)
    trainer.train()
    assert trainer.evaluate()["eval_num_pairs"] == 8


def test_two_logits_are_refused(tmp_path, words):
    with pytest.raises(ValueError, match="has 2 logits"):
        _trainer(tmp_path, _texts(2), words, _llama(num_labels=2))


def test_two_trained_labels_in_a_folder_are_refused_unless_a_new_head_is_asked_for(tmp_path, words):
    _llama(num_labels=2).save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match="trained classifier with 2 labels"):
        _trainer(tmp_path, _texts(2), words, str(tmp_path / "base"))
    settings = {"model_init_kwargs": {"ignore_mismatched_sizes": True}}
    trainer = _trainer(tmp_path, _texts(2), words, str(tmp_path / "base"), **settings)
    assert trainer.model.score.weight.shape == (1, 32)


@pytest.mark.parametrize("as_folder", [False, True])
def test_adapter_trains_the_head_and_reloads_to_the_same_scores(tmp_path, words, as_folder):
    _llama().save_pretrained(tmp_path / "base")
    base = str(tmp_path / "base") if as_folder else LlamaForSequenceClassification.from_pretrained(tmp_path / "base")
    peft_config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    trainer = _trainer(tmp_path, _texts(8), words, base, peft_config=peft_config, max_steps=3)
    before = _weights(trainer.model)
    trainer.train()
    after = _weights(trainer.model)
    moved = {name for name, weight in after.items() if not weight.equal(before[name])}
    trained = {name for name, parameter in trainer.model.named_parameters() if parameter.requires_grad}
    assert moved == trained
    assert "base_model.model.score.modules_to_save.default.weight" in trained
    assert all("lora_" in name or "modules_to_save" in name for name in trained)

    trainer.save_model(str(tmp_path / "adapter"))
    torch.manual_seed(1)  # another head, were it not saved
    fresh = LlamaForSequenceClassification.from_pretrained(tmp_path / "base")
    reloaded = PeftModel.from_pretrained(fresh, tmp_path / "adapter").eval()
    tokens = torch.tensor([[7, 8, 5, 2], [9, 6, 2, 0]])
    with torch.no_grad():
        expected = trainer.model.eval()(input_ids=tokens, attention_mask=tokens.ne(0).long()).logits
        scores = reloaded(input_ids=tokens, attention_mask=tokens.ne(0).long()).logits
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=0)


def test_an_adapter_with_a_frozen_head_is_warned_of(tmp_path, words, caplog):
    model = PeftModel(_llama(), LoraConfig(r=2, target_modules=["q_proj"]))
    with caplog.at_level(logging.WARNING, logger="pvg_hf"):
        _trainer(tmp_path, _texts(2), words, model)
    assert "head is frozen" in caplog.text


def test_quantised_model_trains_its_adapter_in_float32(tmp_path, words):
    pytest.importorskip("bitsandbytes", reason="needs `pip install pvg_hf[quant]`")
    from transformers import BitsAndBytesConfig

    _llama().save_pretrained(tmp_path / "base")
    args = {"use_cpu": True, "report_to": "none", "max_steps": 1, "save_strategy": "no", "learning_rate": 1e-5}
    trainer = NoisyRewardTrainer(
        str(tmp_path / "base"),
        args=NoisyRewardConfig(str(tmp_path / "out"), warmup_steps=0, **args),
        train_dataset=_texts(8),
        processing_class=words,
        quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32),
        peft_config=LoraConfig(r=2, target_modules=["q_proj", "v_proj"]),
    )
    head = trainer.model.base_model.model.score.modules_to_save["default"].weight
    assert head.dtype == torch.float32
    before = head.detach().clone()
    trainer.train()
    assert (head != before).all()


# The loss of a difference d = V(z+) - V(z-), and, at equal rates for both labels, also that of a score V whose label is
# 1, or of -V whose label is 0. Rates of .2 are assumed.
LOSSES = {
    "none": lambda d: _sp(-d),
    "smoothing": lambda d: 0.8 * _sp(-d) + 0.2 * _sp(d),
    "forward": lambda d: -math.log(0.2 + 0.6 / (1 + math.exp(-d))),
    "backward": lambda d: (0.8 * _sp(-d) - 0.2 * _sp(d)) / 0.6,
}


@pytest.mark.parametrize("noise_level", [None, "label", "pair"])
@pytest.mark.parametrize(
    ("loss", "correction"),
    [("bradley_terry", correction) for correction in LOSSES]
    + [("cross_entropy", correction) for correction in LOSSES if correction != "smoothing"],
)
def test_loss_of_a_batch(tmp_path, words, loss, correction, noise_level):
    noise, labels = {}, [[1, 0]] * 6
    if noise_level is not None:
        noise = {"noise_level": noise_level, "noise_rho0": 0.4, "noise_rho1": 0.4, "noise_seed": 4}
        labels = noisy_labels(_keys(6), (0.4, 0.4), noise_level, seed=4).tolist()
        assert labels != [[1, 0]] * 6
    model = _llama()
    with torch.no_grad():
        model.score.weight *= 50  # scores that differ
    assumed = {"rho0": 0.2, "rho1": 0.2, "flip_rate": 0.2}
    settings = {"loss": loss, "correction": correction, "center": 0.01, **assumed, **noise}
    trainer = _trainer(tmp_path, _token_pairs(6), words, model, **settings)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(6)])
    with torch.no_grad():
        scores = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, 0].tolist()
        value = trainer.compute_loss(model.train(), batch).item()

    pairs = zip(scores[:6], scores[6:], labels, strict=True)
    if loss == "bradley_terry":  # a tie adds nothing, to the count neither
        terms = [(chosen - rejected) * (y[0] - y[1]) for chosen, rejected, y in pairs if y[0] != y[1]]
    else:
        terms = [score * (2 * y - 1) for chosen, rejected, ys in pairs for score, y in zip((chosen, rejected), ys)]
    expected = sum(LOSSES[correction](term) for term in terms) / len(terms)
    expected += 0.01 * sum(score**2 for score in scores) / 12
    assert value == pytest.approx(expected, rel=1e-5)


def test_plain_settings_are_the_loss_of_trl(tmp_path, words):
    trainer = _trainer(tmp_path, _token_pairs(4), words, center=0.0)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(4)])
    tokens = {key: batch[key] for key in ("input_ids", "attention_mask")}
    ours = trainer.compute_loss(trainer.model.train(), batch)
    theirs = super(NoisyRewardTrainer, trainer).compute_loss(trainer.model, tokens)
    torch.testing.assert_close(ours, theirs)


def test_margin_is_that_of_trl(tmp_path, words):
    trainer = _trainer(tmp_path, _token_pairs(4, margin=[0.0, 0.5, 1.0, 2.0]), words, center=0.0)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(4)])
    tokens = {key: batch[key] for key in ("input_ids", "attention_mask", "margin")}
    ours = trainer.compute_loss(trainer.model.train(), batch)
    theirs = super(NoisyRewardTrainer, trainer).compute_loss(trainer.model, tokens)
    torch.testing.assert_close(ours, theirs)
    assert trainer.evaluate(trainer.train_dataset)["eval_loss"] == pytest.approx(theirs.item(), abs=1e-6)


@pytest.mark.parametrize("settings", [{}, {"noise_level": "pair", "noise_rho0": 0.4, "noise_rho1": 0.4}])
def test_accumulated_gradient_is_that_of_one_batch(tmp_path, words, settings):
    gradients = []
    for batch_size, accumulation in ((8, 1), (4, 2)):
        keep = _KeepGradients()
        _trainer(
            tmp_path,
            _token_pairs(8),
            words,
            callbacks=[keep],
            max_steps=1,
            max_grad_norm=0.0,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            **settings,
        ).train()
        gradients.append(keep.gradients)
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-6, rtol=0)
    assert any(gradient.abs().max() > 1e-3 for gradient in gradients[0].values())


def test_a_loss_that_is_not_finite_stops_training(tmp_path, words):
    model = _llama()
    trainer = _trainer(tmp_path, _texts(8), words, model, max_steps=2)
    with torch.no_grad():
        model.score.weight.fill_(torch.inf)
    with pytest.raises(FloatingPointError, match=r"loss of step 0 is (nan|inf).*Lower `learning_rate`"):
        trainer.train()


def test_scores_of_another_shape_are_refused(tmp_path, words):
    trainer = _trainer(tmp_path, _token_pairs(2), words)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(2)])
    batch["row_index"] = batch["row_index"][:1]
    with pytest.raises(ValueError, match=r"logits of shape \(4, 1\) for 1 pairs"):
        trainer.compute_loss(trainer.model, batch)


def _flips(trainer) -> list[float]:
    return [entry["flipped"] for entry in trainer.state.log_history if "flipped" in entry]


def _train_on_whole_epochs(tmp_path, words, resample, *, batch_size=32, epochs=2, **settings) -> list[float]:
    """The share of flipped labels that each step saw; one step is a whole epoch of 32 pairs by default."""
    trainer = _trainer(
        tmp_path,
        _token_pairs(32),
        words,
        noise_resample=resample,
        noise_rho0=0.3,
        noise_rho1=0.3,
        num_train_epochs=epochs,
        per_device_train_batch_size=batch_size,
        **settings,
    )
    trainer.train()
    return _flips(trainer)


def test_fixed_noise_is_that_of_the_solutions(tmp_path, words):
    labels = noisy_labels(_keys(32), (0.3, 0.3), "label", seed=5)
    share = (labels != torch.tensor([1.0, 0.0])).float().mean().item()
    shares = _train_on_whole_epochs(tmp_path, words, "fixed", noise_seed=5, epochs=3)
    assert shares == pytest.approx([share] * 3)
    # in another order and in smaller batches, the same solutions are flipped
    shares = _train_on_whole_epochs(tmp_path, words, "fixed", noise_seed=5, seed=1, batch_size=8, epochs=1)
    assert sum(shares) / 4 == pytest.approx(share)


@pytest.mark.parametrize("resample", ["epoch", "step"])
def test_noise_is_drawn_anew(tmp_path, words, resample):
    shares = _train_on_whole_epochs(tmp_path, words, resample, noise_seed=5)
    for moment, share in enumerate(shares):
        labels = noisy_labels(_keys(32), (0.3, 0.3), "label", seed=5, moment=(resample, moment))
        assert share == pytest.approx((labels != torch.tensor([1.0, 0.0])).float().mean().item())
    assert len(set(shares)) == 2


def test_epoch_noise_lasts_the_epoch(tmp_path, words):
    shares = _train_on_whole_epochs(tmp_path, words, "epoch", noise_seed=5, batch_size=8)
    for epoch in (0, 1):
        labels = noisy_labels(_keys(32), (0.3, 0.3), "label", seed=5, moment=("epoch", epoch))
        expected = (labels != torch.tensor([1.0, 0.0])).float().mean().item()
        assert sum(shares[4 * epoch : 4 * epoch + 4]) / 4 == pytest.approx(expected)


def test_a_pair_keeps_its_number_when_others_are_filtered(tmp_path, words):
    dataset = _token_pairs(8).map(lambda row, i: {"chosen_ids": row["chosen_ids"] * (2 - i % 2)}, with_indices=True)
    trainer = _trainer(tmp_path, dataset, words, max_length=4)
    assert trainer.train_dataset["row_index"][:] == [1, 3, 5, 7]


def test_evaluation_is_free_of_noise_and_correction(tmp_path, words):
    settings = {"noise_rho0": 0.45, "noise_rho1": 0.45, "correction": "forward", "center": 0.0}
    trainer = _trainer(tmp_path, _token_pairs(9), words, eval_dataset=_token_pairs(9), **settings)
    metrics = trainer.evaluate()
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(9)])
    with torch.no_grad():
        scores = trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, 0]
    expected = sum(_sp(-d) for d in (scores[:9] - scores[9:]).tolist()) / 9
    assert metrics["eval_loss"] == pytest.approx(expected, abs=1e-6)
    assert trainer.compute_loss(trainer.model.eval(), batch).item() == pytest.approx(expected, abs=1e-6)
    assert not any("flipped" in key for key in metrics)


def test_evaluation_by_source_and_clean_truth(tmp_path, words):
    eval_dataset = _token_pairs(
        5,
        source=["base", "base", "sneaky", "sneaky", "sneaky"],
        chosen_correct=[True, False, True, True, True],
        rejected_correct=[False, True, False, False, True],
    )
    trainer = _trainer(
        tmp_path, _token_pairs(16), words, eval_dataset=eval_dataset, max_steps=10, per_device_eval_batch_size=2
    )
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_accuracy"] == 1.0  # "good" before "bad" is learned
    expected = {"clean_accuracy": 3 / 4, "clean_accuracy/base": 1 / 2, "clean_accuracy/sneaky": 1.0}
    expected |= {"accuracy/base": 1.0, "accuracy/sneaky": 1.0}
    expected |= {"num_pairs": 5, "num_pairs/base": 2, "num_pairs/sneaky": 3, "num_clean_pairs/sneaky": 2}
    for key, value in expected.items():
        assert metrics[f"eval_{key}"] == value, key
    logged = trainer.state.log_history[-1]
    assert logged["eval_clean_accuracy/base"] == 1 / 2
    assert {"eval_min_reward", "eval_margin", "eval_num_tokens", "eval_loss"} <= logged.keys()


def test_a_dict_of_sets_keeps_its_metrics_apart(tmp_path, words):
    sets = {"long": _token_pairs(3), "short": _token_pairs(2)}
    trainer = _trainer(tmp_path, _token_pairs(4), words, eval_dataset=sets)
    metrics = trainer.evaluate()
    assert (metrics["eval_long_num_pairs"], metrics["eval_short_num_pairs"]) == (3, 2)
    assert {"eval_long_accuracy", "eval_short_accuracy", "eval_long_loss"} <= metrics.keys()
    assert "eval_accuracy" not in metrics


def test_evaluation_during_training(tmp_path, words):
    trainer = _trainer(
        tmp_path,
        _token_pairs(8),
        words,
        eval_dataset=_token_pairs(3),
        eval_strategy="steps",
        eval_steps=1,
        max_steps=2,
    )
    trainer.train()
    assert [entry["eval_num_pairs"] for entry in trainer.state.log_history if "eval_num_pairs" in entry] == [3, 3]


TWO_PROCESSES = """
import json, sys
from datasets import Dataset
from transformers import AutoTokenizer
from pvg_hf.trainers.noisy_reward import NoisyRewardTrainer
from pvg_hf.trainers.noisy_reward_config import NoisyRewardConfig

folder = sys.argv[1]
with open(f"{folder}/rows.json") as file:
    rows = Dataset.from_list(json.load(file))
trainer = NoisyRewardTrainer(
    f"{folder}/base",
    args=NoisyRewardConfig(
        f"{folder}/out", use_cpu=True, report_to="none", disable_tqdm=True, save_strategy="no", logging_steps=1,
        per_device_train_batch_size=4, per_device_eval_batch_size=2, max_steps=1, learning_rate=1e-2, max_grad_norm=0.0,
        optim="sgd", noise_level="pair", noise_rho0=0.4, noise_rho1=0.4,
    ),
    train_dataset=rows, eval_dataset=rows.select(range(5)), processing_class=AutoTokenizer.from_pretrained(f"{folder}/base"),
)
before = trainer.evaluate()
trainer.train()
trainer.save_model(f"{folder}/trained")
if trainer.accelerator.is_main_process:
    with open(f"{folder}/result.json", "w") as file:
        json.dump({"before": before, "log": trainer.state.log_history, "world": trainer.args.world_size}, file)
"""


def test_two_processes_count_every_pair_once_and_take_the_step_of_one(tmp_path, words, repository):
    model = _llama()
    model.save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    rows = _token_pairs(8, source=["base", "base", "sneaky", "sneaky", "sneaky"] + ["base"] * 3)
    (tmp_path / "rows.json").write_text(json.dumps(rows.to_list()))
    (tmp_path / "run.py").write_text(TWO_PROCESSES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1", f"--master_port={port}"]
    environment = {**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, *launch, str(tmp_path / "run.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["world"] == 2

    trainer = _trainer(
        tmp_path,
        rows,
        words,
        model,
        eval_dataset=rows.select(range(5)),
        max_steps=1,
        max_grad_norm=0.0,
        optim="sgd",
        noise_level="pair",
        noise_rho0=0.4,
        noise_rho1=0.4,
    )
    timed = ("runtime", "per_second", "preparation_time")
    expected = {key: value for key, value in trainer.evaluate().items() if not key.endswith(timed)}
    assert expected["eval_num_pairs"] == 5
    assert {key: result["before"][key] for key in expected} == pytest.approx(expected, abs=1e-6)
    trainer.train()
    assert result["log"][0]["flipped"] == pytest.approx(_flips(trainer)[0])
    trained = LlamaForSequenceClassification.from_pretrained(tmp_path / "trained")
    for name, weight in _weights(trainer.model).items():
        torch.testing.assert_close(trained.get_parameter(name), weight, atol=1e-6, rtol=0)


def test_long_pairs_are_counted(tmp_path, words, caplog):
    dataset = _token_pairs(6).map(
        lambda row, i: {"rejected_ids": row["rejected_ids"] * (1 + i % 3)}, with_indices=True
    )
    with caplog.at_level(logging.WARNING, logger="pvg_hf"):
        trainer = _trainer(tmp_path, dataset, words, max_length=4, eval_dataset=_token_pairs(3))
    assert trainer.num_filtered_pairs == {"train": 4, "eval": 0}
    assert "4 of 6 pairs of the train set" in caplog.text
    assert "Raise `max_length`" in caplog.text
    assert "eval set" not in caplog.text


def test_nothing_left_is_refused(tmp_path, words):
    with pytest.raises(ValueError, match=r"2 of 2 pairs of the train set.*nothing is left"):
        _trainer(tmp_path, _token_pairs(2), words, max_length=3)


def test_margin_is_refused_by_a_corrected_loss(tmp_path, words):
    with pytest.raises(ValueError, match="column `margin`"):
        _trainer(tmp_path, _token_pairs(2, margin=[1.0, 1.0]), words, correction="forward")


@pytest.mark.parametrize("resample", ["epoch", "step"])
def test_resumed_training_equals_uninterrupted_training(tmp_path, words, resample):
    def build(name):
        settings = {"save_strategy": "steps", "save_steps": 3, "max_steps": 4, "per_device_train_batch_size": 4}
        noise = {"noise_resample": resample, "noise_rho0": 0.3, "noise_rho1": 0.3}
        return _trainer(tmp_path / name, _token_pairs(8), words, **settings, **noise)

    whole = build("whole")
    whole.train()
    resumed = build("resumed")
    resumed.train(resume_from_checkpoint=str(Path(whole.args.output_dir) / "checkpoint-3"))
    for name, weight in _weights(whole.model).items():
        assert resumed.model.get_parameter(name).equal(weight), name
    assert _flips(resumed) == _flips(whole)
