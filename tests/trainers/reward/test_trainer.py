"""`NoisyRewardTrainer`: its inputs, the weights that it trains and saves, adapters, and two processes."""

import json
import logging

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoTokenizer, EarlyStoppingCallback, LlamaForCausalLM, LlamaForSequenceClassification
from trl import RewardConfig

from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer
from tests.support.two_processes import run_on_two_processes
from tests.support.verifier_step import NUM_EVAL_PAIRS, SETTINGS, STEP
from tests.support.verifier_training import (
    bert,
    llama,
    make_tokenizer,
    modern_bert,
    text_pairs,
    token_pairs,
    verifier_trainer,
)
from tests.support.weights import moved_since, weights_of


def test_ten_lines_train_a_verifier_from_a_folder(tmp_path, words):
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


def test_default_arguments_train_a_verifier(tmp_path, monkeypatch, words):
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


def test_a_stream_is_trained_on_and_evaluated(tmp_path, words):
    stream = text_pairs(8).to_iterable_dataset()
    trainer = verifier_trainer(
        tmp_path, stream, words, max_steps=2, noise_rho0=0.3, noise_rho1=0.3, eval_dataset=stream
    )
    trainer.train()
    assert trainer.evaluate()["eval_num_pairs"] == 8


@pytest.mark.parametrize("is_folder", [True, False])
def test_training_starts_from_the_difference_of_two_logits(is_folder, tmp_path, words):
    model = llama(num_labels=2)
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        difference = model(input_ids=ids).logits.diff().item()  # label 1 less label 0
    model.save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    trainer = verifier_trainer(
        tmp_path, text_pairs(4), words, str(tmp_path / "base") if is_folder else model, max_steps=1
    )
    with torch.no_grad():
        assert trainer.model(input_ids=ids).logits.item() == pytest.approx(difference, abs=1e-6)
    trainer.train()
    trainer.save_model(str(tmp_path / "trained"))
    saved = VerifierScorer.from_pretrained(tmp_path / "trained", device="cpu")
    assert saved.model.config.num_labels == 1


def test_arguments_of_transformers_keep_the_best_step(tmp_path, words):
    trainer = verifier_trainer(
        tmp_path,
        text_pairs(8),
        words,
        eval_dataset=text_pairs(4),
        max_steps=6,
        **{"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2},
        **{"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": False},
    )
    trainer.add_callback(EarlyStoppingCallback(early_stopping_patience=3))
    trainer.train()
    losses = [line["eval_loss"] for line in trainer.state.log_history if "eval_loss" in line]
    assert len(losses) == 3
    assert trainer.evaluate()["eval_loss"] == pytest.approx(min(losses), rel=1e-5)


def test_other_logits_are_refused(tmp_path, words):
    with pytest.raises(ValueError, match="has 3 logits"):
        verifier_trainer(tmp_path, text_pairs(2), words, llama(num_labels=3))


def test_a_language_model_is_refused(tmp_path, words):
    model = LlamaForCausalLM(llama().config)
    with pytest.raises(ValueError, match=r"`LlamaForCausalLM` .*head"):
        verifier_trainer(tmp_path, text_pairs(2), words, model)


@pytest.mark.parametrize("missing", ["chosen", "rejected"])
def test_a_missing_side_is_named(missing, tmp_path, words):
    with pytest.raises(ValueError, match=rf"lacks the column\(s\) \['{missing}'\]"):
        verifier_trainer(tmp_path, text_pairs(2).remove_columns(missing), words)


def test_three_trained_labels_in_a_folder_are_refused_unless_a_new_head_is_asked_for(tmp_path, words):
    llama(num_labels=3).save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match="3 logits"):
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


def test_a_dataset_with_only_overlong_pairs_is_refused(tmp_path, words):
    with pytest.raises(ValueError, match=r"2 of 2 pairs .*train set.*`max_length`"):
        verifier_trainer(tmp_path, token_pairs(2), words, max_length=3)


@pytest.mark.parametrize("as_folder", [False, True])
def test_adapter_trains_the_head_and_reloads_to_the_same_scores(tmp_path, words, as_folder):
    llama().save_pretrained(tmp_path / "base")
    base = str(tmp_path / "base") if as_folder else LlamaForSequenceClassification.from_pretrained(tmp_path / "base")
    peft_config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    trainer = verifier_trainer(tmp_path, text_pairs(8), words, base, peft_config=peft_config, max_steps=3)
    before = weights_of(trainer.model)
    trainer.train()
    trained = {name for name, parameter in trainer.model.named_parameters() if parameter.requires_grad}
    assert moved_since(trainer.model, before) == trained
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
    model = PeftModel(llama(), LoraConfig(r=2, target_modules=["q_proj"]))
    with caplog.at_level(logging.WARNING, logger="pvg_hf"):
        verifier_trainer(tmp_path, text_pairs(2), words, model)
    assert "head is frozen" in caplog.text


