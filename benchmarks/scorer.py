"""
Speed of scoring with a verifier, compared with TRL's way of scoring with a reward model:

    python benchmarks/scorer.py "$PVG_GSM8K_DIR"

The texts are 2,048 with GSM8K's lengths: test problems with 8 solutions each, which are the reference with changed
numbers. The model is a Qwen2 with hidden size 512, 8 layers and random weights. TRL 1.16's path is `GRPOTrainer`'s for
a reward model: one forward per local batch, padded to its longest text. It is timed on texts in a trainer's order (all
solutions of a problem in a row) and in random order, as in a pool; pvg_hf sorts the texts itself in either case.
Prints one JSON object: `times_trl_32` is a ratio of texts per second, `tokens_trl_32` a ratio of computed tokens, and
`peak_extra_mb_N` the resident memory that scoring N texts adds to a process.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification

from pvg_hf.core.seeding import derive_rng
from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer
from pvg_hf.scoring.batching import group_by_beginning

SOLUTIONS_PER_PROBLEM = 8
BATCH_SIZES = (32, 256)
MAX_DIFFERENCE = 1e-4  # maximum difference between two ways' scores of a text
_NUMBER = re.compile(r"\d+")
_CALCULATOR = re.compile(r"<<.*?>>")


def make_texts(folder: Path, num_texts: int) -> tuple[list[str], list[str]]:
    """Make problems and solutions, with all solutions of a problem in a row."""
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    problems, solutions = [], []
    for row in rows[: num_texts // SOLUTIONS_PER_PROBLEM]:
        reference = _CALCULATOR.sub("", row["answer"])
        for sample in range(SOLUTIONS_PER_PROBLEM):
            problems.append(row["question"])
            solutions.append(change_numbers(reference, derive_rng(0, row["question"], sample)))
    return problems, solutions


def change_numbers(text: str, rng: np.random.Generator) -> str:
    """Replace a third of the numbers by others with equally many digits."""

    def change(match: re.Match) -> str:
        low = 10 ** (len(match[0]) - 1)
        return str(rng.integers(low, 10 * low)) if rng.random() < 1 / 3 else match[0]

    return _NUMBER.sub(change, text)


@torch.inference_mode()
def score_like_trl(model, tokenizer, texts: list[str], batch_size: int) -> list[float]:
    scores = []
    for start in range(0, len(texts), batch_size):
        inputs = tokenizer(
            text=texts[start : start + batch_size],
            return_tensors="pt",
            padding=True,
            padding_side="right",
            add_special_tokens=False,
        )
        scores += model(**inputs.to(model.device)).logits[:, 0].tolist()
    return scores


def seconds(run: Callable[[], list[float]]) -> tuple[float, list[float]]:
    start = time.perf_counter()
    scores = run()
    return time.perf_counter() - start, scores


def matrix_rate(device: str) -> float:
    """Multiply-adds per second of a large matrix product in float32."""
    left, right = torch.randn(4096, 512, device=device), torch.randn(512, 2048, device=device)
    repeats = 40
    start = time.perf_counter()
    for _ in range(repeats):
        product = left @ right
    product.sum().item()
    return repeats * 4096 * 512 * 2048 / (time.perf_counter() - start)


@dataclass(frozen=True)
class Setting:
    """A model, and the texts to score."""

    model: Qwen2ForSequenceClassification
    tokenizer: PreTrainedTokenizerFast
    verifier_input: VerifierInput
    problems: list[str]
    solutions: list[str]

    @classmethod
    def prepare(cls, folder: Path, num_texts: int) -> "Setting":
        train = (folder / "train.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in train]
        texts = [row["question"] + "\n" + _CALCULATOR.sub("", row["answer"]) for row in rows]
        tokenizer = train_tokenizer(texts, 16384)
        torch.manual_seed(0)
        config = Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=512,
            num_hidden_layers=8,
            num_attention_heads=8,
            num_key_value_heads=2,
            intermediate_size=1408,
            num_labels=1,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
        model = Qwen2ForSequenceClassification(config).eval().to("cuda" if torch.cuda.is_available() else "cpu")
        verifier_input = VerifierInput("{{ problem }}\n{{ solution }}", tokenizer.eos_token, 1024)
        return cls(model, tokenizer, verifier_input, *make_texts(folder, num_texts))

    def score(self, limit: int | None = None, **settings) -> list[float]:
        scorer = VerifierScorer(self.model, self.tokenizer, self.verifier_input, **settings)
        return scorer(self.problems[:limit], self.solutions[:limit])

    def score_like_trl(self, batch_size: int, order: Sequence[int]) -> list[float]:
        end = self.tokenizer.eos_token
        texts = [f"{self.problems[index]}\n{self.solutions[index]}{end}" for index in order]
        scores = score_like_trl(self.model, self.tokenizer, texts, batch_size)
        return [score for _, score in sorted(zip(order, scores, strict=True))]


def time_all(setting: Setting, orders: dict[str, Sequence[int]], repeats: int) -> dict[str, float]:
    """Time each way `repeats` times, keep the fastest, and check that all ways give the same scores."""
    runs = {
        f"trl_{batch_size}{suffix}": partial(setting.score_like_trl, batch_size, order)
        for suffix, order in orders.items()
        for batch_size in BATCH_SIZES
    }
    runs |= {"sorted": partial(setting.score, shares_beginnings=False), "shared": setting.score}
    setting.score(64)  # warm up: the first forwards of a process are slower
    best: dict[str, float] = {}  # minimum over repeats: disturbances only add time
    expected: list[float] | None = None
    for _ in range(repeats):
        for name, run in runs.items():
            taken, scores = seconds(run)
            print(f"{name}: {taken:.1f} s", file=sys.stderr)
            best[name] = min(best.get(name, taken), taken)
            expected = expected or scores
            difference = max(abs(a - b) for a, b in zip(scores, expected))
            if difference > MAX_DIFFERENCE:
                raise RuntimeError(f"{name} scores a text {difference} apart from {next(iter(runs))}.")
    return best


def padded_tokens(lengths: list[int], order: Sequence[int], batch_size: int) -> int:
    """Number of computed tokens: rows times the longest text, summed over batches."""
    batches = [
        [lengths[index] for index in order[start : start + batch_size]] for start in range(0, len(order), batch_size)
    ]
    return sum(max(batch) * len(batch) for batch in batches)


def peak_mb(folder: Path, num_texts: int) -> float:
    """Resident memory in megabytes that scoring adds to a separate process."""
    command = [sys.executable, __file__, folder, "--texts", str(num_texts), "--peak"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def print_peak(setting: Setting) -> None:
    setting.score(64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    setting.score()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)  # KiB on Linux


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds GSM8K's train.jsonl and test.jsonl")
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=1, help="repetitions of each way, of which the fastest counts")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    setting = Setting.prepare(arguments.folder, arguments.texts)
    if arguments.peak:
        print_peak(setting)
        return

    numbers = range(len(setting.problems))
    orders = {"": numbers, "_shuffled": derive_rng(0, "order").permutation(len(numbers)).tolist()}
    best = time_all(setting, orders, arguments.repeats)
    inputs = setting.verifier_input.encode(setting.tokenizer, setting.problems, setting.solutions)
    lengths = [len(ids) for ids in inputs]
    weights = sum(values.numel() for name, values in setting.model.named_parameters() if "embed" not in name)
    groups, _ = group_by_beginning(inputs, setting.problems)
    distinct = sum(lengths) - sum(group.num_shared * (len(group.members) - 1) for group in groups)
    device = setting.model.device.type
    result = {
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads",
        "num_texts": len(lengths),
        "mean_tokens": round(sum(lengths) / len(lengths), 1),
        "share_of_distinct_tokens": round(distinct / sum(lengths), 3),
        **{f"texts_per_second_{name}": round(len(lengths) / taken, 1) for name, taken in best.items()},
        **{f"times_{name}": round(taken / best["shared"], 2) for name, taken in best.items() if name != "shared"},
        **{
            f"tokens_trl_{batch_size}{suffix}": round(padded_tokens(lengths, order, batch_size) / distinct, 2)
            for suffix, order in orders.items()
            for batch_size in BATCH_SIZES
        },
        "times_floor": round(best["shared"] / (weights * distinct / matrix_rate(device)), 2),
        **{
            f"peak_extra_mb_{number}": round(peak_mb(arguments.folder, number), 1)
            for number in (arguments.texts // 4, arguments.texts, 2 * arguments.texts)
        },
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
