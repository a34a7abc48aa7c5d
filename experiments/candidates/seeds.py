"""Train a candidate on one seed's bootstrap, and attack it with a fresh sneaky prover.

    PVG_HEAD_READ=... PVG_LM=... python seeds.py RUNS WORK NAME SEED STEPS [section.key=value ...]

RUNS has the likelihood's games `short-likelihood-seed-SEED`, whose bootstrap and helpful prover of round 0 are used. STEPS 0: no attack. The pairs' noise
and the correction are the recipe's.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

torch.set_num_threads(1)
from sklearn.metrics import roc_auc_score

from pvg_hf.config import load_recipe
from pvg_hf.data.pairs.build import round_pairs
from pvg_hf.evaluation.verifier_quality import calibrate
from pvg_hf.experimental.attacks.verifier_attack import attack_verifier
from pvg_hf.game.phases.verifier import tokenize_pairs
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier
from pvg_hf.run.layout import RunFolder
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.arguments import TrainerRun, verifier_arguments
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

RUNS, WORK, NAME, SEED, STEPS, CHANGES = (
    Path(sys.argv[1]),
    Path(sys.argv[2]),
    sys.argv[3],
    int(sys.argv[4]),
    int(sys.argv[5]),
    sys.argv[6:],
)
RUN = RUNS / f"short-likelihood-seed-{SEED}"
RECIPE = "recipes/arithmetic-short.yaml"


def test_solutions(pool, role):
    rows = pd.read_parquet(RUN / "pool" / pool / f"test-{role}.parquet")
    return rows[~rows.is_truncated]


def flipped(path, rate):
    """Path of a copy of a pool in which this share of the labels is wrong, the same for all candidates of a seed."""
    if not rate:
        return path
    copy = WORK / "pools" / f"{path.stem}-{SEED}-{rate}.parquet"
    if not copy.exists():
        rows = pd.read_parquet(path)
        is_wrong = np.random.default_rng(SEED).random(len(rows)) < rate
        rows["label"] = np.where(is_wrong, 1 - rows["label"], rows["label"]).astype(rows["label"].dtype)
        copy.parent.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(copy)
    return copy


def train(out):
    recipe = load_recipe(RECIPE, [f"seed={SEED}", "name=x", *CHANGES])
    source = resolve_model(recipe.verifier.model, "verifier")
    tokenizer = load_tokenizer(source)
    inputs = VerifierInput.of(recipe.verifier, tokenizer.eos_token)
    rate = recipe.noise.epsilon or 0.0
    pairs, _ = round_pairs(recipe, [flipped(path, rate) for path in RunFolder.find(RUN).training_pools(0)], 0, "verifier")
    args = verifier_arguments(
        recipe,
        TrainerRun(WORK / "train" / f"{NAME}-{SEED}", Hardware.here("cpu"), seed=SEED),
        label_rates=(rate, rate),
        assumed_rates=(rate, rate),
    )
    args.save_strategy, args.report_to = "no", []
    scale = {} if inputs.likelihood_scale is None else {"likelihood_scale": inputs.likelihood_scale}
    trainer = NoisyRewardTrainer(
        model=load_initial_verifier(source, **scale),
        args=args,
        train_dataset=tokenize_pairs(pairs, tokenizer, inputs),
        processing_class=tokenizer,
        verifier_input=inputs,
    )
    if recipe.verifier.traits.has_score_head:
        draw_head(trainer.model, SEED)
    start = time.process_time()
    trainer.train()
    print("trained", NAME, SEED, len(pairs), "pairs", round(time.process_time() - start), "s", flush=True)
    part = out.with_suffix(".partial")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    trainer.save_model(str(part))
    tests = pd.concat([test_solutions("base", role) for role in ("helpful", "sneaky")])
    scorer = VerifierScorer(trainer.model, tokenizer, inputs)
    tests = tests.assign(score=scorer(tests.problem.tolist(), tests.solution.tolist()))
    calibrate(tests, tests.correct.to_numpy()).save(part)
    part.rename(out)


def auc(right, wrong):
    return float(roc_auc_score([1] * len(right) + [0] * len(wrong), [*right, *wrong]))


def main():
    result_file = WORK / "results" / f"{NAME}-{SEED}.json"
    if result_file.exists():
        return
    folder = WORK / "verifiers" / f"{NAME}-{SEED}" / "round-000"
    if not folder.exists():
        train(folder)
    scorer = VerifierScorer.from_pretrained(folder)

    def scores(rows):
        return np.array(scorer(rows.problem.tolist(), rows.solution.tolist()))

    base = pd.concat([test_solutions("base", role) for role in ("helpful", "sneaky")])
    base = base[base.outcome.astype(str) != "NO_ANSWER"]
    first = pd.concat([test_solutions("round-000", role) for role in ("helpful", "sneaky")])
    first = first[first.outcome.astype(str) != "NO_ANSWER"]
    helpful = test_solutions("round-000", "helpful")
    of_helpful = scores(helpful[helpful.correct])
    of_right, of_wrong = scores(base[base.correct]), scores(base[~base.correct])
    at_helpful, at_base = np.quantile(of_helpful, 0.05), np.quantile(of_right, 0.05)
    result = {
        "name": NAME,
        "seed": SEED,
        "steps": STEPS,
        "changes": CHANGES,
        "helpful_n": len(of_helpful),
        "helpful_accuracy_of_round_0": float(helpful.correct.mean()),
        "base_right": len(of_right),
        "base_wrong": len(of_wrong),
        "base_auc": auc(of_right, of_wrong),
        "round_0_auc": auc(scores(first[first.correct]), scores(first[~first.correct])),
        "base_at_helpful": float(np.mean(of_wrong > at_helpful)),
        "base_at_base": float(np.mean(of_wrong > at_base)),
    }
    if STEPS:
        recipe = load_recipe(
            RECIPE,
            [
                f"seed={SEED}",
                f"name=attack-{NAME}-{SEED}",
                f"output_dir={WORK}/attacks",
                "mint.test_solutions_per_problem=2",
            ],
        )
        values = recipe.to_dict()
        values["attack"] = {
            "verifier": str(folder),
            "rewards": ["standardized_src"],
            "seeds": [SEED],
            "max_steps": STEPS,
            "num_problems": 150,
            "ema": 0.2,
            "helpful_score": float(of_helpful.mean()),
            "sneaky_sees": "nothing",
        }
        start = time.process_time()
        root = attack_verifier(load_recipe(values), num_workers=1)
        found = pd.concat([pd.read_parquet(path) for path in root.rglob("texts.parquet")])
        curve = pd.concat([pd.read_parquet(path) for path in root.rglob("curve.parquet")])
        mistakes = found[~found.correct & ~found.outcome.astype(str).isin(["NO_ANSWER", "TRUNCATED"])]
        result |= {
            "n": len(mistakes),
            "incorrect": len(mistakes) / len(found),
            "accepted_at_helpful": float(np.mean(mistakes.score > at_helpful)),
            "accepted_at_base": float(np.mean(mistakes.score > at_base)),
            "score_gap": float(mistakes.score.mean() - of_helpful.mean()),
            "cpu_seconds": time.process_time() - start,
            "curve": curve[["step", "accuracy/sneaky", "score/sneaky_incorrect"]].round(3).to_dict("list"),
        }
    print(json.dumps({key: value for key, value in result.items() if key != "curve"}), flush=True)
    result_file.parent.mkdir(parents=True, exist_ok=True)
    result_file.write_text(json.dumps(result, default=str))


if __name__ == "__main__":
    main()
