"""The evaluate phase: figures of a round on test problems."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from tqdm.auto import tqdm

from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.files import remove, write_json, write_parquet
from pvg_hf.core.integrity import missing_files, read_json, read_json_lines
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.core.score_calibration import ScoreCalibration
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.accepted_by_kind import role_recognition
from pvg_hf.evaluation.prover_figures import late_changes, new_text_figures, parity_figures
from pvg_hf.evaluation.role_figures import has_failed, scored_rows
from pvg_hf.evaluation.selective import AnswerRules, fit_rules
from pvg_hf.evaluation.summary import evaluate_round, problem_table
from pvg_hf.evaluation.verifier_verdict import verifier_statements
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED, crossed_rounds, own_verifier, pool_figures
from pvg_hf.game.context import PhaseContext, PlayerLoader
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.training import count_over_processes
from pvg_hf.run.console import shows_progress
from pvg_hf.run.layout import (
    ANSWERING,
    BEST_HELPFUL,
    FIGURES,
    HELDOUT,
    HELDOUT_HELPFUL,
    METRICS,
    POOL_SCORE_PARTS,
    POOL_SCORES,
    PROBLEMS,
    RunFolder,
    pool_file,
    pool_test_file,
)
from pvg_hf.run.read import RoundData, load_figures
from pvg_hf.run.resume import has_weights
from pvg_hf.run.stored import MetricLine
from pvg_hf.tasks import Task
from pvg_hf.trainers.prover.trainer import Scorer

logger = logging.getLogger(__name__)

SOLUTION_KEYS = ["role", "problem_id", "sample_index"]
"""Columns that identify a solution of a pool."""

COLUMNS = ["verifier", "round_index", *SOLUTION_KEYS, "correct", "outcome", "score", "own_score"]


def score_pools(context: PhaseContext, output: Path) -> pd.DataFrame:
    """
    Score pools of test solutions, and write `pool_scores.parquet`.

    The round's verifier scores the base prover's solutions and those of earlier rounds, up to
    `evaluation.crossed_rounds`; earlier verifiers that are still on disk score the round's. A phase that was
    interrupted continues after the last pool that was scored.

    Returns: the solutions with the rounds of verifier and pool, `score`, and `own_score` by the pool's own verifier.
    """
    folder, number, processes = context.folder, context.round_index, context.processes
    limit = context.recipe.evaluation.crossed_rounds
    # The main process looks at the files, because it also writes.
    planned = broadcast_object_list([_plan(folder, number, limit) if processes.is_main_process else None])[0]
    parts = {
        key: output / POOL_SCORE_PARTS / f"{round_name(key[0])}-on-{round_name(key[1])}.parquet" for key in planned
    }
    todo = broadcast_object_list([[key for key in planned if not parts[key].exists()]])[0]
    for key, rows, counts in _score_all(context.players, context.stop, todo, title=str(context.phase)):
        if processes.is_main_process:
            write_json(parts[key].with_suffix(".json"), counts)
            write_parquet(parts[key], rows[COLUMNS])  # last, because it marks the part as done
    processes.wait_for_everyone()
    totals: Counter[str] = Counter()
    for path in parts.values():
        totals.update(read_json(path.with_suffix(".json"), dict[str, int]))
    context.record({f"evaluate/{name}": number for name, number in sorted(totals.items())})
    own = _keyed(read_test_rows(folder, number), number, number, folder)
    table = pd.concat([*map(pd.read_parquet, parts.values()), own[COLUMNS]], ignore_index=True)
    processes.wait_for_everyone()  # all have read the parts
    if processes.is_main_process:
        write_parquet(output / POOL_SCORES, table)
        remove(output / POOL_SCORE_PARTS)
    return table


def _plan(folder: RunFolder, round_index: int, limit: int) -> list[tuple[int, int]]:
    """List the verifiers and pools to score, as far as they are on disk."""
    rounds = crossed_rounds(round_index, limit)
    earlier_pools = [(round_index, pool) for pool in rounds if _has_solutions(folder, pool)]
    earlier_verifiers = [(verifier, round_index) for verifier in rounds if _has_weights(folder, verifier)]
    return [(round_index, BASE_ROUND), *earlier_pools, *earlier_verifiers]


def read_test_rows(folder: RunFolder, round_index: int) -> pd.DataFrame:
    """Read the test solutions of a round in both roles; -1 is the base prover."""
    return load_pool(_test_files(folder, round_index)).to_pandas()


def _test_files(folder: RunFolder, round_index: int) -> list[Path]:
    return [folder.pool(round_index) / pool_test_file(role) for role in GAME_ROLES]


def _has_solutions(folder: RunFolder, pool: int) -> bool:
    return all(file.exists() for file in _test_files(folder, pool))


def _has_weights(folder: RunFolder, verifier: int) -> bool:
    """Whether a verifier is on disk: the weights of earlier rounds may be deleted."""
    place = folder.verifier(verifier)
    is_there = has_weights(place) and not missing_files(place)
    if not is_there:
        logger.info("The verifier of round %d is not on disk and does not score the round's solutions.", verifier)
    return is_there


def _score_all(
    players: PlayerLoader, stop: StopRequest, todo: list[tuple[int, int]], *, title: str
) -> Iterator[tuple[tuple[int, int], pd.DataFrame, dict[str, int]]]:
    """Yield each verifier and pool with the scored solutions and the scorer's counts; verifiers are loaded in turn."""
    is_silent = not (players.processes.is_main_process and shows_progress(players.recipe.logging))
    with tqdm(total=len(todo), desc=title, unit="pool", disable=is_silent, leave=False) as bar:
        for verifier in dict.fromkeys(key[0] for key in todo):
            # The whole game's recipe: that of the players has no other round's overrides.
            recipe = players.folder.read_recipe().for_round(verifier)
            scorer = PlayerLoader(recipe, players.folder).scorer(verifier)
            known: Counter[str] = Counter()
            for pool in (pool for other, pool in todo if other == verifier):
                rows = _keyed(read_test_rows(players.folder, pool), verifier, pool, players.folder)
                rows["score"] = _score_shared(players.processes, stop, scorer, rows)
                if verifier == own_verifier(pool):
                    rows["own_score"] = rows["score"]
                counts = count_over_processes(scorer)
                yield (verifier, pool), rows, {name: counts[name] - known[name] for name in counts}
                known = counts
                bar.update()
            del scorer  # before the next one is loaded


