"""Arguments of [`~pvg_hf.experimental.messages.stackelberg_trainer.StackelbergTrainer`]."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from transformers import TrainingArguments, get_scheduler

from pvg_hf.config.fields import default_of
from pvg_hf.config.noise_section import RateSchedule, check_rates
from pvg_hf.experimental.messages.game_clock import TurnPlan
from pvg_hf.experimental.messages.game_modules import GameRules
from pvg_hf.experimental.messages.recipe import LabelNoise, MessageSource, StackelbergSection
from pvg_hf.losses import UNBOUNDED_CORRECTIONS
from pvg_hf.run.environment import script_line
from pvg_hf.trainers.common.options import check_options, option

# Arguments of the game, and keys of the recipe's section that set the Trainer's own arguments.
GAME_OPTIONS = (
    *("num_rounds", "prover_steps", "max_prover_steps", "response_patience", "verifier_steps", "dynamics"),
    *("leader_gradient", "unroll_steps", "prover_learning_rate", "prover_weight_decay", "prover_max_grad_norm"),
    *("prover_schedule", "entropy_bonus", "correction", "center"),
)
TRAINER_OPTIONS = {
    "learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
    "max_grad_norm": "max_grad_norm",
    "schedule": "lr_scheduler_type",
    "batch_size": "per_device_train_batch_size",
}

UNROLLED_OPTIMISERS = ("adamw_torch", "adamw_torch_fused", "sgd")


def _default(key: str) -> Any:
    return default_of(StackelbergSection, key)


@dataclass
class StackelbergConfig(TrainingArguments):
    """
    Arguments of the message game, in addition to those of [`~transformers.TrainingArguments`].

    The arguments of the optimiser that [`~transformers.TrainingArguments`] has, such as `learning_rate`, are those of
    the verifier, and of the prover if the argument with the prefix `prover_` is `None`. `max_steps` follows from the
    rounds unless it is set; the game ends with whichever comes first.

    Args:
        num_rounds (`int`, *optional*, defaults to `100`): Number of rounds.
        prover_steps (`int` or `str`, *optional*, defaults to `10`):
            Steps of the prover per round, or `best_response`: until its loss stops falling.
        max_prover_steps (`int`, *optional*, defaults to `100`):
            With `best_response`: maximum number of steps per round.
        response_patience (`int`, *optional*, defaults to `10`):
            With `best_response`: steps of each of the two windows whose mean losses are compared.
        verifier_steps (`int`, *optional*, defaults to `5`): Steps of the verifier per round.
        dynamics (`str`, *optional*, defaults to `"stackelberg"`):
            `stackelberg`: the players take turns. `simultaneous`: each step updates both, at the same point.
        leader_gradient (`str`, *optional*, defaults to `"alternating"`):
            `alternating`: the verifier's gradient at fixed messages. `unrolled`: also through the prover's last steps,
            so that the verifier anticipates the response.
        unroll_steps (`int`, *optional*, defaults to `5`): With `unrolled`: number of the prover's last steps.
        prover_learning_rate, prover_weight_decay, prover_max_grad_norm (`float`, *optional*):
            The prover's, if they differ.
        prover_schedule (`str`, *optional*): The prover's `lr_scheduler_type`, if it differs.
        entropy_bonus (`float`, *optional*, defaults to `0.0`):
            Weight of the entropy of the messages in the prover's loss.
        correction (`str`, *optional*, defaults to `"none"`): Correction of the verifier's loss for the injected noise.
        center (`float`, *optional*, defaults to `0.0`): Weight of the mean squared score.
        message_source (`str`, *optional*, defaults to `"prover"`):
            `prover`; or for comparison `none` (zeros) or `witness` (a column of the dataset), with which only the
            verifier learns.
        noise_rho0 (`float`, *optional*, defaults to `0.0`), noise_rho1 (`float`, *optional*, defaults to `0.0`):
            Injected P(label 1 | truth 0) and P(label 0 | truth 1), in training only.
        noise_resample (`str`, *optional*, defaults to `"fixed"`):
            When labels are drawn: once (`fixed`), in each `epoch`, or in each `step`.
        noise_schedule ([`~pvg_hf.config.noise_section.RateSchedule`] or `dict`, *optional*):
            Schedule of the rates over the rounds.
        noise_seed (`int`, *optional*): Seed of the noise; `seed` by default.

    Raises:
        ValueError: for a setting outside its range, or settings that contradict each other.
    """

    num_rounds: int = option(StackelbergSection, "num_rounds")
    prover_steps: int | str = option(StackelbergSection, "prover_steps")
    max_prover_steps: int = option(StackelbergSection, "max_prover_steps")
    response_patience: int = option(StackelbergSection, "response_patience")
    verifier_steps: int = option(StackelbergSection, "verifier_steps")
    dynamics: str = option(StackelbergSection, "dynamics")
    leader_gradient: str = option(StackelbergSection, "leader_gradient")
    unroll_steps: int = option(StackelbergSection, "unroll_steps")
    prover_learning_rate: float | None = option(StackelbergSection, "prover_learning_rate")
    prover_weight_decay: float | None = option(StackelbergSection, "prover_weight_decay")
    prover_max_grad_norm: float | None = option(StackelbergSection, "prover_max_grad_norm")
    prover_schedule: str | None = option(StackelbergSection, "prover_schedule")
    entropy_bonus: float = option(StackelbergSection, "entropy_bonus")
    correction: str = option(StackelbergSection, "correction")
    center: float = option(StackelbergSection, "center")
    message_source: str = field(
        default="prover", metadata={"help": "`prover`, or for comparison `none` or the column `witness`."}
    )
    noise_rho0: float = field(default=0.0, metadata={"help": "Injected P(label 1 | truth 0)."})
    noise_rho1: float = field(default=0.0, metadata={"help": "Injected P(label 0 | truth 1)."})
    noise_resample: str = option(LabelNoise, "resample")
    noise_schedule: dict[str, Any] | None = field(
        default=None, metadata={"help": "Schedule of the rates over rounds."}
    )
    noise_seed: int | None = field(default=None, metadata={"help": "Seed of the noise; `seed` by default."})

    learning_rate: float = field(default=_default("learning_rate"), metadata={"help": "The verifier's."})
    weight_decay: float = field(default=_default("weight_decay"), metadata={"help": "The verifier's."})
    max_grad_norm: float = field(default=_default("max_grad_norm"), metadata={"help": "The verifier's."})
    lr_scheduler_type: str = field(default=_default("schedule"), metadata={"help": "The verifier's."})
    per_device_train_batch_size: int = field(default=_default("batch_size"), metadata={"help": "Problems per step."})
    per_device_eval_batch_size: int = field(default=500, metadata={"help": "Problems per batch of the evaluation."})
    logging_steps: float = field(default=15, metadata={"help": "Steps between two entries of the log."})
    remove_unused_columns: bool = field(default=False, metadata={"help": "Columns are those of the players."})
    # In a turn, the other player's parameters get no gradient.
    ddp_find_unused_parameters: bool | None = field(default=True, metadata={"help": "Needed as players take turns."})

    def __post_init__(self):
        check_options(self, StackelbergSection, *GAME_OPTIONS)
        check_options(self, LabelNoise, noise_resample="resample")
        sources = get_args(MessageSource)
        if self.message_source not in sources:
            raise ValueError(f"`message_source` is `{self.message_source}`; allowed: {', '.join(sources)}.")
        if isinstance(self.noise_schedule, RateSchedule):
            self.noise_schedule = dict(vars(self.noise_schedule))
        check_rates(self.noise_rho0, self.noise_rho1)
        self._check_loss()
        if self.max_steps <= 0:
            self.max_steps = self.plan.max_steps
        super().__post_init__()
        if self.n_gpu > 1:
            raise ValueError(
                f"One process sees {self.n_gpu} GPUs, and would split each batch over all of them: restrict it to one"
                " (`CUDA_VISIBLE_DEVICES=0`), or start a process for each by `accelerate launch --num_processes"
                f" {self.n_gpu} {script_line()}`."
            )
        self._check_unrolling()
        if self.noise_seed is None:
            self.noise_seed = self.seed

    @property
    def plan(self) -> TurnPlan:
        """Steps of a round."""
        is_best = self.prover_steps == "best_response"
        steps = self.max_prover_steps if is_best else self.prover_steps
        return TurnPlan(
            self.num_rounds,
            steps if self.message_source == "prover" else 0,
            self.verifier_steps,
            self.dynamics == "simultaneous" and self.message_source == "prover",
            self.response_patience if is_best else None,
        )

    @property
    def rules(self) -> GameRules:
        """Settings of the losses."""
        return GameRules(self.message_source, self.entropy_bonus, self.correction, self.center)

    def rates_at(self, round_index: int) -> tuple[float, float]:
        """Return the injected rates `(rho0, rho1)` of a round."""
        factor = self.noise_factor(round_index)
        return self.noise_rho0 * factor, self.noise_rho1 * factor

    def noise_factor(self, round_index: int) -> float:
        """Return the factor of the rates in a round, by the schedule."""
        return RateSchedule(**self.noise_schedule).factor(round_index) if self.noise_schedule else 1.0

    def of_player(self, player: str, name: str) -> Any:
        """Return an argument of the optimiser for a player, e.g. `learning_rate`."""
        own = (
            vars(self)[f"prover_{'schedule' if name == 'lr_scheduler_type' else name}"] if player == "prover" else None
        )
        return vars(self)[name] if own is None else own

    def _check_loss(self) -> None:
        if self.correction in UNBOUNDED_CORRECTIONS and self.center == 0:
            raise ValueError(
                f"`correction={self.correction}` is unbounded below, and `center` is 0; set `center` above 0, or "
                "`correction=forward`."
            )
        if self.dynamics == "simultaneous" and self.prover_steps == "best_response":
            raise ValueError("With `dynamics=simultaneous` no player responds; set `prover_steps` to a number.")

    def _check_unrolling(self) -> None:
        if self.leader_gradient != "unrolled":
            return
        if self.dynamics == "simultaneous":
            raise ValueError(
                "`leader_gradient=unrolled` is for `dynamics=stackelberg`: nobody leads in simultaneous play."
            )
        optimiser = str(self.optim.value)
        if optimiser not in UNROLLED_OPTIMISERS:
            raise ValueError(
                f"`leader_gradient=unrolled` repeats the prover's steps by {', '.join(UNROLLED_OPTIMISERS)}; `optim`"
                f" is `{optimiser}`."
            )
        if self.gradient_accumulation_steps > 1 or self.world_size > 1:
            raise ValueError(
                "`leader_gradient=unrolled` needs whole batches in one process: set `gradient_accumulation_steps` to 1"
                " and start one process."
            )


def rate_factor(args: StackelbergConfig, player: str) -> Callable[[int], float]:
    """Return the schedule of a player's learning rate: the factor after a number of its steps."""
    steps = max(1, args.plan.player_steps(player))
    unused = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)  # a scheduler needs an optimiser
    kind = args.of_player(player, "lr_scheduler_type")
    return get_scheduler(kind, unused, args.get_warmup_steps(steps), steps).lr_lambdas[0]
