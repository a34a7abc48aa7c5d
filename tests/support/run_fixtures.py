"""A synthetic run folder: solutions of the arithmetic task, with scores drawn as in a successful game."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.sections import EvaluationConfig
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.schema import environment_name, make_solution
from pvg_hf.evaluation.accepted_by_kind import role_recognition
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.summary import evaluate_round, problem_table
from pvg_hf.evaluation.verifiers_by_pools import pool_figures
from pvg_hf.run.layout import POOL_SCORES
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.grammar import puzzle_of
from pvg_hf.tasks.arithmetic.writer import FLAW_KINDS, sample_solution

NUM_ROUNDS, NUM_STEPS, NUM_SAMPLES, NUM_RESAMPLES = 3, 40, 8, 200
# Per round: P(correct) of a role, and how far a sneaky mistake's mean score lies below that of a correct solution.
ACCURACY = {Role.HELPFUL: (0.80, 0.78, 0.79), Role.SNEAKY: (0.15, 0.24, 0.36), Role.BASE: (0.70,) * 3}
SNEAKY_GAP = (0.2, 0.8, 1.6)


@pytest.fixture(scope="session")
def task() -> ArithmeticTask:
    return _arithmetic()


@pytest.fixture(scope="session")
def draw_rows() -> Callable[..., pd.DataFrame]:
    """Solutions of every problem of a split in one role, scored as the verifier of `score_round` would."""
    return _draw_rows


@pytest.fixture(scope="session")
def rounds_data() -> list[dict[str, pd.DataFrame]]:
    """Per round: this round's test rows, the base prover's as scored in it, and the held-out rows."""
    return _draw_rounds()


@pytest.fixture(scope="session")
def run_template(once) -> Callable[[int], Path]:
    """
    A run folder that is made once and must not be changed. The round after `num_finished` rounds is in its prover
    phase, unless all have been played.
    """

    def make(num_finished: int) -> Path:
        with once(f"finished-{num_finished}") as place:
            if not place.exists():
                written = place.with_suffix(".partial") / "synthetic"
                if num_finished == 0:
                    written.mkdir(parents=True)
                    _write_beginning(written)
                else:
                    shutil.copytree(make(num_finished - 1), written)
                    _write_round(written, num_finished - 1, _draw_rounds())
                _write_lines(written / "events.jsonl", _events(num_finished))
                _write_lines(written / "metrics.jsonl", _metrics(min(num_finished + 1, NUM_ROUNDS)))
                written.parent.rename(place)
        return place / "synthetic"

    return make


@pytest.fixture
def make_run(tmp_path, run_template) -> Callable[..., Path]:
    """A copy of `run_template` that may be changed."""

    def make(num_finished: int = NUM_ROUNDS) -> Path:
        return shutil.copytree(run_template(num_finished), tmp_path / "synthetic")

    return make


@cache
def _arithmetic() -> ArithmeticTask:
    return ArithmeticTask(num_train=60, num_test=60)


def _draw_rows(split: str, role: Role, round_index: int, score_round: int, rng: np.random.Generator) -> pd.DataFrame:
    accuracy = 0.78 if round_index == BASE_ROUND else ACCURACY[role][round_index]
    gap = SNEAKY_GAP[score_round] if role == Role.SNEAKY and round_index >= 0 else 2.0
    return pd.DataFrame([
        _draw_solution(_arithmetic(), problem, role, round_index, index, accuracy, gap, rng)
        for problem in _arithmetic().problems(split).to_list()
        for index in range(NUM_SAMPLES)
    ])  # fmt: skip


@cache  # the fixtures are those of several conftests
def _draw_rounds() -> list[dict[str, pd.DataFrame]]:
    rng = np.random.default_rng(0)
    base = pd.concat([_draw_rows("test", role, BASE_ROUND, 0, rng) for role in GAME_ROLES], ignore_index=True)
    data = []
    for k in range(NUM_ROUNDS):
        heldout = [_draw_rows("train", Role.BASE, BASE_ROUND, k, rng)]
        heldout += [_draw_rows("train", role, j, k, rng) for j in range(k) for role in GAME_ROLES]
        data.append({
            "test": pd.concat([_draw_rows("test", role, k, k, rng) for role in GAME_ROLES], ignore_index=True),
            "base": base,
            "heldout": pd.concat(heldout).assign(
                environment=lambda rows: list(map(environment_name, rows["round_index"], rows["role"]))
            ),
        })  # fmt: skip
    return data


def _write_beginning(folder: Path) -> None:
    recipe = Recipe(
        name="synthetic",
        num_rounds=NUM_ROUNDS,
        prover=ProverConfig(max_steps=NUM_STEPS),
        evaluation=EvaluationConfig(bootstrap_samples=NUM_RESAMPLES, num_examples=6),
    )
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe.to_dict()), encoding="utf-8")
    environment = {"versions": {"trl": "1.16.0"}, "git_revision": None, "num_threads": 2, "seed": 0}
    (folder / "run.json").write_text(json.dumps(environment), encoding="utf-8")


def _draw_solution(task, problem, role, round_index, index, accuracy, gap, rng) -> dict:
    is_correct = rng.random() < accuracy - 0.08 * (problem["difficulty"] - 3)
    flaw = None if is_correct else FLAW_KINDS[rng.integers(len(FLAW_KINDS))]
    text = sample_solution(rng, puzzle_of(problem["problem"]), flaw)
    is_truncated = bool(rng.random() < 0.02)
    text = text.rpartition("\n")[0] if is_truncated else text
    grade = task.grade(problem, text)
    return make_solution(
        task=task,
        problem=problem,
        part="test",
        role=role,
        round_index=round_index,
        prover="synthetic",
        solution=text,
        grade=grade,
        label=int(grade.correct),
        sample_index=index,
        num_tokens=len(text) // 2,
        is_truncated=is_truncated,
        score=float(rng.normal(1.0 if grade.correct else 1.0 - gap, 0.7)),
    )


def _write_round(folder: Path, k: int, rounds_data: list[dict[str, pd.DataFrame]]) -> None:
    data = rounds_data[k]
    pool, evaluation = folder / "pool" / round_name(k), folder / "evaluation" / round_name(k)
    pool.mkdir(parents=True)
    evaluation.mkdir(parents=True)
    for role in GAME_ROLES:
        data["test"][data["test"]["role"] == role.value].to_parquet(pool / f"test-{role}.parquet")
    test, heldout = pd.concat([data["test"], data["base"]], ignore_index=True), data["heldout"]
    figures = evaluate_round(
        test,
        heldout,
        Acceptance.at(heldout.loc[heldout["correct"], "score"]),
        best_of_n=[2, 4, 6],
        seed=0,
        num_resamples=NUM_RESAMPLES,
    )
    scores = pd.concat([_crossed(rounds_data, *pair) for pair in _pairs(k)])
    scores.to_parquet(evaluation / POOL_SCORES)
    pools = pool_figures(scores, seed=0, num_resamples=NUM_RESAMPLES)
    earlier = [_crossed(rounds_data, k, pool) for pool in range(k)]
    if earlier:
        pools |= role_recognition(scored_rows(pd.concat(earlier)))
    figures |= {f"round/{name}": figure for name, figure in pools.items()}
    values = {key: figure.to_dict() for key, figure in figures.items()}
    (evaluation / "metrics.json").write_text(json.dumps(values, allow_nan=False), encoding="utf-8")
    problem_table(test).to_parquet(evaluation / "problems.parquet")


def _pairs(k: int) -> list[tuple[int, int]]:
    """Verifiers and pools that the evaluation of a round adds."""
    return [(k, pool) for pool in range(BASE_ROUND, k + 1)] + [(verifier, k) for verifier in range(k)]


def _crossed(rounds_data: list[dict[str, pd.DataFrame]], verifier: int, pool: int) -> pd.DataFrame:
    """A pool as a verifier scores it: one that is later than the pool gives its mistakes 1.5 less, round by round."""
    rows = rounds_data[verifier]["base"] if pool == BASE_ROUND else rounds_data[pool]["test"]
    later = max(0, verifier - pool) if pool != BASE_ROUND else 0
    score = rows["score"] - 1.5 * later * ~rows["correct"].astype(bool)
    return rows.assign(verifier=verifier, own_score=rows["score"], score=score)[
        [
            "verifier",
            "round_index",
            "role",
            "problem_id",
            "sample_index",
            "correct",
            "outcome",
            "score",
            "own_score",
        ]
    ]


def _events(num_finished: int) -> list[dict]:
    message = "Step 12: 7% of the sneaky solutions of the last 10 steps are answered and incorrect, below 10%."
    alert = {"event": "alert", "phase": "prover", "round": 0, "kind": "sneaky_collapse", "message": message}
    events = [_finished("bootstrap", None, 31.5)]
    for k in range(num_finished):
        phases = {"verifier": 95.0, "prover": 128.0, "mint": 40.5, "evaluate": 3.0}
        events += [_finished(phase, k, seconds + k) for phase, seconds in phases.items()]
    if num_finished < NUM_ROUNDS:
        events.append(_finished("verifier", num_finished, 97.0))
        events.append({"event": "phase_started", "phase": "prover", "round": num_finished})
    return [{"time": 1.7e9 + index, **event} for index, event in enumerate([*events, alert])]


def _finished(phase: str, k: int | None, seconds: float) -> dict:
    split = {
        kind: {"seconds": share * seconds, "tokens": tokens, "flops": 1e6 * tokens}
        for kind, share, tokens in (("writing", 0.6, 6000), ("grading", 0.1, 0), ("other", 0.3, 0))
    }
    return {
        "event": "phase_finished",
        "phase": phase,
        "round": k,
        "seconds": seconds,
        "summary": f"{phase} of {k}",
        "split": split,
    }


def _metrics(num_rounds: int) -> list[dict]:
    rng = np.random.default_rng(1)
    lines: list[dict] = [{"phase": "verifier", "round": 0, "step": 1, "game_step": 1, "verifier/loss": 0.7}]
    for k in range(num_rounds):
        lines.append({"phase": "verifier", "round": k, "step": None, "game_step": 1, **_counts(k)})
        steps = range(1, NUM_STEPS - 4 * k)
        lines += [
            {"phase": "prover", "round": k, "step": step, "game_step": step} | _step(rng, k, step) for step in steps
        ]
        lines.append({"phase": "evaluate", "round": k, "step": None, "round/accuracy/helpful": 0.8})
    return lines


def _counts(k: int) -> dict[str, int]:
    """Figures of the pairs that a verifier was trained on."""
    return {
        "pairs/num_pairs": 1000 + k,
        "pairs/num_solutions": 2400,
        "pairs/dropped/failed": 30,
        "pairs/failed/TRUNCATED": 30,
        "pairs/unused/no_partner/base/correct": 6,
        "pairs/unused/not_chosen/base/correct": 100,
        "pairs/unused/not_chosen/round-000/incorrect": 20,
        "pairs/correct/base": 500,
        "pairs/correct/reference": 250,
        "pairs/short/base/too_few_correct": 9,
        "pairs/refilled/round-000": 5,
        "pairs/unfilled": 4,
        "pairs/without_pair/no_correct": 4,
        "pairs/without_pair/no_incorrect": 3,
        "pairs/over_max_length": 2,
        "heldout_pairs/num_pairs": 100,
        "verifier/num_cut": 5 * k,
    }


def _step(rng: np.random.Generator, k: int, step: int) -> dict[str, float | None]:
    progress = step / NUM_STEPS
    values = {
        "accuracy/helpful": 0.78 + rng.normal(0, 0.05),
        "accuracy/sneaky": 0.7 + (ACCURACY[Role.SNEAKY][k] - 0.7) * progress + rng.normal(0, 0.05),
        "score/helpful_correct": 1 + rng.normal(0, 0.15),
        "score/helpful_incorrect": -0.6 + rng.normal(0, 0.3) if rng.random() < 0.8 else None,
        "score/sneaky_correct": 0.9 + rng.normal(0, 0.2),
        "score/sneaky_incorrect": -1 + (2 - SNEAKY_GAP[k]) * progress + rng.normal(0, 0.15),
        "kl_from_base": progress,
    }
    if step % 10 == 0:
        values["heldout/accuracy"] = 0.79 + rng.normal(0, 0.02)
    return {f"prover/{key}": value for key, value in values.items()}


def _write_lines(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
