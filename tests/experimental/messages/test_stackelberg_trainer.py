"""`StackelbergTrainer`: turns, noise, logs, checkpoints."""

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.training_args import OptimizerNames

from pvg_hf import StackelbergConfig, StackelbergTrainer
from pvg_hf.experimental.messages.building import make_players, open_world, training_arguments
from pvg_hf.experimental.messages.game_modules import PLAYERS
from pvg_hf.experimental.messages.mlp_players import MessageMLPProver, MessageMLPVerifier
from pvg_hf.experimental.messages.unrolling import repeat_steps
from tests.support.message_games import small_recipe


def make_trainer(folder, *overrides: str, source="prover", callbacks=(), compute_metrics=None, **arguments):
    recipe = small_recipe(*overrides)
    loaded = open_world(recipe)
    args = training_arguments(recipe, folder, source)
    for name, value in arguments.items():
        setattr(args, name, value)
    return StackelbergTrainer(
        *make_players(recipe, loaded, recipe.seed),
        args=args,
        train_dataset=loaded.train,
        eval_dataset=loaded.test,
        callbacks=list(callbacks),
        compute_metrics=compute_metrics,
    )


class Moves(TrainerCallback):
    """Records which players' parameters change in each step."""

    def __init__(self, trainer_of):
        self.trainer_of, self.moved = trainer_of, []

    def state(self):
        game = self.trainer_of().game
        return {
            name: torch.cat([p.detach().flatten() for p in game.get_submodule(name).parameters()])
            for name in ("prover", "verifier")
        }

    def on_step_begin(self, args, state, control, **kwargs):
        self.before = self.state()

    def on_step_end(self, args, state, control, **kwargs):
        now = self.state()
        self.moved.append("".join(name[0] for name in now if not torch.equal(now[name], self.before[name])))


def moves(folder, *overrides: str, **options) -> list[str]:
    found = []
    recorder = Moves(lambda: found[0])
    found.append(make_trainer(folder, *overrides, callbacks=[recorder], **options))
    found[0].train()
    return recorder.moved


def test_players_take_turns_and_the_other_one_does_not_move(tmp_path):
    assert moves(tmp_path, "training.weight_decay=0.1") == ["p", "p", "p", "v", "v"] * 2


def test_simultaneous_steps_move_both(tmp_path):
    assert moves(tmp_path, "training.dynamics=simultaneous") == ["pv"] * 10


@pytest.mark.parametrize("source", ["none", "witness"])
def test_without_a_prover_only_the_verifier_moves(tmp_path, source):
    assert moves(tmp_path, "controls=[witness]", source=source) == ["v"] * 4


def test_a_best_response_ends_when_the_loss_stops_falling(tmp_path):
    settings = ["training.prover_steps=best_response", "training.max_prover_steps=40", "training.response_patience=2"]
    moved = moves(tmp_path / "a", *settings)
    assert moved.count("v") == 4
    assert 8 <= moved.count("p") < 80
    # A prover that cannot move does not improve on the first batches.
    still = moves(tmp_path / "b", *settings, "training.prover_learning_rate=0.0", "training.batch_size=200")
    assert "".join(move or "-" for move in still) == "----vv" * 2


def test_the_prover_improves_against_a_fixed_verifier(tmp_path):
    trainer = make_trainer(
        tmp_path, "training.learning_rate=0.0", "training.prover_learning_rate=0.01", "training.num_rounds=10"
    )
    before = trainer.game.prover_loss({"inputs": trainer.train_dataset.columns["inputs"]})
    trainer.train()
    assert trainer.game.prover_loss({"inputs": trainer.train_dataset.columns["inputs"]}) < before


