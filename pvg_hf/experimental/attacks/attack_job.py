"""Runs many attacks as one job, in this process, in several, or on an executor; a stopped job resumes."""

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from pvg_hf.check.mistakes import refuse_mistakes
from pvg_hf.config.sections import AttackSettings
from pvg_hf.core.units import show_seconds
from pvg_hf.experimental.attacks.attack_plan import Attack, AttackedVerifier
from pvg_hf.experimental.attacks.fresh_attacker import AttackResult, check_attacker, describe_exploit, play_attack
from pvg_hf.run.jobs import Job, default_workers, run_jobs


def run_attacks(
    verifiers: Sequence[AttackedVerifier],
    settings: AttackSettings,
    root: Path,
    *,
    num_workers: int | None = None,
    executor: Executor | None = None,
) -> dict[int, list[AttackResult]]:
    """
    Run all attacks on several verifiers, or resume them. Finished attacks are not played again.

    Args:
        verifiers: The verifiers, with different rounds.
        num_workers, executor: Processes that train the attackers: see [`~pvg_hf.run.jobs.run_jobs`] and
            [`~pvg_hf.run.jobs.default_workers`].
    Returns: the results of each verifier, by its round.
    Raises `RecipeError` if a reward or an algorithm does not fit a recipe; nothing is trained then.
    Raises `JobsFailedError` if attacks failed or a worker was killed; the results of the others are kept.
    """
    planned = {attack: verifier for verifier in verifiers for attack in verifier.attacks(settings)}
    _check(planned, [attack for attack in planned if not (root / attack.name).exists()], settings)
    root.mkdir(parents=True, exist_ok=True)
    jobs = [
        Job(str(attack), partial(_play, verifier, settings, root, attack), (root / attack.name).exists)
        for attack, verifier in sorted(planned.items(), key=lambda item: (item[0].seed, item[0]))
    ]
    run_jobs(jobs, executor, num_workers=num_workers or default_workers(verifiers[0].recipe.device))
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


def _play(verifier: AttackedVerifier, settings: AttackSettings, root: Path, attack: Attack) -> str:
    result = play_attack(verifier, settings, root, attack)
    return f"{describe_exploit(result.exploit)} ({show_seconds(result.seconds)})"
