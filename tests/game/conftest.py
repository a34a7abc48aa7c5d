"""A game so small that a whole one takes seconds."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM

from pvg_hf import load_recipe, play
from pvg_hf.game.folder import RunFolder
from pvg_hf.game.phases import prover, verifier
from pvg_hf.roles import Role
from pvg_hf.seeding import derive_rng
from pvg_hf.tasks import PromptBuilder
from pvg_hf.trainers.supervised import FineTuning, fine_tune

sys.path.insert(0, str(Path(__file__).parent))  # for the modules beside this file, here and in other processes

from game_runs import branch_off
from recall_task import NUMBERS, RecallTask, write_solution


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Equal bytes are promised for equal numbers of threads; the other processes take one."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def player(tmp_path_factory, tokenizer) -> Path:
    """
    Folder of a language model that has learned for a second or two: it answers nearly always, and rightly by luck,
    about one time in six.
    """
    torch.manual_seed(0)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, tie_word_embeddings=True, **sizes, **ids)
    )
    prompts, rng = PromptBuilder(RecallTask()), derive_rng("player")
    rows = [
        {
            "prompt": prompts.text(problem, list(Role)[rng.integers(len(Role))]),
            "completion": write_solution(int(rng.choice(NUMBERS))),
        }
        for problem in RecallTask(num_train=640).problems("train").to_list() * 3
    ]
    folder = tmp_path_factory.mktemp("player")
    settings = FineTuning(120, 16, 1e-2, 64, seed=0, output_dir=str(folder), use_cpu=True, show_progress=False)
    fine_tune(model, tokenizer, Dataset.from_list(rows), settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def make_recipe(player) -> Callable[..., dict[str, Any]]:
    """Makes recipes, as plain values; `section__key=value` changes one."""

    def make(output_dir: Path, **changes: Any) -> dict[str, Any]:
        model = {"model": str(player), "learning_rate": 0.003, "save_steps": 2}
        recipe = {
            "output_dir": str(output_dir),
            "device": "cpu",
            "task": {"name": "recall_task:RecallTask", "options": {"num_train": 60, "num_test": 4}},
            "split": {"heldout_share": 0.2},
            # two epochs of the pairs, so that the second one is continued from a checkpoint too
            "verifier": {**model, "max_steps": 8, "pairs_per_step": 8, "max_length": 32},
            "prover": {
                **model,
                "learning_rate": 0.001,
                "max_steps": 6,
                "prompts_per_step": 4,
                "num_generations": 4,
                "max_completion_length": 8,
                "eval_steps": 2,
                "eval_problems": 4,
            },
            "stopping": {"rule": "max_steps"},
            "watchdogs": {"min_pair_accuracy": 0.0},
            "mint": {
                "test_solutions_per_problem": 2,
                "problems_per_batch": 3,
            },  # several batches, for several processes
            "evaluation": {"best_of_n": [2], "bootstrap_samples": 100},
            "logging": {"progress": False},
        }
        for path, value in changes.items():
            *sections, key = path.split("__")
            section = recipe
            for name in sections:
                section = section.setdefault(name, {})
            section[key] = value
        return recipe

    return make


@pytest.fixture
def game(tmp_path, make_recipe) -> Callable[..., dict[str, Any]]:
    """Makes recipes of games in this test's folder."""
    return lambda **changes: make_recipe(tmp_path, **changes)


@pytest.fixture(scope="session")
def reference(tmp_path_factory, make_recipe) -> RunFolder:
    """Two rounds, played in this process without an interruption. Tests read it and never write to it."""
    return play(load_recipe(make_recipe(tmp_path_factory.mktemp("reference"))))


class Beginnings(list):
    """Of every trainer that a phase ran: the trainer, and its weights before the first step."""

    def add(self, trainer) -> None:
        weights = {name: tensor.detach().clone() for name, tensor in trainer.model.state_dict().items()}
        self.append((trainer, weights))


@pytest.fixture
def beginnings(monkeypatch) -> Beginnings:
    """Fills up while the test plays."""
    seen = Beginnings()
    for phase in (prover, verifier):

        def run_and_note(context, trainer, run=phase.run_trainer, **kwargs):
            seen.add(trainer)
            run(context, trainer, **kwargs)

        monkeypatch.setattr(phase, "run_trainer", run_and_note)
    return seen


@pytest.fixture
def play_phase(tmp_path, game, reference):
    """Play one phase, on what the reference run had before it, by a recipe with changes."""

    def play_it(phase: str, round_index: int, **changes):
        if not (tmp_path / "game").exists():
            branch_off(reference, tmp_path, f"round-{round_index:03d}/{phase}")
        return play(load_recipe(game(**changes)), phase=phase, round_index=round_index)

    return play_it
