"""Settings of an attack: the verifier, the fresh attackers, and the recipe of each of them."""

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.fields import MayChange, marked_keys, without_keys
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.recipe import merge
from pvg_hf.config.sections import AttackSettings, SneakySees, StoppingConfig
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.integrity import digest_files
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.problems import GameProblems
from pvg_hf.experimental.attacks.exploit import exploit_rule, exploit_stopping
from pvg_hf.run.layout import RunFolder

CAP_FACTOR = 4  # times the planned steps of a prover phase

_VERIFIER_FILES = (
    "*.safetensors",
    "*config.json",
    "tokenizer.json",
    "verifier_input.json",
    "score_verifier.json",
    "calibration.json",
)

# A run of one round, of which nothing is published or reported to a tracker.
SIDE_RUN: dict[str, Any] = {
    "sweep": None,
    "arms": None,
    "attack": None,
    "num_rounds": 1,
    "rounds": {},
    "resume_from_hub": None,
    "hub": {"push": False},
    "logging": {"report_to": []},
}

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
        round_index: Round of the verifier.
        digest: Hash of everything else that its result depends on: the verifier's files, the score to reach and the
            recipe.
    """

    round_index: int
    reward: str
    algorithm: str
    seed: int
    max_steps: int
    digest: str = ""

    @property
    def name(self) -> str:
        """Name of its folder, another one for another verifier or recipe."""
        reward = re.sub(r"[^\w.-]", "-", self.reward)
        name = f"{round_name(self.round_index)}-{reward}-{self.algorithm}-seed-{self.seed}-of-{self.max_steps}"
        return f"{name}-{self.digest}" if self.digest else name

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
        round_index: Its round, which names the attacks.
        folder: Its folder, with weights and calibration.
        models: Folder of initial weights that the run made itself; need not exist.
        recipe: Recipe of its round: task, split, and the prover that the attackers start from.
        helpful_score: Mean score of the helpful correct solutions that an attacker must reach; measured on the base
            prover's solutions if it is not given.
    """

    round_index: int
    folder: Path
    models: Path
    recipe: Recipe
    helpful_score: float | None = None

    @cached_property
    def digest(self) -> str:
        """Hash of the files that determine its scores and its threshold."""
        return digest_files(path for name in _VERIFIER_FILES for path in sorted(self.folder.glob(name)))

    def attacks(self, settings: AttackSettings) -> list[Attack]:
        """List the attacks on this verifier, seed by seed."""
        cap = settings.max_steps or CAP_FACTOR * self.recipe.prover.max_steps
        attacks = [
            Attack(self.round_index, reward, algorithm, seed, cap)
            for seed in settings.seeds
            for algorithm in settings.algorithms
            for reward in settings.rewards
        ]
        return [replace(attack, digest=self._attack_digest(attack, settings)) for attack in attacks]

    def _attack_digest(self, attack: Attack, settings: AttackSettings) -> str:
        recipe = self.attacker_recipe(attack, settings).to_dict()
        read = {
            "recipe": without_keys(recipe, [key for key in marked_keys(Recipe, MayChange) if "." not in key]),
            "problems": [self.recipe.seed, settings.num_problems],
            "verifier": [self.digest, self.helpful_score],
        }
        return blake2b(json.dumps(read, sort_keys=True).encode(), digest_size=4).hexdigest()

    def attacker_recipe(self, attack: Attack, settings: AttackSettings) -> Recipe:
        """
        Return the recipe of an attacker: a prover phase of the sneaky role alone, with a seed of its own.

        The problems are not loaded from it: they are split by the seed of the verifier's recipe, so that the attacker
        is trained on the same problems as the provers of the game.

        Raises `RecipeError` if the reward or the algorithm does not fit the recipe.
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
        task = {"honest_source": "dataset", "sneaky_sees": self._shown(settings)}  # an attacker has no helpful role
        changes = {"name": "attack", "seed": seed, "task": task, "prover": prover}
        recipe = load_recipe(merge(merge(values, _OVERRIDES), changes))
        return replace(recipe, stopping=self._criterion(attack.reward, recipe.prover, settings.ema))

    def problems(self, settings: AttackSettings) -> GameProblems:
        """Load the problems of the verifier's game, with the prompts of its attackers."""
        return GameProblems.load(
            replace(self.recipe, task=replace(self.recipe.task, sneaky_sees=self._shown(settings)))
        )

    def _shown(self, settings: AttackSettings) -> SneakySees:
        return settings.sneaky_sees or self.recipe.task.sneaky_sees

    def _criterion(self, reward: str, attacker: ProverConfig, ema: float | None) -> StoppingConfig:
        """
        Return when the verifier counts as exploited.

        Unless `ema` is given, means are smoothed over as many steps as those of the game's own prover phases. The cap
        has no influence, so that a higher one only shows exploits that a lower one misses.
        """
        batches_of_a_phase = replace(attacker, max_steps=self.recipe.prover.max_steps).num_batches
        return exploit_stopping(
            exploit_rule(reward),
            ema=ema or self.recipe.stopping.newest_weight(batches_of_a_phase),
            window=min(self.recipe.stopping.accuracy_window(batches_of_a_phase), attacker.num_batches),
        )


@dataclass(frozen=True)
class AttackFolder(RunFolder):
    """
    Folder of one attack: that of a run whose only phase is the attacker's training, and whose verifier is elsewhere.

    Args:
        verifier_folder, models_folder: Folders of the attacked verifier, and of the initial weights that its run made.
    """

    verifier_folder: Path
    models_folder: Path

    @cached_property
    def models(self) -> Path:
        return self.models_folder

    def verifier(self, round_index: int) -> Path:
        return self.verifier_folder
