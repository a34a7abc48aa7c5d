"""The evaluate phase: figures of a round on test problems."""

from pathlib import Path

import pandas as pd

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.prover_figures import late_changes, parity_figures
from pvg_hf.evaluation.role_figures import has_failed, scored_rows
from pvg_hf.evaluation.role_recognition import role_recognition
from pvg_hf.evaluation.selective import AnswerRules, fit_rules
from pvg_hf.evaluation.summary import evaluate_round, problem_table
from pvg_hf.evaluation.text_novelty import new_text_figures
from pvg_hf.evaluation.verifier_verdict import verifier_statements
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED, pool_figures
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.pool_scores import read_test_rows, score_pools
from pvg_hf.models.export import CALIBRATION
from pvg_hf.run.file_names import (
    ANSWERING,
    BEST_HELPFUL,
    FIGURES,
    HELDOUT,
    HELDOUT_HELPFUL,
    METRICS,
    PROBLEMS,
    pool_file,
    pool_test_file,
)
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.read import RoundData, load_figures
from pvg_hf.tasks import Task


def run_evaluate(context: PhaseContext, output: Path) -> str:
    """
    Write `metrics.json` (figures with n and interval), `problems.parquet`, `answering.json` (its calibration) and
    `pool_scores.parquet` (scores by the verifiers of several rounds).
    """
    folder, round_index = context.folder, context.round_index
    calibration = read_json(folder.verifier(round_index) / CALIBRATION)
    scores = score_pools(context, output)
    test = pd.concat([read_test_rows(folder, round_index), _rescored(folder, scores, round_index, BASE_ROUND)])
    test = test.reset_index(drop=True)
    best_helpful = _best_helpful_rows(folder, round_index)
    figures = evaluate_round(
        test,
        load_pool(folder.verifier(round_index) / HELDOUT).to_pandas(),
        threshold=calibration["threshold"],
        best_helpful_rows=best_helpful,
        best_of_n=context.recipe.evaluation.best_of_n,
        same_answer=context.problems.task.answers_equal,
        seed=context.seed("resample"),
        num_resamples=context.recipe.evaluation.bootstrap_samples,
    )
    figures["round/verifier_mixture_pair_accuracy"] = Figure.from_dict(calibration["pair_accuracy"])
    prover_metrics = read_json_lines(folder.prover(round_index) / METRICS)
    further = {
        **pool_figures(scores, seed=context.seed("pools"), num_resamples=context.recipe.evaluation.bootstrap_samples),
        **_role_figures(folder, scores, round_index),
        **_new_text_figures(folder, round_index),
        **parity_figures(prover_metrics),
        **late_changes(prover_metrics),
    }
    figures |= {f"round/{name}": figure for name, figure in further.items()}
    figures |= context.recipe.verifier.implementation().evaluate(context, output)
    if context.processes.is_main_process:
        write_json(output / FIGURES, {key: figure.to_dict() for key, figure in figures.items()})
        problem_table(test).to_parquet(output / PROBLEMS, write_page_checksum=True)
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
        f"helpful accuracy {data.figure('accuracy/helpful')}, sneaky accuracy {data.figure('accuracy/sneaky')}; the verifier on its "
        f"own prover: pair accuracy {data.figure('test_pair_accuracy')}, accepts {data.figure(OWN_ACCEPTED)} of the sneaky mistakes at 95 % "
        f"completeness{f'; not as hoped: {bad}' if bad else ''}"
    )


def _new_text_figures(folder: RunFolder, round_index: int) -> dict[str, Figure]:
    earlier, pool = folder.training_pools(round_index), folder.pool(round_index)
    return new_text_figures(earlier, {role: pool / pool_file(role) for role in GAME_ROLES})


def _best_helpful_rows(folder: RunFolder, round_index: int) -> pd.DataFrame | None:
    file = folder.pool(round_index) / pool_test_file(BEST_HELPFUL)
    return load_pool([file]).to_pandas() if file.exists() else None


def fit_answers(folder: RunFolder, round_index: int, task: Task, num_samples: int | None = None) -> AnswerRules | None:
    """
    Fit the rules that choose answers on the verifier's held-out problems.

    A run of an earlier version has no solutions of these, so that the rules are fitted on test problems.

    Args:
        folder ([`RunFolder`]):
            Folder of the run.
        round_index (`int`):
            The round whose players answer.
        task ([`~pvg_hf.tasks.Task`]):
            Task, which decides whether two answers are equal.
        num_samples (`int`, *optional*):
            Number of solutions to choose from; by default all solutions of a problem.

    Returns:
        [`AnswerRules`]; `None` if no solution has an answer, there are too few solutions, or their files are missing.
    """
    pool = folder.pool(round_index)
    names = (HELDOUT_HELPFUL, pool_test_file(BEST_HELPFUL), pool_test_file(Role.HELPFUL))
    file = next((pool / name for name in names if (pool / name).exists()), None)
    if file is None:
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