def _score_shared(processes: PartialState, stop: StopRequest, scorer: Scorer, rows: pd.DataFrame) -> list[float]:
    """Score solutions; each process scores a share."""
    mine = np.array_split(np.arange(len(rows)), processes.num_processes)[processes.process_index]
    share = rows.iloc[mine]
    with stop.sharing():
        scores = scorer(share["problem"].tolist(), share["solution"].tolist())
    return gather_object(scores)


def _keyed(rows: pd.DataFrame, verifier: int, pool: int, folder: RunFolder) -> pd.DataFrame:
    """Add the rounds, and the scores of the pool's own verifier."""
    rows = rows.assign(verifier=np.int32(verifier), round_index=np.int32(pool), own_score=rows["score"].astype(float))
    if pool == BASE_ROUND:  # the base prover's solutions were written before there was a verifier
        rows["own_score"] = _first_scores(rows, folder)
    return rows


def _first_scores(rows: pd.DataFrame, folder: RunFolder) -> np.ndarray:
    """Scores of the base prover's solutions by the first verifier; NaN if they are unknown."""
    first = own_verifier(BASE_ROUND)
    path = folder.evaluation(first) / POOL_SCORES
    if not path.exists():
        return np.full(len(rows), np.nan)
    table = pd.read_parquet(path)
    table = table[(table["verifier"] == first) & (table["round_index"] == BASE_ROUND)]
    return rows[SOLUTION_KEYS].merge(table, on=SOLUTION_KEYS, how="left")["score"].to_numpy(float)


