"""Trains several games of one recipe at once, one per seed, as a single batched computation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.func import stack_module_state, vmap
from transformers import Trainer

from pvg_hf.core.seeding import derive_seed
from pvg_hf.experimental.messages.game_modules import PLAYERS, Columns, MessageGame, Params
from pvg_hf.experimental.messages.problem_data import LABELS, ROW_INDEX, ProblemData, epoch_order, noise_draws
from pvg_hf.experimental.messages.stackelberg_config import StackelbergConfig, rate_factor
from pvg_hf.noise.rates import flip_labels_by_uniforms


def train_stacked(
    games: Sequence[MessageGame], seeds: Sequence[int], train: ProblemData, args: StackelbergConfig
) -> Iterator[dict[str, list[float]]]:
    """
    Train several games in place, with the results of
    [`~pvg_hf.experimental.messages.stackelberg_trainer.StackelbergTrainer`] for each, up to rounding (and other draws
    of dropout and discrete messages).

    Args:
        games: Games of equal architecture, on the CPU.
        seeds: Seed of each game, for the order of its problems and its noise; they replace those of `args`.
        args: Settings of the training, with the noise of all games. Device, logging and checkpoints are not used.
    Yields: after each round, `prover_loss` and `verifier_loss` of each game at the last step of the player.
    Raises `ValueError` for `prover_steps=best_response` or an unrolled gradient, whose steps differ between games.
    Raises `FloatingPointError` if a loss is not finite.
    """
    if args.prover_steps == "best_response" or args.leader_gradient == "unrolled":
        raise ValueError(
            "Games with `prover_steps: best_response` or `leader_gradient: unrolled` cannot be trained together, as"
            " their steps differ; set `equilibrium.vectorized: false`."
        )
    stacked = _StackedGames(games, args)
    batches = _stacked_batches(seeds, train, args)
    plan = args.plan
    turns = [("prover",)] * plan.prover_steps + [("verifier",)] * plan.verifier_steps
    if plan.is_simultaneous:
        turns = [PLAYERS] * len(turns)
    for round_index in range(plan.num_rounds):
        last = {}
        with torch.random.fork_rng(devices=[]):  # for dropout and discrete messages
            torch.manual_seed(derive_seed(seeds[0], "messages", "draws of a round", round_index))
            for players in turns:
                last |= stacked.step(players, next(batches), args.rates_at(round_index))
        for player, loss in last.items():
            if not torch.isfinite(loss).all():
                broken = [seed for seed, is_finite in zip(seeds, torch.isfinite(loss).tolist()) if not is_finite]
                raise FloatingPointError(
                    f"The {player}'s loss is not finite in round {round_index} with the seed(s) {broken}. Lower"
                    " `learning_rate`, or check the data."
                )
        yield {f"{player}_loss": loss.tolist() for player, loss in last.items()}
    stacked.unstack(games)


@dataclass(frozen=True)
class _StackedBatch:
    """A batch of each game: columns of shape `(num_games, batch, ...)`, labels, and the draws of the noise."""

    problems: Columns
    labels: torch.Tensor
    draws: torch.Tensor


def _stacked_batches(seeds: Sequence[int], train: ProblemData, args: StackelbergConfig) -> Iterator[_StackedBatch]:
    """Yield the batches of all games, epoch by epoch, endlessly."""
    num_rows, size, step, epoch = len(train), args.per_device_train_batch_size, 0, 0
    columns = {name: column for name, column in train.columns.items() if name not in (LABELS, ROW_INDEX)}
    every, draws = torch.arange(num_rows), None
    while True:
        orders = torch.stack([torch.from_numpy(epoch_order(num_rows, seed, epoch)) for seed in seeds])
        for start in range(0, num_rows, size):
            rows = orders[:, start : start + size]
            is_new = args.noise_resample == "step" or (args.noise_resample == "epoch" and start == 0)
            if draws is None or is_new:
                of_games = [noise_draws(every, num_rows, seed, args.noise_resample, epoch, step) for seed in seeds]
                draws = torch.stack(of_games)  # (num_games, num_rows)
            problems = {name: column[rows] for name, column in columns.items()}
            yield _StackedBatch(problems, train.columns[LABELS][rows], draws.gather(1, rows))
            step += 1
        epoch += 1


class _StackedGames:
    """Parameters of several games along a first dimension, with an optimiser for each player."""

    def __init__(self, games: Sequence[MessageGame], args: StackelbergConfig):
        self.args, self.base = args, games[0].train()
        self.states = {
            player: stack_module_state([game.get_submodule(player) for game in games]) for player in PLAYERS
        }
        self.optimizers = {player: self._make_optimizer(player) for player in self.states}
        self.factors = {player: rate_factor(args, player) for player in self.states}
        self.taken = dict.fromkeys(self.states, 0)
        self.has_draws = any(isinstance(module, nn.Dropout) for module in self.base.modules()) or (
            self.base.prover.config.message_form == "discrete"
        )

    def step(
        self, players: Sequence[str], batch: _StackedBatch, rates: tuple[float, float]
    ) -> dict[str, torch.Tensor]:
        """
        Take a step with the players, all at the same point, and return the losses before it, of shape `(num_games,)`.
        """
        losses = {player: self._losses(player, batch, rates) for player in players}
        for player, loss in losses.items():
            trained = self._trained(player)
            for parameter, gradient in zip(trained, torch.autograd.grad(loss.sum(), trained)):
                parameter.grad = gradient.contiguous()  # the fused AdamW of CPUs ignores strides
        for player in players:
            self._clip(player)
            self._update(player)
        return {player: loss.detach() for player, loss in losses.items()}

    def _losses(self, player: str, batch: _StackedBatch, rates: tuple[float, float]) -> torch.Tensor:
        other = "verifier" if player == "prover" else "prover"
        self.base.get_submodule(player).train()
        self.base.get_submodule(other).eval()
        params = {player: self._params(player), other: {k: v.detach() for k, v in self._params(other).items()}}
        labels = batch.labels if player == "prover" else flip_labels_by_uniforms(batch.labels, batch.draws, rates)
        if self.args.plan.prover_steps == 0:
            params["prover"] = {}
        loss = self._prover_loss if player == "prover" else self._verifier_loss(rates)
        mapped = vmap(loss, randomness="different" if self.has_draws else "error")
        return mapped(params["prover"], params["verifier"], dict(batch.problems), labels)

    def _prover_loss(self, prover: Params, verifier: Params, problems: Columns, labels: torch.Tensor) -> torch.Tensor:
        return self.base.prover_loss(problems, prover_params=prover, verifier_params=verifier)

    def _verifier_loss(self, rates: tuple[float, float]) -> Callable[..., torch.Tensor]:
        def loss(prover: Params, verifier: Params, problems: Columns, labels: torch.Tensor) -> torch.Tensor:
            return self.base.verifier_loss(problems, labels, rates, prover_params=prover, verifier_params=verifier)

        return loss

    def _params(self, player: str) -> Params:
        params, buffers = self.states[player]
        return {**params, **buffers}

    def _trained(self, player: str) -> list[torch.Tensor]:
        return [value for value in self.states[player][0].values() if value.requires_grad]

    def _clip(self, player: str) -> None:
        limit = self.args.of_player(player, "max_grad_norm")
        if not limit:
            return
        gradients = [parameter.grad for parameter in self._trained(player)]
        norms = sum(gradient.flatten(1).square().sum(dim=1) for gradient in gradients).sqrt()
        factors = (limit / (norms + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_, for each game
        for gradient in gradients:
            gradient.mul_(factors.view(-1, *[1] * (gradient.ndim - 1)))

    def _update(self, player: str) -> None:
        optimizer = self.optimizers[player]
        rate = self.args.of_player(player, "learning_rate") * self.factors[player](self.taken[player])
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        self.taken[player] += 1

    def _make_optimizer(self, player: str) -> torch.optim.Optimizer:
        optimizer_class, options = Trainer.get_optimizer_cls_and_kwargs(self.args)
        decayed = set(Trainer.get_decay_parameter_names(None, self.base.get_submodule(player)))
        params = {name: value for name, value in self.states[player][0].items() if value.requires_grad}
        decay = self.args.of_player(player, "weight_decay")
        parts = (
            (decay, [value for name, value in params.items() if name in decayed]),
            (0.0, [value for name, value in params.items() if name not in decayed]),
        )
        groups = [{"params": values, "weight_decay": value} for value, values in parts if values]
        return optimizer_class(groups, **options)

    @torch.no_grad()
    def unstack(self, games: Sequence[MessageGame]) -> None:
        """Copy the parameters back."""
        for player, (params, _) in self.states.items():
            for name, value in params.items():
                for game, own in zip(games, value):
                    game.get_submodule(player).get_parameter(name).copy_(own)
