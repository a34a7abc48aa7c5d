"""A game so small that a whole one takes seconds."""

from collections.abc import Callable
from typing import Any

import pytest
from transformers import Trainer

from pvg_hf import load_recipe, play
from pvg_hf.game.phases import prover, verifier
from tests.support.game_runs import branch_off


@pytest.fixture
def game(tmp_path, make_recipe) -> Callable[..., dict[str, Any]]:
    """Makes recipes of games in this test's folder."""
    return lambda **changes: make_recipe(tmp_path, **changes)


class Beginnings(list):
    """Records every trainer that a phase ran, with its weights before the first step."""

    def add(self, trainer) -> None:
        weights = {name: tensor.detach().clone() for name, tensor in trainer.model.state_dict().items()}
        self.append((trainer, weights))


@pytest.fixture
def beginnings(monkeypatch) -> Beginnings:
    """Records the trainers while the test plays."""
    seen = Beginnings()
    for phase in (prover, verifier):

        def run_and_note(context, trainer, run=phase.run_trainer, **kwargs):
            seen.add(trainer)
            run(context, trainer, **kwargs)

        monkeypatch.setattr(phase, "run_trainer", run_and_note)
    return seen


@pytest.fixture
def play_phase(tmp_path, game, reference, monkeypatch):
    """Play one phase of a changed recipe, starting from the reference run."""

    def play_it(phase: str, round_index: int, *, learning_rate: float | None = None, **changes):
        """A `learning_rate` may be one that a recipe refuses."""
        if not (tmp_path / "game").exists():
            branch_off(reference, tmp_path, f"round-{round_index:03d}/{phase}")
        if learning_rate is not None:

            def make_optimizer(trainer, *args, **kwargs):
                trainer.args.learning_rate = learning_rate
                return create_optimizer(trainer, *args, **kwargs)

            create_optimizer = Trainer.create_optimizer
            monkeypatch.setattr(Trainer, "create_optimizer", make_optimizer)
        return play(load_recipe(game(**changes)), phase=phase, round_index=round_index)

    return play_it
