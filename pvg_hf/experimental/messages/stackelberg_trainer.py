"""A trainer for the message game."""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import ModelCard
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import EvalPrediction, Trainer, TrainerCallback
from transformers.trainer_utils import HubStrategy

from pvg_hf.experimental.messages.card import message_card
from pvg_hf.experimental.messages.game_clock import GameClock
from pvg_hf.experimental.messages.game_modules import MESSAGE_VARIANTS, PLAYERS, MessageGame, evaluating, vary_message
from pvg_hf.experimental.messages.player_base import MessageProverModel, MessageVerifierModel
from pvg_hf.experimental.messages.problem_data import (
    LABELS,
    ROW_INDEX,
    Batch,
    EpochOrder,
    collate_problems,
    noise_draws,
)
from pvg_hf.experimental.messages.stackelberg_config import StackelbergConfig, rate_factor
from pvg_hf.experimental.messages.unrolling import Snapshot, StepRule, repeat_steps, take_snapshot
from pvg_hf.noise.rates import flip_labels_by_uniforms

_STATE = "game_state.pt"


class StackelbergTrainer(Trainer):
    """
    Trains the prover and the verifier of a message game (after Anil et al. 2021): the prover is paid -log P(accept),
    whatever the answer, and the verifier's loss is the cross-entropy of the labels, which may be noisy.

    The verifier leads. In each round the prover takes `prover_steps` against the frozen verifier, and the verifier
    then takes `verifier_steps` on the frozen prover's messages. One optimiser holds both players' parameters in
    separate groups. A parameter without a gradient is left alone, with its moments and its weight decay, so that this
    equals two optimisers; each player has its own learning rate, weight decay, clipping and schedule, which counts its
    own steps.

    The log has `prover_loss`, `verifier_loss`, `prover_grad_norm`, `verifier_grad_norm` (before clipping), `round`,
    `flipped` (share of flipped labels), and the quality of the prover's response
    ([`~pvg_hf.experimental.messages.game_clock.GameClock.response_figures`]). Evaluation uses clean labels and adds
    the figures of [`diagnose`]. `compute_metrics` gets the verifier's scores as predictions, and the clean labels.

    Args:
        prover ([`~pvg_hf.experimental.messages.player_base.MessageProverModel`]), verifier
        ([`~pvg_hf.experimental.messages.player_base.MessageVerifierModel`]):
            The players.
        args ([`StackelbergConfig`], *optional*): The trainer's arguments.
        train_dataset (`Dataset`):
            Columns that the players' `forward` takes, `labels` (0 or 1, the truth), and `row_index` if noise is
            injected: the row's number. A [`~pvg_hf.experimental.messages.problem_data.ProblemData`] is read fastest.
        eval_dataset (`Dataset`, *optional*): Dataset with the same columns.
        compute_metrics (`Callable`, *optional*): `EvalPrediction -> dict`, in addition to the figures above.
        kwargs:
            Further arguments of [`~transformers.Trainer`].

    Raises:
        ValueError: if the players disagree about messages, or arguments do not fit.
        FloatingPointError: in training, if a loss is not finite.

    Example:

    ```python
    from pvg_hf import StackelbergConfig, StackelbergTrainer
    from pvg_hf.experimental.messages.mlp_players import (
        MessageMLPProver,
        MessageMLPProverConfig,
        MessageMLPVerifier,
        MessageMLPVerifierConfig,
    )
    from pvg_hf.experimental.messages.problem_data import ProblemData
    from pvg_hf.experimental.messages.decisions import load_world

    world = load_world("linear_f2", num_equations=4, num_variables=3)
    sizes = {"num_inputs": 16, "message_width": 3}
    trainer = StackelbergTrainer(
        MessageMLPProver(MessageMLPProverConfig(**sizes)),
        MessageMLPVerifier(MessageMLPVerifierConfig(**sizes)),
        args=StackelbergConfig("message-game", num_rounds=10),
        train_dataset=ProblemData.of(world.problems("train")),
        eval_dataset=ProblemData.of(world.problems("test")),
    )
    trainer.train()
    print(trainer.evaluate()["eval_accuracy"])
    ```
    """

    def __init__(
        self,
        prover: MessageProverModel,
        verifier: MessageVerifierModel,
        args: StackelbergConfig | None = None,
        *,
        compute_metrics=None,
        **kwargs,
    ):
        args = args or StackelbergConfig("message-game")
        if not isinstance(args, StackelbergConfig):
            raise ValueError(f"`args` is a `{type(args).__name__}`; this trainer takes a `StackelbergConfig`.")
        self.clock = GameClock(args.plan)
        self._logged: dict[str, list[float]] = defaultdict(list)
        self._step_losses: dict[str, list[torch.Tensor]] = defaultdict(list)
        self._snapshots: deque[Snapshot] = deque(maxlen=args.unroll_steps)
        self._user_metrics = compute_metrics
        kwargs.setdefault("data_collator", collate_problems)
        super().__init__(
            self.make_game(prover, verifier, args), args, compute_metrics=self._evaluation_figures, **kwargs
        )
        self.label_names = [LABELS]
        self.add_callback(_ClockCallback(self))

    def make_game(
        self, prover: MessageProverModel, verifier: MessageVerifierModel, args: StackelbergConfig
    ) -> MessageGame:
        """Join the players to the module that is trained; a subclass can change the losses here."""
        return MessageGame(prover, verifier, args.rules)

    @property
    def game(self) -> MessageGame:
        """The players, without wrappers."""
        return self.accelerator.unwrap_model(self.model)

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs):
        self.clock = GameClock(self.args.plan)
        for kept in (self._logged, self._step_losses, self._snapshots):
            kept.clear()
        self._make_card()  # what fails in it must fail before the training, not after it
        return super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            model = self.model if model is None else model
            decayed = set(self.get_decay_parameter_names(model))
            groups = [
                group
                for player in PLAYERS
                for group in self._parameter_groups(model, player, decayed)
                if group["params"]
            ]
            optimizer_class, options = self.get_optimizer_cls_and_kwargs(self.args, model)
            self.optimizer = optimizer_class(groups, **options)
        return self.optimizer

    def _parameter_groups(self, model: nn.Module, player: str, decayed: set[str]) -> list[dict[str, Any]]:
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        named = [(name, p) for name, p in trained if name.removeprefix("module.").startswith(f"{player}.")]
        rate, decay = (self.args.of_player(player, name) for name in ("learning_rate", "weight_decay"))
        parts = (
            (decay, [p for name, p in named if name in decayed]),
            (0.0, [p for name, p in named if name not in decayed]),
        )
        return [{"params": params, "weight_decay": value, "lr": rate, "player": player} for value, params in parts]

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LambdaLR:
        if self.lr_scheduler is None:
            optimizer = optimizer or self.optimizer
            factors = {player: rate_factor(self.args, player) for player in PLAYERS}
            lambdas = [
                lambda _, player=group["player"]: factors[player](self.clock.totals[player])
                for group in optimizer.param_groups
            ]
            self.lr_scheduler = LambdaLR(optimizer, lambdas)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def _get_train_sampler(self, train_dataset=None):
        rows = self.train_dataset if train_dataset is None else train_dataset
        return EpochOrder(len(rows), self.args.data_seed if self.args.data_seed is not None else self.args.seed)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        problems, labels, rows = _split(inputs)
        turn, rates = self.clock.turn, self.args.rates_at(self.clock.round_index)
        noisy = labels if turn == "prover" else self._noisy_labels(labels, rows, rates)
        if self.args.leader_gradient == "unrolled" and turn == "prover":
            self._record_prover(problems)
        if self.args.leader_gradient == "unrolled" and turn == "verifier" and self._snapshots:
            losses = {"verifier": self._anticipating_loss(problems, noisy, rates)}
        else:
            losses = model(turn, problems, noisy, rates)
        for player, loss in losses.items():
            self._step_losses[player].append(loss.detach())
        loss = sum(losses.values())
        if not torch.isfinite(loss):
            values = ", ".join(f"the {player}'s is {float(value.detach())}" for player, value in losses.items())
            raise FloatingPointError(
                f"A loss is not finite at step {self.state.global_step + 1}: {values}. Lower `learning_rate`, or check"
                " the data."
            )
        return loss

    def _noisy_labels(
        self, labels: torch.Tensor, rows: torch.Tensor | None, rates: tuple[float, float]
    ) -> torch.Tensor:
        if rates == (0.0, 0.0):
            return labels
        if rows is None:
            raise ValueError(f"Noise is injected, which needs the column `{ROW_INDEX}`: the number of each row.")
        args = self.args
        epoch = int(self.state.epoch or 0)
        draws = noise_draws(
            rows, len(self.train_dataset), args.noise_seed, args.noise_resample, epoch, self.state.global_step
        )
        noisy = flip_labels_by_uniforms(labels.cpu(), draws, rates)
        self._logged["flipped"].append(float((noisy != labels.cpu()).float().mean()))
        return noisy.to(labels.device)

    def _record_prover(self, problems: Batch) -> None:
        """
        Keep the prover's state before a step. Steps of earlier rounds answered another verifier and are forgotten.
        """
        if self.clock.prover_taken == 0:
            self._snapshots.clear()
        norm = self.args.of_player("prover", "max_grad_norm")
        optimizer = self.callback_handler.optimizer.optimizer  # without accelerate's wrapper
        self._snapshots.append(take_snapshot(self.game.prover, optimizer, problems, norm))

    def _anticipating_loss(self, problems: Batch, labels: torch.Tensor, rates: tuple[float, float]) -> torch.Tensor:
        """
        Return the verifier's loss at the prover's parameters after its last steps, as a function of the verifier's
        parameters.

        The steps are repeated against the current verifier, with new draws of dropout and discrete messages. As in
        each player's own steps, the other player is in evaluation mode.
        """
        game = self.game

        def prover_loss(params, batch):
            return game.prover_loss(
                batch, prover_params=params, verifier_params=dict(game.verifier.named_parameters())
            )

        with evaluating(game.verifier):
            params = repeat_steps(prover_loss, list(self._snapshots))
        with evaluating(game.prover):
            return game.verifier_loss(problems, labels, rates, prover_params=params)

    def _clip_grad_norm(self, model):
        self.accelerator.unscale_gradients()  # once for both players: of scaled gradients, a second call is an error
        norms = {}
        for player in PLAYERS:
            params = [p for p in self.game.get_submodule(player).parameters() if p.grad is not None]
            if params:
                limit = self.args.of_player(player, "max_grad_norm") or float("inf")
                norms[player] = nn.utils.clip_grad_norm_(params, limit)
                self._logged[f"{player}_grad_norm"].append(float(norms[player]))
        return max(norms.values())

    def clip_players(self) -> None:
        """
        Clip the gradients if [`~transformers.Trainer`] does not, as the verifier has no limit; the prover may have
        one.
        """
        if self.args.max_grad_norm == 0:
            self._clip_grad_norm(self.model)

    def end_step(self) -> None:
        """Count the optimiser step that was just taken."""
        means = {
            # All processes must agree on when the prover's turn ends.
            player: float(self.accelerator.reduce(torch.stack(losses).mean(), reduction="mean"))
            for player, losses in self._step_losses.items()
            if losses
        }
        self._step_losses.clear()
        for player, value in means.items():
            self._logged[f"{player}_loss"].append(value)
        for name, value in self.clock.advance(means.get("prover")).items():
            self._logged[name].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self.model.training and self._logged:
            logs |= {name: sum(values) / len(values) for name, values in self._logged.items()}
            logs["round"] = self.clock.round_index
            self._logged.clear()
        super().log(logs, start_time)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        inputs = self._prepare_inputs(inputs)
        problems, labels, _ = _split(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            game = self.game
            message = game.message(problems)
            scores = game.scores(problems, message)
            loss = nn.functional.binary_cross_entropy_with_logits(scores, labels.to(scores))
            if prediction_loss_only:
                return loss, None, None
            varied = [game.scores(problems, vary_message(message, labels, kind)) for kind in MESSAGE_VARIANTS]
        return loss, (scores, message, *varied), labels

    def _evaluation_figures(self, prediction: EvalPrediction) -> dict[str, float]:
        scores, message, *varied = prediction.predictions
        figures = diagnose(scores, prediction.label_ids, message, dict(zip(MESSAGE_VARIANTS, varied)))
        if self._user_metrics is not None:
            rest = {"inputs": prediction.inputs, "losses": prediction.losses}
            figures |= self._user_metrics(EvalPrediction(predictions=scores, label_ids=prediction.label_ids, **rest))
        return figures

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        super().save_model(output_dir, _internal_call=_internal_call)
        if not _internal_call and self.args.should_save:
            self.game.save_players(Path(output_dir or self.args.output_dir))

    def push_to_hub(self, *args, **kwargs):
        if self.args.should_save:
            self.game.save_players(Path(self.args.output_dir))
        return super().push_to_hub(*args, **kwargs)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        if self.is_world_process_zero() and self.args.hub_strategy != HubStrategy.END:
            self.game.save_players(Path(self.args.output_dir))
            self.create_model_card()
        super()._push_from_checkpoint(checkpoint_folder)

    def create_model_card(self, model_name: str | None = None, **metadata) -> None:
        """
        Write `README.md` into the output folder.

        Args:
            model_name (`str`, *optional*): Name of the model in the card's metadata.
            **metadata:
                Further fields of [`~huggingface_hub.ModelCardData`], such as `license`, `language` and `tags`.
        """
        if self.is_world_process_zero():
            self._make_card(model_name=model_name, **metadata).save(Path(self.args.output_dir) / "README.md")

    def _make_card(self, **metadata) -> ModelCard:
        evaluations = [entry for entry in self.state.log_history if "eval_accuracy" in entry]
        figures = evaluations[-1] if evaluations else {}
        source = self.hub_model_id or self.args.output_dir
        return message_card(self.game, self.args, figures, source, **metadata)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            state = {"clock": self.clock.state_dict(), "logged": dict(self._logged)}
            torch.save(
                {**state, "snapshots": [asdict(snapshot) for snapshot in self._snapshots]}, Path(output_dir, _STATE)
            )

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        file = Path(checkpoint, _STATE)
        if not file.exists():
            raise ValueError(
                f"{checkpoint} has no {_STATE}, the state of the game: checkpoints that are resumed are saved without"
                " `save_only_model`."
            )
        state = torch.load(file, map_location=self.args.device, weights_only=True)
        self.clock.load_state_dict(state["clock"])
        self._logged.update(state["logged"])
        for values in state["snapshots"]:
            self._snapshots.append(Snapshot(**{**values, "rule": StepRule(**values["rule"])}))


class _ClockCallback(TrainerCallback):
    """Advances the trainer's clock before the learning rates are set, and ends the training with the last round."""

    def __init__(self, trainer: StackelbergTrainer):
        self.trainer = trainer

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.trainer.clip_players()
        return control

    def on_optimizer_step(self, args, state, control, **kwargs):
        self.trainer.end_step()
        return control

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop |= self.trainer.clock.is_over
        return control


def _split(inputs: Batch) -> tuple[Batch, torch.Tensor, torch.Tensor | None]:
    """Return the columns of the problems, the labels, and the row numbers, if any."""
    problems = {name: value for name, value in inputs.items() if name not in (LABELS, ROW_INDEX)}
    return problems, inputs[LABELS], inputs.get(ROW_INDEX)


def diagnose(
    scores: np.ndarray, labels: np.ndarray, message: np.ndarray, varied: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """
    Compute the figures of an evaluation on clean labels, at score 0.

    Args:
        varied: Scores with other messages, by name.
    Returns: `accuracy`; `completeness`, P(accepted | yes); `soundness`, P(rejected | no); `accuracy_NAME` for each of
        `varied`; and `message_diversity`, the standard deviation of an entry over the problems, averaged over the
        entries.
    """
    accepted, is_yes = scores > 0, labels == 1
    figures = {"accuracy": float((accepted == is_yes).mean())}
    if is_yes.any():
        figures["completeness"] = float(accepted[is_yes].mean())
    if not is_yes.all():
        figures["soundness"] = float(1 - accepted[~is_yes].mean())
    for name, other in varied.items():
        figures[f"accuracy_{name}"] = float(((other > 0) == is_yes).mean())
    figures["message_diversity"] = float(message.std(axis=0).mean())
    return figures
