"""Index of a run's solutions: columns for filters are in memory, and texts are read from disk on demand."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.integrity import DamagedFileError, check_file, replay_advice
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.annotations import Annotation
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.evaluation.verifiers_by_pools import own_verifier, pool_acceptance
from pvg_hf.run.layout import POOL_SCORES, RunFolder, pool_file, pool_test_file


@dataclass(frozen=True)
class Query:
    """A selection of solutions, and their order. `None` means any."""

    round_index: int | None = None  # of the prover; -1 is the base prover
    is_test: bool | None = None  # else the verifier's problems (D_V), which later verifiers learn from
    role: Role | None = None
    correct: bool | None = None
    accepted: bool | None = None  # by the verifier of the solution's round
    fooled: int | None = None  # round of a verifier that accepts the solution, a valid mistake
    flaw: str | None = None  # kind of the first flaw
    difficulty: str | None = None  # as the task names it
    problem_id: str | None = None
    label: str | None = None  # by a person: a key of `LABELLED`
    search: str = ""  # text contained in the problem, its id, the solution or a note; case is ignored
    sort: str = "score"  # a key of `SORTED`
    is_descending: bool = True


SORTED = {
    "problem": "problem_id",
    "round": "round_index",
    "role": "role",
    "correct": "correct",
    "score": "score",
    "accepted": "accepted",
    "label": "coalesce(person_score, if(note IS NULL, NULL, -1))",  # notes alone come last
    "fooled": "len(fooled_by)",
    "flaw": "flaw",
    "flaws": "num_flaws",
    "tests": "share_passed",
    "tokens": "num_tokens",
    "difficulty": "try_cast(difficulty AS DOUBLE)",
}
"""Columns by which solutions can be sorted, and how."""


LABELLED = {
    "given": ("labelled or noted", "person_score IS NOT NULL OR note IS NOT NULL"),
    "correct": ("correct", "person_score = 1"),
    "partly": ("partly correct", "person_score = 0.5"),
    "incorrect": ("incorrect", "person_score = 0"),
    "none": ("none", "person_score IS NULL AND note IS NULL"),
}
"""Filters by the labels and notes that people gave: words and condition of each."""


SCORES: dict[str, float | None] = {"not labelled": None, "correct": 1.0, "partly correct": 0.5, "incorrect": 0.0}
"""Scores of a person's labels, by the names of the labels."""


@dataclass(frozen=True)
class ListedSolution:
    """A solution without its text."""

    key: str  # names the solution within the run
    place: tuple[int, int]  # for [`SolutionIndex.read`]
    round_index: int
    is_test: bool
    problem_id: str
    role: Role
    sample_index: int
    correct: bool
    outcome: str
    score: float | None  # by the verifier of its round; that of round 0 for the base prover
    accepted: bool | None  # `None` if it failed or has no score
    fooled_by: tuple[int, ...]  # rounds of the verifiers that accept this mistake
    flaw: str | None
    num_flaws: int | None
    share_passed: float | None  # of a program's hidden tests
    num_tokens: int | None
    difficulty: str | None
    person_score: float | None = None  # a person's label: 0 incorrect, 0.5 partly correct, 1 correct
    note: str | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it was cut or has no answer: it shows no mistake."""
        return self.outcome in FAILED_OUTCOMES

    @property
    def label_words(self) -> str:
        """A person's label in words, `noted` for a note alone; empty without either."""
        if self.person_score is None:
            return "noted" if self.note else ""
        return next(name for name, score in SCORES.items() if score == self.person_score)


_TABLES = """
CREATE TABLE solutions (
    file_index INTEGER, row_index BIGINT, round_index INTEGER, is_test BOOLEAN, problem_id VARCHAR, role VARCHAR,
    sample_index INTEGER, correct BOOLEAN, outcome VARCHAR, has_failed BOOLEAN, score DOUBLE, num_tokens INTEGER,
    num_flaws INTEGER, flaw VARCHAR, share_passed DOUBLE
);
CREATE TABLE problems (problem_id VARCHAR PRIMARY KEY, problem VARCHAR, difficulty VARCHAR);
CREATE TABLE crossed (
    verifier INTEGER, round_index INTEGER, problem_id VARCHAR, role VARCHAR, sample_index INTEGER, score DOUBLE
);
CREATE TABLE thresholds (verifier INTEGER, round_index INTEGER, threshold DOUBLE);
CREATE TABLE annotations (file_index INTEGER, row_index BIGINT, person_score DOUBLE, note VARCHAR);
"""

