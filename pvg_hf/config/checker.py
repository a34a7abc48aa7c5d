"""The section `noise.checker` of a recipe: a checker that errs, hangs and costs."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from pvg_hf.config.fields import Count, FlipRate, NonNegative, Positive, section

Policy = Literal["on_failure", "on_timeout", "always", "never"]
TierName = Literal["fast_noisy", "balanced", "slow_precise"]


@section
class DurationConfig:
    """How long an injected timeout lasts; at most the tier's time budget."""

    kind: Literal["fixed", "uniform", "exponential"] = Field(
        "fixed",
        description="`fixed` takes `ms`, `uniform` takes `min_ms` and `max_ms`, `exponential` takes `mean_ms`.",
    )
    ms: NonNegative | None = Field(None, description="Milliseconds, of `fixed`.")
    min_ms: NonNegative | None = Field(None, description="Least, of `uniform`.")
    max_ms: NonNegative | None = Field(None, description="Most, of `uniform`.")
    mean_ms: NonNegative | None = Field(None, description="Mean, of `exponential`.")

    @model_validator(mode="after")
    def _check(self) -> "DurationConfig":
        wanted = {"fixed": ("ms",), "uniform": ("min_ms", "max_ms"), "exponential": ("mean_ms",)}[self.kind]
        given = [name for name, value in asdict(self).items() if name != "kind" and value is not None]
        if sorted(given) != sorted(wanted):
            raise ValueError(f"`{self.kind}` takes `{'` and `'.join(wanted)}`; got {given}")
        if self.kind == "uniform" and self.min_ms > self.max_ms:
            raise ValueError(f"`min_ms` must not be above `max_ms`; got {self.min_ms:g} and {self.max_ms:g}")
        return self


@section
class TierConfig:
    """What differs from a tier's defaults."""

    timeout: FlipRate | None = Field(None, description="Share of all calls that time out; .10, .05, .01 by default.")
    spurious_fail: FlipRate | None = Field(
        None, description="Share of the calls about correct solutions that reject them; .05, .02, .005 by default."
    )
    spurious_pass: FlipRate | None = Field(
        None, description="Share of the calls about incorrect solutions that accept them; .02, .01, .001 by default."
    )
    budget_seconds: Positive | None = Field(
        None, description="Longest that a call may take; 30, 60 and 120 by default."
    )
    cost: Positive | None = Field(None, description="Of a call, in the unit of `budget`; 1, 2 and 4 by default.")
    timeout_duration: DurationConfig | None = Field(
        None, description="How long an injected timeout lasts; the whole time budget by default."
    )


@section
class TiersConfig:
    """The tiers, from the quick to the careful one."""

    fast_noisy: TierConfig = Field(default_factory=TierConfig, description="30 s, cost 1.")
    balanced: TierConfig = Field(default_factory=TierConfig, description="60 s, cost 2.")
    slow_precise: TierConfig = Field(default_factory=TierConfig, description="120 s, cost 4.")


@section
class SliceConfig:
    """What differs for the problems of one slice; its `tiers` are a section like `noise.checker.tiers`."""

    noise_enabled: bool | None = Field(None, description="Whether noise is injected.")
    tier: TierName | None = Field(None, description="The tier that is asked first.")
    escalation_policy: Policy | None = Field(None, description="When the next tier is asked.")
    max_attempts: Count | None = Field(None, description="Most calls for a solution.")
    tiers: TiersConfig = Field(default_factory=TiersConfig, description="Over the tiers of all slices.")


@section
class BudgetConfig:
    """What checks may cost. One that cannot be paid for is not made: the solution gets no label."""

    per_solution: Positive | None = Field(None, description="All calls for one solution.")
    per_round: Positive | None = Field(
        None, description="All calls of a round, in the order of the game: those in the prover's training come first."
    )
    total: Positive | None = Field(None, description="All calls of the game.")


@section
class CheckerConfig:
    """A checker that errs, in place of labels that flip."""

    base: str = Field(
        "grade",
        description="What is right: `grade`, the task's own; `command`; or a function `(problem, solution) -> bool` as "
        "`package.module:Name`, which runs in a process of its own and is killed at its time budget.",
    )
    command: list[str] = Field(
        default_factory=list,
        description="For `base: command`: program and arguments, with `{solution}` for a file with the text and `{problem}` for "
        "one with the problem as JSON. Exit code 0 accepts.",
    )
    env: list[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]] = Field(
        default_factory=list,
        description="Names of environment variables that a command or function sees besides those that programs need to run "
        "(`PATH`, `HOME`, `LANG`, ...). It sees no others: no token, key or password that is not listed here.",
    )
    noise_enabled: bool = Field(True, description="Whether noise is injected.")
    tiers: TiersConfig = Field(default_factory=TiersConfig, description="What differs from the tiers' defaults.")
    budget: BudgetConfig = Field(default_factory=BudgetConfig, description="What checks may cost.")
    tier: TierName | None = Field(
        None, description="The tier that is asked first: `balanced` if nothing escalates, else `fast_noisy`."
    )
    escalation_policy: Policy = Field(
        "never",
        description="When the next tier is asked: after anything but a pass, after a timeout, always, or never. The last word "
        "counts.",
    )
    max_attempts: Count = Field(3, description="Most calls for a solution.")
    critical: str | None = Field(
        None,
        description="Problems whose solutions go straight to `slow_precise`: a column that is true or false, a comparison "
        "(`difficulty >= 5`), or `package.module:Name` of a function of a problem.",
    )
    slice_by: str | None = Field(
        None,
        description="A column of the problems, e.g. `difficulty`, by whose values events and rates are told apart.",
    )
    slices: dict[str, SliceConfig] = Field(
        default_factory=dict, description="What differs for the problems of a slice, by the column's value."
    )
    clock: Literal["virtual", "real"] = Field(
        "virtual", description="`virtual` counts what timeouts last, `real` sleeps."
    )

    @field_validator("slices", mode="before")
    @classmethod
    def _with_text_keys(cls, slices: Any) -> Any:
        """YAML reads a difficulty as a number."""
        return {str(key): value for key, value in slices.items()} if isinstance(slices, dict) else slices

    @model_validator(mode="after")
    def _check(self) -> "CheckerConfig":
        if bool(self.command) != (self.base == "command"):
            raise ValueError("`base: command` and the list `command` are given together, or neither is")
        if self.slices and self.slice_by is None:
            raise ValueError("`slices` needs `slice_by`, the column by whose values they are named")
        return self
