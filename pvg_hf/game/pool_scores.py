"""Scores the test solutions of earlier rounds with the round's verifier, and the round's with earlier verifiers."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from accelerate.utils import broadcast_object_list, gather_object
from tqdm.auto import tqdm

from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.files import remove, replacing, write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.verifiers_by_pools import crossed_rounds, own_verifier
from pvg_hf.game.callbacks import count_over_processes
from pvg_hf.game.console import shows_progress
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.players import PlayerLoader
from pvg_hf.run.damage import damage_of
from pvg_hf.run.file_names import POOL_SCORE_PARTS, POOL_SCORES, pool_test_file
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.schedule import PhaseKey
from pvg_hf.trainers.prover.trainer import Scorer

logger = logging.getLogger(__name__)

SOLUTION_KEYS = ["role", "problem_id", "sample_index"]
"""Columns that identify a solution of a pool."""

COLUMNS = ["verifier", "round_index", *SOLUTION_KEYS, "correct", "outcome", "score", "own_score"]


def score_pools(context: PhaseContext, output: Path) -> pd.DataFrame:
    """
    Score pools of test solutions, and write `pool_scores.parquet`.

    The round's verifier scores the base prover's solutions and those of earlier rounds; earlier verifiers that are
    still on disk score the round's. A phase that was interrupted continues after the last pool that was scored.

    Args:
        context ([`PhaseContext`]):
            Context of the phase. `evaluation.crossed_rounds` limits the number of earlier rounds.
        output (`Path`):
            Folder of the phase.

    Returns:
        `pd.DataFrame`: the solutions with the rounds of verifier and pool, `score`, and `own_score` by the pool's own
        verifier.
    """
    folder, number, processes = context.folder, context.round_index, context.processes
    limit = context.recipe.evaluation.crossed_rounds
    # The main process looks at the files, because it also writes.
    planned = broadcast_object_list([_plan(folder, number, limit) if processes.is_main_process else None])[0]
    parts = {
        key: output / POOL_SCORE_PARTS / f"{round_name(key[0])}-on-{round_name(key[1])}.parquet" for key in planned
    }
    todo = broadcast_object_list([[key for key in planned if not parts[key].exists()]])[0]
    for key, rows, counts in _score_all(context, todo):
        if processes.is_main_process:
            write_json(parts[key].with_suffix(".json"), counts)
            _write(rows[COLUMNS], parts[key])  # last, because it marks the part as done
    processes.wait_for_everyone()
    totals: Counter[str] = Counter()
    for path in parts.values():
        totals.update(read_json(path.with_suffix(".json")))
    context.record({f"evaluate/{name}": number for name, number in sorted(totals.items())})
    own = _keyed(read_test_rows(folder, number), number, number, folder)
    table = pd.concat([*map(pd.read_parquet, parts.values()), own[COLUMNS]], ignore_index=True)
    processes.wait_for_everyone()  # all have read the parts
    if processes.is_main_process:
        _write(table, output / POOL_SCORES)
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
    has_weights = damage_of(PhaseKey("verifier", verifier), folder.verifier(verifier), is_needed=True) is None
    if not has_weights:
        logger.info("The verifier of round %d is not on disk and does not score the round's solutions.", verifier)
    return has_weights


def _score_all(
    context: PhaseContext, todo: list[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], pd.DataFrame, dict[str, int]]]:
    """Yield each verifier and pool, its scored solutions and the scorer's counts for them. One verifier is loaded at a time."""
    is_silent = not (context.processes.is_main_process and shows_progress(context.recipe))
    with tqdm(total=len(todo), desc=str(context.phase), unit="pool", disable=is_silent, leave=False) as bar:
        for verifier in dict.fromkeys(key[0] for key in todo):
            # The whole game's recipe: the context's has no other round's overrides.
            recipe = context.folder.read_recipe().for_round(verifier)
            scorer = PlayerLoader(recipe, context.folder).scorer(verifier)
            known: Counter[str] = Counter()
            for pool in (pool for other, pool in todo if other == verifier):
                rows = _keyed(read_test_rows(context.folder, pool), verifier, pool, context.folder)
                rows["score"] = _score_shared(context, scorer, rows)
                if verifier == own_verifier(pool):
                    rows["own_score"] = rows["score"]
                counts = count_over_processes(scorer)
                yield (verifier, pool), rows, {name: counts[name] - known[name] for name in counts}
                known = counts
                bar.update()
            del scorer  # before the next one is loaded


def _score_shared(context: PhaseContext, scorer: Scorer, rows: pd.DataFrame) -> list[float]:
    """Score solutions; each process scores a share."""
    processes = context.processes
    mine = np.array_split(np.arange(len(rows)), processes.num_processes)[processes.process_index]
    share = rows.iloc[mine]
    with context.stop.sharing():
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


def _write(rows: pd.DataFrame, path: Path) -> None:
    with replacing(path) as temporary:
        rows.to_parquet(temporary, index=False, write_page_checksum=True)
