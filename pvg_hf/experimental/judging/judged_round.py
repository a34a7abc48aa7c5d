"""Input of an evaluation: the folder, recipe, problems, players and seeds of one finished round."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pvg_hf.config import Recipe
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.roles import Role
from pvg_hf.core.score_calibration import ScoreCalibration
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PlayerLoader
from pvg_hf.game.honest_solutions import read_honest_solutions
from pvg_hf.run.layout import JUDGING, PhaseKey, RunFolder, pool_file, pool_test_file
from pvg_hf.run.resume import damage_of, read_played_recipe
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer


@dataclass(frozen=True)
class JudgedRun:
    """
    A run whose rounds are evaluated: played on this machine, or pulled from the Hub.

    Args:
        recipe: Recipe of the run. `name` and `output_dir` are those of the folder.
    """

    folder: RunFolder
    recipe: Recipe

    @classmethod
    def open(cls, root: Path) -> "JudgedRun":
        """
        Open a run's folder.

        Raises `ValueError` if it is not a run folder.
        Raises `DamagedFileError` if its recipe is damaged.
        """
        folder = RunFolder.find(root)
        place = {"name": root.absolute().name, "output_dir": str(root.absolute().parent)}
        return cls(folder, replace(read_played_recipe(folder), **place))

    @cached_property
    def problems(self) -> GameProblems:
        """The task and its problems."""
        return GameProblems.load(self.recipe)

    def round(self, round_index: int) -> "JudgedRound":
        return JudgedRound(self, round_index)

    def seed(self, *path: object) -> int:
        """Derive a seed from the run's seed and a path of names, for what is the same in all rounds."""
        return derive_seed(self.recipe.seed, JUDGING, *path)


@dataclass(frozen=True)
class JudgedRound:
    """A round to evaluate."""

    run: JudgedRun
    round_index: int

    @property
    def folder(self) -> RunFolder:
        return self.run.folder

    @cached_property
    def problems(self) -> GameProblems:
        """The task and its problems, with the round's prompts, which show what those of minting showed."""
        problems = self.run.problems.for_round(self.recipe)
        if not self.recipe.task.shows_own_solutions:
            return problems
        pool = self.folder.pool(self.round_index)
        written = [
            file for file in (pool / pool_file(Role.HELPFUL), pool / pool_test_file(Role.HELPFUL)) if file.exists()
        ]
        return problems.showing(read_honest_solutions(problems.task, written) if written else {})

    @cached_property
    def recipe(self) -> Recipe:
        """Recipe with the round's overrides applied."""
        return self.run.recipe.for_round(self.round_index)

    @cached_property
    def players(self) -> PlayerLoader:
        return PlayerLoader(self.recipe, self.folder)

    @property
    def acceptance(self) -> Acceptance:
        """The verifier's rule of acceptance, from its held-out solutions."""
        return ScoreCalibration.require(self.folder.verifier(self.round_index)).acceptance()

    def scorer(self) -> VerifierScorer | GenerativeVerifier:
        """Load the round's verifier."""
        return self.players.scorer(self.round_index)

    def seed(self, *path: object) -> int:
        """Derive a seed from the run's seed, the round and a path of names."""
        return derive_seed(self.run.recipe.seed, round_name(self.round_index), JUDGING, *path)

    def find_missing(self, phases: tuple[str, ...]) -> str | None:
        """Describe the first of the named phases whose results are missing or damaged; `None` if all are complete."""
        for name in phases:
            key = PhaseKey(name, self.round_index)
            target = key.target(self.folder)
            if not target.exists():
                return f"the phase `{key}` has no results in {self.folder.root}"
            damage = damage_of(key, target, is_needed=True)
            if damage is not None:
                return str(damage)
        return None
