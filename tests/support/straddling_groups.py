"""
Two steps of `ProverGRPOTrainer`, to be launched on several processes: `straddling_groups.py PROVER FOLDER`. With 6
rows a process and groups of 4, the second group's rows lie on two processes.
"""

import json
import sys
from pathlib import Path

import torch

from tests.support.prover_training import loss_lines, prover_trainer, role_rows

SETTINGS = {
    "max_steps": 2,
    "per_device_train_batch_size": 6,
    "acceptance_threshold": 0.0,
    "log_completions": True,
    "num_completions_to_print": 0,
}


def main(prover: str, folder: Path) -> None:
    torch.set_num_threads(1)
    trainer = prover_trainer(prover, folder, rows=role_rows(num_problems=6), settings=SETTINGS)
    trainer.train()
    weights = torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])
    result = {
        "log": loss_lines(trainer),
        "num_processes": trainer.accelerator.num_processes,
        "weights": weights.double().sum().item(),
    }
    (folder / f"process-{trainer.accelerator.process_index}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