def run_evaluate(context: PhaseContext, output: Path) -> str:
    """
    Write `metrics.json` (figures with n and interval), `problems.parquet`, `answering.json` (its calibration) and
    `pool_scores.parquet` (scores by the verifiers of several rounds).
    """
    folder, round_index = context.folder, context.round_index
    calibration = ScoreCalibration.require(folder.verifier(round_index))
    scores = score_pools(context, output)
    test = pd.concat([read_test_rows(folder, round_index), _rescored(folder, scores, round_index, BASE_ROUND)])
    test = test.reset_index(drop=True)
    pool = folder.pool(round_index)
    best_helpful = pool / pool_test_file(BEST_HELPFUL)
    figures = evaluate_round(
        test,
        load_pool(folder.verifier(round_index) / HELDOUT).to_pandas(),
        calibration.acceptance(),
        best_helpful_rows=load_pool([best_helpful]).to_pandas() if best_helpful.exists() else None,
        best_of_n=context.recipe.evaluation.best_of_n,
        same_answer=context.problems.task.answers_equal,
        seed=context.seed("resample"),
        num_resamples=context.recipe.evaluation.bootstrap_samples,
    )
    figures["round/verifier_mixture_pair_accuracy"] = calibration.pair_accuracy or EMPTY
    prover_metrics = read_json_lines(folder.prover(round_index) / METRICS, MetricLine)
    further = {
        **pool_figures(scores, seed=context.seed("pools"), num_resamples=context.recipe.evaluation.bootstrap_samples),
        **_role_figures(folder, scores, round_index),
        **new_text_figures(folder.training_pools(round_index), {role: pool / pool_file(role) for role in GAME_ROLES}),
        **parity_figures(prover_metrics),
        **late_changes(prover_metrics),
    }
    figures |= {f"round/{name}": figure for name, figure in further.items()}
    figures |= context.recipe.verifier.implementation().evaluate(context, output)
    if context.processes.is_main_process:
        write_json(output / FIGURES, {key: figure.to_dict() for key, figure in figures.items()})
        write_parquet(output / PROBLEMS, problem_table(test))
        answering = fit_answers(folder, round_index, context.problems.task)
        write_json(output / ANSWERING, None if answering is None else answering.to_dict())
    context.record({key: figure.value for key, figure in figures.items()})
    return _summarize(
        folder, RoundData(round_index, figures={key.removeprefix("round/"): figures[key] for key in figures})
    )


def _summarize(folder: RunFolder, data: RoundData) -> str:
    """One line, with what the report says is not as hoped of the verifier."""
    statements = verifier_statements([*load_figures(folder, range(data.round_index)), data])
    bad = ", ".join(statement.subject for statement in statements if statement.mark == "bad")
    return (
        f"helpful accuracy {data.figure('accuracy/helpful')}, sneaky accuracy {data.figure('accuracy/sneaky')}; the"
        f" verifier on its own prover: pair accuracy {data.figure('test_pair_accuracy')}, accepts"
        f" {data.figure(OWN_ACCEPTED)} of the sneaky mistakes at 95 %"
        f" completeness{f'; not as hoped: {bad}' if bad else ''}"
    )


def fit_answers(folder: RunFolder, round_index: int, task: Task, num_samples: int | None = None) -> AnswerRules | None:
    """
    Fit the rules that choose answers on the verifier's held-out problems, among `num_samples` solutions (by default
    all).

    They are `None` if no solution has an answer, there are too few solutions, or their file is missing.
    """
    file = folder.pool(round_index) / HELDOUT_HELPFUL
    if not file.exists():
        return None
    rows = load_pool([file]).to_pandas()
    written = int(rows["sample_index"].max()) + 1
    able = rows[~has_failed(rows) & rows["score"].notna()]
    if not len(able) or (num_samples or 1) > written:
        return None
    return fit_rules(rows, num_samples or written, same=task.answers_equal)


def _role_figures(folder: RunFolder, scores: pd.DataFrame, round_index: int) -> dict[str, Figure]:
    """Figures of the round's verifier on the solutions of earlier rounds' provers that it has scored."""
    pools = sorted({pool for pool in scores["round_index"] if BASE_ROUND < pool < round_index})
    if not pools:
        return {}
    rows = pd.concat([_rescored(folder, scores, round_index, pool) for pool in pools], ignore_index=True)
    return role_recognition(scored_rows(rows))


def _rescored(folder: RunFolder, scores: pd.DataFrame, round_index: int, pool: int) -> pd.DataFrame:
    """Test solutions of a pool, with the scores of the round's verifier."""
    rows = read_test_rows(folder, pool)
    is_pool = (scores["verifier"] == round_index) & (scores["round_index"] == pool)
    return rows.assign(score=scores.loc[is_pool, "score"].to_numpy(float))
