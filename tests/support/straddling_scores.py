"""Train a score verifier on two processes, with groups that lie on both; run by torchrun with a model and a folder."""

import json
import sys
from pathlib import Path

from datasets import Dataset

from tests.support.score_training import proof_rows, score_trainer

if __name__ == "__main__":
    model, folder = sys.argv[1], Path(sys.argv[2])
    rows = [*proof_rows(5), {"problem": "claim", "proof": "good", "score": None}]
    trainer = score_trainer(
        model,
        folder,
        rows=Dataset.from_list(rows),
        settings={"per_device_train_batch_size": 6, "max_steps": 2, "log_completions": True},
        meta_verifier=lambda problems, proofs, analyses: [None if text == "flaw" else 0.5 for text in analyses],
    )
    trainer.train()
    result = {
        "num_processes": trainer.accelerator.num_processes,
        "log": [line for line in trainer.state.log_history if "loss" in line],
    }
    (folder / f"process-{trainer.accelerator.process_index}.json").write_text(json.dumps(result))
