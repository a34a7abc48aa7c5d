"""Tokenizers that can write a task's texts, and those that cannot."""

import json
import shutil

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from pvg_hf import load_recipe, load_task
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.vocabulary import share_lost
from tests.support.chat_templates import LAST_TURN_ONLY, REFUSED_TEMPLATES
from tools.pretraining.tokenizers import build_arithmetic_tokenizer

TEXTS = [
    "Tom has 3 boxes of 4 pens. He loses 2 pens.\nHow many are left?",
    "He has 3 * 4 = 12 pens.\n  12 - 2 = 10 are left.\n#### 10",
    "\\frac{1}{2} + \\sqrt{x_1} ≤ π, says Zoë: “naïve” 中文 🧮",
]


def byte_level():
    return train_tokenizer(TEXTS[:1], 300)


def byte_fallback():
    """A tokenizer like Llama 2's: words begin with a sign for a space, and unknown characters are bytes."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    trained.train_from_iterator(TEXTS[:1], trainers.BpeTrainer(special_tokens=special, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def word_pieces():
    """A tokenizer like an uncased BERT's: lower case, no accents, no white space."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


@pytest.mark.parametrize("build", [byte_level, byte_fallback, word_pieces])
def test_tokenizers_like_those_of_pretrained_models_lose_nothing(build):
    assert share_lost(build(), TEXTS) == 0


def test_a_tokenizer_of_few_words_loses_the_others():
    tokenizer = build_arithmetic_tokenizer()
    task = load_task("arithmetic", num_train=50)
    problems = task.problems("train")
    assert share_lost(tokenizer, [*problems["problem"], *problems["reference"]]) == 0
    assert share_lost(tokenizer, ["Ana has Zebra."]) == pytest.approx(5 / 12)
    assert share_lost(tokenizer, TEXTS) > 0.2


@pytest.fixture
def letters(tmp_path, monkeypatch) -> str:
    """A custom task whose texts do not use the arithmetic task's words."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "letters_task.py").write_text(
        "from tests.support.recall_task import RecallTask\n\n"
        "class Letters(RecallTask):\n"
        "    name = 'letters'\n"
        "    def problems(self, split):\n"
        "        return super().problems(split).map(lambda row: {'problem': 'Sortiere ' + row['problem']})\n"
    )
    return "letters_task:Letters"


def test_a_task_that_the_built_in_players_cannot_read_is_a_mistake(letters, values):
    values = {**values, "task": {"name": letters}, "prover": {}, "verifier": {}}
    recipe = load_recipe(values)
    mistakes = check_recipe(recipe, GameProblems.load(recipe))
    assert len(mistakes) == 2
    for player, mistake in zip(("prover", "verifier"), mistakes, strict=True):
        parts = [f"`{player}.model` is `arithmetic`", f"`{letters}`", "'Sortiere'", f"Set `{player}.model`"]
        assert [part for part in parts if part not in mistake] == []


def test_a_player_from_scratch_reads_any_task(letters, values):
    new = {"scratch": {"config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}}, "warmup": {}}
    values = {**values, "task": {"name": letters}, "prover": new, "verifier": new}
    recipe = load_recipe(values)
    assert check_recipe(recipe, GameProblems.load(recipe)) == []


@pytest.mark.parametrize("player", ["prover", "verifier"])
@pytest.mark.parametrize("name", REFUSED_TEMPLATES)
def test_a_chat_template_that_does_not_write_a_problem_is_a_mistake_of_a_player_that_writes(
    name, player, tiny_prover, tmp_path, values
):
    chat_template, _ = REFUSED_TEMPLATES[name]
    folder = shutil.copytree(tiny_prover, tmp_path / "chatting")
    (folder / "chat_template.jinja").write_text(chat_template)
    recipe = load_recipe(values, [f"{player}.model={folder}"])
    mistakes = check_recipe(recipe, GameProblems.load(recipe))
    if player == "verifier":  # one with a head reads its own template
        assert mistakes == []
    else:
        (mistake,) = mistakes
        assert f"`prover.model` is `{folder}`: In a chat" in mistake


@pytest.mark.parametrize("player", ["prover", "verifier"])
def test_a_chat_template_is_tried_with_whole_prompts(player, tiny_prover, tmp_path, values):
    """A problem of one line would be written by a template that drops the first line, but no prompt with it."""
    folder = shutil.copytree(tiny_prover, tmp_path / "chatting")
    (folder / "chat_template.jinja").write_text(REFUSED_TEMPLATES["drops the first line"][0])
    settings = [
        f"{player}.model={folder}",
        "verifier.kind=score",
        "task.name=tests.support.recall_task:JudgedRecallTask",
    ]
    recipe = load_recipe(values, settings)
    mistakes = check_recipe(recipe, GameProblems.load(recipe))
    assert [f"`{player}.model` is `{folder}`: In a chat" in mistake for mistake in mistakes].count(True) == 1


@pytest.mark.parametrize(("few_shot", "number"), [(0, 0), (1, 1)])
def test_a_chat_template_that_leaves_out_the_examples_is_a_mistake(few_shot, number, tiny_prover, tmp_path, values):
    folder = shutil.copytree(tiny_prover, tmp_path / "chatting")
    (folder / "chat_template.jinja").write_text(LAST_TURN_ONLY)
    recipe = load_recipe(values, [f"prover.model={folder}", "task={name: arithmetic}", f"task.few_shot={few_shot}"])
    mistakes = check_recipe(recipe, GameProblems.load(recipe))
    assert ["`task.few_shot: 0`" in mistake for mistake in mistakes] == [True] * number


def test_a_folder_without_a_tokenizer_is_a_mistake(tiny_prover, tmp_path, values):
    folder = shutil.copytree(tiny_prover, tmp_path / "bare", ignore=shutil.ignore_patterns("tokenizer*"))
    recipe = load_recipe(values, [f"prover.model={folder}"])
    (mistake,) = check_recipe(recipe, GameProblems.load(recipe))
    assert "a folder without a tokenizer" in mistake
