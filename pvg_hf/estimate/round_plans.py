"""Estimated time and memory of each phase and round."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig
from pvg_hf.core.roles import Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.estimate.amounts import Amounts, Length, measure_lengths
from pvg_hf.estimate.costs import Work, reading, sampling, training
from pvg_hf.estimate.phase_amounts import Writing, writings
from pvg_hf.estimate.player_sizes import PlayerSize, critic_bytes, read_critic_size, read_player_size
from pvg_hf.estimate.speed import Card, Machine, measure_machine, total_memory
from pvg_hf.estimate.verifiers import verifier_costs
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.schedule import ROUND_PHASES, PhaseKey, early_phases


@dataclass(frozen=True)
class Player:
    """A player's size, and the machine's speed at its width."""

    size: PlayerSize
    machine: Machine


def needed_players(amounts: Amounts, phase: str) -> tuple[str, ...]:
    """Players whose sizes the estimate of a phase needs."""
    if phase == "warmup":
        return tuple(name for name, config in amounts.recipe.players.items() if config.warmup)
    if phase == "prover" and amounts.recipe.prover.has_critic:
        return ("prover", "verifier", "critic")
    return {"bootstrap": ("prover",), "verifier": ("verifier",), "evaluate": ("verifier",)}.get(
        phase, ("prover", "verifier")
    )


def estimate_work(amounts: Amounts, players: dict[str, Player], phase: str) -> Work:
    """
    Estimate the cost of a phase.

    Args:
        amounts ([`Amounts`]):
            Counts of the round.
        players (`dict[str, Player]`):
            Players that the phase needs.
        phase (`str`):
            Name of the phase.

    Returns:
        [`Work`]: cost of the whole phase for one process; its memory includes the players' weights.
    """
    return {
        "warmup": _warmup,
        "bootstrap": _bootstrap,
        "verifier": _verifier,
        "prover": _prover,
        "mint": _mint,
        "evaluate": _evaluate,
    }[phase](amounts, players)


def _warmup(amounts: Amounts, players: dict[str, Player]) -> Work:
    configs = amounts.recipe.players
    works = [_fine_tuning(amounts, configs[name], player) for name, player in players.items() if configs[name].warmup]
    return sum(works, Work())


def _fine_tuning(amounts: Amounts, config: PlayerConfig, player: Player) -> Work:
    text = (amounts.lengths.prompt[Role.HELPFUL] + amounts.lengths.solution).cap(config.warmup.max_length)
    text = replace(text, high=text.mean)  # batches are sorted by length, with little padding
    size = replace(player.size, num_trained=player.size.num_parameters, trained_bytes=player.size.weight_bytes)
    work = training(
        size,
        player.machine,
        num_batches=config.warmup.max_steps,
        rows=config.warmup.batch_size,
        text=text,
        num_logits=text.high,
        recomputes=False,
    )
    return _sum_one_by_one(size.training_bytes, work)


def _bootstrap(amounts: Amounts, players: dict[str, Player]) -> Work:
    prover = players["prover"]
    works = [_writing(amounts, prover, writing) for writing in writings(amounts, "bootstrap")]
    return _sum_one_by_one(prover.size.frozen_bytes, *works)


def _verifier(amounts: Amounts, players: dict[str, Player]) -> Work:
    """Cost of training, and of scoring the solutions of the held-out problems."""
    verifier = players["verifier"]
    heldout = amounts.num_problems("verifier_heldout") * amounts.recipe.data.solutions_per_problem
    learning = verifier_costs(amounts).training(amounts, verifier.size, verifier.machine)
    return _sum_one_by_one(verifier.size.training_bytes, learning, _scoring(amounts, verifier, heldout))


def _prover(amounts: Amounts, players: dict[str, Player]) -> Work:
    prover, verifier, config = players["prover"], players["verifier"], amounts.recipe.prover
    critic = players["critic"] if config.has_critic else None
    batches = _prover_batch(amounts, prover, verifier, critic) * config.num_batches
    # An adapter's reference is the base below it; full weights need a second copy.
    reference = prover.size.frozen_bytes if config.beta and not config.lora else 0
    weights = prover.size.training_bytes + reference + _verifier_bytes(amounts, verifier)
    weights += critic_bytes(config, critic.size) if critic else 0
    works = [batches] * config.num_trainings
    if Role.HELPFUL in config.trained_roles:
        works.append(_selection(amounts, prover, verifier))
    return _sum_one_by_one(weights, *works)


def _prover_batch(amounts: Amounts, prover: Player, verifier: Player, critic: Player | None) -> Work:
    """Cost of a batch: solutions are written, scored, read by the KL reference (and with PPO by critic and prover), trained on."""
    config, solution, prompt = amounts.recipe.prover, amounts.lengths.solution, amounts.training_prompt
    share = amounts.solutions_per_step // amounts.num_processes
    micro_batch = config.micro_batch_size or share
    writing = sampling(
        prover.size,
        prover.machine,
        num_prompts=share / config.num_generations,
        num_samples=config.num_generations,
        prompts_per_batch=share,
        prompt=prompt,
        solution=solution,
        max_new_tokens=config.max_completion_length,
    )
    # Each learner, with the number of positions at which its loss needs logits.
    learners = [(prover, solution.high)] + ([(critic, 0)] if critic else [])
    learnings = [
        training(
            player.size,
            player.machine,
            num_batches=share // micro_batch,
            rows=micro_batch,
            text=prompt + solution,
            num_logits=num_logits,
            recomputes=config.gradient_checkpointing,
        )
        for player, num_logits in learners
    ]
    readers = ([prover] if config.beta else []) + ([prover, critic] if critic else [])
    readings = [_reading(player, share, prompt + solution, micro_batch) for player in readers]
    learning = _sum_held_together(learnings) * config.steps_per_batch
    return sum(readings, writing + learning + _scoring(amounts, verifier, share))


def _reading(player: Player, num_texts: int, text: Length, micro_batch: int) -> Work:
    """Cost of computing log-probabilities or values, in the batches of training."""
    per_batch = micro_batch * text.high
    return reading(player.size, player.machine, num_texts=num_texts, text=text, tokens_per_batch=per_batch)


def _sum_held_together(works: list[Work]) -> Work:
    """Sum of costs whose memory is needed at the same time, because one backward pass goes through all of them."""
    return Work(sum(work.seconds for work in works), sum(work.memory for work in works))


def _selection(amounts: Amounts, prover: Player, verifier: Player) -> Work:
    """Cost of the held-out solutions that select the best helpful checkpoint."""
    config = amounts.recipe.prover
    writing = Writing(
        Role.HELPFUL, min(config.eval_problems, amounts.num_problems("prover_heldout")), config.eval_samples
    )
    once = _writing(amounts, prover, writing)
    once += _scoring(amounts, verifier, writing.num_problems * writing.num_samples)
    return once * -(-config.max_steps // config.eval_steps)


def _mint(amounts: Amounts, players: dict[str, Player]) -> Work:
    """Cost of writing and scoring solutions; if the verifier labels them, also of its analyses and their checks."""
    prover, verifier = players["prover"], players["verifier"]
    written = writings(amounts, "mint")
    number = sum(item.num_problems * item.num_samples for item in written)
    works = [_writing(amounts, prover, item) for item in written]
    works.append(_scoring(amounts, verifier, number / amounts.num_processes))
    works.append(verifier_costs(amounts).labelling(amounts, verifier.size, verifier.machine))
    return _sum_one_by_one(prover.size.frozen_bytes + _verifier_bytes(amounts, verifier), *works)


def _evaluate(amounts: Amounts, players: dict[str, Player]) -> Work:
    verifier = players["verifier"]
    return _sum_one_by_one(
        scoring_player(amounts, verifier).size.frozen_bytes, _scoring(amounts, verifier, amounts.num_test_solutions)
    )


def _writing(amounts: Amounts, prover: Player, writing: Writing) -> Work:
    """Cost of one process's share of the prover's solutions."""
    return sampling(
        prover.size,
        prover.machine,
        num_prompts=writing.num_problems / amounts.num_processes,
        num_samples=writing.num_samples,
        prompts_per_batch=amounts.recipe.mint.problems_per_batch,
        prompt=amounts.lengths.prompt[writing.role],
        solution=amounts.lengths.solution,
        max_new_tokens=amounts.recipe.prover.max_completion_length,
    )


def scoring_player(amounts: Amounts, verifier: Player) -> Player:
    """A frozen verifier. Its base may be in a higher precision than in training with an adapter."""
    scoring = amounts.hardware.dtype(amounts.recipe.verifier.dtype, is_precise=True)
    return replace(verifier, size=replace(verifier.size, weight_bytes=scoring.itemsize))


def _scoring(amounts: Amounts, verifier: Player, num_solutions: float) -> Work:
    verifier = scoring_player(amounts, verifier)
    return verifier_costs(amounts).scoring(amounts, verifier.size, verifier.machine, num_solutions)


def _verifier_bytes(amounts: Amounts, verifier: Player) -> float:
    """Memory of the verifier's weights in addition to the prover's: only its adapter if it shares the prover's base."""
    size = scoring_player(amounts, verifier).size
    return size.num_trained * size.trained_bytes if amounts.recipe.verifier.shares_base else size.frozen_bytes


