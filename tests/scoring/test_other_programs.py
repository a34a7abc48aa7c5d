"""A saved verifier's scores in plain transformers and in TRL are those of `VerifierScorer`."""

import json

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, processors
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline
from trl import GRPOConfig, GRPOTrainer

from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer
from tools.pretraining.tokenizers import build_arithmetic_tokenizer

PROBLEM = "Ana has 3 pens.\nBen has 2 more than Ana.\nHow many pens does Ben have?"
SOLUTIONS = ["Ana has 3\nBen has 3 + 2 = 5\n#### 5", "Ana has 3\n#### 3", "#### 6", ""]
TEXTS = [f"{PROBLEM}\n{solution}" for solution in SOLUTIONS]
INPUT = VerifierInput("{{ problem }}\n{{ solution }}", "</s>", 256)


def _with_bos():
    """A tokenizer that frames texts like Llama 3's."""
    tokenizer = train_tokenizer([*TEXTS, "Ben has 4 coins."], 300)
    tokenizer.add_special_tokens({"bos_token": "<bos>"})
    bos = processors.TemplateProcessing("<bos> $A", special_tokens=[("<bos>", tokenizer.bos_token_id)])
    tokenizer.backend_tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), bos])
    return tokenizer


TOKENIZERS = {
    "words": build_arithmetic_tokenizer,
    "bytes": lambda: train_tokenizer([*TEXTS, "Ben has 4 coins."], 300),
    "bytes after a beginning": _with_bos,
}


@pytest.fixture(scope="module", params=sorted(TOKENIZERS))
def folder(request, tmp_path_factory):
    """A saved verifier."""
    folder, tokenizer = tmp_path_factory.mktemp("verifier"), TOKENIZERS[request.param]()
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    config = AutoConfig.for_model(
        "llama", vocab_size=len(tokenizer), num_labels=1, initializer_range=0.2, **sizes, **ids
    )
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    INPUT.save_with(tokenizer, folder)
    return folder


def _before(folder):
    """The scorer's inputs if the end token is added by the caller."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_bos_token = tokenizer.bos_token is not None
    tokenizer.add_eos_token = False
    return INPUT.encode(tokenizer, [PROBLEM] * len(SOLUTIONS), SOLUTIONS)


def test_the_saved_tokenizer_appends_the_end_token_once(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert json.loads((folder / "verifier_input.json").read_text())["end_token"] is None
    ids = _before(folder)
    assert all(row[-1] == tokenizer.eos_token_id != row[-2] for row in ids)
    assert tokenizer(TEXTS)["input_ids"] == ids
    # as servers read it, without transformers
    assert [row.ids for row in Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(TEXTS)] == ids
    for verifier_input in (VerifierInput.load(folder), INPUT):  # the latter as somebody may write it by hand
        assert verifier_input.encode(tokenizer, [PROBLEM] * len(SOLUTIONS), SOLUTIONS) == ids


def test_saving_the_tokenizer_again_changes_nothing(folder, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    VerifierInput.load(folder).save_with(tokenizer, tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]
    assert VerifierInput.load(tmp_path) == VerifierInput.load(folder)


def test_plain_transformers_agrees_with_the_scorer(folder):
    scores = VerifierScorer.from_pretrained(folder, device="cpu")([PROBLEM] * len(SOLUTIONS), SOLUTIONS)
    classify = pipeline("text-classification", str(folder), function_to_apply="none", device="cpu")
    assert [found["score"] for found in classify(TEXTS)] == pytest.approx(scores, abs=1e-4)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        assert model(**inputs).logits[:, 0].tolist() == pytest.approx(scores, abs=1e-4)


def test_a_tokenizer_without_an_end_token_of_its_own_is_saved_as_it_is(tmp_path):
    tokenizer = build_arithmetic_tokenizer()
    VerifierInput("{{ problem }}{{ solution }}", None, 64).save_with(tokenizer, tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)("has 3")["input_ids"] == tokenizer("has 3")["input_ids"]


# As a reward function


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    folder, tokenizer = tmp_path_factory.mktemp("scorer"), build_arithmetic_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = AutoConfig.for_model(
        "llama", vocab_size=len(tokenizer), num_labels=1, initializer_range=0.2, pad_token_id=0, **sizes
    )
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    INPUT.save_with(tokenizer, folder)
    return VerifierScorer.from_pretrained(folder, device="cpu")


def _said(text):
    return [{"role": "assistant", "content": text}]


@pytest.mark.parametrize(
    "completions",
    [
        SOLUTIONS,
        [_said(text) for text in SOLUTIONS],
        [_said([{"type": "text", "text": text}]) for text in SOLUTIONS],
    ],
    ids=["texts", "conversations", "parts"],
)
def test_rewards_are_the_scores(scorer, completions):
    scores = scorer([PROBLEM] * len(SOLUTIONS), SOLUTIONS)
    prompts, problems = ["asked for it"] * len(SOLUTIONS), [PROBLEM] * len(SOLUTIONS)
    settings = {"completions": completions, "completion_ids": [[1]] * len(SOLUTIONS), "trainer_state": None}
    assert scorer.as_reward_func()(prompts=prompts, problem=problems, **settings) == scores
    named = scorer.as_reward_func(problem_column="question")
    assert named(prompts=prompts, question=problems, **settings) == scores
    asked = scorer.as_reward_func(problem_column="prompt")
    assert asked(prompts=problems, **settings) == scores
    assert asked(prompts=[[{"role": "user", "content": PROBLEM}]] * len(SOLUTIONS), **settings) == scores


def test_a_missing_column_is_named(scorer):
    with pytest.raises(ValueError, match=r"`problem`.*\['question'\]"):
        scorer.as_reward_func()(
            prompts=["p"], completions=["s"], completion_ids=[[1]], question=["q"], trainer_state=None
        )


@pytest.mark.parametrize("is_chat", [False, True])
def test_trl_trains_with_the_saved_verifier(scorer, tiny_prover, tmp_path, is_chat):
    problems = [f"Ana has {number} pens. How many pens does Ana have?" for number in range(3, 7)]
    tokenizer = AutoTokenizer.from_pretrained(tiny_prover)
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    ask = (lambda text: [{"role": "user", "content": text}]) if is_chat else (lambda text: f"{text}\n")
    seen = []

    def log(completions, problem, **columns):
        seen.extend(zip(problem, [c if isinstance(c, str) else c[-1]["content"] for c in completions], strict=True))
        return [None] * len(completions)

    trainer = GRPOTrainer(
        str(tiny_prover),
        reward_funcs=[scorer.as_reward_func(), log],
        processing_class=tokenizer,
        args=GRPOConfig(
            str(tmp_path),
            use_cpu=True,
            bf16=False,
            activation_checkpointing=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            max_steps=1,
            logging_steps=1,
            max_completion_length=8,
            num_generations=4,
            per_device_train_batch_size=8,
        ),
        train_dataset=Dataset.from_list([{"prompt": ask(text), "problem": text} for text in problems]),
    )
    trainer.train()
    scores = scorer(*map(list, zip(*seen, strict=True)))
    logged = next(entry for entry in trainer.state.log_history if "rewards/verifier/mean" in entry)
    assert logged["rewards/verifier/mean"] == pytest.approx(sum(scores) / len(scores), abs=1e-4)
