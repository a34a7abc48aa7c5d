"""The section `noise` of a recipe: labels that flip, and when."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, field_serializer, model_validator

from pvg_hf.config.checker import CheckerConfig
from pvg_hf.config.fields import AtLeastTwo, Count, CountOrZero, FlipRate, Share, section


@section
class ScheduleConfig:
    """How the rates change: a factor of `rho0` and `rho1`."""

    kind: Literal["constant", "linear", "cosine", "cyclic"] = Field(
        "linear", description="`linear` and `cosine` go from `start` to `end` and stay there, `cyclic` to and fro."
    )
    over: Literal["rounds", "steps"] = Field(
        "rounds",
        description="`rounds`: the solutions of the base prover are moment 0, those of round k moment k + 1, and keep the labels that "
        "they get. `steps`: of a player's training, on clean labels of the pool.",
    )
    start: Share = Field(0.0, description="Factor at first.")
    end: Share = Field(1.0, description="Factor at last; `constant` has it throughout.")
    warmup: CountOrZero = Field(0, description="Rounds or steps at `start`.")
    length: Count | None = Field(None, description="Rounds or steps from `start` to `end`, of `linear` and `cosine`.")
    period: AtLeastTwo | None = Field(None, description="Rounds or steps from `start` to `end` and back, of `cyclic`.")

    @model_validator(mode="after")
    def _check(self) -> "ScheduleConfig":
        for name, kinds in (("length", ("linear", "cosine")), ("period", ("cyclic",))):
            if (asdict(self)[name] is not None) != (self.kind in kinds):
                verb = "needs" if self.kind in kinds else "does not take"
                raise ValueError(f"the schedule `{self.kind}` {verb} `{name}`")
        return self


@section
class NoiseConfig:
    """Whose labels are wrong, and how: flips at given rates, or a checker that errs. Judging takes clean labels."""

    epsilon: Annotated[float, Field(ge=0, lt=0.5)] | None = Field(
        None, description="One rate for both: `rho0 = rho1 = epsilon`."
    )
    rho0: FlipRate = Field(0.0, description="P(label 1 | truth 0): how often an incorrect solution is called correct.")
    rho1: FlipRate = Field(0.0, description="P(label 0 | truth 1); `rho0 + rho1` must stay below 1.")
    level: Literal["label", "pair"] = Field(
        "label",
        description="`label` flips the label of each solution by itself. `pair` leaves labels alone and turns pairs round, at "
        "one rate (`rho0` = `rho1`), in the verifier's training.",
    )
    resample: Literal["fixed", "epoch", "step"] = Field(
        "fixed",
        description="`fixed` draws once for each text of a problem, in all rounds. At `level: label` that is before pairs are "
        "built: they are of what the flipped labels say, so that both sides may be correct, or incorrect. `epoch` and `step` draw anew in each of the verifier's "
        "training, on pairs of clean labels: one flip makes a tie, which Bradley-Terry leaves out (cross-entropy learns both "
        "labels), two turn the pair round.",
    )
    applies_to: Literal["verifier", "prover", "both"] = Field(
        "verifier",
        description="Whose labels are noisy: those that the verifier learns from, those that the prover's reward reads as "
        "correctness, or both.",
    )
    soft_labels: bool = Field(
        False,
        description="Tell the verifier the mean of its noisy labels in place of a draw: clean pairs at `1 - rho1` and `rho0`, "
        "which in Bradley-Terry is `correction: smoothing`.",
    )
    schedule: ScheduleConfig | None = Field(None, description="How the rates change; they are constant without it.")
    checker: CheckerConfig | None = Field(
        None, description="A checker that errs, in place of the rates; `{}` is one with all defaults."
    )

    @model_validator(mode="after")
    def _check(self) -> "NoiseConfig":
        self._check_rates()
        self._check_mode()
        return self

    def _check_rates(self) -> None:
        if self.epsilon is not None:
            if (self.rho0, self.rho1) not in ((0, 0), (self.epsilon, self.epsilon)):  # the latter if checked again
                raise ValueError("give either `epsilon` or `rho0` and `rho1`, not both")
            self.rho0 = self.rho1 = self.epsilon
        if self.rho0 + self.rho1 >= 1:
            raise ValueError(f"`rho0 + rho1` must be below 1; got {self.rho0 + self.rho1}")

    def _check_mode(self) -> None:
        """What contradicts what: a pair, an epoch and a soft label are the verifier's training's alone."""
        of_training = [
            name
            for name, is_set in {
                "level: pair": self.level == "pair",
                f"resample: {self.resample}": self.resample != "fixed",
                "soft_labels": self.soft_labels,
            }.items()
            if is_set
        ]
        if self.checker is not None:
            others = [*of_training, *(name for name in ("rho0", "rho1", "schedule") if asdict(self)[name])]
            if others:
                raise ValueError(
                    f"`checker` has rates of its own and gives labels one by one; leave out {_listed(others)}"
                )
        if of_training and self.applies_to != "verifier":
            raise ValueError(
                f"{_listed(of_training)} is for the verifier's training; `applies_to` must then be `verifier`"
            )
        if self.soft_labels and len(of_training) > 1:
            raise ValueError(f"`soft_labels` draws nothing; leave out {_listed(of_training[:-1])}")

    @property
    def is_for_verifier(self) -> bool:
        return self.applies_to != "prover"

    @property
    def is_for_prover(self) -> bool:
        return self.applies_to != "verifier"

    @property
    def is_any(self) -> bool:
        """Whether there is any: a checker, or a rate above 0."""
        return self.checker is not None or self.rho0 + self.rho1 > 0

    @property
    def flips_in_training(self) -> bool:
        """Whether the labels of the pool are clean, and the verifier's trainer makes them noisy."""
        return self.level == "pair" or self.resample != "fixed" or self.soft_labels or self.is_by_step

    @property
    def is_by_step(self) -> bool:
        """Whether the rates change in each step of a player's training."""
        return self.schedule is not None and self.schedule.over == "steps"

    @field_serializer("rho0", "rho1")
    def _as_stated(self, rate: float) -> float:
        """What follows from `epsilon` is not stated beside it, so that the written recipe can be read back."""
        return rate if self.epsilon is None else 0.0


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def restate_rates(stated: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Values of `noise` in the terms in which `override` states its rates, so that it can be put over them."""
    has_rates = "rho0" in override or "rho1" in override
    if override.get("epsilon") is not None and not has_rates:
        return {key: value for key, value in stated.items() if key not in ("rho0", "rho1")}
    epsilon = stated.get("epsilon")
    if has_rates and "epsilon" not in override and epsilon is not None:
        return {**stated, "epsilon": None, "rho0": epsilon, "rho1": epsilon}
    return stated