def test_players_have_their_own_settings(tmp_path):
    own = ["training.prover_learning_rate=0.5", "training.prover_weight_decay=0.3", "training.prover_schedule=linear"]
    trainer = make_trainer(tmp_path, *own)
    trainer.train()
    groups = trainer.optimizer.param_groups
    assert {(group["player"], group["weight_decay"]) for group in groups} == {
        *(("prover", decay) for decay in (0.3, 0.0)),
        *(("verifier", decay) for decay in (0.01, 0.0)),
    }
    # After all steps, a linear schedule is at 0 and a constant one where it was.
    assert {(group["player"], group["lr"]) for group in groups} == {("prover", 0.0), ("verifier", 1e-3)}


def test_the_prover_is_clipped_although_the_verifier_is_not(tmp_path):
    limits = ["training.max_grad_norm=0.0", "training.prover_max_grad_norm=0.001", "training.weight_decay=0.0"]
    trainer = make_trainer(tmp_path, *limits, "training.learning_rate=1.0", "training.num_rounds=1", logging_steps=5)
    trainer.args.optim = OptimizerNames.SGD
    before = {name: parameter.detach().clone() for name, parameter in trainer.game.named_parameters()}
    trainer.train()
    moved = dict.fromkeys(PLAYERS, 0.0)
    for name, parameter in trainer.game.named_parameters():
        moved[name.split(".")[0]] += (parameter - before[name]).detach().square().sum().item()
    # Three steps of at most .001 each, at a learning rate of 1.
    assert 0 < moved["prover"] ** 0.5 <= 0.003 * (1 + 1e-4)
    first = trainer.state.log_history[0]
    assert first["prover_grad_norm"] > 0.001  # before clipping
    assert moved["verifier"] ** 0.5 > 0.003
    assert first["verifier_grad_norm"] > 0


def test_the_verifier_anticipates_the_steps_of_the_current_round(tmp_path):
    settings = ["training.leader_gradient=unrolled", "training.unroll_steps=5", "training.prover_learning_rate=0.01"]
    trainer = make_trainer(tmp_path, *settings, "training.learning_rate=0.0")
    trainer.train()
    game, snapshots = trainer.game, list(trainer._snapshots)
    assert len(snapshots) == 3  # the steps of a round

    def loss(params, batch):
        return game.prover_loss(batch, prover_params=params, verifier_params=dict(game.verifier.named_parameters()))

    # The verifier did not move, so that the repeated steps lead to the prover as it is.
    repeated = repeat_steps(loss, snapshots)
    for name, parameter in game.prover.named_parameters():
        assert torch.allclose(repeated[name], parameter, atol=1e-6), name


def test_without_weight_decay_all_parameters_are_trained(tmp_path):
    trainer = make_trainer(tmp_path, "training.weight_decay=0.0")
    trainer.create_optimizer()
    trained = {id(p) for group in trainer.optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in trainer.game.parameters()}


def test_the_log_has_both_players(tmp_path):
    trainer = make_trainer(tmp_path, "noise.epsilon=0.3", logging_steps=5)
    trainer.train()
    first = trainer.state.log_history[0]
    assert {"prover_loss", "verifier_loss", "prover_grad_norm", "verifier_grad_norm", "response_gain"} <= first.keys()
    assert (first["round"], first["response_steps"]) == (1, 3)
    assert 0 < first["flipped"] < 1


def test_noise_never_reaches_evaluation(tmp_path):
    clean, noisy = (
        make_trainer(tmp_path, "training.learning_rate=0.0", f"noise.epsilon={rate}").evaluate()
        for rate in (0.0, 0.45)
    )
    same = [name for name in clean if name.startswith("eval_") and "second" not in name and "time" not in name]
    assert "eval_accuracy" in same
    assert [name for name in same if clean[name] != noisy[name]] == []


def test_noise_flips_labels_in_training_at_its_rate(tmp_path):
    trainer = make_trainer(tmp_path, "noise.epsilon=0.3")
    labels, rows = torch.ones(200, dtype=torch.long), torch.arange(200)
    noisy = trainer._noisy_labels(labels, rows, (0.3, 0.3))
    assert abs((noisy == 0).float().mean().item() - 0.3) < 0.13  # four standard errors
    assert torch.equal(noisy, trainer._noisy_labels(labels, rows, (0.3, 0.3)))  # drawn once for each row
    assert torch.equal(trainer._noisy_labels(labels, rows, (0.0, 0.0)), labels)


