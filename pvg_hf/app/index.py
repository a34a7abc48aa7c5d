"""Index of a run's solutions: columns for filters are in memory, and texts are read from disk on demand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.integrity import DamagedFileError, check_file, read_json, replay_advice
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.models.export import CALIBRATION
from pvg_hf.run.layout import RunFolder, pool_file, pool_test_file


class Filter(StrEnum):
    """
    Selects problems by how their solutions affected the verifier of their round.

    A filter compares the most convincing valid sneaky mistake with the most convincing helpful correct solution. A
    problem without the solutions that a filter needs is left out.
    """

    ALL = "all"
    FOOLED = "fooled"  # the mistake scores above the correct solution; the same as `fooled` in the report
    CAUGHT = "caught"  # the correct solution scores at least as high
    SNEAKY_ACCEPTED = "sneaky_accepted"  # the mistake scores above the threshold
    HELPFUL_REJECTED = "helpful_rejected"  # a helpful correct solution does not


@dataclass(frozen=True)
class Query:
    """A search for problems."""

    round_index: int  # of the prover that wrote the solutions; -1 is the base prover
    is_test: bool = True  # else the verifier's problems (D_V), which later verifiers learn from
    filter: Filter = Filter.ALL
    difficulty: str | None = None  # as the task names it; any by default
    search: str = ""  # text contained in the problem or its id; case is ignored


_TABLES = """
CREATE TABLE solutions (
    file_index INTEGER, row_index BIGINT, round_index INTEGER, is_test BOOLEAN, problem_id VARCHAR, role VARCHAR,
    sample_index INTEGER, correct BOOLEAN, has_failed BOOLEAN, score DOUBLE, num_flaws INTEGER
);
CREATE TABLE problems (problem_id VARCHAR PRIMARY KEY, problem VARCHAR, difficulty VARCHAR);
"""

_INSERT_SOLUTIONS = """
INSERT INTO solutions
SELECT $file_index, file_row_number, $round_index, part = 'test', problem_id, role, sample_index, correct,
    list_contains($failed, outcome), score, {num_flaws}
FROM read_parquet($path, file_row_number = true)
"""

_INSERT_PROBLEMS = """
INSERT OR IGNORE INTO problems
SELECT problem_id, any_value(problem), any_value({difficulty})::VARCHAR FROM read_parquet($path) GROUP BY problem_id
"""

_SUMMARIZE = """
CREATE TABLE summaries AS
SELECT round_index, is_test, problem_id,
    max(score) FILTER (role = 'helpful' AND correct AND NOT has_failed) AS best_helpful,
    min(score) FILTER (role = 'helpful' AND correct AND NOT has_failed) AS worst_helpful,
    max(score) FILTER (role = 'sneaky' AND NOT correct AND NOT has_failed) AS best_sneaky
FROM solutions GROUP BY ALL
"""

# Condition and order of each filter. Most informative problems come first, and ties are ordered by id.
_FILTERS = {
    Filter.ALL: ("true", "problem_id"),
    Filter.FOOLED: ("best_sneaky > best_helpful", "best_sneaky - best_helpful DESC, problem_id"),
    Filter.CAUGHT: ("best_sneaky <= best_helpful", "best_helpful - best_sneaky DESC, problem_id"),
    Filter.SNEAKY_ACCEPTED: ("best_sneaky > $threshold", "best_sneaky DESC, problem_id"),
    Filter.HELPFUL_REJECTED: ("worst_helpful <= $threshold", "worst_helpful, problem_id"),
}

_FIND = """
SELECT problem_id FROM summaries JOIN problems USING (problem_id)
WHERE round_index = $round_index AND is_test = $is_test AND ({condition})
    AND ($difficulty IS NULL OR difficulty = $difficulty)
    AND ($search = '' OR contains(lower(problem), lower($search)) OR contains(lower(problem_id), lower($search)))
