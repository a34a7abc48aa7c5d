"""
Build the base prover and the base verifier of the arithmetic world, with a card that states time and accuracy.

    python scripts/build_base_models.py                    # both, side by side, into pvg_hf/assets
    python scripts/build_base_models.py --player prover --steps 100 --output /tmp/assets

It runs once; the weights ship with the package.
"""

import argparse
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from pvg_hf.models.arithmetic_tokenizer import build_arithmetic_tokenizer
from pvg_hf.trainers.base_models import BASE_MODELS, BaseModelConfig, measure, train_base_model, write_card


def build(config: BaseModelConfig, folder: Path) -> None:
    torch.set_num_threads(1)
    started = time.monotonic()
    model = train_base_model(config, show_progress=True)
    minutes, rates = (time.monotonic() - started) / 60, measure(config, model)
    model.save_pretrained(folder / config.name)
    build_arithmetic_tokenizer().save_pretrained(folder / config.name)
    (folder / config.name / "README.md").write_text(write_card(config, model.num_parameters(), minutes, rates))
    print(f"{config.name}: {minutes:.1f} minutes, {rates}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--player", choices=[*BASE_MODELS, "both"], default="both")
    parser.add_argument("--steps", type=int, help="optimiser steps in place of the shipped models'")
    parser.add_argument("--output", type=Path, default=Path("pvg_hf/assets"))
    arguments = parser.parse_args()
    players = BASE_MODELS if arguments.player == "both" else [arguments.player]
    configs = [
        replace(BASE_MODELS[name], num_steps=arguments.steps or BASE_MODELS[name].num_steps) for name in players
    ]
    with get_context("spawn").Pool(len(configs)) as pool:
        pool.starmap(build, [(config, arguments.output) for config in configs])


if __name__ == "__main__":
    main()
