"""The recipe: all settings of a game."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import Field, TypeAdapter, ValidationInfo, field_validator

from pvg_hf.config import fields as f
from pvg_hf.config import sections as s

NOT_PUBLISHED = "(a local path, which is not published)"
"""Replaces a path on the publisher's machine in a published recipe. To continue the run, set your own path."""


@s.section
class Recipe:
    """A game's recipe. A file only states what differs from these defaults."""

    name: f.RunName = Field(
        "game",
        description="Name of the run and of its folder: letters, digits, `_`, `.` and `-`.",
    )
    seed: Annotated[f.Seed, f.Decides()] = Field(0, description="Seed that every random draw derives from.")
    num_rounds: f.NumRounds = Field(2, description="Rounds to play; may be raised when the run is continued.")
    output_dir: f.FilePath = Field("runs", description="Folder in which the run's folder is created.")
    device: Annotated[str, f.Decides("use_cpu")] = Field(
        "auto", pattern=r"^(auto|cpu|cuda)$", description="`cpu`, `cuda`, or `auto`: a GPU if there is one."
    )
    resume_from_hub: str | None = Field(
        None,
        description="`NAMESPACE/RUN`: if the run's folder does not exist yet, start from the last published round.",
    )
    task: s.TaskConfig = Field(default_factory=s.TaskConfig)
    split: s.SplitConfig = Field(default_factory=s.SplitConfig)
    bootstrap: s.BootstrapConfig = Field(default_factory=s.BootstrapConfig)
    data: s.DataConfig = Field(default_factory=s.DataConfig)
    noise: s.NoiseConfig = Field(default_factory=s.NoiseConfig)
    rates: s.RatesConfig = Field(default_factory=s.RatesConfig)
    verifier: s.VerifierConfig = Field(default_factory=s.VerifierConfig)
    prover: s.ProverConfig = Field(default_factory=s.ProverConfig)
    stopping: s.StoppingConfig = Field(default_factory=s.StoppingConfig)
    watchdogs: s.WatchdogConfig = Field(default_factory=s.WatchdogConfig)
    mint: s.MintConfig = Field(default_factory=s.MintConfig)
    evaluation: s.EvaluationConfig = Field(default_factory=s.EvaluationConfig)
    logging: s.LoggingConfig = Field(default_factory=s.LoggingConfig)
    hub: s.HubConfig = Field(default_factory=s.HubConfig)
    sweep: s.SweepConfig | None = Field(
        None, description="What `scripts/sweep_noise.py` varies; a single game ignores this section."
    )
    arms: s.ArmsConfig | None = Field(
        None,
        description="What `experiments/arms.py` compares; a single game ignores this section.",
    )
    attack: s.AttackConfig | None = Field(
        None, description="The verifier that `scripts/attack_verifier.py` attacks; a single game ignores this section."
    )
    rounds: dict[f.CountOrZero, dict[str, Any]] = Field(
        default_factory=dict,
        description="Sections to override in single rounds, by round index from 0, e.g. `{1: {prover: {beta: 0.1}}}`.",
    )

    @field_validator("rounds")
    @classmethod
    def _check_rounds(cls, rounds: dict[int, dict[str, Any]], info: ValidationInfo) -> dict[int, dict[str, Any]]:
        num_rounds = info.data.get("num_rounds")  # missing if it is invalid itself
        beyond = [str(index) for index in rounds if num_rounds is not None and index >= num_rounds]
        if beyond:
            raise ValueError(
                f"round {', '.join(beyond)} would never be played, as `num_rounds` is {num_rounds} and the first round is 0; "
                "raise `num_rounds` or remove the override"
            )
        return rounds

    @property
    def players(self) -> dict[str, s.PlayerConfig]:
        """The sections `prover` and `verifier`, by name."""
        return {"prover": self.prover, "verifier": self.verifier}

    def player(self, name: str) -> s.PlayerConfig:
        """Return the section of `prover` or `verifier`."""
        return self.players[name]

    def for_round(self, round_index: int) -> "Recipe":
        """Return the recipe with the overrides of a round applied."""
        if round_index not in self.rounds:
            return self
        return RECIPE_ADAPTER.validate_python(values_of_round(self.to_dict(), self.rounds[round_index]))

    def unpublished_paths(self) -> list[str]:
        """List the keys (`section.key`) with the value [`NOT_PUBLISHED`], also within a list."""
        return list(_keys_of(NOT_PUBLISHED, self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for YAML; `load_recipe` reads them back to an equal recipe."""
        return RECIPE_ADAPTER.dump_python(self, mode="json")


RECIPE_ADAPTER: TypeAdapter[Recipe] = TypeAdapter(Recipe)


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
        clears = value == {} and key in _free_mappings()
        is_section = isinstance(value, dict) and isinstance(merged.get(key), dict) and not clears
        # `epsilon` and `rho0`/`rho1` are two forms of the same rates; an override in one form replaces the other.
        if is_section and key == "noise":
            merged[key] = s.restate_rates(merged[key], value)
        merged[key] = merge(merged[key], value) if is_section else value
    return merged


@cache
def _free_mappings() -> frozenset[str]:
    """Find the keys with mappings whose names the recipe does not define, such as `prover.reward_options`."""
    found, todo, seen = set(), [Recipe], {Recipe}
    while todo:
        for field in fields(todo.pop()):
            options = [field.type, *get_args(field.type)]
            found |= {field.name for option in options if get_origin(option) is dict}
            sections = [
                o for option in options for o in (option, *get_args(option)) if isinstance(o, type) and is_dataclass(o)
            ]
            todo += [section for section in sections if section not in seen]
            seen.update(sections)
    return frozenset(found)
