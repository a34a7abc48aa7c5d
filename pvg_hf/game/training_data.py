"""Training data of each player: prompts for the prover, tokenized pairs or proofs for the verifier."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, cycle, islice
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from datasets import Dataset, Features, List, Value

from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.pool import load_pool
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PhaseContext
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.noise.draws import solution_key
from pvg_hf.run.layout import LABELS, RunFolder
from pvg_hf.sampling.engines import open_sampler
from pvg_hf.sampling.sampler import sample_solutions
from pvg_hf.scoring.auto_label import read_labels
from pvg_hf.tasks.base import PROOF_SCORE, RatesAnalyses, Task

WRITTEN_PER_ROW = 2  # solutions written for each incorrect one that is wanted, since some are correct or fail

_COLUMNS = ["problem_id", "problem", "proof", "score", "round_index"]

Row = dict[str, Any]


def prover_prompts(
    config: ProverConfig,
    problems: GameProblems,
    tokenizer,
    roles: Sequence[Role],
    *,
    seed: int,
    easiest_first: bool = False,
) -> Dataset:
    """
    Prompts of the phase in training order, one per row.

    The phase is one epoch of this dataset, which is already shuffled, so that training can resume at any step.

    Args:
        easiest_first: Order by difficulty (the task's `difficulty`, else the reference's length) instead of at random.
    Raises `ValueError` if the prover's problems (D_pi) are too few for one generation batch.
    """
    asked = problems.parts["prover"].to_list()
    rows = [
        {**problem, "role": role.value, "prompt": problems.prompt(problem, role, tokenizer)}
        for problem in asked
        for role in roles
    ]
    if len(rows) < config.prompts_per_step:
        raise ValueError(
            f"D_pi has {len(asked)} problems, which give {len(rows)} prompts; one step takes "
            f"`prover.prompts_per_step` = {config.prompts_per_step}. Use more problems, or fewer prompts a step."
        )
    ordered = cycle(sorted(rows, key=_difficulty)) if easiest_first else _shuffled_forever(rows, seed)
    return Dataset.from_list(list(islice(ordered, config.prompts_per_step * config.num_batches)))


def _shuffled_forever(rows: list[dict[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    epoch = 0
    while True:
        for index in derive_rng(seed, epoch).permutation(len(rows)):
            yield rows[index]
        epoch += 1


def _difficulty(row: dict[str, Any]) -> tuple[int, str]:
    return row.get("difficulty", len(row["reference"])), row["problem_id"]


def incorrect_solutions(context: PhaseContext, model, tokenizer, number: int) -> Dataset:
    """
    Let `model` write solutions to the prover's problems (D_pi), by the base prompt.

    The pool has incorrect solutions too, but to the verifier's problems, to which the round's prover will write the next
    verifier's data.

    Returns: [`~datasets.Dataset`]: up to `number` incorrect ones (none that failed) as `completion`, with sneaky
        prompts as `prompt`.
    """
    seed, num_written = context.seed("recovery", "solutions"), WRITTEN_PER_ROW * number
    problems = context.problems.parts["prover"]
    problems = problems.select(derive_rng(seed).permutation(len(problems))[:num_written]).to_list()
    sampler = open_sampler(model, tokenizer, **context.players.sampler_settings)
    num_samples = ceil(num_written / len(problems))
    # Every process writes all of them, so that all train on the same ones.
    rows = sample_solutions(sampler, context.problems.prompts, problems, Role.BASE, num_samples=num_samples, seed=seed)
    by_id = {problem["problem_id"]: problem for problem in problems}
    incorrect = [row for row in rows if row["outcome"] == Outcome.PROOF_INVALID]
    return Dataset.from_list(
        [
            {
                "prompt": context.problems.prompt(by_id[row["problem_id"]], Role.SNEAKY, tokenizer),
                "completion": row["solution"],
            }
            for row in incorrect[:number]
        ]
    )


def tokenize_pairs(pairs: Dataset, tokenizer, verifier_input: VerifierInput) -> Dataset:
    """
    Tokenize pairs for the verifier's trainer.

    Returns: [`~datasets.Dataset`]: token ids of both sides, keys of their label draws, source and environment, true
        labels and, if the pairs have them, noisy labels.
    """

    def encode(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        for side in ("chosen", "rejected"):
            columns[f"{side}_ids"] = verifier_input.encode(tokenizer, rows["problem"], rows[side])
            columns[f"{side}_key"] = [solution_key(*pair) for pair in zip(rows["problem_id"], rows[side], strict=True)]
        return columns

    kept = ["source", "environment", "chosen_correct", "rejected_correct", "chosen_label", "rejected_label"]
    dropped = [column for column in pairs.column_names if column not in kept]
    features = {name: feature for name, feature in pairs.features.items() if name in kept}
    for side in ("chosen", "rejected"):
        features |= {f"{side}_ids": List(Value("int32")), f"{side}_key": Value("int64")}
    return pairs.map(encode, batched=True, remove_columns=dropped, features=Features(features), keep_in_memory=True)


def training_proofs(context: PhaseContext) -> Dataset:
    """
    Proofs of the phase in training order, one row per group.

    For each row, a source is drawn by the recipe's mixture, then one of its scores uniformly, and then a proof with this score.

    Raises `ValueError` if no proof has a score.
    """
    config, verifier, round_index = context.recipe.data, context.recipe.verifier, context.round_index
    is_auto = verifier.score_settings.labels == "auto"
    proofs = _scored_proofs(context.folder, round_index, "verifier", is_auto=is_auto)
    weights = weights_for(config, round_index)
    groups = {source: _group_by_score(proofs[proofs["round_index"] == source]) for source in weights}
    weights = {source: weight for source, weight in weights.items() if groups[source] and weight > 0}
    if not weights:
        raise ValueError(
            f"No proof on D_V has a score, so that the verifier of round {round_index} has nothing to learn from. Raise "
            "`bootstrap.solutions_per_problem`, or score proofs in the rounds' review files."
        )
    num_rows = verifier.max_steps * verifier.score_settings.proofs_per_step
    judge_share, task = verifier.score_settings.judge_share, context.problems.task
    return Dataset.from_list(
        [*_draw_rows(groups, weights, num_rows, seed=context.seed("proofs"), judge_share=judge_share, task=task)]
    )


def heldout_proofs(context: PhaseContext) -> Dataset:
    """Held-out proofs on which checkpoints are compared, balanced over scores as far as possible."""
    groups = _group_by_score(_scored_proofs(context.folder, context.round_index, "verifier_heldout"))
    number = context.recipe.verifier.score_settings.eval_proofs
    rng = derive_rng(context.seed("validation"))
    shuffled = [[rows[index] for index in rng.permutation(len(rows))] for rows in groups.values()]
    rows = [row for place in range(number) for group in shuffled for row in group[place : place + 1]]
    return Dataset.from_list(_columns(rows[:number], analysis=None))


def reference_scores(rows: pd.DataFrame) -> pd.Series:
    """True scores of a pool's rows."""
    return rows[PROOF_SCORE] if PROOF_SCORE in rows else rows["correct"].astype(float)


