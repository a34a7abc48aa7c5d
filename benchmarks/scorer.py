"""
How fast a verifier is read, against TRL's way of reading a reward model:

    python benchmarks/scorer.py "$PVG_GSM8K_DIR"

2,048 texts of GSM8K's lengths: test problems with 8 solutions each, the reference with its numbers changed. A Qwen2 of
hidden size 512 and 8 layers with random weights. TRL 1.16's path is `GRPOTrainer`'s for a reward model: a local batch of
texts, padded to its longest, in one forward. It meets the texts as a trainer's batch holds them (a problem's solutions in a
row) and shuffled, as the solutions of a pool may lie; this package's order is its own either way. Prints one JSON object;
`times_trl_32` is a ratio of texts per second, and `ceiling_` what the number of tokens alone would allow.
"""

import argparse
import json
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForSequenceClassification

from pvg_hf.models.scratch import train_tokenizer
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer
from pvg_hf.scoring.groups import group_by_beginning
from pvg_hf.seeding import derive_rng

SOLUTIONS_PER_PROBLEM = 8
MAX_DIFFERENCE = 1e-4  # of a text's scores
_NUMBER = re.compile(r"\d+")
_CALCULATOR = re.compile(r"<<.*?>>")


def make_texts(folder: Path, num_texts: int) -> tuple[list[str], list[str]]:
    """Problems and solutions, a problem's solutions in a row."""
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    problems, solutions = [], []
    for row in rows[: num_texts // SOLUTIONS_PER_PROBLEM]:
        reference = _CALCULATOR.sub("", row["answer"])
        for sample in range(SOLUTIONS_PER_PROBLEM):
            problems.append(row["question"])
            solutions.append(change_numbers(reference, derive_rng(0, row["question"], sample)))
    return problems, solutions


def change_numbers(text: str, rng: np.random.Generator) -> str:
    """A third of the numbers become others of equally many digits."""

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
    """Multiply-adds per second of a large product in float32."""
    left, right = torch.randn(4096, 512, device=device), torch.randn(512, 2048, device=device)
    repeats = 40
    start = time.perf_counter()
    for _ in range(repeats):
        product = left @ right
    product.sum().item()
    return repeats * 4096 * 512 * 2048 / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds GSM8K's train.jsonl and test.jsonl")
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=2, help="the fastest of so many is taken of each")
    arguments = parser.parse_args()

    train = (arguments.folder / "train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in train]
    tokenizer = train_tokenizer([row["question"] + "\n" + _CALCULATOR.sub("", row["answer"]) for row in rows], 16384)
    problems, solutions = make_texts(arguments.folder, arguments.texts)
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
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Qwen2ForSequenceClassification(config).eval().to(device)
    verifier_input = VerifierInput("{{ problem }}\n{{ solution }}", tokenizer.eos_token, 1024)
    texts = [f"{problem}\n{solution}{tokenizer.eos_token}" for problem, solution in zip(problems, solutions)]

    def ours(limit: int | None = None, **settings) -> list[float]:
        return VerifierScorer(model, tokenizer, verifier_input, **settings)(problems[:limit], solutions[:limit])

    shuffled = derive_rng(0, "order").permutation(len(texts)).tolist()

    def like_trl(batch_size: int, order: Sequence[int]) -> list[float]:
        scores = score_like_trl(model, tokenizer, [texts[index] for index in order], batch_size)
        return [score for _, score in sorted(zip(order, scores, strict=True))]

    in_a_row = range(len(texts))
    runs = {
        "trl_32": lambda: like_trl(32, in_a_row),
        "trl_256": lambda: like_trl(256, in_a_row),
        "trl_32_shuffled": lambda: like_trl(32, shuffled),
        "trl_256_shuffled": lambda: like_trl(256, shuffled),
        "sorted": lambda: ours(shares_beginnings=False),
        "shared": ours,
    }
    ours(64)  # the first forwards of a process are slower
    best: dict[str, float] = {}
    for _ in range(arguments.repeats):
        for name, run in runs.items():
            taken, scores = seconds(run)
            print(f"{name}: {taken:.1f} s", file=sys.stderr)
            best[name] = min(best.get(name, taken), taken)
            if name == "trl_32":
                expected = scores
            difference = max(abs(a - b) for a, b in zip(scores, expected))
            if difference > MAX_DIFFERENCE:
                raise RuntimeError(f"{name} scores a text {difference} apart from {next(iter(runs))}.")

    inputs = verifier_input.encode(tokenizer, problems, solutions)
    weights = sum(parameter.numel() for name, parameter in model.named_parameters() if "embed" not in name)
    groups, _ = group_by_beginning(inputs, problems)
    distinct = sum(map(len, inputs)) - sum(group.num_shared * (len(group.members) - 1) for group in groups)
    floor = weights * distinct / matrix_rate(device)

    def ceiling(batch_size: int, order: Sequence[int]) -> float:
        batches = [
            [len(inputs[index]) for index in order[start : start + batch_size]]
            for start in range(0, len(order), batch_size)
        ]
        return round(sum(max(batch) * len(batch) for batch in batches) / distinct, 2)

    result = {
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads",
        "num_texts": len(texts),
        "mean_tokens": round(sum(map(len, inputs)) / len(inputs), 1),
        "share_of_distinct_tokens": round(distinct / sum(map(len, inputs)), 3),
        **{f"texts_per_second_{name}": round(len(texts) / taken, 1) for name, taken in best.items()},
        **{f"times_{name}": round(best[name] / best["shared"], 2) for name in runs if name != "shared"},
        "ceiling_trl_32": ceiling(32, in_a_row),
        "ceiling_trl_256": ceiling(256, in_a_row),
        "ceiling_trl_32_shuffled": ceiling(32, shuffled),
        "ceiling_trl_256_shuffled": ceiling(256, shuffled),
        "times_floor": round(best["shared"] / floor, 2),
        "peak_resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