# Columns that only some tasks have, by their names here.
_OWN = {
    "num_flaws": "num_flaws",
    "flaw": "first_flaw_kind",
    "share_passed": "hidden_pass_rate",
    "difficulty": "difficulty",
}

_INSERT_SOLUTIONS = """
INSERT INTO solutions
SELECT $file_index, file_row_number, $round_index, part = 'test', problem_id, role, sample_index, correct, outcome,
    list_contains($failed, outcome), CASE WHEN isfinite(score::DOUBLE) THEN score END, num_tokens, {num_flaws}, {flaw},
    {share_passed}
FROM read_parquet($path, file_row_number = true)
"""

_INSERT_PROBLEMS = """
INSERT OR IGNORE INTO problems
SELECT problem_id, any_value(problem), any_value({difficulty})::VARCHAR FROM read_parquet($path) GROUP BY problem_id
"""

_INSERT_CROSSED = """
INSERT INTO crossed
SELECT verifier, round_index, problem_id, role, sample_index, score FROM read_parquet($path)
WHERE isfinite(score::DOUBLE)
"""

# A round that is not evaluated yet has the scores of its own verifier only.
_INSERT_OWN = """
INSERT INTO crossed
SELECT round_index, round_index, problem_id, role, sample_index, score FROM solutions
WHERE is_test AND round_index >= 0 AND score IS NOT NULL
    AND round_index NOT IN (SELECT round_index FROM crossed WHERE verifier = round_index)
"""

_READ_COMPLETE = """
SELECT verifier, round_index, c.score, role, correct
FROM crossed c JOIN solutions s USING (round_index, problem_id, role, sample_index)
WHERE s.is_test AND NOT has_failed AND role = 'helpful' AND correct
"""

_LIST = """
CREATE TABLE judged_solutions AS
WITH
accepting AS (
    SELECT c.round_index, problem_id, role, sample_index, list_sort(list(c.verifier)) AS verifiers
    FROM crossed c JOIN thresholds t ON t.verifier = c.verifier AND t.round_index = c.round_index
    WHERE c.score >= threshold GROUP BY ALL
),
scored AS (
    SELECT s.* REPLACE (coalesce(s.score, c.score) AS score), a.verifiers
    FROM solutions s
    LEFT JOIN crossed c ON s.is_test AND c.verifier = greatest(s.round_index, 0) AND c.round_index = s.round_index
        AND c.problem_id = s.problem_id AND c.role = s.role AND c.sample_index = s.sample_index
    LEFT JOIN accepting a ON s.is_test AND a.round_index = s.round_index AND a.problem_id = s.problem_id
        AND a.role = s.role AND a.sample_index = s.sample_index
),
judged AS (
    SELECT s.*, CASE WHEN has_failed THEN NULL ELSE score >= threshold END AS accepted
    FROM scored s
    LEFT JOIN thresholds t ON t.verifier = greatest(s.round_index, 0) AND t.round_index = s.round_index
)
SELECT j.* EXCLUDE (verifiers), difficulty, lower(problem) AS problem,
    CASE WHEN correct OR has_failed THEN []
        WHEN verifiers IS NOT NULL THEN verifiers
        WHEN accepted AND NOT is_test THEN [round_index] ELSE [] END AS fooled_by
FROM judged j JOIN problems USING (problem_id);
CREATE VIEW listed AS SELECT * FROM judged_solutions LEFT JOIN annotations USING (file_index, row_index)
"""

_COLUMNS = """file_index, row_index, round_index, is_test, problem_id, role, sample_index, correct, outcome, score,
    accepted, fooled_by, flaw, num_flaws, share_passed, num_tokens, difficulty, person_score, note"""

