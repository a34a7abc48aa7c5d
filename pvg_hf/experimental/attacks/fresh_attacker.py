"""
Trains fresh attackers against frozen verifiers as one job, which resumes, and records when each exploits its verifier.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from pvg_hf.check.mistakes import refuse_mistakes
from pvg_hf.config import Recipe
from pvg_hf.config.sections import AttackSettings
from pvg_hf.core.files import remove, write_json, write_parquet
from pvg_hf.core.integrity import read_json
from pvg_hf.core.roles import Role
from pvg_hf.core.units import show_seconds
from pvg_hf.experimental.attacks.attack_plan import Attack, AttackedVerifier, AttackFolder
from pvg_hf.experimental.attacks.exploit import Exploit, find_exploit
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.honest_solutions import HonestSide
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.limits import naming_full_disk, naming_memory_settings
from pvg_hf.game.phases.prover import run_prover
from pvg_hf.run.jobs import Job, default_workers, run_jobs
from pvg_hf.run.layout import PhaseKey
from pvg_hf.run.phase_record import recording, staged
from pvg_hf.sampling.sampler import sample_solutions

RESULT = "attack.json"  # of a finished attack
CURVE = "curve.parquet"  # figures of each step
TEXTS = "texts.parquet"  # solutions of the trained attacker to test problems

_PROVER = "prover"  # folder of the training; deleted when the attack is finished
_CURVE_COLUMNS = ("step", "accuracy/sneaky", "judged_accuracy/sneaky", "failed/sneaky", "score/sneaky_incorrect")
_TEXT_COLUMNS = ["problem_id", "problem", "reference", "solution", "correct", "outcome", "score"]


@dataclass(frozen=True)
class AttackResult:
    """
    A finished attack.

    Args:
        helpful_score: Mean score that the attacker's incorrect solutions had to reach.
        newest_weight: Weight of the newest step in the moving averages of the criterion, in (0, 1].
        folder: Its folder, with `curve.parquet` and `texts.parquet`.
    """

    attack: Attack
    exploit: Exploit
    helpful_score: float | None
    newest_weight: float
    seconds: float
    folder: Path = field(compare=False, default=Path())

    @classmethod
    def read(cls, folder: Path) -> "AttackResult":
        """Read a finished attack."""
        return replace(read_json(folder / RESULT, cls), folder=folder)

    def curve(self) -> pd.DataFrame:
        """Figures of each step."""
        return pd.read_parquet(self.folder / CURVE)

    def texts(self) -> pd.DataFrame:
        """Solutions of the trained attacker to test problems, with score and grade."""
        return pd.read_parquet(self.folder / TEXTS)


def play_attack(verifier: AttackedVerifier, settings: AttackSettings, root: Path, attack: Attack) -> AttackResult:
    """
    Train an attacker, or resume its training, and write its result to `root / attack.name`.

    Args:
        root: Folder of all attacks. A finished one appears there by one rename.
    Raises `ValueError` if the task or the players cannot be loaded.
    Raises `GameInterrupted` if the user asked to stop; the attack resumes from its last checkpoint.
    """
    target, started = root / attack.name, time.monotonic()
    if target.exists():
        return AttackResult.read(target)
    recipe, stop = verifier.attacker_recipe(attack, settings), StopRequest()
    problems = verifier.problems(settings)
    with ExitStack() as stack:
        stack.enter_context(naming_full_disk(root))
        stack.enter_context(stop.listening())
        output = stack.enter_context(staged(target, is_main=True))
        record = stack.enter_context(recording(output, 1, is_main=True))
        stack.enter_context(naming_memory_settings(recipe, "prover"))
        folder = AttackFolder(output, verifier.folder, verifier.models)
        key = PhaseKey("prover", attack.round_index)
        context = PhaseContext(recipe, folder, key, problems, stop, range(attack.max_steps))
        result = _train(context, verifier, attack, output, settings.num_problems)
        result = replace(result, seconds=record.seconds + time.monotonic() - started, folder=target)
        values = {name: value for name, value in vars(result).items() if name != "folder"}
        write_json(output / RESULT, {**values, "attack": asdict(attack), "exploit": asdict(result.exploit)})
        record.summary = describe_exploit(result.exploit)
        remove(output / _PROVER)  # the attack's evidence is its curve and its texts
    return result


def describe_exploit(exploit: Exploit) -> str:
    """Describe an outcome in a few words."""
    return f"exploit at step {exploit.step}" if exploit.is_found else f"not found in {exploit.num_steps} steps"


def _train(
    context: PhaseContext, verifier: AttackedVerifier, attack: Attack, output: Path, num_problems: int
) -> AttackResult:
    helpful_score = verifier.helpful_score
    if helpful_score is None:
        # With the seed of the verifier's recipe: all of its attackers must reach the same score.
        shared = replace(context, recipe=replace(context.recipe, seed=verifier.recipe.seed))
        helpful_score = HonestSide.measure(shared).clean.get("score/helpful_correct")
    fixed = {} if helpful_score is None else {"score/helpful_correct": helpful_score}
    run_prover(context, output / _PROVER, honest=HonestSide(fixed, fixed))
    curve = attack_curve(context.metrics)
    write_parquet(output / CURVE, curve)
    stopping, prover = context.recipe.stopping, context.recipe.prover
    exploit = find_exploit(_lines(curve), stopping, prover, helpful_score=helpful_score)
    write_parquet(output / TEXTS, _attack_texts(context, output / _PROVER, num_problems))
    weight = stopping.newest_weight(prover.num_batches)
    return AttackResult(attack, exploit, helpful_score, weight, 0.0, output)


def attack_curve(metrics: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the sneaky role's figures of each step that wrote solutions, from the metrics of a prover phase."""
    lines = [line for line in metrics if line.get("step") is not None and "prover/accuracy/sneaky" in line]
    rows = [
        {name: line.get(name if name == "step" else f"prover/{name}") for name in _CURVE_COLUMNS} for line in lines
    ]
    return pd.DataFrame(rows, columns=list(_CURVE_COLUMNS)).astype(float).astype({"step": int})


def _lines(curve: pd.DataFrame) -> list[dict[str, float | None]]:
    return curve.astype(object).where(curve.notna(), None).to_dict("records")


def _attack_texts(context: PhaseContext, prover: Path, num_problems: int) -> pd.DataFrame:
    """Solutions of the trained attacker to test problems, one each, scored by the verifier."""
    problems = context.problems.sample("test", num_problems)
    sampler = context.players.sampler(prover)
    rows = sample_solutions(
        sampler,
        context.problems.prompts,
        problems,
        Role.SNEAKY,
        num_samples=1,
        seed=context.seed("texts"),
        part="test",
        round_index=context.round_index,
    )
    scorer = context.players.scorer(context.round_index)
    table = pd.DataFrame(rows)
    table["score"] = scorer(table["problem"].tolist(), table["solution"].tolist())
    return table[_TEXT_COLUMNS]


def check_attacker(recipe: Recipe) -> None:
    """
    Check that the sneaky role can be trained alone with the settings of a recipe.

    Raises `ValueError` if a setting belongs to another role.
    """
    if recipe.prover.generation == "vllm_colocate":
        raise ValueError(
            "`prover.generation` is `vllm_colocate`, whose memory is not released before its process ends; attacks"
            " follow one another in a process. Set `prover.generation=vllm_server` or `transformers`."
        )


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
