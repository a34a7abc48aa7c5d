"""
Evaluations that a round's generative verifier writes: of test proofs, and for labels of new proofs; the meta-verifier.
"""

import json
from pathlib import Path

import pandas as pd
from accelerate.utils import broadcast_object_list
from datasets import Dataset

from pvg_hf.analyses.form import read_evaluation
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_parquet
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.verifier_quality import evaluation_figures, label_figures
from pvg_hf.game.context import PhaseContext, PlayerLoader
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.run.console import shows_progress
from pvg_hf.run.layout import EVALUATIONS, LABELS, pool_file, pool_test_file
from pvg_hf.sampling import Sample
from pvg_hf.scoring.auto_label import AUTO, HUMAN, label_proofs, read_labels
from pvg_hf.scoring.generative_verifier import GenerativeVerifier
from pvg_hf.tasks.base import PROOF_SCORE, RatesAnalyses, Task
from pvg_hf.trainers.generative.meta_verification import MetaVerifier


def label_new_proofs(
    players: PlayerLoader, stop: StopRequest, verifier: GenerativeVerifier, output: Path
) -> dict[str, float | None]:
    """Label the verifier's proofs (D_V) in `output` by scaled verification; the labels are in its folder `labels`."""
    with stop.sharing():  # the main process does it all
        if players.processes.is_main_process:
            rows = _training_proofs(output)
            unknown = Dataset.from_dict(
                {"problem": rows["problem"], "proof": rows["solution"], "score": [None] * len(rows)}
            )
            label_proofs(
                unknown,
                evaluate=verifier.evaluate,
                check=verifier.check_analyses,
                rule=players.recipe.verifier.score_settings.rule(),
                folder=output / LABELS,
                show_progress=shows_progress(players.recipe.logging),
            )
    return {f"mint/{key}": figure.value for key, figure in _label_figures(output).items()}


def record_test_evaluations(context: PhaseContext, output: Path) -> dict[str, Figure]:
    """
    Write `evaluations.parquet` (one evaluation per test proof), and return the round's figures on evaluations and
    labels.
    """
    pool, verifier_folder = context.folder.pool(context.round_index), context.folder.verifier(context.round_index)
    number = context.recipe.verifier.score_settings.report_proofs
    rows = _draw_test_proofs(pool, number, context.seed("evaluations"))
    verifier = context.players.score_verifier(verifier_folder)
    with context.stop.sharing():
        written = [verifier.evaluate(rows["problem"].tolist(), rows["solution"].tolist(), 1)]
    table = _table(context.problems.task, rows, broadcast_object_list(written)[0])
    if context.processes.is_main_process:
        write_parquet(output / EVALUATIONS, table)
    figures = evaluation_figures(table)
    if (pool / LABELS).exists():
        figures |= _label_figures(pool)
    return {f"round/{key}": figure for key, figure in figures.items()}


def _draw_test_proofs(pool: Path, number: int, seed: int) -> pd.DataFrame:
    """Draw up to `number` of a round's test proofs at random; truncated proofs are left out."""
    rows = load_pool([pool / pool_test_file(role) for role in GAME_ROLES]).to_pandas()
    rows = rows[~rows["is_truncated"]].drop_duplicates(["problem", "solution"])
    # Sorted again, so that the drawn proofs keep the order of the pool.
    chosen = derive_rng(seed).permutation(len(rows))[:number]
    return rows.iloc[sorted(chosen)].assign(reference=reference_scores).reset_index(drop=True)


def _table(task: Task, rows: pd.DataFrame, written: list[list[Sample]]) -> pd.DataFrame:
    read = [read_evaluation(sample.text, is_cut=sample.is_truncated) for (sample,) in written]
    kept = rows[["problem_id", "problem", "role", "solution", "reference"]]
    asked = zip(rows["problem"], rows["solution"], read, strict=True)
    return kept.assign(
        evaluation=[sample.text for (sample,) in written],
        analysis=[evaluation.analysis for evaluation in read],
        predicted=[evaluation.score for evaluation in read],
        has_form=[evaluation.has_form for evaluation in read],
        is_cut=[evaluation.is_cut for evaluation in read],
        issues=[_issues(task, problem, proof, evaluation.analysis) for problem, proof, evaluation in asked],
    ).astype({"predicted": "float64"})


def _issues(task: Task, problem: str, proof: str, analysis: str | None) -> str:
    if analysis is None or not isinstance(task, RatesAnalyses):
        return "[]"
    return json.dumps(task.named_issues(problem, proof, analysis))


def _training_proofs(pool: Path) -> pd.DataFrame:
    files = [pool / pool_file(role) for role in GAME_ROLES]
    rows = load_pool([file for file in files if file.exists()], parts=("verifier",)).to_pandas()
    return rows[~rows["is_truncated"]].drop_duplicates(["problem", "solution"])


def _label_figures(pool: Path) -> dict[str, Figure]:
    """Figures on the labels assigned by the verifier; proofs labelled by people are left out."""
    labels = read_labels(pool / LABELS, sources=(AUTO,))
    people = read_labels(pool / LABELS, sources=(HUMAN,))
    rows = _training_proofs(pool)
    pairs = list(zip(rows["problem"], rows["solution"], strict=True))
    rows = rows.assign(reference=reference_scores, label=[labels.get(pair) for pair in pairs])
    return label_figures(rows[[pair not in people for pair in pairs]].astype({"label": "float64"}))


def open_meta_verifier(players: PlayerLoader, round_index: int, task: Task) -> MetaVerifier | None:
    """
    Meta-verifier, which rates analyses by the verifier or a self-evaluating prover (R_meta); `None` if the recipe has
    none.
    """
    kind = players.recipe.verifier.score_settings.meta_verifier
    if kind == "task":
        assert isinstance(task, RatesAnalyses)
        return task.rate_analyses
    if kind == "initial":
        source, revision = players.verifier_source(round_index)
        return players.score_verifier(source, revision=revision).rate_analyses
    return None


def reference_scores(rows: pd.DataFrame) -> pd.Series:
    """True scores of a pool's rows."""
    return rows[PROOF_SCORE] if PROOF_SCORE in rows else rows["correct"].astype(float)