@pytest.mark.parametrize(("resample", "is_equal"), [("fixed", True), ("epoch", True), ("step", False)])
def test_when_labels_are_drawn(tmp_path, resample, is_equal):
    trainer = make_trainer(tmp_path, "noise.epsilon=0.4", f"noise.resample={resample}")
    labels, rows = torch.ones(200, dtype=torch.long), torch.arange(200)
    draws = []
    for step in (0, 1):
        trainer.state.global_step = step
        draws.append(trainer._noisy_labels(labels, rows, (0.4, 0.4)))
    assert torch.equal(*draws) == is_equal


def test_user_metrics_get_scores_and_labels(tmp_path):
    def metrics(prediction):
        return {"positive": float((prediction.predictions > 0).mean()), "n": len(prediction.label_ids)}

    figures = make_trainer(tmp_path, compute_metrics=metrics).evaluate()
    assert figures["eval_n"] == 60
    assert 0 <= figures["eval_positive"] <= 1
    assert {"eval_accuracy_shuffled", "eval_accuracy_zeroed", "eval_accuracy_same_class"} <= figures.keys()


def test_saved_players_are_loaded_by_their_classes(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    prover = MessageMLPProver.from_pretrained(tmp_path / "saved" / "prover")
    verifier = MessageMLPVerifier.from_pretrained(tmp_path / "saved" / "verifier")
    for player, name in ((prover, "prover"), (verifier, "verifier")):
        trained = trainer.game.get_submodule(name).state_dict()
        assert all(torch.equal(value, trained[key]) for key, value in player.state_dict().items())


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "overrides",
    [
        ["noise.epsilon=0.2"],
        ["prover.dropout=0.3", "messages.form=discrete"],
        ["training.dynamics=simultaneous"],
        ["training.prover_steps=best_response", "training.response_patience=2", "training.max_prover_steps=7"],
        ["training.leader_gradient=unrolled", "training.unroll_steps=2"],
    ],
    ids=["noise", "draws", "simultaneous", "best-response", "unrolled"],
)
@pytest.mark.parametrize("stopped_at", [4, 7])
def test_a_resumed_game_has_the_same_bytes(tmp_path, overrides, stopped_at):
    """Interrupted in the middle of a turn, also after an epoch's end."""
    saving = {"save_strategy": "steps", "save_steps": 1}
    settings = [*overrides, "training.batch_size=40", "training.num_rounds=3"]
    whole = make_trainer(tmp_path / "whole", *settings, save_total_limit=None, **saving)
    whole.train()
    last = whole.state.global_step
    checkpoint = tmp_path / "whole" / f"checkpoint-{stopped_at}"
    resumed = make_trainer(tmp_path / "resumed", *settings, **saving)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert resumed.state.global_step == last
    assert digest(tmp_path / "whole" / f"checkpoint-{last}") == digest(tmp_path / "resumed" / f"checkpoint-{last}")
    weights = load_file(tmp_path / "resumed" / f"checkpoint-{last}" / "model.safetensors")
    before = load_file(checkpoint / "model.safetensors")
    assert any(not torch.equal(weights[name], before[name]) for name in weights)
    # Trainer's own `loss` restarts between two entries of the log.
    logs = [
        [
            {name: value for name, value in entry.items() if name != "loss"}
            for entry in trainer.state.log_history
            if "loss" in entry
        ]
        for trainer in (whole, resumed)
    ]
    assert logs[0] == logs[1]


BEST = {"eval_strategy": "steps", "eval_steps": 5, "save_strategy": "steps", "save_steps": 5}
BEST |= {"load_best_model_at_end": True, "metric_for_best_model": "eval_score", "greater_is_better": True}


