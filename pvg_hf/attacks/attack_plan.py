"""Settings of an attack: the verifier, the fresh attackers, and the recipe of each of them."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.recipe import merge
from pvg_hf.config.sections import AttackSettings, StoppingConfig
from pvg_hf.config.side_run import SIDE_RUN
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.schema import round_name
from pvg_hf.evaluation.exploit import exploit_rule, exploit_stopping
from pvg_hf.run.folder import RunFolder

CAP_FACTOR = 4  # times the planned steps of a prover phase

# An attacker's phase is judged by its curve: nothing but the criterion may end it.
_OVERRIDES: dict[str, Any] = {
    **SIDE_RUN,
    "logging": {"report_to": [], "progress": False},
    "watchdogs": {
        "collapse_recovery": "none",
        "goodharting": "alert",
        "false_positives": "alert",
        "max_truncated": 1.0,
    },
}


@dataclass(frozen=True, order=True)
class Attack:
    """
    One fresh attacker.

    Args:
        round_index (`int`):
            Round of the verifier.
        reward (`str`), algorithm (`str`):
            Reward and algorithm of the attacker.
        seed (`int`):
            Its seed.
        max_steps (`int`):
            The cap.
    """

    round_index: int
    reward: str
    algorithm: str
    seed: int
    max_steps: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        reward = re.sub(r"[^\w.-]", "-", self.reward)
        return f"{round_name(self.round_index)}-{reward}-{self.algorithm}-seed-{self.seed}-of-{self.max_steps}"

    @property
    def reference(self) -> "Attack":
        """The attack itself: none depends on another one."""
        return self

    def __str__(self) -> str:
        return f"round {self.round_index}, {self.reward} by {self.algorithm}, seed {self.seed}"


def kind_of(attack: Attack) -> str:
    """Name the kind of an attack, which its seeds share: its reward, and its algorithm if that is not GRPO."""
    return attack.reward if attack.algorithm == "grpo" else f"{attack.reward}/{attack.algorithm}"


@dataclass(frozen=True)
class AttackedVerifier:
    """
    A frozen verifier, and what its attackers need.

    Args:
        round_index (`int`):
            Its round, which names the attacks.
        folder (`Path`):
            Its folder, with weights and calibration.
        models (`Path`):
            Folder of initial weights that the run made itself; need not exist.
        recipe ([`Recipe`]):
            Recipe of its round: task, split, and the prover that the attackers start from.
        helpful_score (`float`, *optional*):
            Mean score of the helpful correct solutions that an attacker must reach; measured on the base prover's
            solutions if it is not given.
    """

    round_index: int
    folder: Path
    models: Path
    recipe: Recipe
    helpful_score: float | None = None

    def attacks(self, settings: AttackSettings) -> list[Attack]:
        """List the attacks on this verifier, seed by seed."""
        cap = settings.max_steps or CAP_FACTOR * self.recipe.prover.max_steps
        return [
            Attack(self.round_index, reward, algorithm, seed, cap)
            for seed in settings.seeds
            for algorithm in settings.algorithms
            for reward in settings.rewards
        ]

    def attacker_recipe(self, attack: Attack) -> Recipe:
        """
        Return the recipe of an attacker: a prover phase of the sneaky role alone, with a seed of its own.

        The problems are not loaded from it: they are split by the seed of the verifier's recipe, so that the attacker
        is trained on the same problems as the provers of the game.

        Raises:
            RecipeError: if the reward or the algorithm does not fit the recipe.
        """
        same_algorithm = attack.algorithm == self.recipe.prover.algorithm
        prover = {
            "roles": "sneaky_only",
            "helpful_max_steps": None,
            "init": "base",
            "reward": attack.reward,
            "reward_options": self.recipe.prover.reward_options if attack.reward == self.recipe.prover.reward else {},
            "reward_correction": "none",
            "self_evaluation": None,
            "algorithm": attack.algorithm,
            "max_steps": attack.max_steps,
            **({} if same_algorithm else {"ppo": None, "save_steps": "auto"}),
        }
        # Sections are emptied here, because in a merge `{}` keeps the entries of a section.
        values = {**self.recipe.to_dict(), "noise": {}, "rates": {}, "stopping": {}}
        seed = derive_seed(self.recipe.seed, "attack", attack.seed)
        task = {"honest_source": "dataset"}  # an attacker has no helpful role
        changes = {"name": "attack", "seed": seed, "task": task, "prover": prover}
        recipe = load_recipe(merge(merge(values, _OVERRIDES), changes))
        return replace(recipe, stopping=self._criterion(attack.reward, recipe.prover))

    def _criterion(self, reward: str, attacker: ProverConfig) -> StoppingConfig:
        """
        Return when the verifier counts as exploited.

        Means are smoothed over as many steps as those of the game's own prover phases. The cap has no influence, so that
        a higher one only shows exploits that a lower one misses.
        """
        batches_of_a_phase = replace(attacker, max_steps=self.recipe.prover.max_steps).num_batches
        return exploit_stopping(
            exploit_rule(reward),
            ema=self.recipe.stopping.newest_weight(batches_of_a_phase),
            window=min(self.recipe.stopping.accuracy_window(batches_of_a_phase), attacker.num_batches),
        )


@dataclass(frozen=True)
class AttackFolder(RunFolder):
    """
    Folder of one attack: that of a run whose only phase is the attacker's training, and whose verifier is elsewhere.

    Args:
        root (`Path`):
            Folder of the attack.
        verifier_folder (`Path`), models_folder (`Path`):
            Folders of the attacked verifier, and of the initial weights that its run made.
    """

    verifier_folder: Path
    models_folder: Path

    @cached_property
    def models(self) -> Path:
        return self.models_folder

    def verifier(self, round_index: int) -> Path:
        return self.verifier_folder
