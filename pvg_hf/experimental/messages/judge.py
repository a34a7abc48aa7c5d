"""Judges a trained message game on clean test problems."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from pvg_hf.core.figure import EMPTY, Figure, wilson
from pvg_hf.core.seeding import derive_seed
from pvg_hf.experimental.messages.building import LoadedWorld, make_prover
from pvg_hf.experimental.messages.game_modules import (
    MESSAGE_VARIANTS,
    Columns,
    MessageGame,
    acceptance_loss,
    frozen,
    vary_message,
)
from pvg_hf.experimental.messages.problem_data import LABELS, ROW_INDEX, ProblemData, epoch_order
from pvg_hf.experimental.messages.recipe import JudgingConfig, MessageRecipe

_BATCH = 500
_ATTACK_RATE = 0.1  # learning rate of the direct optimisation of messages, by Adam
_TINY = 1e-12


@dataclass(frozen=True)
class MessageJudgement:
    """
    Figures of a game.

    Args:
        figures: `clean_loss` (nats, with the interval of the mean), `accuracy`, `completeness` (P(accepted | yes) with
            the trained prover), and `soundness` (P(rejected | no)) against the trained prover. If they were asked for,
            `soundness_fresh` against a freshly trained prover, and `soundness_attack` against the best of several
            direct optimisations of each message, the prover's own included. `precision_at_C`: share of yes among the
            share C of problems with the highest scores. `accuracy_NAME`, with messages that are shuffled, zeroed, or
            of another problem of the class; and `message_diversity`.
    """

    figures: dict[str, Figure]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: figure.to_dict() for name, figure in self.figures.items()}


def judge_game(game: MessageGame, loaded: LoadedWorld, recipe: MessageRecipe) -> MessageJudgement:
    """
    Judge a game.

    Args:
        loaded: The world. The test problems are judged; a fresh prover is trained on the training problems.
        recipe: The recipe, whose section `judging` says what is computed.
    """
    game, judging = game.eval(), recipe.judging
    threshold = acceptance_threshold(recipe)
    labels = loaded.test.columns[LABELS]
    is_yes = labels == 1
    messages, scores = _play(game, loaded.test)
    figures = {
        "clean_loss": mean_figure(F.binary_cross_entropy_with_logits(scores, labels.float(), reduction="none")),
        "accuracy": share_figure((scores >= threshold) == is_yes),
        "completeness": share_figure(scores[is_yes] >= threshold),
        "soundness": share_figure(scores[~is_yes] < threshold),
    }
    if game.rules.message_source == "prover":
        if judging.fresh_prover_steps:
            fresh = train_fresh_prover(game, loaded, recipe)
            _, fooled = _play(fresh, loaded.test)
            figures["soundness_fresh"] = share_figure(fooled[~is_yes] < threshold)
        if judging.attack_steps:
            rows = torch.nonzero(~is_yes)[: judging.attack_problems, 0]
            best = attack_messages(game, _columns(loaded.test, rows), messages[rows], judging, recipe.seed)
            figures["soundness_attack"] = share_figure(best < threshold)
    figures |= {f"precision_at_{share:g}": precision_at(scores, is_yes, share) for share in judging.coverages}
    if game.rules.message_source != "none":
        figures |= _variants(game, loaded.test, messages, threshold)
        figures["message_diversity"] = Figure(float(messages.std(dim=0).mean()), None, None, len(messages))
    return MessageJudgement(figures)


def acceptance_threshold(recipe: MessageRecipe) -> float:
    """
    Return the score from which on the verifier accepts.

    `judging.accept_at` is a probability on the scale of clean labels. A verifier that was trained on noisy labels
    without a correction predicts noisy labels, so that the probability is converted for it: (1 - rho0 - rho1) p +
    rho0, at the rates without their schedule.
    """
    prob, noise = recipe.judging.accept_at, recipe.noise
    if recipe.training.correction == "none":
        prob = (1 - noise.rho0 - noise.rho1) * prob + noise.rho0
    return math.log(prob / (1 - prob))


def train_fresh_prover(game: MessageGame, loaded: LoadedWorld, recipe: MessageRecipe) -> MessageGame:
    """Train a new prover against the frozen verifier, and return a game with both."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(recipe.seed, "messages", "fresh prover"))
        fresh = MessageGame(make_prover(recipe, loaded).to(_device(game)), game.verifier, game.rules)
        rate = recipe.training.prover_learning_rate
        optimizer = torch.optim.AdamW(
            [parameter for parameter in fresh.prover.parameters() if parameter.requires_grad],
            lr=recipe.training.learning_rate if rate is None else rate,
            weight_decay=0.0,
        )
        batches = _random_batches(loaded.train, recipe.training.batch_size, recipe.seed)
        fresh.prover.train()
        with frozen(fresh.verifier):
            for _ in range(recipe.judging.fresh_prover_steps):
                loss = fresh.prover_loss(_to(next(batches), _device(game)))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return fresh.eval()


