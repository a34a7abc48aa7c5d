"""
Score a run's test solutions with its verifier in other programs, and compare the scores with `VerifierScorer`:

    python benchmarks/verifier_elsewhere.py runs/quickstart

Each row is a way to use the verifier: plain transformers and TRL, with and without the input format that it needs.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import numpy as np
import torch
from datasets import Dataset
from scipy.stats import spearmanr
from transformers import AutoTokenizer, pipeline
from trl import GRPOConfig, GRPOTrainer

from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.pool import load_pool
from pvg_hf.data.problems import load_recipe_task, recipe_prompts
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_verifier
from pvg_hf.run.console import quiet_libraries
from pvg_hf.run.layout import RunFolder
from pvg_hf.scoring import VerifierScorer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--round", type=int, dest="round_index", help="round, from 0 (default: the last one)")
    parser.add_argument("--num-solutions", type=int, default=400, help="drawn from all (%(default)s)")
    arguments = parser.parse_args()
    quiet_libraries()
    torch.set_num_threads(2)

    folder = RunFolder(arguments.run)
    verifier = folder.player("verifier", arguments.round_index, "last")
    round_index = int(verifier.name.removeprefix("round-"))
    rows = load_pool([folder.pool(round_index) / f"test-{role}.parquet" for role in GAME_ROLES]).to_pandas()
    rows = rows[~rows["is_truncated"]].sample(frac=1, random_state=0).head(arguments.num_solutions)
    problems, solutions = rows["problem"].tolist(), rows["solution"].tolist()
    scores = np.array(VerifierScorer.from_pretrained(verifier)(problems, solutions))
    print(f"{len(rows)} test solutions of round {round_index}; against VerifierScorer:\n")
    print("| way | rank correlation | largest difference |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        saved = _copy_in_current_format(verifier, Path(place) / "verifier")
        for name, found in _ways(folder, saved, problems, solutions):
            print(f"| {name} | {spearmanr(scores, found).statistic:.3f} | {np.abs(scores - found).max():.1e} |")


def _copy_in_current_format(verifier: Path, copy: Path) -> Path:
    """Save a copy of the verifier in the current format, even if an earlier version saved it."""
    model, tokenizer = load_verifier(verifier)
    model.save_pretrained(copy)
    VerifierInput.load(verifier).save_with(tokenizer, copy)
    return copy


def _ways(
    folder: RunFolder, verifier: Path, problems: list[str], solutions: list[str]
) -> Iterator[tuple[str, list[float]]]:
    scorer = VerifierScorer.from_pretrained(verifier)
    texts = [scorer.verifier_input.render(*texts) for texts in zip(problems, solutions, strict=True)]
    classify = pipeline("text-classification", str(verifier), batch_size=16)
    yield "`pipeline`", [found["score"] for found in classify(texts)]
    without = classify(texts, add_special_tokens=False)
    yield "the same without special tokens", [found["score"] for found in without]

    recipe = folder.read_recipe()
    prompts, prover = recipe_prompts(recipe, load_recipe_task(recipe)), folder.models / "prover"
    prover = str(prover) if prover.exists() else resolve_model(recipe.prover.model, "prover")
    tokenizer = load_tokenizer(prover)
    asked = [prompts.render({"problem": text}, Role.HELPFUL, tokenizer) for text in problems]
    bare = [f"{text}\n" for text in problems]
    model = [str(verifier)]
    yield "TRL, `reward_funcs=FOLDER`, the helpful prompt", _trl_rewards(prover, model, asked, problems, solutions)
    yield "TRL, `reward_funcs=FOLDER`, the problem as prompt", _trl_rewards(prover, model, bare, problems, solutions)
    chats, said = (
        [[{"role": role, "content": text}] for text in texts]
        for role, texts in (("user", problems), ("assistant", solutions))
    )
    yield (
        "TRL, `reward_funcs=FOLDER`, a chat of the problem",
        _trl_rewards(prover, model, list(chats), problems, list(said)),
    )
    function = [scorer.as_reward_func()]
    yield "TRL, `scorer.as_reward_func()`", _trl_rewards(prover, function, asked, problems, solutions)


def _trl_rewards(prover: str, reward_funcs: list, prompts: list, problems: list[str], solutions: list) -> list[float]:
    """Rewards that TRL's trainer gives to existing solutions."""
    with tempfile.TemporaryDirectory() as place:
        settings = {"bf16": False, "activation_checkpointing": False, "report_to": "none"}
        trainer = GRPOTrainer(
            prover,
            reward_funcs=reward_funcs,
            args=GRPOConfig(place, use_cpu=not torch.cuda.is_available(), **settings),
            processing_class=AutoTokenizer.from_pretrained(prover),
            train_dataset=Dataset.from_dict({"prompt": prompts, "problem": problems}),
        )
        rewards = []
        for start in range(0, len(prompts), 64):
            part = slice(start, start + 64)
            inputs = [{"problem": problem} for problem in problems[part]]
            ids = [[] for _ in inputs]
            found = trainer._calculate_rewards(inputs, prompts[part], solutions[part], ids)
            rewards += found[:, 0].tolist()
        return rewards


if __name__ == "__main__":
    main()
