"""
Training speed of the message game at the default sizes: F_2 with 15 x 10, both players of two layers of 128, batches
of 64.

    python benchmarks/messages.py
    python benchmarks/messages.py --profile

Prints one JSON object: optimiser steps per second, counted over all games, of

- `stacked_N`: N games trained together (pvg_hf.experimental.messages.vectorized), as in a sweep
- `trainer`: one StackelbergTrainer
- `plain_loop`: the loop that a user would write: two modules, two AdamW, batches indexed from tensors
- `list_loop`: the same with problems in Python lists, from which each batch is made

and their ratios. Ten prover steps and five verifier steps are taken in turn, on labels of which a tenth is flipped.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile

from pvg_hf.experimental.messages.building import LoadedWorld, make_players, open_world, training_arguments
from pvg_hf.experimental.messages.game_modules import MessageGame
from pvg_hf.experimental.messages.recipe import MessageRecipe, load_message_recipe
from pvg_hf.experimental.messages.run import make_message_trainer
from pvg_hf.experimental.messages.vectorized import train_stacked
from pvg_hf.run.console import quiet_libraries

EPSILON = 0.1
PROVER_STEPS, VERIFIER_STEPS, BATCH = 10, 5, 64


def recipe_of(num_rounds: int) -> MessageRecipe:
    return load_message_recipe(
        {"device": "cpu", "save_steps": 0, "training": {"num_rounds": num_rounds}, "noise": {"epsilon": EPSILON}}
    )


def time_stacked(loaded: LoadedWorld, num_games: int, num_rounds: int) -> float:
    recipe = recipe_of(num_rounds)
    args = training_arguments(recipe, Path("unused"), "prover")
    games = [MessageGame(*make_players(recipe, loaded, seed), args.rules) for seed in range(num_games)]
    started = time.perf_counter()
    for _ in train_stacked(games, range(num_games), loaded.train, args):
        pass
    return num_games * num_rounds * (PROVER_STEPS + VERIFIER_STEPS) / (time.perf_counter() - started)


def time_trainer(loaded: LoadedWorld, num_rounds: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_message_trainer(recipe_of(num_rounds), loaded, Path(folder), "prover")
        started = time.perf_counter()
        trainer.train()
        return num_rounds * (PROVER_STEPS + VERIFIER_STEPS) / (time.perf_counter() - started)


def network(num_inputs: int, num_outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(num_inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, num_outputs)
    )


def time_loop(
    make_batch: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]], num_rows: int, num_rounds: int
) -> float:
    """
    Time the loop that a user would write, with batches from `make_batch`: row numbers to problems and noisy labels.
    """
    torch.manual_seed(0)
    prover, verifier = network(165, 10), network(175, 1)
    optimizers = [torch.optim.AdamW(player.parameters(), lr=1e-4, weight_decay=0.01) for player in (prover, verifier)]
    num_done = 0

    def batches():
        while True:
            yield from torch.randperm(num_rows).split(BATCH)

    order = batches()
    started = time.perf_counter()
    for _ in range(num_rounds):
        verifier.requires_grad_(False)
        for _ in range(PROVER_STEPS):
            x, _ = make_batch(next(order))
            loss = F.softplus(-verifier(torch.cat([x, torch.tanh(prover(x))], dim=1))).mean()
            optimizers[0].zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(prover.parameters(), 1.0)
            optimizers[0].step()
        verifier.requires_grad_(True)
        for _ in range(VERIFIER_STEPS):
            x, y = make_batch(next(order))
            with torch.no_grad():
                message = torch.tanh(prover(x))
            loss = F.binary_cross_entropy_with_logits(verifier(torch.cat([x, message], dim=1))[:, 0], y)
            optimizers[1].zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(verifier.parameters(), 1.0)
            optimizers[1].step()
        num_done += PROVER_STEPS + VERIFIER_STEPS
    return num_done / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--profile", action="store_true", help="print where the time of 30 stacked games goes, and stop"
    )
    options = parser.parse_args()
    quiet_libraries()

    loaded = open_world(recipe_of(1))
    if options.profile:
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            time_stacked(loaded, 30, 2)
        print(profiled.key_averages().table(sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=48))
        return
    inputs, labels = loaded.train.columns["inputs"], loaded.train.columns["labels"].float()
    noisy = torch.where(torch.rand(len(labels)) < EPSILON, 1 - labels, labels)
    rows, answers = inputs.tolist(), noisy.tolist()

    def from_tensors(chosen: torch.Tensor):
        return inputs[chosen], noisy[chosen]

    def from_lists(chosen: torch.Tensor):
        numbers = chosen.tolist()
        return torch.tensor([rows[n] for n in numbers]), torch.tensor([answers[n] for n in numbers])

    time_stacked(loaded, 3, 2)  # warm up
    result = {f"stacked_{number}": time_stacked(loaded, number, options.rounds) for number in (1, 3, 30)}
    result["trainer"] = time_trainer(loaded, options.rounds)
    result["plain_loop"] = time_loop(from_tensors, len(rows), 5 * options.rounds)
    result["list_loop"] = time_loop(from_lists, len(rows), options.rounds)
    best = max(result["stacked_3"], result["stacked_30"])
    result |= {"best_over_plain_loop": best / result["plain_loop"], "best_over_list_loop": best / result["list_loop"]}
    result["num_threads"] = torch.get_num_threads()
    print(json.dumps({name: round(value, 2) for name, value in result.items()}, indent=2))


if __name__ == "__main__":
    main()