_SEARCH = """
SELECT $file_index AS file_index, file_row_number AS row_index FROM read_parquet($path, file_row_number = true)
WHERE contains(lower(solution), $search)
"""

_CONDITIONS = {
    "round_index": "round_index = $round_index",
    "is_test": "is_test = $is_test",
    "role": "role = $role",
    "correct": "correct = $correct",
    "accepted": "accepted = $accepted",
    "fooled": "list_contains(fooled_by, $fooled)",
    "flaw": "flaw = $flaw",
    "difficulty": "difficulty = $difficulty",
    "problem_id": "problem_id = $problem_id",
}

_SEARCHED = ("problem", "lower(problem_id)", "coalesce(lower(note), '')")

_READ_ROWS = """
SELECT * FROM read_parquet($path, file_row_number = true)
WHERE file_row_number BETWEEN $first AND $last AND list_contains($rows, file_row_number)
"""


@dataclass(frozen=True)
class PoolFile:
    """A file of the pool, and what its solutions have in common."""

    path: Path
    round_index: int
    role: Role
    is_test: bool

    @property
    def code(self) -> str:
        """Name of the file in keys of solutions, e.g. `1ts`: round 1, test problems, sneaky."""
        number = "b" if self.round_index == BASE_ROUND else str(self.round_index)
        return f"{number}{'t' if self.is_test else 'd'}{self.role.value[0]}"


