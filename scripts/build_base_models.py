"""
Build the base models of the built-in tasks, each with a card that states its training and its figures: the prover and the
verifiers for `arithmetic`, and the generative verifier for `proofs`.

    python scripts/build_base_models.py                    # all, in parallel, into pvg_hf/assets
    python scripts/build_base_models.py --player score-verifier
    python scripts/build_base_models.py --player prover --steps 100 --output /tmp/assets

This is run once per release; the weights ship with the package. A build that was stopped goes on where it was when the
same command is given again.
"""

import argparse
import shutil
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from pvg_hf.pretraining.base_models import BASE_MODELS, BaseModelConfig, train_base_model, write_card
from pvg_hf.pretraining.quality import measure


def build(config: BaseModelConfig, folder: Path) -> None:
    torch.set_num_threads(1)
    started = time.monotonic()
    checkpoints = folder / config.name / "checkpoints"
    model = train_base_model(config, checkpoints, show_progress=True)
    minutes = (time.monotonic() - started) / 60
    rates = measure(config.texts, model, config.build_tokenizer())
    config.save(model, folder / config.name)
    (folder / config.name / "README.md").write_text(
        write_card(config, model.num_parameters(), model.config.pretraining_flops, minutes, rates)
    )
    shutil.rmtree(checkpoints)
    print(f"{config.name}: {minutes:.1f} minutes, {rates}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--player", choices=[*BASE_MODELS, "all"], default="all")
    parser.add_argument("--steps", type=int, help="optimiser steps (default: those of the shipped models)")
    parser.add_argument("--output", type=Path, default=Path("pvg_hf/assets"))
    arguments = parser.parse_args()
    players = BASE_MODELS if arguments.player == "all" else [arguments.player]
    configs = [
        replace(BASE_MODELS[name], num_steps=arguments.steps or BASE_MODELS[name].num_steps) for name in players
    ]
    with get_context("spawn").Pool(len(configs)) as pool:
        pool.starmap(build, [(config, arguments.output) for config in configs])


if __name__ == "__main__":
    main()