def test_quantised_model_trains_its_adapter_in_float32(tmp_path, words):
    pytest.importorskip("bitsandbytes", reason="needs the extra `quant`")
    from transformers import BitsAndBytesConfig

    llama().save_pretrained(tmp_path / "base")
    args = {"use_cpu": True, "report_to": "none", "max_steps": 1, "save_strategy": "no", "learning_rate": 1e-5}
    trainer = NoisyRewardTrainer(
        str(tmp_path / "base"),
        args=NoisyRewardConfig(str(tmp_path / "out"), warmup_steps=0, **args),
        train_dataset=text_pairs(8),
        processing_class=words,
        quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32),
        peft_config=LoraConfig(r=2, target_modules=["q_proj", "v_proj"]),
    )
    head = trainer.model.base_model.model.score.modules_to_save["default"].weight
    assert head.dtype == torch.float32
    before = head.detach().clone()
    trainer.train()
    assert (head != before).all()


CHAT = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }} [EOS]{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def _user(text):
    return [{"role": "user", "content": text}]


def _assistant(text):
    return [{"role": "assistant", "content": text}]


def _with_prompts(num_pairs=12):
    return Dataset.from_list(
        [{"prompt": f"w{i % 9} w1\n", "chosen": f"w{i % 5} good", "rejected": "bad"} for i in range(num_pairs)]
    )


def _chats(num_pairs=12, system=""):
    spoken = [{"role": "system", "content": system}] if system else []
    return Dataset.from_list(
        [
            {
                "prompt": spoken + _user(f"w{i % 9} w1"),
                "chosen": _assistant(f"w{i % 5} good"),
                "rejected": _assistant("bad"),
            }
            for i in range(num_pairs)
        ]
    )


def _whole_chats():
    return Dataset.from_list(
        [{"chosen": _user("w1") + _assistant("good"), "rejected": _user("w1") + _assistant("bad")}] * 4
    )


DATASETS = {
    "prompts": (_with_prompts(), "w2 w1\n", "w2 good"),
    "texts": (text_pairs(12), "", "w2 good"),
    "stream": (_with_prompts().to_iterable_dataset(), "w2 w1\n", "w2 good"),
    "chats": (_chats(), "w2 w1", "w2 good"),
    "chats with a system message": (_chats(system="{w3} good"), "w2 w1", "w2 good"),
    "whole chats": (_whole_chats(), "w1", "good"),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("decoder", name) for name in DATASETS), *(("encoder", name) for name in ("prompts", "texts", "stream"))],
)
def test_a_scorer_reads_what_was_trained_on(tmp_path, words, framed_words, name, kind):
    dataset, problem, solution = DATASETS[name]
    tokenizer, model = (words, llama()) if kind == "decoder" else (framed_words, bert())
    tokenizer.chat_template = CHAT
    trainer = verifier_trainer(tmp_path, dataset, tokenizer, model, max_steps=1)
    trainer.train()
    trainer.save_model(str(tmp_path / "verifier"))
    trained = next(
        iter(row for row in trainer.train_dataset if row["row_index"] == (0 if name == "whole chats" else 2))
    )
    scorer = VerifierScorer.from_pretrained(tmp_path / "verifier", device="cpu")
    assert scorer.verifier_input.encode(scorer.tokenizer, [problem], [solution]) == [trained["chosen_ids"]]
    with torch.inference_mode():
        score = trainer.model.eval()(input_ids=torch.tensor([trained["chosen_ids"]])).logits.item()
    assert scorer([problem], [solution]) == pytest.approx([score], abs=1e-5)


@pytest.mark.parametrize("name", ["prompts and replies", "whole chats"])
@pytest.mark.parametrize("role", ["assistant", "user"])
def test_chats_that_the_template_does_not_write_are_refused(tmp_path, words, name, role):
    words.chat_template = (
        f"{{% for message in messages if message['role'] != '{role}' %}}{{{{ message['content'] }}}} {{% endfor %}}"
    )
    dataset = _chats() if name == "prompts and replies" else DATASETS[name][0]
    with pytest.raises(ValueError, match=f"chat template leaves out the text of the {role}"):
        verifier_trainer(tmp_path, dataset, words)


def test_a_saved_verifier_is_trained_further_on_the_same_tokens(tmp_path, words):
    first = verifier_trainer(tmp_path, _with_prompts(), words)
    first.save_model(str(tmp_path / "verifier"))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "verifier")
    again = verifier_trainer(tmp_path, _with_prompts(), tokenizer)
    assert again.train_dataset["chosen_ids"][:] == first.train_dataset["chosen_ids"][:]
    again.save_model(str(tmp_path / "again"))
    assert VerifierInput.load(tmp_path / "again") == VerifierInput.load(tmp_path / "verifier")


def test_a_checkpoint_is_a_verifier_too(tmp_path, words):
    trainer = verifier_trainer(tmp_path, _with_prompts(), words, max_steps=1, save_strategy="steps", save_steps=1)
    trainer.train()
    assert VerifierInput.load(tmp_path / "out" / "checkpoint-1").template == "{{ problem }}{{ solution }}"