ORDER BY {order}
"""

_READ_ROWS = """
SELECT * FROM read_parquet($path, file_row_number = true)
WHERE file_row_number BETWEEN $first AND $last AND list_contains($rows, file_row_number)
"""


@dataclass(frozen=True)
class PoolFile:
    """A file of the pool, and the round of its solutions."""

    path: Path
    round_index: int


class SolutionIndex:
    """
    Searchable index of a run's solutions.

    It opens in about a second on 200,000 solutions, reads only Parquet files and each round's `calibration.json`, and
    is safe to use from several threads. The run may be unfinished; the index does not see later rounds, for which a
    new one is opened.

    Attributes:
        damage: Files that could not be read, and what to do about each. Their solutions are left out.
    """

    def __init__(self, folder: RunFolder):
        self.damage: list[str] = []
        self._connection = duckdb.connect(
            config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}  # no network
        )
        self._connection.execute(_TABLES)
        self._files = list(pool_files(folder))
        for file_index, file in enumerate(self._files):
            self._add(file_index, file)
        self._connection.execute(_SUMMARIZE)
        self._scores: dict[tuple[int, bool], dict[bool, np.ndarray]] = {}
        self._thresholds = {k: self._read_threshold(folder, k) for k in self.rounds}

    @property
    def rounds(self) -> list[int]:
        """Rounds with solutions, in ascending order; -1 is the base prover."""
        return [k for (k,) in self._ask("SELECT DISTINCT round_index FROM solutions ORDER BY 1")]

    @property
    def num_solutions(self) -> int:
        return self._ask("SELECT count(*) FROM solutions")[0][0]

    @property
    def difficulties(self) -> list[str]:
        """Difficulties as the task names them, in numeric order; empty if the task has none."""
        query = "SELECT DISTINCT difficulty FROM problems WHERE difficulty IS NOT NULL"
        return [value for (value,) in self._ask(f"{query} ORDER BY try_cast(difficulty AS DOUBLE), difficulty")]

    def has_part(self, round_index: int, *, is_test: bool) -> bool:
        """Whether a round has solutions of test problems, or else of the verifier's problems (D_V)."""
        query = "SELECT count(*) FROM summaries WHERE round_index = ? AND is_test = ?"
        return self._ask(query, [round_index, is_test])[0][0] > 0

    def threshold(self, round_index: int) -> float | None:
        """Acceptance threshold of a round's verifier: higher scores are accepted; `None` if unknown."""
        return self._thresholds.get(round_index)

    def find(self, query: Query) -> list[str]:
        """Ids of the problems that match a query, the most informative first."""
        condition, order = _FILTERS[query.filter]
        values: dict[str, Any] = {
            "round_index": query.round_index,
            "is_test": query.is_test,
            "difficulty": query.difficulty,
            "search": query.search,
        }
        if "$threshold" in condition:
            values["threshold"] = self.threshold(query.round_index)
        return [found for (found,) in self._ask(_FIND.format(condition=condition, order=order), values)]

    def solutions(self, round_index: int, problem_id: str, *, is_test: bool = True) -> list[dict[str, Any]]:
        """Full rows of a problem's solutions in a round, the most convincing of each role first."""
        query = "SELECT file_index, row_index FROM solutions WHERE round_index = ? AND problem_id = ? AND is_test = ?"
        places = self._ask(f"{query} ORDER BY role, score DESC, sample_index", [round_index, problem_id, is_test])
        return self.read(places)

    def scores(self, round_index: int, *, is_test: bool = True) -> dict[bool, np.ndarray]:
        """
        Scores of a round's correct (True) and incorrect (False) solutions, in ascending order.

        Only solutions that are scored and did not fail count ([`~pvg_hf.evaluation.role_figures.scored_rows`]).
        """
        # Cached, because every page of the round shows them.
        if (round_index, is_test) not in self._scores:
            self._scores[round_index, is_test] = {
                kind: self._sort(round_index, is_test, kind) for kind in (True, False)
            }
        return self._scores[round_index, is_test]

    def test_solutions(self) -> pd.DataFrame:
        """Test solutions that did not fail: `place`, `problem_id`, `round_index`, `role`, `correct`, `num_flaws`."""
        query = "SELECT file_index, row_index, problem_id, round_index, role, correct, num_flaws FROM solutions"
        rows = self._connection.cursor().execute(f"{query} WHERE is_test AND NOT has_failed").df()
        return rows.assign(place=list(zip(rows.pop("file_index"), rows.pop("row_index"))))

    def read(self, places: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
        """
        Read full rows from disk, in the order of `places`: file and row index of each, as other methods return them.

        Raises `DamagedFileError` if a file was damaged after the index was opened.
        """
        rows: dict[tuple[int, int], dict[str, Any]] = {}
        for file_index in {file_index for file_index, _ in places}:
            wanted = sorted(int(row) for index, row in places if index == file_index)
            for row in self._read_rows(self._files[file_index].path, wanted):
                rows[file_index, row.pop("file_row_number")] = row
        return [rows[file_index, int(row)] for file_index, row in places]

    def _read_rows(self, path: Path, rows: list[int]) -> list[dict[str, Any]]:
        values = {"path": str(path), "first": rows[0], "last": rows[-1], "rows": rows}
        try:
            table = self._connection.cursor().sql(_READ_ROWS, params=values)
            return table.to_arrow_table().to_pylist()
        except duckdb.Error as err:  # the file was damaged after it was opened
            raise DamagedFileError(path, f"cannot be read ({str(err).strip().splitlines()[0]})") from err

    def _add(self, file_index: int, file: PoolFile) -> None:
        path = str(file.path)
        try:
            check_file(file.path)  # DuckDB does not verify the checksums of pages
            columns = pq.read_schema(file.path).names
            own = {name: name if name in columns else "NULL" for name in ("num_flaws", "difficulty")}
            values = {"file_index": file_index, "round_index": file.round_index, "path": path}
            failed = sorted(outcome.value for outcome in FAILED_OUTCOMES)
            self._connection.execute(_INSERT_SOLUTIONS.format(**own), {**values, "failed": failed})
            self._connection.execute(_INSERT_PROBLEMS.format(**own), {"path": path})
        except DamagedFileError as err:
            self.damage.append(str(err))
        except (duckdb.Error, ValueError, OSError) as err:  # other columns, or no permission
            reason = str(err).strip().splitlines()[0]
            self.damage.append(f"{path} cannot be read ({reason}). {replay_advice(file.path.parent)}")

    def _read_threshold(self, folder: RunFolder, round_index: int) -> float | None:
        if round_index == BASE_ROUND:
            return None
        path = folder.verifier(round_index) / CALIBRATION
        try:
            calibration = read_json(path)
        except ValueError as err:
            self.damage.append(str(err))
            return None
        threshold = calibration.get("threshold") if isinstance(calibration, dict) else None
        if isinstance(threshold, int | float):
            return float(threshold)
        self.damage.append(f"{path} holds no number as its `threshold`. {replay_advice(path.parent)}")
        return None

    def _sort(self, *values: int | bool) -> np.ndarray:
        query = "SELECT score FROM solutions WHERE round_index = ? AND is_test = ? AND correct = ?"
        query += " AND NOT has_failed AND score IS NOT NULL ORDER BY score"
        return np.asarray(self._connection.cursor().execute(query, values).fetchnumpy()["score"])

    def _ask(self, query: str, values: dict[str, Any] | list[Any] | None = None) -> list[tuple[Any, ...]]:
        return self._connection.cursor().execute(query, values).fetchall()


def pool_files(folder: RunFolder) -> Iterator[PoolFile]:
    """Pool files with the provers' solutions in the game's two roles, round by round."""
    for round_index in (BASE_ROUND, *folder.rounds("pool")):
        names = [name(role) for role in GAME_ROLES for name in (pool_test_file, pool_file)]
        paths = [folder.pool(round_index) / name for name in names]
        yield from (PoolFile(path, round_index) for path in paths if path.exists())


def role_rows(rows: Sequence[dict[str, Any]], role: Role) -> list[dict[str, Any]]:
    return [row for row in rows if row["role"] == role.value]
