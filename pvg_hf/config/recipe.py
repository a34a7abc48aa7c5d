"""The recipe: all settings of a game."""

from collections.abc import Iterator
from dataclasses import field, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import Field, InstanceOf, TypeAdapter, ValidationInfo, field_validator
from pydantic.json_schema import SkipJsonSchema

from pvg_hf.config import fields as f
from pvg_hf.config import sections as s
from pvg_hf.config.noise_section import NoiseConfig, restate_rates
from pvg_hf.config.player_sections import PlayerConfig, ProverConfig, RatesConfig, VerifierConfig
from pvg_hf.core.extensions import Effect

NOT_PUBLISHED = "(a local path, which is not published)"
"""Replaces a path on the publisher's machine in a published recipe. To continue the run, set your own path."""


class Origin(NamedTuple):
    """
    Origin of the recipe of a pulled run.

    Args:
        folder: The run's folder, which records what the user trusts.
        stated: Keys that the user set in overrides.
    """

    folder: Path
    stated: frozenset[str]


@f.section
class Recipe:
    """A game's recipe. A file only states what differs from these defaults."""

    name: Annotated[f.RunName, f.WholeGame(), f.AfterBootstrap()] = "game"
    """Name of the run and of its folder: letters, digits, `_`, `.` and `-`."""
    seed: Annotated[f.Seed, f.Decides(), f.WholeGame()] = 0
    """Seed that every random draw derives from."""
    num_rounds: Annotated[f.NumRounds, f.WholeGame(), f.MayChange(), f.AfterBootstrap()] = 2
    """Rounds to play; in a started run they may only grow."""
    output_dir: Annotated[f.FilePath, f.WholeGame(), f.MayChange(), f.AfterBootstrap(), f.Asks(Effect.WRITES)] = "runs"
    """Folder in which the run's folder is created."""
    device: Annotated[str, f.Decides("use_cpu"), f.WholeGame()] = Field("auto", pattern=r"^(auto|cpu|cuda)$")
    """`cpu`, `cuda`, or `auto`: a CUDA GPU if there is one. Apple's GPUs (MPS) are not used."""
    resume_from_hub: Annotated[str | None, f.WholeGame(), f.MayChange(), f.AfterBootstrap(), f.Asks(Effect.READS)] = (
        None
    )
    """`NAMESPACE/RUN`: if the run's folder does not exist yet, start from the last published round."""
    task: s.TaskConfig = Field(default_factory=s.TaskConfig)
    split: Annotated[s.SplitConfig, f.WholeGame()] = Field(default_factory=s.SplitConfig)
    bootstrap: Annotated[s.BootstrapConfig, f.WholeGame()] = Field(default_factory=s.BootstrapConfig)
    data: s.DataConfig = Field(default_factory=s.DataConfig)
    noise: NoiseConfig = Field(default_factory=NoiseConfig)
    rates: Annotated[RatesConfig, f.AfterBootstrap("verifier")] = Field(default_factory=RatesConfig)
    verifier: VerifierConfig = Field(default_factory=VerifierConfig)
    prover: ProverConfig = Field(default_factory=ProverConfig)
    stopping: s.StoppingConfig = Field(default_factory=s.StoppingConfig)
    watchdogs: Annotated[s.WatchdogConfig, f.AfterBootstrap()] = Field(default_factory=s.WatchdogConfig)
    mint: s.MintConfig = Field(default_factory=s.MintConfig)
    evaluation: Annotated[s.EvaluationConfig, f.AfterBootstrap("evaluate")] = Field(default_factory=s.EvaluationConfig)
    logging: Annotated[s.LoggingConfig, f.MayChange(), f.AfterBootstrap()] = Field(default_factory=s.LoggingConfig)
    hub: Annotated[s.HubConfig, f.WholeGame(), f.MayChange(), f.AfterBootstrap()] = Field(default_factory=s.HubConfig)
    sweep: Annotated[s.SweepConfig | None, f.WholeGame(), f.MayChange(), f.AfterBootstrap()] = None
    """Settings that `pvg sweep` varies; a single game ignores this section."""
    arms: Annotated[s.ArmsConfig | None, f.WholeGame(), f.MayChange(), f.AfterBootstrap()] = None
    """Checkers that `experiments/arms.py` compares; a single game ignores this section."""
    attack: Annotated[s.AttackConfig | None, f.WholeGame(), f.MayChange(), f.AfterBootstrap()] = None
    """The verifier that `pvg attack` attacks; a single game ignores this section."""
    rounds: Annotated[dict[f.CountOrZero, dict[str, Any]], f.WholeGame(), f.AfterBootstrap()] = Field(
        default_factory=dict
    )
    """Sections to override in single rounds, by round index from 0, e.g. `{1: {prover: {beta: 0.1}}}`."""
    # No key: set when the recipe of a pulled run is loaded, and kept by `replace`. `None` is the user's own recipe.
    origin: Annotated[SkipJsonSchema[InstanceOf[Origin] | None], Field(exclude=True)] = field(
        default=None, compare=False, repr=False
    )

    @field_validator("rounds")
    @classmethod
    def _check_rounds(cls, rounds: dict[int, dict[str, Any]], info: ValidationInfo) -> dict[int, dict[str, Any]]:
        num_rounds = info.data.get("num_rounds")  # missing if it is invalid itself
        beyond = [str(index) for index in rounds if num_rounds is not None and index >= num_rounds]
        if any("rounds" in override for override in rounds.values()):
            raise ValueError("a round cannot have `rounds` of its own; remove them")
        if beyond:
            raise ValueError(
                f"round {', '.join(beyond)} would never be played, as `num_rounds` is {num_rounds} and the first round"
                " is 0; raise `num_rounds` or remove the override"
            )
        return rounds

    @property
    def players(self) -> dict[str, PlayerConfig]:
        """The sections `prover` and `verifier`, by name."""
        return {"prover": self.prover, "verifier": self.verifier}

    def player(self, name: str) -> PlayerConfig:
        """Return the section of `prover` or `verifier`."""
        return self.players[name]

    def for_round(self, round_index: int) -> "Recipe":
        """Return the recipe with the overrides of a round applied."""
        if round_index not in self.rounds:
            return self
        values = values_of_round(self.to_dict(), self.rounds[round_index])
        return replace(RECIPE_ADAPTER.validate_python(values), origin=self.origin)

    def unpublished_paths(self) -> list[str]:
        """List the keys (`section.key`) with the value [`NOT_PUBLISHED`], also within a list."""
        return list(_keys_of(NOT_PUBLISHED, self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for YAML; `load_recipe` reads them back to an equal recipe."""
        return _plain(RECIPE_ADAPTER.dump_python(self))


RECIPE_ADAPTER: TypeAdapter[Recipe] = TypeAdapter(Recipe)


def _plain(value: Any) -> Any:
    """Convert to what YAML writes, which keeps the type of a mapping's keys as JSON would not."""
    if isinstance(value, dict):
        return {_plain(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.value if isinstance(value, Enum) else value


def values_of_round(values: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe's plain values with the override of a single round applied."""
    return merge({**values, "rounds": {}}, override)


def _keys_of(wanted: str, value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _keys_of(wanted, part, f"{key}.{name}".lstrip("."))
    elif value == wanted or (isinstance(value, list) and wanted in value):
        yield key


def merge(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Merge the leaves of `override` into a copy of `base`; `{}` clears a mapping that is not a section."""
    merged = dict(base)
    for key, value in override.items():
        # For a section, `{}` means its defaults; for a free mapping it means no entries.
        clears = value == {} and key in _free_mappings(Recipe)
        is_section = isinstance(value, dict) and isinstance(merged.get(key), dict) and not clears
        # `epsilon` and `rho0`/`rho1` are two forms of the same rates; an override in one form replaces the other.
        if is_section and key == "noise":
            merged[key] = restate_rates(merged[key], value)
        merged[key] = merge(merged[key], value) if is_section else value
    return merged


def leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten `{"a": {"b": 1}}` to `{"a.b": 1}`; empty sections are dropped."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


@cache
def _free_mappings(config: type) -> frozenset[str]:
    """Find the keys with mappings whose names a section does not define, such as `prover.reward_options`."""
    kinds = {name: info.annotation for name, info in f.fields_of(config).items()}
    found = [name for name, kind in kinds.items() if dict in (get_origin(kind), *map(get_origin, get_args(kind)))]
    return frozenset(found).union(*(_free_mappings(inner) for _, inner in f.sections_of(config)))


def list_memory_settings(recipe: Recipe, phase: str) -> str:
    """List the settings that could still lower a phase's peak memory, with their values, most effective first."""
    chosen = [
        (key, mark)
        for key, mark in sorted(f.marks_of(Recipe, f.LowersMemory), key=lambda pair: pair[1].rank)
        if phase in (mark.phases or key.split(".")[:1]) and (recipe.prover.has_critic or not mark.needs_critic)
    ]
    chosen = [(key, mark) for key, mark in chosen if not _is_made(mark.change, _value(recipe, key))]
    return "; ".join(f"`{key}` ({mark.change}, now {_value(recipe, key)})" for key, mark in chosen)


def _is_made(change: str, value: object) -> bool:
    """Whether a value is already the one that a change leads to."""
    return value == {"lower": 1, "add": True, "true": True}.get(change, change)


def _value(recipe: Recipe, key: str) -> object:
    """Value of a key, and for a section whether it is given."""
    value: Any = recipe
    for name in key.split("."):
        value = None if value is None else vars(value)[name]
    return value if value is None or isinstance(value, bool | int | str) else True
