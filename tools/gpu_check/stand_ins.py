"""Makes players of realistic sizes with random weights, and problems as long as GSM8K's, without any download."""

import json
import os
import random
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedTokenizerBase

from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.sources import load_tokenizer

CONFIGS = Path(__file__).parent / "configs"
NUM_PROBLEMS = {"train": 7473, "test": 1319}  # the same as GSM8K
TOY_PROBLEMS = {"train": 300, "test": 30}
# Share of problems by number of solution steps, as in GSM8K's training set.
STEPS = {2: 0.26, 3: 0.29, 4: 0.22, 5: 0.13, 6: 0.06, 7: 0.03, 8: 0.01}
TOY_SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 2048,
}
TOY_VOCABULARY = 2048
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_NAMES = ("Ana", "Ben", "Chloe", "Dmitri", "Esther", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Keiko", "Liam")
_THINGS = ("apples", "books", "candles", "dollars", "eggs", "flowers", "letters", "marbles", "pages", "stickers")
_EVENTS = (  # sentence of the question, verb of the solution, sign of the change
    ("On {day} {name} buys {n} more {things}.", "buys", 1),
    ("{name} gives {n} {things} away on {day}.", "gives away", -1),
    ("A friend brings {n} {things} on {day}.", "is brought", 1),
    ("By the end of {day} {n} {things} are lost.", "loses", -1),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def published_name(model: str) -> str:
    """Folder name of the stand-in for a Hub id: the last part of the id."""
    return model.rpartition("/")[2]


def published_settings(model: str) -> dict[str, Any]:
    """
    Configuration that the Hub publishes for a model, without its special tokens.

    Args:
        model: Hub id of a model with a configuration in `configs/`.
    """
    return json.loads((CONFIGS / f"{published_name(model)}.json").read_text(encoding="utf-8"))


def make_player(model: str, folder: Path, *, is_toy: bool) -> Path:
    """
    Save random weights of a model's size in bfloat16, and a tokenizer of equal vocabulary size, unless they exist.

    Args:
        model: Hub id of a model with a configuration in `configs/`.
        folder: Folder of the stand-ins, which share a tokenizer if their vocabularies are of one size.
        is_toy: Whether to make a player with two narrow layers instead.
    Returns: the player's folder.
    """
    place = folder / published_name(model)
    if place.exists():
        return place
    settings = published_settings(model)
    tokenizer = _make_tokenizer(folder / f"tokenizer-{settings['vocab_size']}", settings["vocab_size"], is_toy=is_toy)
    settings |= TOY_SIZES | {"vocab_size": len(tokenizer)} if is_toy else {}
    settings |= {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        weights = AutoModelForCausalLM.from_config(
            CONFIG_MAPPING[settings["model_type"]](**settings), dtype=torch.bfloat16, trust_remote_code=False
        )
    partial = folder / f".{place.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    weights.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(place)
    return place


def _make_tokenizer(folder: Path, vocab_size: int, *, is_toy: bool) -> PreTrainedTokenizerBase:
    """
    Make a byte-level BPE tokenizer with the models' vocabulary size.

    Most tokens are nonsense words, so that random samples are tokenized again into about as many tokens.
    """
    if not folder.exists():
        rng = random.Random(0)
        texts = [f"{row['question']}\n{row['answer']}" for row in _write_problems("train", 500)]
        if not is_toy:
            texts += [" " + " ".join(_nonsense(rng) for _ in range(50)) for _ in range(vocab_size // 50)]
        tokenizer = train_tokenizer(texts, TOY_VOCABULARY if is_toy else vocab_size)
        tokenizer.chat_template = CHAT_TEMPLATE
        tokenizer.save_pretrained(folder)
    return load_tokenizer(folder)


def _nonsense(rng: random.Random) -> str:
    return "".join(rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(2, 5)))


def make_problems(folder: Path, *, is_toy: bool) -> Path:
    """
    Folder with `train.jsonl` and `test.jsonl`: GSM8K from `PVG_GSM8K_DIR` if set, else stories of the same length;
    fewer ones of these for a toy.
    """
    if "PVG_GSM8K_DIR" in os.environ and not is_toy:
        return Path(os.environ["PVG_GSM8K_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    for split, number in (TOY_PROBLEMS if is_toy else NUM_PROBLEMS).items():
        file = folder / f"{split}.jsonl"
        if not file.exists():
            partial = file.with_suffix(".partial")
            partial.write_text("".join(json.dumps(row) + "\n" for row in _write_problems(split, number)))
            partial.rename(file)
    return folder


def make_wrong_solutions(problems: Iterable[Mapping[str, Any]], file: Path) -> Path:
    """
    Write references with a changed final answer, as wrong solutions for the bootstrap.

    Random weights write no solution with an answer, so that the game needs these.

    Args:
        problems: Problems with `problem` and `reference`; the reference's last line is `####` and a whole number.
        file: A `.jsonl` file.
    """
    with file.open("w", encoding="utf-8") as output:
        for row in problems:
            steps, _, answer = row["reference"].rpartition("#### ")
            for off_by in (1, 2):
                wrong = int(answer.replace(",", "")) + off_by
                output.write(json.dumps({"problem": row["problem"], "solution": f"{steps}#### {wrong}"}) + "\n")
    return file


def _write_problems(split: str, number: int) -> Iterator[dict[str, str]]:
    """Make word problems with as many steps as GSM8K's; a question has about 230 characters."""
    rng = random.Random(split)
    for index in range(number):
        name, things = rng.choice(_NAMES), rng.choice(_THINGS)
        total = rng.randint(100, 900)
        story = [f"At the beginning of week {index} {name} has {total} {things} in a box."]
        lines = []
        for _ in range(rng.choices(list(STEPS), list(STEPS.values()))[0]):
            text, verb, sign = rng.choice(_EVENTS)
            amount = rng.randint(2, 9)
            story.append(text.format(day=rng.choice(_DAYS), name=name, n=amount, things=things))
            before, total = total, total + sign * amount
            sum_of = f"{before}{'+' if sign > 0 else '-'}{amount}"
            lines.append(
                f"{name} {verb} {amount} {things}, so that there are {sum_of} = <<{sum_of}={total}>>{total} {things}"
                " now."
            )
        story.append(f"How many {things} does {name} have now?")
        yield {"question": " ".join(story), "answer": "\n".join([*lines, f"#### {total}"])}
