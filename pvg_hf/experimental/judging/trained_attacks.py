"""Attacks of the rounds of a run by fresh attackers, all rounds in one job."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from pvg_hf.config.sections import AttackSettings
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_parquet
from pvg_hf.core.roles import Role
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.experimental.attacks.attack_plan import AttackedVerifier, kind_of
from pvg_hf.experimental.attacks.attack_results import FOUND_ATTACKS, attack_figures, found_attacks, write_evidence
from pvg_hf.experimental.attacks.fresh_attacker import AttackResult, run_attacks
from pvg_hf.experimental.judging.judged_round import JudgedRound
from pvg_hf.run.layout import JUDGING, RunFolder, pool_test_file

_ATTACKS = "attackers"  # folder of all attackers of a run, next to the results


def train_attackers(
    rounds: Sequence[tuple[JudgedRound, AttackSettings]], *, num_workers: int | None, executor: Executor | None
) -> None:
    """
    Train the attackers of all rounds as one job. Those that are finished are not trained again.

    Raises `JobsFailedError` if attackers could not be trained; the others are kept.
    """
    same: dict[str, list[tuple[JudgedRound, AttackSettings]]] = {}
    for judged, settings in rounds:  # an unfinished round may have other settings
        same.setdefault(str(asdict(settings)), []).append((judged, settings))
    for group in same.values():
        verifiers = [attacked_verifier(judged) for judged, _ in group]
        run_attacks(verifiers, group[0][1], _attackers(group[0][0].folder), num_workers=num_workers, executor=executor)


def judge_attacks(judged: JudgedRound, settings: AttackSettings, output: Path) -> dict[str, Figure]:
    """
    Compute the figures of a round's attackers, and keep their curves and what they found.

    Returns: by reward (and algorithm, if not GRPO) those of [`~pvg_hf.experimental.attacks.exploit.exploit_figures`],
        `accepted` of the trained attackers' incorrect solutions, and from round 1 on `p_against_round_0` (see
        [`~pvg_hf.experimental.attacks.exploit.log_rank_p`]).
    """
    results = _results(judged, settings)
    write_evidence(results, output)
    texts = pd.concat([result.texts().assign(family=f"trained/{kind_of(result.attack)}") for result in results])
    write_parquet(output / FOUND_ATTACKS, found_attacks(texts, judged.acceptance))
    first = _results(judged.run.round(0), settings) if judged.round_index > 0 else []
    return attack_figures(results, first, judged.acceptance)


def attacked_verifier(judged: JudgedRound) -> AttackedVerifier:
    """Describe a round's verifier as the target of attacks."""
    folder, k = judged.folder, judged.round_index
    return AttackedVerifier(k, folder.verifier(k), folder.models, judged.recipe, helpful_score(judged))


def helpful_score(judged: JudgedRound) -> float | None:
    """Return the mean score of the round's helpful correct solutions to test problems; `None` if none is correct."""
    rows = scored_rows(load_pool([judged.folder.pool(judged.round_index) / pool_test_file(Role.HELPFUL)]).to_pandas())
    scores = rows["score"][rows["correct"].astype(bool)]
    return float(scores.mean()) if len(scores) else None


def digest_first_attackers(judged: JudgedRound) -> str | None:
    """
    Return the names of the attackers of round 0, which `judge_attacks` compares with those of the round.

    `None` if none of them is on this machine, such as in a run that was pulled from the Hub.
    """
    if judged.round_index == 0:
        return ""
    names = [path.name for path in _attackers(judged.folder).glob(f"{round_name(0)}-*")]
    return " ".join(sorted(names)) or None


def _attackers(folder: RunFolder) -> Path:
    return folder.root / JUDGING / "attacks" / _ATTACKS


def _results(judged: JudgedRound, settings: AttackSettings) -> list[AttackResult]:
    """Finished attacks on a round's verifier; fewer than all of them for a round that was not attacked."""
    places = [_attackers(judged.folder) / attack.name for attack in attacked_verifier(judged).attacks(settings)]
    return [AttackResult.read(place) for place in places if place.exists()]
