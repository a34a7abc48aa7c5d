"""
Build the base models of the built-in tasks, each with a card that states its training and its figures: the prover and
the verifiers for `arithmetic` and `functions`, the judges, which are verifiers with a trained head, and the generative
verifier for `proofs`.

    python -m tools.build_base_models                    # all, in parallel, into pvg_hf/assets
    python -m tools.build_base_models --player score-verifier
    python -m tools.build_base_models --player prover --steps 100 --output /tmp/assets

One model is for an experiment (experiments/dynamics.md) and does not ship:

    python -m tools.build_base_models --player sequential-prover --start pvg_hf/assets/arithmetic-prover \\
        --output build/models

The proofs player continues the training of an earlier one (docs/reference/score-verifier.md), so that `all` leaves it
out:

    python -m tools.build_base_models --player score-verifier --start FOLDER

A judge starts from the prover and the verifier in the output folder. This is run once per release; the weights ship
with the package. A build that was stopped goes on where it was when the same command is given again.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loaded within the functions: torch takes seconds, and neither `--help` nor a wrong name needs it
    from tools.pretraining.base_models import BaseModelConfig, Built
    from tools.pretraining.judges import JudgeConfig

ASSETS = Path("pvg_hf/assets")
PLAYERS = (
    "prover",
    "verifier",
    "small-verifier",
    "score-verifier",
    "program-prover",
    "program-verifier",
    "sequential-prover",
    "judge",
    "small-judge",
)


def build_model(config: "BaseModelConfig", folder: Path) -> "Built":
    import torch

    from tools.pretraining.base_models import Built, train_base_model
    from tools.pretraining.quality import measure

    torch.set_num_threads(1)
    started = time.monotonic()
    checkpoints = folder / config.name / "checkpoints"
    model = train_base_model(config, checkpoints, show_progress=True)
    minutes = (time.monotonic() - started) / 60
    config.save(model, folder / config.name)
    shutil.rmtree(checkpoints)
    figures = measure(config.texts, model.float(), config.build_tokenizer())
    return Built(model.num_parameters(), model.config.pretraining_flops, minutes, figures)


def build_judge(config: "JudgeConfig", folder: Path) -> "Built":
    import torch

    from tools.pretraining.judges import train_judge

    torch.set_num_threads(1)
    return train_judge(config, folder)


def build_all(configs: Sequence[Any], folder: Path, build: "Callable[..., Built]", write: Callable[..., str]) -> None:
    """Build models in parallel, and write the cards of all of them."""
    if not configs:
        return
    with get_context("spawn").Pool(len(configs)) as pool:
        built = pool.map(partial(build, folder=folder), configs)
    for config, one in zip(configs, built, strict=True):
        (folder / config.name / "README.md").write_text(write(config, one, prover_flops(config, folder)))
        print(f"{config.name}: {one.minutes:.1f} minutes, {one.figures}")


def prover_flops(config: "BaseModelConfig | JudgeConfig", folder: Path) -> float | None:
    """
    Operations of the pretraining of the prover that a verifier judges: that in the folder, or else the packaged one.
    """
    from tools.pretraining.base_models import BASE_MODELS
    from tools.pretraining.judges import JudgeConfig

    prover = "prover" if isinstance(config, JudgeConfig) else config.prover
    if prover is None:
        return None
    places = (place / BASE_MODELS[prover].name / "config.json" for place in (folder, ASSETS))
    stored = next((place for place in places if place.exists()), None)
    return None if stored is None else json.loads(stored.read_text()).get("pretraining_flops")


def choose_configs(
    player: str, num_steps: int | None = None, start: Path | None = None
) -> "tuple[list[BaseModelConfig], list[JudgeConfig]]":
    """
    Return the settings of the base models and of the judges to build.

    Args:
        player: Key in `BASE_MODELS`, `STUDY_MODELS` or `JUDGES`, or `all`: the base models that start from random
            weights, and the judges.
        num_steps: Optimiser steps of each; by default their own.
        start: Folder of the model whose training a base model continues.
    Raises `ValueError` if `start` is missing for a model that continues another, or given for anything but a base
        model.
    """
    from tools.pretraining.base_models import BASE_MODELS, STUDY_MODELS
    from tools.pretraining.judges import JUDGES

    if player == "all":
        models = [config for config in BASE_MODELS.values() if not config.continues]
        judges = list(JUDGES.values())
    else:
        models = [known[player] for known in (BASE_MODELS, STUDY_MODELS) if player in known]
        judges = [JUDGES[player]] if player in JUDGES else []
    if start is not None and (player == "all" or judges):
        raise ValueError(f"--start continues a base model, and --player is {player}")
    if start is None and any(config.continues for config in models):
        raise ValueError(f"--player {player} continues the training of an earlier model; name its folder with --start")
    return (
        [replace(config, num_steps=num_steps or config.num_steps, start=start) for config in models],
        [replace(config, num_steps=num_steps or config.num_steps) for config in judges],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--player", choices=[*PLAYERS, "all"], default="all")
    parser.add_argument("--steps", type=int, help="optimiser steps (default: those of the shipped models)")
    parser.add_argument(
        "--start", type=Path, help="folder of a model whose training a base model continues (default: random weights)"
    )
    parser.add_argument("--output", type=Path, default=ASSETS)
    arguments = parser.parse_args()
    try:
        models, judges = choose_configs(arguments.player, arguments.steps, arguments.start)
    except ValueError as err:
        parser.error(str(err))
    from tools.pretraining.base_models import write_card
    from tools.pretraining.judges import write_judge_card

    build_all(models, arguments.output, build_model, write_card)
    build_all(judges, arguments.output, build_judge, write_judge_card)


if __name__ == "__main__":
    main()
