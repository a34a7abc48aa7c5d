"""
Two batches of `ProverPPOTrainer`, to be launched on several processes: `written_batches.py PROVER FOLDER`, once for
each structure of the critic. What is written does not depend on which process a row is on, as it would if it were
drawn, so that the numbers can be compared.
"""

import json
import sys
from pathlib import Path

import torch

from pvg_hf.trainers.ppo.trainer import ProverPPOTrainer
from tests.support.ppo_training import ppo_trainer
from tests.support.prover_training import GROUP_SIZE, LORA, loss_lines, role_rows

STRUCTURES = ("adapter", "whole")
STEP = {"optim": "sgd", "learning_rate": 0.05, "critic_learning_rate": 0.05, "max_completion_length": 8}


class WrittenBatches(ProverPPOTrainer):
    """Solutions follow from the prompt and the place within the group; some end, others are cut."""

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, *args, **kwargs):
        first = self.accelerator.process_index * len(prompt_ids)
        rows = [self._write(sum(ids), (first + place) % GROUP_SIZE) for place, ids in enumerate(prompt_ids)]
        return rows, None

    def _write(self, prompt: int, place: int) -> list[int]:
        length = 1 + (prompt + 3 * place) % 8
        ids = [5 + (prompt * (place + 2) + 7 * token) % 60 for token in range(length)]
        return [*ids[:-1], self.eos_token_ids[0]] if place % 2 else ids


def train(prover: str, folder: Path, structure: str, per_device: int, accumulation: int = 1) -> dict:
    """Four steps on 16 rows each, and what was logged of them."""
    torch.set_num_threads(1)
    settings = {**STEP, "per_device_train_batch_size": per_device, "gradient_accumulation_steps": accumulation}
    trainer = ppo_trainer(
        prover,
        folder,
        kind=WrittenBatches,
        rows=role_rows(num_problems=4),
        settings=settings,
        peft_config=LORA if structure == "adapter" else None,
    )
    trainer.train()
    sums = {
        name: sum(parameter.detach().double().square().sum().item() for parameter in model.parameters())
        for name, model in (("policy", trainer.model), ("critic", trainer.critic.model))
    }
    return {"log": loss_lines(trainer), "sums": sums, "num_processes": trainer.accelerator.num_processes}


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    results = {structure: train(sys.argv[1], folder, structure, per_device=8) for structure in STRUCTURES}
    results["parts"] = train(sys.argv[1], folder, "adapter", per_device=4, accumulation=2)
    (folder / f"process-{torch.distributed.get_rank()}.json").write_text(json.dumps(results))
