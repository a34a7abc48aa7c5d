"""A saved verifier's scores in plain transformers and in TRL are those of `VerifierScorer`."""

import json
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, processors
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline
from trl import GRPOConfig, GRPOTrainer

from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer
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


def test_the_chat_template_writes_the_input(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chats = [[{"role": "system", "content": "Be kind."}, _asked(PROBLEM), *_said(text)] for text in SOLUTIONS]
    texts = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats]
    assert tokenizer(texts, add_special_tokens=False)["input_ids"] == _before(folder)


@pytest.mark.parametrize(
    "template", ["\n{{ problem }}\n{% if solution %}\n{{ solution }}{% endif %}\n", "{{ problem }}: {{ solution }}"]
)
def test_the_chat_template_keeps_white_space(tmp_path, template):
    verifier_input = VerifierInput(template, "</s>", 256)
    verifier_input.save_with(TOKENIZERS["bytes"](), tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = tokenizer.apply_chat_template([_asked(PROBLEM), *_said("#### 5")], tokenize=False)
    assert text == f"{verifier_input.render(PROBLEM, '#### 5')}</s>"


def test_a_tokenizer_without_an_end_token_of_its_own_is_saved_as_it_is(tmp_path):
    tokenizer = build_arithmetic_tokenizer()
    VerifierInput("{{ problem }}{{ solution }}", None, 64).save_with(tokenizer, tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)("has 3")["input_ids"] == tokenizer("has 3")["input_ids"]


# As the trainer saves it


def _train(folder, tokenizer):
    """Train a verifier on texts for a step, and save it."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(
        AutoConfig.for_model("llama", vocab_size=len(tokenizer), num_labels=1, initializer_range=0.2, **sizes, **ids)
    )
    pairs = [{"prompt": f"{PROBLEM}\n", "chosen": SOLUTIONS[0], "rejected": text} for text in SOLUTIONS[1:3]]
    settings = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    trainer = NoisyRewardTrainer(
        model,
        args=NoisyRewardConfig(str(folder), max_steps=1, max_length=128, **settings),
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(str(folder))


@pytest.fixture(scope="module", params=["padding token", "end token as padding"])
def trained(request, tmp_path_factory):
    folder, tokenizer = tmp_path_factory.mktemp("trained"), TOKENIZERS["bytes"]()
    if request.param == "end token as padding":
        tokenizer.pad_token = tokenizer.eos_token
    _train(folder, tokenizer)
    return folder


def test_servers_find_a_classifier_that_returns_raw_scores(trained):
    config = json.loads((trained / "config.json").read_text())
    assert config["architectures"] == ["LlamaForSequenceClassification"]
    assert (config["id2label"], config["label2id"]) == ({"0": "LABEL_0"}, {"LABEL_0": 0})  # one label, as TEI counts
    assert config["problem_type"] == "regression"  # for which vLLM and `pipeline` leave the logit as it is
    assert (config["dtype"], config["max_position_embeddings"] >= 128) == ("float32", True)
    assert {"model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= {
        path.name for path in trained.iterdir()
    }
    scores = VerifierScorer.from_pretrained(trained, device="cpu")([f"{PROBLEM}\n"] * len(SOLUTIONS), SOLUTIONS)
    classify = pipeline("text-classification", str(trained), device="cpu")
    assert [found["score"] for found in classify(TEXTS)] == pytest.approx(scores, abs=1e-4)


def test_the_head_reads_the_last_token_as_servers_do(trained):
    model = AutoModelForSequenceClassification.from_pretrained(trained).eval()
    encode = Tokenizer.from_file(str(trained / "tokenizer.json")).encode_batch  # what servers call
    scores = VerifierScorer.from_pretrained(trained, device="cpu")([f"{PROBLEM}\n"] * len(SOLUTIONS), SOLUTIONS)
    for score, row in zip(scores, encode(TEXTS), strict=True):
        with torch.inference_mode():
            hidden = model.model(input_ids=torch.tensor([row.ids])).last_hidden_state
            assert model.score(hidden[0, -1]).item() == pytest.approx(score, abs=1e-4)


# As a reward function


def _asked(text):
    return {"role": "user", "content": text}


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


@pytest.mark.parametrize(("is_chat", "is_folder"), [(False, False), (True, False), (True, True)])
def test_trl_trains_with_the_saved_verifier(scorer, tiny_prover, tmp_path, is_chat, is_folder):
    problems = [f"Ana has {number} pens. How many pens does Ana have?" for number in range(3, 7)]
    tokenizer = AutoTokenizer.from_pretrained(tiny_prover)
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    ask = (lambda text: [_asked(text)]) if is_chat else (lambda text: f"{text}\n")
    seen = []

    def log(completions, problem, **columns):
        seen.extend(zip(problem, [c if isinstance(c, str) else c[-1]["content"] for c in completions], strict=True))
        return [None] * len(completions)

    folder = scorer.model.config.name_or_path
    trainer = GRPOTrainer(
        str(tiny_prover),
        reward_funcs=[folder if is_folder else scorer.as_reward_func(), log],
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
    key = f"rewards/{Path(folder).name if is_folder else 'verifier'}/mean"
    logged = next(entry for entry in trainer.state.log_history if key in entry)
    assert logged[key] == pytest.approx(sum(scores) / len(scores), abs=1e-4)