UNKNOWN = {"prompt": "w2 w1\n", "chosen": "w2 good w3 [EOS]", "rejected": "Zebra bad"}
UNKNOWN_CHAT = {"prompt": _user("w1"), "chosen": _assistant("w1"), "rejected": _assistant("Zebra")}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([UNKNOWN] * 4, "20%"),  # 5 of 4 + 13 + 8 characters
        ([UNKNOWN] * 4 + _with_prompts(12).to_list(), "8%"),  # 4 x 5 of 4 x 25 + 12 x 13
        ([UNKNOWN_CHAT] * 4, "56%"),  # 5 of 9
    ],
    ids=["texts", "a few of many", "chats"],
)
def test_texts_that_the_tokenizer_cannot_write_are_warned_of(tmp_path, words, caplog, rows, share, is_stream):
    words.chat_template = CHAT
    dataset = Dataset.from_list(rows)
    verifier_trainer(tmp_path, dataset.to_iterable_dataset() if is_stream else dataset, words, max_steps=1)
    (warning,) = [line.message for line in caplog.records if "cannot write the texts" in line.message]
    assert f"the train set: {share} of their characters are lost, e.g. in 'Zebra'" in warning


@pytest.mark.parametrize("name", ["prompts", "texts", "stream", "chats", "whole chats"])
def test_known_texts_are_not_warned_of(tmp_path, words, caplog, name):
    words.chat_template = CHAT
    verifier_trainer(tmp_path, DATASETS[name][0], words, max_steps=1)
    assert [line.message for line in caplog.records if "cannot write" in line.message] == []


def _turns():
    rows = _chats(4).to_list()
    rows[3]["prompt"] = _user("w1") + _assistant("w2") + _user("w3")
    return Dataset.from_list(rows)


@pytest.mark.parametrize("case", ["token ids", "several turns", "an encoder's chats, which TRL does not frame"])
def test_no_input_format_is_stored_if_no_template_gives_the_tokens(tmp_path, words, framed_words, case):
    dataset, is_encoder = {
        "token ids": (token_pairs(4), False),
        "several turns": (_turns(), False),
        "an encoder's chats, which TRL does not frame": (_chats(), True),
    }[case]
    tokenizer, model = (framed_words, bert()) if is_encoder else (words, llama())
    tokenizer.chat_template = CHAT
    trainer = verifier_trainer(tmp_path, dataset, tokenizer, model)
    trainer.save_model(str(tmp_path / "verifier"))
    assert trainer.verifier_input is None
    with pytest.raises(ValueError, match=r"verifier_input\.json"):
        VerifierScorer.from_pretrained(tmp_path / "verifier")


def test_token_ids_come_with_the_input_that_made_them(tmp_path, words):
    trainer = verifier_trainer(tmp_path, token_pairs(4), words)
    trainer.verifier_input = VerifierInput("{{ problem }} {{ solution }}", "[EOS]", 8)
    trainer.save_model(str(tmp_path / "verifier"))
    assert VerifierInput.load(tmp_path / "verifier") == VerifierInput("{{ problem }} {{ solution }}", None, 8)


TIMED = ("runtime", "per_second", "preparation_time")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A verifier, its pairs, and the results of two processes."""
    folder = tmp_path_factory.mktemp("processes")
    model = llama()
    with torch.no_grad():
        model.score.weight *= 50  # scores that differ
    model.save_pretrained(folder / "base")
    rows = token_pairs(8, source=["base", "base", "sneaky", "sneaky", "sneaky"] + ["base"] * 3)
    (folder / "rows.json").write_text(json.dumps(rows.to_list()))
    return folder


@pytest.fixture(scope="module")
def results(folder):
    words = make_tokenizer(eos_token="[EOS]")
    words.save_pretrained(folder / "base")
    run_on_two_processes("verifier_step.py", folder)
    return json.loads((folder / "results.json").read_text())


@pytest.mark.game
@pytest.mark.parametrize("name", SETTINGS)
def test_two_processes_count_every_pair_once_and_take_the_step_of_one(name, folder, results, words, tmp_path):
    result = results[name]
    assert result["num_processes"] == 2
    rows = Dataset.from_list(json.loads((folder / "rows.json").read_text()))
    model = LlamaForSequenceClassification.from_pretrained(folder / "base")
    eval_rows = rows.select(range(NUM_EVAL_PAIRS))
    trainer = verifier_trainer(tmp_path, rows, words, model, eval_dataset=eval_rows, **STEP, **SETTINGS[name])

    expected = {key: value for key, value in trainer.evaluate().items() if not key.endswith(TIMED)}
    assert expected["eval_num_pairs"] == NUM_EVAL_PAIRS
    assert {key: result["before"][key] for key in expected} == pytest.approx(expected, abs=1e-5)
    trainer.train()
    step = trainer.state.log_history[0]
    assert "loss" in step
    assert {key: result["log"][0][key] for key in step} == pytest.approx(step, abs=1e-5)
    trained = LlamaForSequenceClassification.from_pretrained(folder / name)
    for key, weight in weights_of(trainer.model).items():
        torch.testing.assert_close(trained.get_parameter(key), weight, atol=1e-6, rtol=1e-5)
