"""Runs many attacks as one job, in this process, in several, or on an executor; a stopped job resumes."""

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pvg_hf.check.mistakes import refuse_mistakes
from pvg_hf.config.sections import AttackSettings
from pvg_hf.core.units import show_seconds
from pvg_hf.experimental.attacks.attack_plan import Attack, AttackedVerifier
from pvg_hf.experimental.attacks.fresh_attacker import AttackResult, check_attacker, describe_exploit, play_attack
from pvg_hf.experimental.sweep.workers import default_workers, finish_cells, log_ends
from pvg_hf.game.limits import PartsFailedError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Workforce:
    """
    Processes that run independent work.

    Args:
        num_workers (`int`, *optional*):
            Number of processes on this machine; see [`~pvg_hf.experimental.sweep.workers.default_workers`] for the default.
        executor ([`~concurrent.futures.Executor`], *optional*):
            Runs the work instead.
    """

    num_workers: int | None = None
    executor: Executor | None = None


class AttacksFailedError(PartsFailedError):
    """
    Some attacks could not be played.

    Args:
        failed (`dict[Attack, Exception]`):
            The error of each failed attack.
    """

    def __init__(self, failed: dict[Attack, Exception]):
        reasons = "\n".join(f"- {attack}: {error}" for attack, error in failed.items())
        super().__init__(
            f"{len(failed)} attack(s) have no result:\n{reasons}\nThe others are kept; the same command tries these again."
        )
        self.failed = failed


def run_attacks(
    verifiers: Sequence[AttackedVerifier], settings: AttackSettings, root: Path, workforce: Workforce
) -> dict[int, list[AttackResult]]:
    """
    Run all attacks on several verifiers, or resume them. Finished attacks are not played again.

    Args:
        verifiers (`Sequence[AttackedVerifier]`):
            The verifiers, with different rounds.
        settings ([`~pvg_hf.config.sections.AttackSettings`]):
            Rewards, algorithms, seeds and cap.
        root (`Path`):
            Folder of the attacks.
        workforce ([`Workforce`]):
            Processes that run them.

    Returns:
        `dict[int, list[AttackResult]]`: the results of each verifier, by its round.

    Raises:
        RecipeError: if a reward or an algorithm does not fit a recipe; nothing is trained then.
        AttacksFailedError: if attacks failed; the results of the others are kept.
        WorkerDiedError: if a worker was killed.
    """
    planned = {attack: verifier for verifier in verifiers for attack in verifier.attacks(settings)}
    todo = sorted((attack for attack in planned if not (root / attack.name).exists()), key=lambda a: (a.seed, a))
    _check(planned, todo, settings)
    root.mkdir(parents=True, exist_ok=True)
    work = partial(_play, {verifier.round_index: verifier for verifier in verifiers}, settings, root)
    num_workers = workforce.num_workers or default_workers(verifiers[0].recipe)
    ended = finish_cells(todo, set(), work, num_workers=num_workers, executor=workforce.executor)
    failed = {attack: error for attack, error in log_ends(ended, len(todo), partial(_headline, root)) if error}
    if failed:
        raise AttacksFailedError(failed)
    results: dict[int, list[AttackResult]] = {verifier.round_index: [] for verifier in verifiers}
    for attack in planned:
        results[attack.round_index].append(AttackResult.read(root / attack.name))
    return results


def _check(planned: dict[Attack, AttackedVerifier], todo: Sequence[Attack], settings: AttackSettings) -> None:
    """Refuse settings that cannot be trained, once for each reward and algorithm, before anything is trained."""
    kinds = {(attack.reward, attack.algorithm): attack for attack in reversed(todo)}
    for attack in kinds.values():
        recipe = planned[attack].attacker_recipe(attack, settings)
        check_attacker(recipe)
        refuse_mistakes(recipe, planned[attack].problems(settings))


def _play(verifiers: dict[int, AttackedVerifier], settings: AttackSettings, root: Path, attack: Attack) -> None:
    play_attack(verifiers[attack.round_index], settings, root, attack)


def _headline(root: Path, attack: Attack) -> str:
    result = AttackResult.read(root / attack.name)
    return f"{describe_exploit(result.exploit)} ({show_seconds(result.seconds)})"
