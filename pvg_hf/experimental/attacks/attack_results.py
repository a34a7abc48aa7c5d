"""
Figures and tables of several attacks on one verifier, and the texts that fooled it, which later verifiers are tested
on.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_parquet
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.role_figures import is_valid_mistake, scored_rows
from pvg_hf.experimental.attacks.attack_plan import kind_of
from pvg_hf.experimental.attacks.exploit import (
    ATTACK_CURVES,
    ATTACK_OUTCOMES,
    Exploit,
    exploit_figures,
    find_convincing,
    log_rank_p,
    median_steps,
)
from pvg_hf.experimental.attacks.fresh_attacker import AttackResult


def attack_figures(
    results: Sequence[AttackResult], first: Sequence[AttackResult], acceptance: Acceptance
) -> dict[str, Figure]:
    """
    Compute the figures of a round's attackers, by reward.

    Args:
        first: The attacks on round 0's verifier; empty for round 0.
    """
    figures: dict[str, Figure] = {}
    for kind in dict.fromkeys(kind_of(result.attack) for result in results):
        mine = [result for result in results if kind_of(result.attack) == kind]
        exploits = [result.exploit for result in mine]
        cap = mine[0].attack.max_steps
        found = exploit_figures(exploits, cap)
        if all(result.helpful_score is not None for result in mine):
            found["convincing_steps"] = median_steps([_convincing(result) for result in mine], cap)
        texts = scored_rows(pd.concat([result.texts() for result in mine]))
        texts = texts[is_valid_mistake(texts)]
        found["accepted"] = rate_by_problem(acceptance.accepts(texts["score"]), texts["problem_id"])
        others = [result.exploit for result in first if kind_of(result.attack) == kind]
        if others:
            found["p_against_round_0"] = log_rank_p(exploits, others)
        figures |= {f"{kind}/{name}": figure for name, figure in found.items()}
    return figures


def write_evidence(results: Sequence[AttackResult], output: Path) -> None:
    """
    Write what each attacker did.

    `curves.parquet` has the figures of each step of every attacker, `outcomes.parquet` a row per attacker with the
    step of the exploit, if any.
    """
    curves = pd.concat([result.curve().assign(**_labels(result)) for result in results], ignore_index=True)
    outcomes = pd.DataFrame(map(_outcome, results))
    for name, table in ((ATTACK_CURVES, curves), (ATTACK_OUTCOMES, outcomes)):
        write_parquet(output / name, table)


def _convincing(result: AttackResult) -> Exploit:
    return find_convincing(result.curve(), helpful_score=result.helpful_score, newest_weight=result.newest_weight)


def _labels(result: AttackResult) -> dict[str, object]:
    attack = {"attack": kind_of(result.attack), "seed": result.attack.seed}
    return {**attack, "helpful_score": result.helpful_score, "newest_weight": result.newest_weight}


def _outcome(result: AttackResult) -> dict[str, object]:
    exploit = result.exploit
    cap = {"max_steps": result.attack.max_steps, "seconds": result.seconds}
    return {**_labels(result), "step": exploit.step, "num_steps": exploit.num_steps, **cap}


FOUND_ATTACKS = "found.parquet"  # texts that fooled the round's verifier

ATTACK_COLUMNS = ["family", "problem_id", "problem", "reference", "solution", "correct", "outcome", "score"]


def found_attacks(texts: pd.DataFrame, acceptance: Acceptance) -> pd.DataFrame:
    """
    Select the texts that fooled a verifier: incorrect by the task's grade, and accepted.

    Texts without an answer count, too: a verifier that accepts one accepts what is no solution.
    """
    fooled = texts[~texts["correct"].astype(bool) & acceptance.accepts(texts["score"])]
    return fooled[ATTACK_COLUMNS].drop_duplicates(["problem_id", "solution"]).reset_index(drop=True)
