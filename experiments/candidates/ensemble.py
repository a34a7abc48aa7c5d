"""An ensemble of heads by minimum: train `K` heads on the base prover's pairs, and attack one of them or their least score.

    python ensemble.py RUN WORK NAME STEPS SEED [SEED ...]     # seeds of the heads; one seed: no ensemble

RUN is a game of the likelihood on `arithmetic-short`, seed 0, whose bootstrap and helpful prover of round 0 are used. A head's scores are standardized by
the base prover's correct test solutions before the minimum is taken.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

torch.set_num_threads(1)
from peft import PeftModel

from pvg_hf.config import load_recipe
from pvg_hf.data.pairs.build import round_pairs
from pvg_hf.data.problems import GameProblems
from pvg_hf.evaluation.verifier_quality import calibrate
from pvg_hf.experimental.attacks.verifier_attack import attack_verifier
from pvg_hf.game.context import PlayerLoader
from pvg_hf.game.phases.verifier import tokenize_pairs
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier
from pvg_hf.run.layout import RunFolder
from pvg_hf.sampling import Sampler, sample_solutions
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.arguments import TrainerRun, verifier_arguments
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

RUN, WORK, NAME, STEPS, SEEDS = (
    Path(sys.argv[1]),
    Path(sys.argv[2]),
    sys.argv[3],
    int(sys.argv[4]),
    [int(s) for s in sys.argv[5:]],
)


def train(seed):
    out = WORK / "heads" / str(seed) / "round-000"
    if out.exists():
        return out
    recipe = load_recipe("recipes/arithmetic-short.yaml", ["seed=0", "name=x"])
    source = resolve_model(recipe.verifier.model, "verifier")
    tokenizer = load_tokenizer(source)
    inputs = VerifierInput.of(recipe.verifier, tokenizer.eos_token)
    pairs, _ = round_pairs(recipe, RunFolder.find(RUN).training_pools(0), 0, "verifier")
    args = verifier_arguments(
        recipe,
        TrainerRun(WORK / "train" / str(seed), Hardware.here("cpu"), seed=seed),
        label_rates=(0.0, 0.0),
        assumed_rates=(0.0, 0.0),
    )
    args.save_strategy, args.report_to = "no", []
    trainer = NoisyRewardTrainer(
        model=load_initial_verifier(source),
        args=args,
        train_dataset=tokenize_pairs(pairs, tokenizer, inputs),
        processing_class=tokenizer,
        verifier_input=inputs,
    )
    draw_head(trainer.model, seed)
    start = time.process_time()
    trainer.train()
    print("trained", seed, round(time.process_time() - start), "s", flush=True)
    part = out.with_suffix(".partial")
    part.mkdir(parents=True, exist_ok=True)
    trainer.save_model(str(part))
    tests = base_tests()
    scorer = VerifierScorer(trainer.model, tokenizer, inputs)
    tests = tests.assign(score=scorer(tests.problem.tolist(), tests.solution.tolist()))
    calibrate(tests, tests.correct.to_numpy()).save(part)
    part.rename(out)
    return out


def base_tests():
    rows = pd.concat([pd.read_parquet(RUN / "pool/base" / f"test-{role}.parquet") for role in ("helpful", "sneaky")])
    return rows[~rows.is_truncated]


def helpful():
    path = WORK / "helpful.parquet"
    if not path.exists():
        recipe = load_recipe("recipes/arithmetic-short.yaml", ["seed=0"])
        problems = GameProblems.load(recipe)
        model, tokenizer = load_prover(resolve_model(recipe.prover.model, "prover"), dtype=torch.float32)
        model = PeftModel.from_pretrained(model, RUN / "prover/round-000/helpful")
        with torch.no_grad():
            rows = sample_solutions(
                Sampler(model, tokenizer, max_new_tokens=60),
                problems.prompts,
                [problems.parts["test"][i] for i in range(150)],
                "helpful",
                num_samples=4,
                seed=78,
            )
        frame = pd.DataFrame(rows)
        frame[["problem_id", "problem", "solution", "correct"]].to_parquet(path)
    return pd.read_parquet(path)


plain_call, plain_open = VerifierScorer.__call__, PlayerLoader.pair_verifier


class Least:
    def __init__(self, scorers, means, sds):
        self.scorers, self.means, self.sds = scorers, means, sds

    def of(self, problems, solutions):
        scores = [
            (np.array(plain_call(one, problems, solutions)) - m) / s
            for one, m, s in zip(self.scorers, self.means, self.sds)
        ]
        return np.min(scores, axis=0)


def main():
    folders = [train(seed) for seed in SEEDS]
    texts, tests = helpful(), base_tests()
    right, wrong = tests[tests.correct], tests[~tests.correct & (tests.outcome.astype(str) != "NO_ANSWER")]
    scorers = [VerifierScorer.from_pretrained(folder) for folder in folders]
    of_right = [np.array(plain_call(one, right.problem.tolist(), right.solution.tolist())) for one in scorers]
    least = Least(scorers, [x.mean() for x in of_right], [x.std() for x in of_right])
    texts = texts[texts.correct]
    h = least.of(texts.problem.tolist(), texts.solution.tolist())
    b = least.of(right.problem.tolist(), right.solution.tolist())
    w = least.of(wrong.problem.tolist(), wrong.solution.tolist())
    t, tb = np.quantile(h, 0.05), np.quantile(b, 0.05)
    print(
        NAME,
        "thresholds",
        t,
        tb,
        "base mistakes accepted there",
        np.mean(w > t),
        np.mean(w > tb),
        len(w),
        "helpful mean",
        h.mean(),
        flush=True,
    )

    VerifierScorer.__call__ = lambda self, problems, solutions: list(map(float, least.of(problems, solutions)))
    recipe = load_recipe(
        "recipes/arithmetic-short.yaml",
        ["seed=0", f"name=attack-{NAME}-{STEPS}", f"output_dir={WORK}/attacks", "mint.test_solutions_per_problem=2"],
    )
    values = recipe.to_dict()
    values["attack"] = {
        "verifier": str(folders[0]),
        "rewards": ["standardized_src"],
        "seeds": [0],
        "max_steps": STEPS,
        "num_problems": 150,
        "ema": 0.2,
        "helpful_score": float(h.mean()),
        "sneaky_sees": "nothing",
    }
    start = time.process_time()
    root = attack_verifier(load_recipe(values), num_workers=1)
    found = pd.concat([pd.read_parquet(path) for path in root.rglob("texts.parquet")])
    curve = pd.concat([pd.read_parquet(path) for path in root.rglob("curve.parquet")])
    mistakes = found[~found.correct & ~found.outcome.astype(str).isin(["NO_ANSWER", "TRUNCATED"])]
    result = {
        "name": NAME,
        "heads": SEEDS,
        "steps": STEPS,
        "n": len(mistakes),
        "incorrect": len(mistakes) / len(found),
        "accepted_at_helpful": float(np.mean(mistakes.score > t)),
        "accepted_at_base": float(np.mean(mistakes.score > tb)),
        "static_base_at_base": float(np.mean(w > tb)),
        "cpu_seconds": time.process_time() - start,
        "curve": curve.round(3).to_dict("list"),
    }
    print(json.dumps({key: value for key, value in result.items() if key != "curve"}))
    (WORK / f"{NAME}.json").write_text(json.dumps(result, default=str))
    print(curve.iloc[::5].round(2).to_string())


if __name__ == "__main__":
    main()