def _sum_one_by_one(weights: float, *works: Work) -> Work:
    """Sum of costs one after the other, with the weights in memory all the time."""
    total = sum(works, Work())
    return Work(total.seconds, total.memory + weights)


@dataclass(frozen=True)
class RoundPlan:
    """
    Estimate for consecutive rounds with equal settings.

    Args:
        indices (`range`):
            The rounds.
        early (`list[str]`):
            Phases before the first round, if the plan includes round 0.
        amounts ([`Amounts`]):
            Counts of one of these rounds.
        sizes (`dict[str, PlayerSize | None]`):
            Size of each player, and of PPO's `critic`; `None` if its configuration is not available.
        players (`dict[str, Player]`):
            Players of known size, with the machine's speed.
        card ([`Card`], *optional*):
            Graphics card that the plan is for; this machine by default.
    """

    indices: range
    early: list[str]
    amounts: Amounts
    sizes: dict[str, PlayerSize | None]
    players: dict[str, Player]
    card: Card | None = None

    @property
    def memory(self) -> int:
        """Memory in bytes of the card, or of this machine's device."""
        return self.card.num_bytes if self.card else total_memory(self.amounts.hardware.device)

    @property
    def counts(self) -> Counter[str]:
        """Number of phases of each name in this plan."""
        return Counter(self.early) + Counter(dict.fromkeys(ROUND_PHASES, len(self.indices)))

    def covers(self, key: PhaseKey) -> bool:
        """Whether this plan includes a phase."""
        return key.name in self.early if key.round_index is None else key.round_index in self.indices

    def work(self, phase: str) -> Work | None:
        """Estimated cost of a phase; `None` if the size of a player that it needs is unknown."""
        if any(name not in self.players for name in needed_players(self.amounts, phase)):
            return None
        return estimate_work(self.amounts, self.players, phase)


