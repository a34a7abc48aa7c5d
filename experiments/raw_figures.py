"""The raw figures of a replicate, which are kept beside a table so that everything in it can be computed again."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.experimental.attacks.attack_curves import attack_judgements, read_attacks
from pvg_hf.experimental.attacks.exploit import ATTACK_CURVES, ATTACK_OUTCOMES, find_convincing
from pvg_hf.run.read import RunData

_OF_ATTACKER = ["round", "attack", "seed", "max_steps", "num_steps", "step", "seconds"]


def raw_figures(run: RunData) -> dict[str, Any]:
    """
    Collect the figures of a run.

    Returns:
        `dict[str, Any]`: values of JSON:

        - `seed`, `commit`, and `seconds` by phase and by evaluation, each with its round;
        - `rounds`: by round, all figures as `[value, low, high, n]`; names of later evaluations begin with `judging/`;
        - `training`: by round and role, the accuracy of each RL step, `null` for a step without the role;
        - `attackers`: a row for each fresh attacker, with the steps it was trained for (`num_steps`), and the step at which
          it met the criterion of an exploit (`step`) and the one at which its scores did (`convincing_step`), if any.
    """
    rounds: dict[str, dict] = {}
    seconds = {f"{phase} {index}": round(value, 1) for (index, phase), value in run.phase_seconds().items()}
    for data in run.evaluated:
        rounds[str(data.round_index)] = {name: _compact(figure) for name, figure in data.figures.items()}
    for judgement in run.judgements:
        figures = rounds.setdefault(str(judgement.round_index), {})
        figures |= {f"judging/{judgement.name}/{key}": _compact(figure) for key, figure in judgement.figures.items()}
        seconds[f"judging/{judgement.name} {judgement.round_index}"] = round(judgement.seconds, 1)
    return {
        "seed": run.recipe.seed,
        "commit": run.environment.get("git_revision"),
        "seconds": seconds,
        "rounds": rounds,
        "training": {str(data.round_index): _training(data.steps) for data in run.rounds if len(data.steps)},
        "attackers": list(_attackers(run)),
    }


def _compact(figure: Figure) -> list[float | None]:
    return [value if value is None else round(value, 5) for value in (figure.value, figure.low, figure.high, figure.n)]


def _training(steps: pd.DataFrame) -> dict[str, list[float | None]]:
    columns = {role.value: f"accuracy/{role}" for role in GAME_ROLES}
    return {
        role: steps[column].round(4).replace(np.nan, None).tolist()
        for role, column in columns.items()
        if column in steps
    }


def _attackers(run: RunData) -> Iterator[dict[str, Any]]:
    found = attack_judgements([run])
    if not found:
        return
    curves = dict(iter(read_attacks(found, ATTACK_CURVES).groupby("attacker")))
    for _, row in read_attacks(found, ATTACK_OUTCOMES).iterrows():
        curve = curves[row["attacker"]]
        goal, weight = row["helpful_score"], row["newest_weight"]
        met = None if pd.isna(goal) else find_convincing(curve, helpful_score=goal, newest_weight=weight).step
        values = {name: None if pd.isna(row[name]) else row[name] for name in _OF_ATTACKER}
        yield {**values, "seconds": round(row["seconds"], 1), "convincing_step": met}