def attack_messages(
    game: MessageGame, problems: Columns, start: torch.Tensor, judging: JudgingConfig, seed: int
) -> torch.Tensor:
    """
    Optimise the message of each problem directly, against the frozen verifier.

    Args:
        start: shape `(num_problems, message_size)`. The prover's messages, from which one optimisation starts; others
            start at random.
    Returns: shape `(num_problems,)`; the highest score of any allowed message that was tried, for each problem.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, "messages", "attack"))
    is_discrete = game.prover.config.message_form == "discrete"
    own = start if is_discrete else torch.atanh(start.clamp(-1 + 1e-4, 1 - 1e-4))
    firsts = [own, *(torch.randn(start.shape, generator=generator) for _ in range(judging.attack_restarts))]
    best = []
    with frozen(game.verifier):
        for rows in torch.arange(len(start)).split(_BATCH):
            part = _to({name: column[rows] for name, column in problems.items()}, _device(game))
            with torch.no_grad():
                found = game.scores(part, start[rows].to(_device(game)))
            for first in firsts:
                optimised = _optimise(game, part, first[rows].to(_device(game)), judging.attack_steps)
                found = torch.maximum(found, optimised)
            best.append(found.cpu())
    return torch.cat(best)


def _optimise(game: MessageGame, problems: Columns, raw: torch.Tensor, num_steps: int) -> torch.Tensor:
    """Return the highest score of each problem on the way from the message of `raw`, by Adam."""
    raw = raw.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([raw], lr=_ATTACK_RATE)
    best = torch.full((len(raw),), -math.inf, device=raw.device)
    for step in range(num_steps + 1):
        # A discrete message is the most likely symbols, with the gradient of their probabilities.
        scores = game.scores(problems, _with_gradient(game, raw, game.prover.form_message(raw)))
        best = torch.maximum(best, scores.detach())
        if step < num_steps:
            optimizer.zero_grad()
            (acceptance_loss(scores) * len(scores)).backward()
            optimizer.step()
    return best


def _with_gradient(game: MessageGame, raw: torch.Tensor, message: torch.Tensor) -> torch.Tensor:
    config = game.prover.config
    if config.message_form == "continuous":
        return message
    soft = raw.unflatten(-1, (config.message_width, config.num_symbols)).softmax(dim=-1).flatten(-2)
    return message + soft - soft.detach()


def precision_at(scores: torch.Tensor, is_yes: torch.Tensor, coverage: float) -> Figure:
    """Return the share of yes among the problems with the highest scores, a share `coverage` of all."""
    number = max(1, round(coverage * len(scores)))
    return share_figure(is_yes[scores.topk(number).indices])


def relative_distance(game: MessageGame, reference: MessageGame) -> float:
    """Return the distance between the verifiers' parameters, divided by the norm of the reference's."""
    pairs = [
        (own.detach().double(), other.detach().double())
        for own, other in zip(game.verifier.parameters(), reference.verifier.parameters(), strict=True)
    ]
    distance = sum((own - other).square().sum() for own, other in pairs)
    norm = sum(other.square().sum() for _, other in pairs)
    return float((distance / norm).sqrt())


def share_figure(is_true: torch.Tensor) -> Figure:
    """Return the share of true entries with its Wilson interval."""
    return wilson(float(is_true.double().mean()), len(is_true), len(is_true)) if len(is_true) else EMPTY


def mean_figure(values: torch.Tensor) -> Figure:
    """Return a mean with its normal 95 % interval."""
    mean, half = float(values.mean()), 1.96 * float(values.double().std()) / math.sqrt(len(values))
    return Figure(mean, mean - half, mean + half, len(values))


def chance_of(judgement: MessageJudgement) -> float:
    """Return the accuracy of giving every test problem the more frequent answer, at least 1/2."""
    num_yes, num_no = (judgement.figures[name].n for name in ("completeness", "soundness"))
    return max(num_yes, num_no) / (num_yes + num_no)


def passes_gate(game: MessageJudgement, without: MessageJudgement) -> bool:
    """
    Whether a clean game is worth a noise experiment: its accuracy is clearly above chance, and clearly better than
    without messages.

    Clearly means that the 95 % interval of the accuracy excludes the chance of [`chance_of`], and that of the
    difference of the two accuracies, as those of independent games, excludes 0.
    """
    ours, theirs = game.figures["accuracy"], without.figures["accuracy"]
    variance = sum(figure.value * (1 - figure.value) / figure.n for figure in (ours, theirs))
    is_above_chance = ours.low > chance_of(game)
    return is_above_chance and ours.value - theirs.value > 1.96 * math.sqrt(max(variance, _TINY))


def scores_of(game: MessageGame, data: ProblemData) -> torch.Tensor:
    """Return the verifier's scores of all problems, of shape `(num_problems,)`."""
    return _play(game, data)[1]