def plan_rounds(recipe: Recipe, problems: GameProblems, card: Card | None = None) -> list[RoundPlan]:
    """
    Plan all rounds of a game, with one plan per group of consecutive equal rounds.

    Without a card, the speed of this machine is measured once per width and data type.
    """
    machines: dict[tuple[int, str], Machine] = {}
    return [_plan(recipe, problems, indices, machines, card) for indices in _equal_rounds(recipe)]


def _equal_rounds(recipe: Recipe) -> list[range]:
    """Groups of consecutive rounds with equal settings; a round with overrides is a group by itself."""
    bounds = sorted({0, recipe.num_rounds, *(bound for index in recipe.rounds for bound in (index, index + 1))})
    return [range(*pair) for pair in pairwise(bounds)]


def _plan(
    recipe: Recipe, problems: GameProblems, indices: range, machines: dict[tuple[int, str], Machine], card: Card | None
) -> RoundPlan:
    of_round, hardware = recipe.for_round(indices[0]), planned_hardware(recipe, card)
    sizes = {name: read_player_size(config, name, hardware) for name, config in of_round.players.items()}
    if of_round.prover.has_critic:
        sizes["critic"] = read_critic_size(of_round, hardware)
    dtypes = {name: hardware.dtype(config.dtype, is_precise=False) for name, config in of_round.players.items()}
    dtypes["critic"] = torch.float32
    players = {
        name: Player(
            size, card.machine(dtypes[name]) if card else _measure_once(machines, hardware, dtypes[name], size)
        )
        for name, size in sizes.items()
        if size is not None
    }
    early = [key.name for key in early_phases(recipe)] if indices[0] == 0 else []
    amounts = Amounts(of_round, problems, hardware, measure_lengths(of_round, problems))
    return RoundPlan(indices, early, amounts, sizes, players, card)


def planned_hardware(recipe: Recipe, card: Card | None) -> Hardware:
    """Hardware that a plan is for: this machine, or one with `card`."""
    if card is None:
        return Hardware.here(recipe.device)
    return Hardware.elsewhere(recipe.device, has_bfloat16=card.has_bfloat16)


def _measure_once(
    machines: dict[tuple[int, str], Machine], hardware: Hardware, dtype: torch.dtype, size: PlayerSize
) -> Machine:
    """Speed of this machine at a player's width; measured once per width and data type."""
    key = (size.hidden_size, str(dtype))
    if key not in machines:
        machines[key] = measure_machine(hardware.device, dtype, size.hidden_size)
    return machines[key]
