"""What `NoisyRewardTrainer` stores of its input, so that a scorer reads the verifier as it was trained."""

import pytest
import torch
from datasets import Dataset
from transformers import AutoTokenizer

from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer
from tests.support.verifier_training import bert, llama, text_pairs, token_pairs, verifier_trainer

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


def _turns():
    rows = _chats(4).to_list()
    rows[3]["prompt"] = _user("w1") + _assistant("w2") + _user("w3")
    return Dataset.from_list(rows)


@pytest.mark.parametrize("case", ["token ids", "several turns", "an encoder's chats, which TRL does not frame"])
def test_nothing_is_stored_where_no_template_gives_the_tokens(tmp_path, words, framed_words, case):
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