@torch.no_grad()
def _play(game: MessageGame, data: ProblemData) -> tuple[torch.Tensor, torch.Tensor]:
    """Return messages and scores of all problems."""
    messages, scores = [], []
    for rows in torch.arange(len(data)).split(_BATCH):
        problems = _to(_columns(data, rows), _device(game))
        messages.append(game.message(problems))
        scores.append(game.scores(problems, messages[-1]))
    return torch.cat(messages).cpu(), torch.cat(scores).cpu()


@torch.no_grad()
def _variants(game: MessageGame, data: ProblemData, messages: torch.Tensor, threshold: float) -> dict[str, Figure]:
    """Return the accuracy with other messages than those given, by name."""
    labels, found = data.columns[LABELS], {}
    for kind in MESSAGE_VARIANTS:
        varied = vary_message(messages, labels, kind)
        scores = [
            game.scores(_to(_columns(data, rows), _device(game)), varied[rows].to(_device(game))).cpu()
            for rows in torch.arange(len(data)).split(_BATCH)
        ]
        found[f"accuracy_{kind}"] = share_figure((torch.cat(scores) >= threshold) == (labels == 1))
    return found


def _columns(data: ProblemData, rows: torch.Tensor) -> Columns:
    return {name: column[rows] for name, column in data.columns.items() if name not in (LABELS, ROW_INDEX)}


def _random_batches(data: ProblemData, size: int, seed: int) -> Iterator[Columns]:
    epoch = 0
    while True:
        for rows in torch.from_numpy(epoch_order(len(data), derive_seed(seed, "fresh prover"), epoch)).split(size):
            yield _columns(data, rows)
        epoch += 1


def _to(problems: Columns, device: torch.device) -> Columns:
    return {name: column.to(device) for name, column in problems.items()}


def _device(game: MessageGame) -> torch.device:
    return next(game.verifier.parameters()).device
