"""
An evaluation and one step of `NoisyRewardTrainer` for each of several settings, to be launched on several processes:
`verifier_step.py FOLDER`, which holds a verifier in `base` and its pairs in `rows.json`.
"""

import json
import sys
from pathlib import Path

from datasets import Dataset
from transformers import AutoTokenizer

from tests.support.verifier_training import verifier_trainer

NUM_EVAL_PAIRS = 5
STEP = {"max_steps": 1, "max_grad_norm": 0.0, "optim": "sgd"}
NOISE = {"noise_rho0": 0.4, "noise_rho1": 0.4}
PENALTY = {"invariance_warmup_steps": 0, "environment_column": "source", "center": 0.1}
SETTINGS = {
    "noise": {"noise_level": "pair", **NOISE},
    "exact": {"correction": "exact", **NOISE},
    "vrex": {"invariance": "vrex", "invariance_weight": 0.5, **PENALTY},
    "irmv1": {"invariance": "balanced+irmv1", "noise_seed": 1, **NOISE, **PENALTY},
    "two_halves": {"invariance": "irmv1", "irm_form": "two_halves", **PENALTY},
}


def main(folder: Path) -> None:
    rows = Dataset.from_list(json.loads((folder / "rows.json").read_text()))
    results = {}
    for name, settings in SETTINGS.items():
        trainer = verifier_trainer(
            folder,
            rows,
            AutoTokenizer.from_pretrained(folder / "base"),
            str(folder / "base"),
            eval_dataset=rows.select(range(NUM_EVAL_PAIRS)),
            per_device_train_batch_size=4,
            per_device_eval_batch_size=2,
            **STEP,
            **settings,
        )
        before = trainer.evaluate()
        trainer.train()
        trainer.save_model(str(folder / name))
        results[name] = {"before": before, "log": trainer.state.log_history, "num_processes": trainer.args.world_size}
    if trainer.accelerator.is_main_process:
        (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
