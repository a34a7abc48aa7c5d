"""Scores new texts with a run's verifiers: as a whole, and after each step."""

import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.showing import percentile
from pvg_hf.core.integrity import find_damaged
from pvg_hf.models.verifier_input import is_verifier
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer

MAX_PROBLEM_CHARACTERS = 4_000
MAX_SOLUTION_CHARACTERS = 8_000
MAX_STEPS = 60
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class ScoredText:
    """Score of a text, with a comparison to the round's correct (True) and incorrect (False) test solutions."""

    score: float  # of the whole solution
    percentiles: dict[bool, float | None]  # percentage in [0, 100] of the solutions with a lower score
    num_compared: dict[bool, int]
    is_accepted: bool | None  # whether the round's verifier accepts the score, if its threshold is known
    steps: list[tuple[str, float]]  # each non-blank line, with the score of the solution up to and including it
    is_cut: bool  # whether the text was longer than the verifier's maximum length
    damage: list[str] = field(default_factory=list)  # unreadable files, left out of the comparison, with advice


class ScoreDesk:
    """
    Scores texts by a run's verifiers on the CPU, one text after the other in a thread. The last verifier stays in
    memory.
    """

    def __init__(self, run: OpenRun):
        self._run = run
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scoring")
        self._room = threading.Semaphore(8)  # limits the number of waiting texts
        self._loaded: tuple[int, VerifierScorer | GenerativeVerifier] | None = None
        self._kept = lru_cache(maxsize=256)(self.score)

    def close(self) -> None:
        """Wait for the text that is being scored, and drop those that wait."""
        self._worker.shutdown(cancel_futures=True)

    def rounds(self) -> list[int]:
        """Rounds with a saved verifier."""
        verifiers = self._run.folder.rounds("verifier")
        return [
            index for index, place in verifiers.items() if is_verifier(place) or ScoreVerifierSettings.is_in(place)
        ]

    def score(self, round_index: int, problem: str, solution: str) -> ScoredText:
        """
        Score a solution, and each of its prefixes that ends with a line, with the verifier of a round.

        Raises `ValueError` if a text is empty or too long, the verifier is missing or damaged, or too many texts wait.
        """
        _check(problem, solution)
        if round_index not in self.rounds():
            raise ValueError(f"The run has no verifier of round {round_index}; it has those of {self.rounds()}.")
        if not self._room.acquire(blocking=False):
            raise ValueError("Too many texts are waiting to be scored. Try again in a minute.")
        future = self._worker.submit(self._score, round_index, problem.strip(), solution.strip())
        future.add_done_callback(lambda _: self._room.release())
        try:
            return future.result(timeout=TIMEOUT_SECONDS)
        except FutureTimeoutError as err:
            future.cancel()
            raise ValueError(
                f"The score was not ready after {TIMEOUT_SECONDS:.0f} s. Try a shorter text, or a machine with more"
                " cores."
            ) from err

    def step_scores(self, round_index: int, problem: str, solution: str) -> list[float]:
        """Score a solution after each step, as [`score`] does; the last texts' scores are kept."""
        return [score for _, score in self._kept(round_index, problem, solution).steps]

    def _score(self, round_index: int, problem: str, solution: str) -> ScoredText:
        scorer = self._scorer(round_index)
        lines = solution.split("\n")
        ends = [end for end, line in enumerate(lines, start=1) if line.strip()]
        num_cut = scorer.num_cut
        scores = scorer([problem] * len(ends), ["\n".join(lines[:end]) for end in ends])
        index = self._run.index()
        compared = index.scores(round_index)
        return ScoredText(
            score=scores[-1],
            percentiles={kind: percentile(scores[-1], others) for kind, others in compared.items()},
            num_compared={kind: len(others) for kind, others in compared.items()},
            is_accepted=index.accepts(round_index, scores[-1]),
            steps=[(lines[end - 1], score) for end, score in zip(ends, scores)],
            is_cut=scorer.num_cut > num_cut,
            damage=index.damage,
        )

    def _scorer(self, round_index: int) -> VerifierScorer | GenerativeVerifier:
        if self._loaded is None or self._loaded[0] != round_index:
            place = self._run.folder.player("verifier", round_index)
            for damage in find_damaged(place):
                raise damage
            self._loaded = (round_index, self._open(place, round_index))
        return self._loaded[1]

    def _open(self, place: Path, round_index: int) -> VerifierScorer | GenerativeVerifier:
        if not ScoreVerifierSettings.is_in(place):
            return VerifierScorer.from_pretrained(place, device="cpu")
        recipe = self._run.recipe.for_round(round_index)
        # The same settings and seed as in the game, so that a text of the game gets the same score.
        score = recipe.verifier.score_settings
        return GenerativeVerifier.from_pretrained(
            place,
            device="cpu",
            num_analyses=score.num_analyses,
            estimate=score.estimate,
            seed=recipe.seed,
            show_progress=False,
        )


def _check(problem: str, solution: str) -> None:
    for name, text, limit in (
        ("problem", problem, MAX_PROBLEM_CHARACTERS),
        ("solution", solution, MAX_SOLUTION_CHARACTERS),
    ):
        if not text.strip():
            raise ValueError(f"The {name} is empty; type one.")
        if len(text) > limit:
            raise ValueError(f"The {name} has {len(text):,} characters; at most {limit:,} are scored.")
    num_lines = solution.strip().count("\n") + 1
    if num_lines > MAX_STEPS:
        raise ValueError(f"The solution has {num_lines} lines; at most {MAX_STEPS} are scored, each as a step.")
