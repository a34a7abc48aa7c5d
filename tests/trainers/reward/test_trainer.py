"""What `NoisyRewardTrainer` takes, and what its training moves."""

import logging

import pytest
from transformers import LlamaForCausalLM
from trl import RewardConfig

from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer
from tests.support.verifier_training import bert, llama, modern_bert, text_pairs, token_pairs, verifier_trainer
from tests.support.weights import moved_since, weights_of


def test_ten_lines_from_a_folder(tmp_path, words):
    llama().save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    dataset = text_pairs(16)
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
    trainer = NoisyRewardTrainer(llama(), train_dataset=text_pairs(2), processing_class=words)
    assert isinstance(trainer.args, NoisyRewardConfig)


def test_arguments_of_trl_are_refused(tmp_path, words):
    args = RewardConfig(str(tmp_path), bf16=False, report_to="none")
    with pytest.raises(ValueError, match="`args` is a `RewardConfig`"):
        NoisyRewardTrainer(llama(), args=args, train_dataset=text_pairs(2), processing_class=words)


@pytest.mark.parametrize("build", [llama, bert, modern_bert])
def test_every_weight_moves_and_the_verifier_learns(tmp_path, build, words, framed_words):
    tokenizer = words if build is llama else framed_words
    trainer = verifier_trainer(tmp_path, text_pairs(32), tokenizer, build(), max_steps=8, eval_dataset=text_pairs(9))
    before = weights_of(trainer.model)
    trainer.train()
    assert moved_since(trainer.model, before) == set(before)
    assert trainer.evaluate()["eval_accuracy"] == 1.0


@pytest.mark.gpu
def test_every_weight_moves_on_a_gpu(tmp_path, words):
    trainer = verifier_trainer(
        tmp_path, text_pairs(32), words, max_steps=8, eval_dataset=text_pairs(9), use_cpu=False, noise_rho0=0.1
    )
    before = weights_of(trainer.model)
    trainer.train()
    assert {weight.device.type for weight in trainer.model.parameters()} == {"cuda"}
    assert moved_since(trainer.model, before) == set(before)
    assert trainer.evaluate()["eval_num_pairs"] == 9


def test_encoders_read_a_text_in_its_frame(tmp_path, framed_words):
    trainer = verifier_trainer(tmp_path, text_pairs(1), framed_words, bert())
    assert framed_words.convert_ids_to_tokens(trainer.train_dataset[0]["chosen_ids"]) == [
        "[CLS]",
        "w0",
        "good",
        "[SEP]",
    ]


def test_decoders_read_a_text_with_its_end(tmp_path, words):
    trainer = verifier_trainer(tmp_path, text_pairs(1), words)
    assert words.convert_ids_to_tokens(trainer.train_dataset[0]["chosen_ids"]) == ["w0", "good", "[EOS]"]


def test_frozen_weights_stay(tmp_path, words):
    model = llama()
    model.model.requires_grad_(False)
    trainer = verifier_trainer(tmp_path, text_pairs(8), words, model, max_steps=2)
    before = weights_of(model)
    trainer.train()
    assert moved_since(model, before) == {"score.weight"}


def test_stream(tmp_path, words):
    stream = text_pairs(8).to_iterable_dataset()
    trainer = verifier_trainer(
        tmp_path, stream, words, max_steps=2, noise_rho0=0.3, noise_rho1=0.3, eval_dataset=stream
    )
    trainer.train()
    assert trainer.evaluate()["eval_num_pairs"] == 8


def test_two_logits_are_refused(tmp_path, words):
    with pytest.raises(ValueError, match="has 2 logits"):
        verifier_trainer(tmp_path, text_pairs(2), words, llama(num_labels=2))


def test_a_language_model_is_refused(tmp_path, words):
    model = LlamaForCausalLM(llama().config)
    with pytest.raises(ValueError, match="`LlamaForCausalLM` has no classification head"):
        verifier_trainer(tmp_path, text_pairs(2), words, model)


@pytest.mark.parametrize("missing", ["chosen", "rejected"])
def test_a_missing_side_is_named(missing, tmp_path, words):
    with pytest.raises(ValueError, match=rf"lacks the column\(s\) \['{missing}'\]"):
        verifier_trainer(tmp_path, text_pairs(2).remove_columns(missing), words)


def test_two_trained_labels_in_a_folder_are_refused_unless_a_new_head_is_asked_for(tmp_path, words):
    llama(num_labels=2).save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match="trained classifier with 2 labels"):
        verifier_trainer(tmp_path, text_pairs(2), words, str(tmp_path / "base"))
    settings = {"model_init_kwargs": {"ignore_mismatched_sizes": True}}
    trainer = verifier_trainer(tmp_path, text_pairs(2), words, str(tmp_path / "base"), **settings)
    assert trainer.model.score.weight.shape == (1, 32)


def test_long_pairs_are_counted(tmp_path, words, caplog):
    dataset = token_pairs(6).map(lambda row, i: {"rejected_ids": row["rejected_ids"] * (1 + i % 3)}, with_indices=True)
    with caplog.at_level(logging.WARNING, logger="pvg_hf"):
        trainer = verifier_trainer(tmp_path, dataset, words, max_length=4, eval_dataset=token_pairs(3))
    assert trainer.num_filtered_pairs == {"train": 4, "eval": 0}
    assert "4 of 6 pairs of the train set" in caplog.text
    assert "Raise `max_length`" in caplog.text
    assert "eval set" not in caplog.text


def test_nothing_left_is_refused(tmp_path, words):
    with pytest.raises(ValueError, match=r"2 of 2 pairs of the train set.*nothing is left"):
        verifier_trainer(tmp_path, token_pairs(2), words, max_length=3)