class SolutionIndex:
    """
    Searchable index of a run's solutions.

    It opens in a few seconds on 200,000 solutions, reads only Parquet files, and is safe to use from several threads.
    The run may be unfinished; the index does not see later rounds, for which a new one is opened.

    A solution is accepted if the verifier of its round accepts it by the rule made from its prover's helpful correct
    test solutions (see [`~pvg_hf.evaluation.verifiers_by_pools.pool_acceptance`]).

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
        for place in folder.rounds("evaluation").values():
            if (place / POOL_SCORES).is_file():
                self._insert(place / POOL_SCORES, [(_INSERT_CROSSED, {})])
        self._connection.execute(_INSERT_OWN)
        self._rules = self._find_rules()
        if self._rules:
            rows = [(*place, rule.threshold) for place, rule in self._rules.items()]
            self._connection.executemany("INSERT INTO thresholds VALUES (?, ?, ?)", rows)
        self._connection.execute(_LIST)
        self._annotations: Mapping[str, Annotation] = {}
        self._annotating = threading.Lock()
        self._scores: dict[tuple[int, bool], dict[bool, np.ndarray]] = {}
        self._search = lru_cache(maxsize=8)(self._search_texts)

    @cached_property
    def rounds(self) -> list[int]:
        """Rounds with solutions, in ascending order; -1 is the base prover."""
        return self._list_values("round_index", "round_index")

    @cached_property
    def num_solutions(self) -> int:
        return self.count(Query())

    @cached_property
    def difficulties(self) -> list[str]:
        """Difficulties as the task names them, in numeric order; empty if the task has none."""
        return self._list_values("difficulty", "try_cast(difficulty AS DOUBLE), difficulty")

    @cached_property
    def flaws(self) -> list[str]:
        """Kinds of flaws; empty if the task knows none."""
        return self._list_values("flaw", "flaw")

    @cached_property
    def verifiers(self) -> list[int]:
        """Rounds of the verifiers whose scores are known."""
        return sorted({verifier for verifier, _ in self._rules})

    @property
    def columns(self) -> list[str]:
        """Keys of `SORTED` that some solution has a value in."""
        return [name for name in SORTED if name in self._own_columns or (name == "label" and self._annotations)]

    @cached_property
    def _own_columns(self) -> set[str]:
        names = [name for name in SORTED if name != "label"]
        # `count` leaves out null.
        counts = self._ask(f"SELECT {', '.join(f'count({SORTED[name]})' for name in names)} FROM listed")[0]
        return {name for name, number in zip(names, counts) if number}

    def annotate(self, annotations: Mapping[str, Annotation]) -> None:
        """
        Replace the labels and notes of all solutions; `annotations` are by key. Those of other texts are left out.
        """
        with self._annotating:
            if annotations is self._annotations:
                return
            places = {key: one.place for key in annotations if (one := self.find_key(key)) is not None}
            # A round that was played again has other solutions under the same keys.
            texts = dict(zip(places, (row["solution"] for row in self.read(list(places.values())))))
            rows = [
                (*place, annotations[key].score, annotations[key].note or None)
                for key, place in places.items()
                if annotations[key].solution == texts[key]
            ]
            cursor = self._connection.cursor()
            cursor.begin()  # for other threads, all change at once
            cursor.execute("DELETE FROM annotations")
            if rows:
                cursor.executemany("INSERT INTO annotations VALUES (?, ?, ?, ?)", rows)
            cursor.commit()
            self._annotations = annotations

    def has_part(self, round_index: int, *, is_test: bool) -> bool:
        """Whether a round has solutions of test problems, or else of the verifier's problems (D_V)."""
        return self.count(Query(round_index, is_test)) > 0

    def threshold(self, round_index: int, verifier: int | None = None) -> float | None:
        """
        Lowest score that a verifier, by default the round's own, accepts of the round's solutions; `None` if unknown.
        """
        rule = self._acceptance(round_index, verifier)
        return None if rule is None else rule.threshold

    def accepts(self, round_index: int, score: float, verifier: int | None = None) -> bool | None:
        """Whether a verifier, by default the round's own, accepts a score of the round's solutions."""
        rule = self._acceptance(round_index, verifier)
        return None if rule is None else rule.accepts(score)

    def _acceptance(self, round_index: int, verifier: int | None) -> Acceptance | None:
        return self._rules.get((own_verifier(round_index) if verifier is None else verifier, round_index))

    def count(self, query: Query) -> int:
        """Number of solutions that match a query."""
        return self._select("count(*)", query, "")[0][0]

    def find(self, query: Query, start: int = 0, count: int | None = None) -> list[ListedSolution]:
        """Solutions that match a query, in its order; those without a value in the sorted column come last."""
        direction = "DESC" if query.is_descending else "ASC"
        ties = "round_index DESC, problem_id, role, score DESC, sample_index"
        order = f"{SORTED[query.sort]} {direction} NULLS LAST, {ties}"
        limit = "" if count is None else f"LIMIT {int(count)} OFFSET {int(start)}"
        return [self._listed(*row) for row in self._select(_COLUMNS, query, f"ORDER BY {order} {limit}")]

    def find_key(self, key: str) -> ListedSolution | None:
        """The solution that a key names; `None` if there is none."""
        place = self._place_of(key)
        if place is None:
            return None
        query = f"SELECT {_COLUMNS} FROM listed WHERE file_index = ? AND row_index = ?"
        return next((self._listed(*row) for row in self._ask(query, list(place))), None)

    def _place_of(self, key: str) -> tuple[int, int] | None:
        codes = {file.code: file_index for file_index, file in enumerate(self._files)}
        code, row_index = key.rstrip("0123456789"), key[len(key.rstrip("0123456789")) :]
        return None if code not in codes or not row_index or len(row_index) > 12 else (codes[code], int(row_index))

    def crossed_scores(self, problem_id: str) -> dict[tuple[int, Role, int], dict[int, float]]:
        """Scores of a problem's test solutions, by round, role and sample index, by the round of the verifier."""
        found: dict[tuple[int, Role, int], dict[int, float]] = {}
        query = "SELECT round_index, role, sample_index, verifier, score FROM crossed WHERE problem_id = ?"
        for round_index, role, sample_index, verifier, score in self._ask(f"{query} ORDER BY verifier", [problem_id]):
            found.setdefault((round_index, Role(role), sample_index), {})[verifier] = score
        return found

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
        failed = sorted(outcome.value for outcome in FAILED_OUTCOMES)
        values = {"file_index": file_index, "round_index": file.round_index, "failed": failed}
        self._insert(file.path, [(_INSERT_SOLUTIONS, values), (_INSERT_PROBLEMS, {})])

    def _insert(self, path: Path, statements: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Insert from a Parquet file, or note that it is damaged."""
        try:
            check_file(path)  # DuckDB does not verify the checksums of pages
            columns = pq.read_schema(path).names
            own = {ours: name if name in columns else "NULL" for ours, name in _OWN.items()}
            for statement, values in statements:
                self._connection.execute(statement.format(**own), {**values, "path": str(path)})
        except DamagedFileError as err:
            self.damage.append(str(err))
        except (duckdb.Error, ValueError, OSError) as err:  # other columns, or no permission
            reason = str(err).strip().splitlines()[0]
            self.damage.append(f"{path} cannot be read ({reason}). {replay_advice(path.parent)}")

    def _find_rules(self) -> dict[tuple[int, int], Acceptance]:
        """Rule of each verifier (its round) on each pool (its round)."""
        complete = self._connection.execute(_READ_COMPLETE).df()
        groups = complete.groupby(["verifier", "round_index"])
        found = {(int(verifier), int(pool)): pool_acceptance(rows) for (verifier, pool), rows in groups}
        return {place: rule for place, rule in found.items() if rule is not None}

    def _listed(self, file_index: int, row_index: int, *values: Any) -> ListedSolution:
        round_index, is_test, problem_id, role, *others = values
        sample_index, correct, outcome, score, accepted, fooled_by, *own = others
        fields: list[Any] = [f"{self._files[file_index].code}{row_index}", (file_index, row_index)]
        fields += [round_index, is_test, problem_id, Role(role), sample_index]
        fields += [correct, outcome, score, accepted, tuple(fooled_by), *own]
        return ListedSolution(*fields)

    def _select(self, what: str, query: Query, order: str) -> list[tuple[Any, ...]]:
        asked = {name: value for name in _CONDITIONS if (value := getattr(query, name)) is not None}
        conditions = [_CONDITIONS[name] for name in asked]
        if query.label is not None:
            conditions.append(f"({LABELLED[query.label][1]})")
        cursor, search = self._connection.cursor(), query.search.lower()
        if search:
            cursor.register("found", self._search(search))
            words = " OR ".join(f"contains({column}, $search)" for column in _SEARCHED)
            conditions.append(f"({words} OR (file_index, row_index) IN (SELECT (file_index, row_index) FROM found))")
            asked["search"] = search
        where = " AND ".join(conditions) or "true"
        return cursor.execute(f"SELECT {what} FROM listed WHERE {where} {order}", asked).fetchall()

    def _search_texts(self, search: str) -> pa.Table:
        """Places of the solutions whose text contains a search term, in lower case."""
        found = []
        for file_index, file in enumerate(self._files):
            values = {"file_index": file_index, "path": str(file.path), "search": search}
            try:
                found.append(self._connection.cursor().sql(_SEARCH, params=values).to_arrow_table())
            except duckdb.Error:  # it was damaged when the index was opened, too
                continue
        return pa.concat_tables(found) if found else pa.table({"file_index": [], "row_index": []})

    def _list_values(self, column: str, order: str) -> list[Any]:
        query = f"SELECT {column} FROM listed WHERE {column} IS NOT NULL GROUP BY {column} ORDER BY {order}"
        return [value for (value,) in self._ask(query)]

    def _sort(self, *values: int | bool) -> np.ndarray:
        query = "SELECT score FROM listed WHERE round_index = ? AND is_test = ? AND correct = ?"
        query += " AND NOT has_failed AND score IS NOT NULL ORDER BY score"
        return np.asarray(self._connection.cursor().execute(query, values).fetchnumpy()["score"])

    def _ask(self, query: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
        return self._connection.cursor().execute(query, values).fetchall()


def pool_files(folder: RunFolder) -> Iterator[PoolFile]:
    """Pool files with the provers' solutions in the game's two roles, round by round."""
    for round_index in (BASE_ROUND, *folder.rounds("pool")):
        pool = folder.pool(round_index)
        files = [
            PoolFile(pool / name(role), round_index, role, is_test)
            for role in GAME_ROLES
            for name, is_test in ((pool_test_file, True), (pool_file, False))
        ]
        yield from (file for file in files if file.path.exists())
