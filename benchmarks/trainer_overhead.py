"""
Overhead of pvg_hf's trainers over TRL's, per step:

    python benchmarks/trainer_overhead.py

`NoisyRewardTrainer` is compared with `RewardTrainer` on the same pairs, and `ProverGRPOTrainer` with `GRPOTrainer`
with a trivial scorer, grader and reward, on the model of the quickstart. The prover is timed twice: with TRL's own
call of `generate`, which isolates the overhead of a step, and with its default sampling loop. The trainers take turns,
so that disturbances of the machine affect all of them. A turn's ratio is that of the median steps, without the first
two of each trainer; the figures are the median and the range of this ratio over the turns. `processor` is the same
ratio for the processor seconds of all threads, which other work on the machine affects less; it does not include a
GPU's work. Prints one JSON object.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer, RewardConfig, RewardTrainer

from pvg_hf import NoisyRewardConfig, NoisyRewardTrainer, ProverGRPOConfig, ProverGRPOTrainer, load_task
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.models.sources import resolve_model
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.base import Grade

STEPS = 8
NUM_LEFT_OUT = 2
SETTINGS = {
    "max_steps": STEPS,
    "report_to": "none",
    "disable_tqdm": True,
    "save_strategy": "no",
    "logging_steps": STEPS,
    "bf16": False,
    "gradient_checkpointing": False,
    "use_cpu": True,
}


CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


class StepTimes(TrainerCallback):
    def __init__(self):
        self.seconds: dict[str, list[float]] = {name: [] for name in CLOCKS}

    def on_step_begin(self, args, state, control, **kwargs):
        self._start = {name: clock() for name, clock in CLOCKS.items()}

    def on_step_end(self, args, state, control, **kwargs):
        for name, clock in CLOCKS.items():
            self.seconds[name].append(clock() - self._start[name])

    def medians(self) -> dict[str, float]:
        return {name: statistics.median(seconds[NUM_LEFT_OUT:]) for name, seconds in self.seconds.items()}


def verifier_runs(rows: list[dict]) -> dict[str, Callable[[str], Trainer]]:
    source = resolve_model("arithmetic", "verifier")
    tokenizer = AutoTokenizer.from_pretrained(source)
    pairs = Dataset.from_list(
        [
            {"chosen": f"{row['problem']}\n{row['reference']}", "rejected": f"{row['problem']}\n{row['reference']}0"}
            for row in rows
        ]
    )

    def trainer(kind: type, config: type, folder: str) -> Trainer:
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
        args = config(folder, per_device_train_batch_size=128, **SETTINGS)
        return kind(model, args=args, train_dataset=pairs, processing_class=tokenizer)

    return {
        "RewardTrainer": lambda folder: trainer(RewardTrainer, RewardConfig, folder),
        "NoisyRewardTrainer": lambda folder: trainer(NoisyRewardTrainer, NoisyRewardConfig, folder),
    }


def prover_runs(rows: list[dict]) -> dict[str, Callable[[str], Trainer]]:
    source = resolve_model("arithmetic", "prover")
    builder = PromptBuilder(load_task("arithmetic"))
    prompts = Dataset.from_list(
        [{**row, "role": role.value, "prompt": builder.text(row, role)} for row in rows for role in GAME_ROLES]
    )
    settings = {**SETTINGS, "per_device_train_batch_size": 64, "num_generations": 8, "max_completion_length": 72}
    settings |= {"beta": 0.05, "scale_rewards": "none"}

    def plain(folder: str) -> Trainer:
        return GRPOTrainer(
            source,
            reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
            args=GRPOConfig(folder, **settings),
            train_dataset=prompts,
        )

    def ours(folder: str, **more) -> Trainer:
        return ProverGRPOTrainer(
            source,
            scorer=lambda problems, solutions: [0.0] * len(solutions),
            grader=lambda row, solution: Grade(answer="0", correct=row["role"] == Role.HELPFUL),
            args=ProverGRPOConfig(folder, reward="goodhart", **settings, **more),
            train_dataset=prompts,
        )

    return {
        "GRPOTrainer": plain,
        "ProverGRPOTrainer, generate": lambda folder: ours(folder, generation_kwargs={"do_sample": True}),
        "ProverGRPOTrainer": ours,
    }


def median_seconds(runs: dict[str, Callable[[str], Trainer]], turns: int) -> dict[str, list[dict[str, float]]]:
    """Median seconds of a step for each trainer and turn, by either clock."""
    seconds: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for turn in range(turns):
        # Reverse the order in every other turn, so that no trainer always follows the same one.
        for name, make in list(runs.items())[:: 1 if turn % 2 == 0 else -1]:
            with tempfile.TemporaryDirectory() as folder:
                times, trainer = StepTimes(), make(folder)
                trainer.add_callback(times)
                trainer.remove_callback(PrinterCallback)
                trainer.train()
                seconds[name].append(times.medians())
    return seconds


def ratio(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    found = {}
    for clock in CLOCKS:
        ratios = [mine[clock] / other[clock] for mine, other in zip(ours, theirs, strict=True)]
        values = {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
        found[clock] = {name: round(value, 3) for name, value in values.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10)
    turns = parser.parse_args().turns
    rows = load_task("arithmetic", num_train=2000, num_test=1, max_difficulty=4).problems("train").to_list()
    verifier, prover = median_seconds(verifier_runs(rows), turns), median_seconds(prover_runs(rows), turns)
    plain = prover["GRPOTrainer"]
    milliseconds = {
        name: round(1000 * statistics.median(turn["wall"] for turn in taken), 1)
        for name, taken in (verifier | prover).items()
    }
    result = {
        "threads": torch.get_num_threads(),
        "turns": turns,
        "milliseconds_a_step": milliseconds,
        "noisy_reward_over_reward": ratio(verifier["NoisyRewardTrainer"], verifier["RewardTrainer"]),
        "prover_over_grpo_both_by_generate": ratio(prover["ProverGRPOTrainer, generate"], plain),
        "prover_over_grpo": ratio(prover["ProverGRPOTrainer"], plain),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
