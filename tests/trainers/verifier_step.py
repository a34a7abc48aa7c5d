"""
An evaluation and one step of `NoisyRewardTrainer`, to be launched on several processes: `verifier_step.py FOLDER`, which
holds a verifier in `base` and its pairs in `rows.json`.
"""

import json
import sys
from pathlib import Path

from datasets import Dataset
from transformers import AutoTokenizer
from verifier_training import verifier_trainer

NUM_EVAL_PAIRS = 5
STEP = {
    "max_steps": 1,
    "max_grad_norm": 0.0,
    "optim": "sgd",
    "noise_level": "pair",
    "noise_rho0": 0.4,
    "noise_rho1": 0.4,
}


def main(folder: Path) -> None:
    rows = Dataset.from_list(json.loads((folder / "rows.json").read_text()))
    trainer = verifier_trainer(
        folder,
        rows,
        AutoTokenizer.from_pretrained(folder / "base"),
        str(folder / "base"),
        eval_dataset=rows.select(range(NUM_EVAL_PAIRS)),
        per_device_train_batch_size=4,
        per_device_eval_batch_size=2,
        **STEP,
    )
    before = trainer.evaluate()
    trainer.train()
    trainer.save_model(str(folder / "trained"))
    if trainer.accelerator.is_main_process:
        result = {"before": before, "log": trainer.state.log_history, "num_processes": trainer.args.world_size}
        (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