def worse_and_worse():
    """Metrics of which the second evaluation is the best one."""
    scores = iter([0.5, 0.9, 0.3, 0.2, 0.1])
    return lambda prediction: {"score": next(scores)}


def test_early_stopping(tmp_path):
    stop = EarlyStoppingCallback(early_stopping_patience=1)
    recipe = ["training.num_rounds=10"]
    trainer = make_trainer(tmp_path, *recipe, callbacks=[stop], compute_metrics=worse_and_worse(), **BEST)
    trainer.train()
    assert trainer.state.global_step == 15  # the third evaluation is not better
    assert trainer.state.best_global_step == 10


def test_the_best_model_is_loaded_and_saved_at_the_end(tmp_path):
    trainer = make_trainer(
        tmp_path, "training.num_rounds=4", compute_metrics=worse_and_worse(), save_total_limit=None, **BEST
    )
    trainer.train()
    assert trainer.state.global_step == 20
    best, last = (load_file(tmp_path / f"checkpoint-{step}" / "model.safetensors") for step in (10, 20))
    found = trainer.game.state_dict()
    assert found.keys() == best.keys()
    assert all(torch.equal(found[name], value) for name, value in best.items())
    assert any(not torch.equal(found[name], value) for name, value in last.items())
    trainer.save_model(str(tmp_path / "saved"))
    prover = MessageMLPProver.from_pretrained(tmp_path / "saved" / "prover")
    assert all(torch.equal(value, best[f"prover.{name}"]) for name, value in prover.state_dict().items())


def test_a_checkpoint_without_the_state_of_the_game_is_not_resumed(tmp_path):
    settings = {"save_strategy": "steps", "save_steps": 5}
    make_trainer(tmp_path, save_only_model=True, **settings).train()
    with pytest.raises(ValueError, match=r"no game_state\.pt.*save_only_model"):
        make_trainer(tmp_path, **settings).train(resume_from_checkpoint=str(tmp_path / "checkpoint-10"))


def test_a_loss_that_is_not_finite_ends_the_training(tmp_path):
    trainer = make_trainer(tmp_path)
    with torch.no_grad():
        trainer.game.verifier.network[0].weight.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="step 1: the prover's is nan"):
        trainer.train()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"prover_steps": 0}, "`prover_steps` is 0"),
        ({"dynamics": "random"}, "`dynamics` is `random`"),
        ({"message_source": "oracle"}, "`message_source` is `oracle`"),
        ({"noise_rho0": 0.6, "noise_rho1": 0.5}, "rho0 \\+ rho1"),
        ({"correction": "backward"}, "`center` is 0"),
        ({"dynamics": "simultaneous", "prover_steps": "best_response"}, "no player responds"),
        ({"leader_gradient": "unrolled", "dynamics": "simultaneous"}, "nobody leads"),
        ({"leader_gradient": "unrolled", "optim": "adafactor"}, "`optim` is `adafactor`"),
        ({"leader_gradient": "unrolled", "gradient_accumulation_steps": 2}, "gradient_accumulation_steps"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_settings_that_do_not_fit_are_errors(tmp_path, options, match):
    with pytest.raises(ValueError, match=match):
        StackelbergConfig(str(tmp_path), report_to="none", **options)


def test_gradient_accumulation_counts_optimiser_steps(tmp_path):
    assert moves(tmp_path, gradient_accumulation_steps=2) == ["p", "p", "p", "v", "v"] * 2


def test_mixed_precision(tmp_path):
    trainer = make_trainer(tmp_path)
    args = StackelbergConfig(str(tmp_path), num_rounds=1, bf16=True, use_cpu=True, report_to="none")
    trainer = StackelbergTrainer(
        trainer.game.prover, trainer.game.verifier, args=args, train_dataset=trainer.train_dataset
    )
    trainer.train()
    assert trainer.state.global_step == 15
    assert {p.dtype for p in trainer.game.parameters()} == {torch.float32}