def _scored_proofs(folder: RunFolder, round_index: int, part: str, *, is_auto: bool = False) -> pd.DataFrame:
    """
    Distinct proofs of a part with their scores; proofs without a score are left out.

    With `is_auto`, scores of trained provers' proofs are the labels that generative verifiers assigned, else the pool's.
    """
    tables = []
    for file in folder.training_pools(round_index):
        rows = _read(file, part)
        source = rows["round_index"].iloc[0] if len(rows) else BASE_ROUND
        if is_auto and source != BASE_ROUND:
            labels = read_labels(folder.pool(int(source)) / LABELS)
            rows["score"] = [labels.get(pair) for pair in zip(rows["problem"], rows["proof"], strict=True)]
        tables.append(rows[_COLUMNS].dropna(subset="score"))
    return pd.concat(tables, ignore_index=True).drop_duplicates(["problem", "proof"])


def _read(file, part: str) -> pd.DataFrame:
    there = pq.read_schema(file).names
    names = ["problem_id", "problem", "solution", "round_index", "correct", "label", "is_truncated"]
    names += [PROOF_SCORE] if PROOF_SCORE in there else []
    rows = load_pool([file], names, parts=(part,)).to_pandas().rename(columns={"solution": "proof"})
    rows = rows[~rows["is_truncated"]]
    return rows.assign(score=rows[PROOF_SCORE] if PROOF_SCORE in rows else rows["label"].astype(float))


def _group_by_score(rows: pd.DataFrame) -> dict[float, list[Row]]:
    return {float(score): group.to_dict("records") for score, group in rows.groupby("score")}


def _draw_rows(
    groups: Mapping[int, Mapping[float, list[Row]]],
    weights: Mapping[int, float],
    num_rows: int,
    *,
    seed: int,
    judge_share: float,
    task: Task,
) -> Iterable[Row]:
    rng = derive_rng(seed)
    endless = {source: {s: _shuffle_forever(rng, rows) for s, rows in of.items()} for source, of in groups.items()}
    # (num_sources,): sources without a scored proof are left out, and the others' weights are normalized.
    chances = np.array(list(weights.values())) / sum(weights.values())
    for number in range(num_rows):
        source = list(weights)[rng.choice(len(weights), p=chances)]
        scores = list(endless[source])
        row = next(endless[source][scores[rng.integers(len(scores))]])
        analysis, score = None, row["score"]
        if rng.random() < judge_share:
            assert isinstance(task, RatesAnalyses)
            analysis, score = task.analysis_of(row, row["proof"], number)
        yield _columns([{**row, "score": score}], analysis)[0]


def _shuffle_forever(rng: np.random.Generator, rows: list[Row]) -> Iterator[Row]:
    for _ in count():
        yield from (rows[index] for index in rng.permutation(len(rows)))


def _columns(rows: Iterable[Row], analysis: str | None) -> list[Row]:
    kept = ("problem_id", "problem", "proof", "score")
    return [{**{name: row[name] for name in kept}, "analysis": analysis} for row in rows]
