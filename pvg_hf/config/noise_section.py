"""The section `noise` of a recipe: labels that flip, and checkers that err, time out and cost something."""

import math
from dataclasses import asdict
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_serializer, field_validator, model_validator

from pvg_hf.config import fields as f
from pvg_hf.config.conditions import Condition
from pvg_hf.core.extensions import Effect

Policy = Literal["on_failure", "on_timeout", "always", "never"]

Resample = Literal["fixed", "epoch", "step"]

TierName = Literal["fast_noisy", "balanced", "slow_precise"]

TIER_DEFAULTS: dict[str, tuple[float, float, float]] = {
    "timeout": (0.1, 0.05, 0.01),
    "spurious_fail": (0.05, 0.02, 0.005),
    "spurious_pass": (0.02, 0.01, 0.001),
    "budget_seconds": (30, 60, 120),
    "cost": (1, 2, 4),
}
"""The options of a tier, with a default for each name in `TierName`."""


def tier_defaults(tier: str) -> dict[str, Any]:
    """Return the default of each option of a tier."""
    place = get_args(TierName).index(tier)
    return {option: defaults[place] for option, defaults in TIER_DEFAULTS.items()}


def _with_defaults(description: str, option: str) -> str:
    fast, balanced, slow = TIER_DEFAULTS[option]
    return f"{description}; {fast}, {balanced} and {slow} by default."


def _describe_tier(tier: str) -> str:
    defaults = tier_defaults(tier)
    return f"{defaults['budget_seconds']} s, cost {defaults['cost']}."


@f.value_section
class Duration:
    """Duration of an injected timeout, at most the tier's time budget."""

    kind: Literal["fixed", "uniform", "exponential"] = "fixed"
    """`fixed` takes `ms`, `uniform` takes `min_ms` and `max_ms`, `exponential` takes `mean_ms`."""
    ms: f.NonNegative | None = None
    """For `fixed`: milliseconds."""
    min_ms: f.NonNegative | None = None
    """For `uniform`: minimum."""
    max_ms: f.NonNegative | None = None
    """For `uniform`: maximum."""
    mean_ms: f.NonNegative | None = None
    """For `exponential`: mean."""

    @model_validator(mode="after")
    def _check(self) -> "Duration":
        wanted = {"fixed": ("ms",), "uniform": ("min_ms", "max_ms"), "exponential": ("mean_ms",)}[self.kind]
        given = [name for name in f.stated_values(self) if name != "kind"]
        if sorted(given) != sorted(wanted):
            raise ValueError(f"`{self.kind}` takes `{'` and `'.join(wanted)}`; got {given}")
        if self.min_ms is not None and self.max_ms is not None and self.min_ms > self.max_ms:
            raise ValueError(f"`min_ms` must not be above `max_ms`; got {self.min_ms:g} and {self.max_ms:g}")
        return self

    def quantile(self, draw: float, longest_ms: float = math.inf) -> float:
        """Return milliseconds for a uniform draw in [0, 1), at most `longest_ms`."""
        if self.ms is not None:
            duration = self.ms
        elif self.min_ms is not None and self.max_ms is not None:
            duration = self.min_ms + (self.max_ms - self.min_ms) * draw
        else:
            assert self.mean_ms is not None
            duration = -self.mean_ms * math.log1p(-draw)  # inverse of the exponential distribution function
        return min(duration, longest_ms)

    def mean(self, longest_ms: float = math.inf) -> float:
        """Return the mean of [`quantile`] over the draws."""
        if self.ms is not None:
            return min(self.ms, longest_ms)
        if self.mean_ms is not None:
            return self.mean_ms * -math.expm1(-longest_ms / self.mean_ms) if self.mean_ms else 0.0
        assert self.min_ms is not None
        assert self.max_ms is not None
        low, high = min(self.min_ms, longest_ms), min(self.max_ms, longest_ms)
        if self.min_ms == self.max_ms:
            return low
        share_below = (high - low) / (self.max_ms - self.min_ms)
        return share_below * (low + high) / 2 + (1 - share_below) * high


@f.section
class TierConfig:
    """Differences from a tier's defaults."""

    timeout: f.FlipRate | None = Field(None, description=_with_defaults("Share of all calls that time out", "timeout"))
    spurious_fail: f.FlipRate | None = Field(
        None,
        description=_with_defaults("Share of the calls about correct solutions that reject them", "spurious_fail"),
    )
    spurious_pass: f.FlipRate | None = Field(
        None,
        description=_with_defaults("Share of the calls about incorrect solutions that accept them", "spurious_pass"),
    )
    budget_seconds: f.Positive | None = Field(
        None, description=_with_defaults("Time limit of a call, in seconds", "budget_seconds")
    )
    cost: f.Positive | None = Field(
        None, description=_with_defaults("Cost of a call, in the unit of `budget`", "cost")
    )
    timeout_duration: Duration | None = None
    """Duration of an injected timeout; the whole time budget by default."""


@f.section
class TiersConfig:
    """The tiers, from the fastest to the most careful one."""

    fast_noisy: TierConfig = Field(default_factory=TierConfig, description=_describe_tier("fast_noisy"))
    balanced: TierConfig = Field(default_factory=TierConfig, description=_describe_tier("balanced"))
    slow_precise: TierConfig = Field(default_factory=TierConfig, description=_describe_tier("slow_precise"))


@f.section
class SliceConfig:
    """Differences for the problems of one slice; its `tiers` have the keys of `noise.checker.tiers`."""

    noise_enabled: bool | None = None
    """Whether noise is injected."""
    tier: TierName | None = None
    """The tier that is called first."""
    escalation_policy: Policy | None = None
    """When the next tier is called."""
    max_attempts: f.Repeats | None = None
    """Maximum number of calls per solution."""
    tiers: TiersConfig = Field(default_factory=TiersConfig)
    """Differences from the tiers of all slices."""


@f.section
class BudgetConfig:
    """Limits on the cost of the checker's calls. A call over budget is not made, and the solution gets no label."""

    per_solution: f.Positive | None = None
    """For all calls for one solution."""
    per_round: f.Positive | None = None
    """For all calls of a round, in the order of the game: those in the prover's training come first."""
    total: f.Positive | None = None
    """For all calls of the game."""


@f.section
class ErrorBucketConfig:
    """Solutions with error rates of their own."""

    selector: str = ""
    """Condition on the solutions, such as `rel_error < 0.1`; docs/explanation/noise.md lists what it can read."""
    TPR: f.Share | None = None
    """P(accepted | correct) of these solutions."""
    FPR: f.Share | None = None
    """P(accepted | incorrect) of these solutions."""

    @model_validator(mode="after")
    def _check(self) -> "ErrorBucketConfig":
        Condition(self.selector)
        return self


@f.section
class ErrorsConfig:
    """Systematic errors of a checker, as in the study "Delay, Plateau, or Collapse" (arXiv 2605.02909)."""

    TPR: f.Share = 1.0
    """P(accepted | correct) of solutions in no bucket."""
    FPR: f.Share = 0.0
    """P(accepted | incorrect) of solutions in no bucket."""
    strategy: Literal["uniform", "targeted"] = "targeted"
    """`targeted` uses the buckets, `uniform` has one pair of rates for all solutions."""
    targeted_buckets: list[ErrorBucketConfig] = Field(default_factory=list)
    """Solutions with other rates; the first bucket that fits decides."""

    @model_validator(mode="after")
    def _check(self) -> "ErrorsConfig":
        number = len(self.targeted_buckets)
        if self.strategy == "targeted" and not number:
            raise ValueError(
                "`strategy` is `targeted` and needs `targeted_buckets`; without any, set `strategy: uniform`"
            )
        if self.strategy == "uniform" and number:
            raise ValueError(
                f"`strategy` is `uniform` and has no buckets; remove the {number} `targeted_buckets`, or set"
                " `targeted`"
            )
        return self


@f.section
class CheckerConfig:
    """A checker that errs, instead of labels that flip."""

    base: Annotated[str, f.Asks(Effect.RUNS, f.names_code)] = "grade"
    """Source of the verdicts that errors are added to: `grade`, the task's own; `command`; or a function `(problem,
    solution) -> bool` as `package.module:Name`, which runs in a separate process and is killed after its time
    budget."""
    command: Annotated[list[str], f.Asks(Effect.RUNS)] = Field(default_factory=list)
    """For `base: command`: program and arguments, with `{solution}` for a file with the text and `{problem}` for one
    with the problem as JSON. Exit code 0 accepts."""
    env: Annotated[list[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]], f.Asks(Effect.RUNS)] = Field(
        default_factory=list
    )
    """Names of environment variables that a command or function sees in addition to those that programs need to run
    (`PATH`, `HOME`, `LANG`, ...). It sees no others: no token, key or password that is not listed here."""
    errors: ErrorsConfig | None = None
    """Systematic errors of the base checker's verdicts. The noise of the tiers comes on top; `noise_enabled: false`
    leaves the systematic errors alone."""
    noise_enabled: bool = True
    """Whether noise is injected."""
    tiers: TiersConfig = Field(default_factory=TiersConfig)
    """Differences from the tiers' defaults."""
    budget: BudgetConfig = Field(default_factory=BudgetConfig)
    """Limits on the cost of the checker's calls."""
    tier: TierName | None = None
    """The tier that is called first: `balanced` if nothing escalates, else `fast_noisy`."""
    escalation_policy: Policy = "never"
    """When the next tier is called: unless a call accepted, after a timeout, always, or never. The last call
    decides."""
    max_attempts: f.Repeats = 3
    """Maximum number of calls per solution."""
    critical: Annotated[str | None, f.Asks(Effect.RUNS, f.names_code)] = None
    """Problems whose solutions go directly to `slow_precise`: a column that is true or false, a condition (`difficulty
    >= 5`), or `package.module:Name` of a function of a problem."""
    slice_by: str | None = None
    """A column of the problems, e.g. `difficulty`, by whose values events and rates are grouped."""
    slices: dict[str, SliceConfig] = Field(default_factory=dict)
    """Differences for the problems of a slice, by the column's value."""
    clock: Literal["virtual", "real"] = "virtual"
    """`virtual` counts the duration of timeouts, `real` sleeps."""

    @field_validator("slices", mode="before")
    @classmethod
    def _stringify_keys(cls, slices: Any) -> Any:
        """Convert keys to texts: YAML reads a difficulty as a number."""
        return {str(key): value for key, value in slices.items()} if isinstance(slices, dict) else slices

    @model_validator(mode="after")
    def _check(self) -> "CheckerConfig":
        if bool(self.command) != (self.base == "command"):
            raise ValueError("`base: command` and the list `command` are given together, or neither is")
        if self.slices and self.slice_by is None:
            raise ValueError("`slices` needs `slice_by`, the column whose values are the names of the slices")
        return self


@f.value_section
class RateSchedule:
    """Schedule of the rates: a factor for `rho0` and `rho1`."""

    kind: Literal["constant", "linear", "cosine", "cyclic"] = "linear"
    """`linear` and `cosine` go from `start` to `end` and stay there, `cyclic` goes back and forth."""
    over: Literal["rounds", "steps"] = Field("rounds", kw_only=True)
    """`rounds`: the base prover's solutions are at moment 0, those of round k at moment k + 1, and each solution keeps
    its label. `steps`: the steps of a player's training, on clean labels of the pool."""
    start: f.Share = 0.0
    """Initial factor."""
    end: f.Share = 1.0
    """Final factor; with `constant` the only one."""
    warmup: f.CountOrZero = 0
    """Rounds or steps at `start`."""
    length: f.Count | None = None
    """For `linear` and `cosine`: rounds or steps from `start` to `end`."""
    period: f.AtLeastTwo | None = None
    """For `cyclic`: rounds or steps from `start` to `end` and back."""

    @model_validator(mode="after")
    def _check(self) -> "RateSchedule":
        for name, kinds in (("length", ("linear", "cosine")), ("period", ("cyclic",))):
            if (vars(self)[name] is not None) != (self.kind in kinds):
                verb = "needs" if self.kind in kinds else "does not take"
                raise ValueError(f"the schedule `{self.kind}` {verb} `{name}`")
        return self

    def factor(self, moment: int) -> float:
        """Return the factor of the rates at a moment 0, 1, 2, ..., counted in rounds or steps (`over`)."""
        if self.kind == "constant":
            return self.end
        since = max(0, moment - self.warmup)
        if self.period is not None:  # of `cyclic`
            way = (1 - math.cos(2 * math.pi * since / self.period)) / 2
        else:
            assert self.length is not None
            way = min(1.0, since / self.length)
            way = (1 - math.cos(math.pi * way)) / 2 if self.kind == "cosine" else way
        return self.start + (self.end - self.start) * way


@f.section
class NoiseConfig:
    """Noise of labels: flips at given rates, or a checker that errs. Evaluation always uses clean labels."""

    epsilon: Annotated[float, Field(ge=0, lt=0.5)] | None = None
    """A symmetric rate: `rho0 = rho1 = epsilon`."""
    rho0: Annotated[f.FlipRate, f.Decides("noise_rho0", player="verifier")] = 0.0
    """P(label 1 | truth 0): how often an incorrect solution is labelled correct."""
    rho1: Annotated[f.FlipRate, f.Decides("noise_rho1", player="verifier")] = 0.0
    """P(label 0 | truth 1); `rho0 + rho1` must stay below 1."""
    level: Annotated[Literal["label", "pair"], f.Sets("noise_level", player="verifier")] = "label"
    """`label` flips the label of each solution independently. `pair` keeps labels and reverses pairs in the verifier's
    training, at one rate (`rho0` = `rho1`)."""
    resample: Annotated[Resample, f.Sets("noise_resample", player="verifier")] = "fixed"
    """`fixed` draws once for each text of a problem, for all rounds. At `level: label` this happens before pairs are
    built: they are built from the noisy labels, so that both sides may be correct, or incorrect. `epoch` and `step`
    draw again in each epoch or step of the verifier's training, on pairs of clean labels: one flip makes a tie, which
    Bradley-Terry ignores (cross-entropy learns both labels), two flips reverse the pair."""
    applies_to: Literal["verifier", "prover", "both"] = "verifier"
    """Whose labels are noisy: those that the verifier learns from, those that the prover's reward uses as correctness,
    or both."""
    soft_labels: bool = False
    """Train the verifier on the mean of its noisy labels instead of a draw: clean pairs at `1 - rho1` and `rho0`,
    which with Bradley-Terry is `correction: smoothing`."""
    schedule: RateSchedule | None = None
    """Schedule of the rates; they are constant without it."""
    checker: CheckerConfig | None = None
    """A checker that errs, instead of the rates; `{}` uses all defaults."""

    @model_validator(mode="after")
    def _check(self) -> "NoiseConfig":
        self._check_rates()
        self._check_mode()
        return self

    def _check_rates(self) -> None:
        if self.epsilon is not None:
            if (self.rho0, self.rho1) not in ((0, 0), (self.epsilon, self.epsilon)):  # the latter when validated again
                raise ValueError("give either `epsilon` or `rho0` and `rho1`, not both")
            self.rho0 = self.rho1 = self.epsilon
        check_rates(self.rho0, self.rho1)

    def _check_mode(self) -> None:
        """
        Check that what only exists in the verifier's training (pair noise, resampling, soft labels) is consistent.
        """
        of_training = ["level: pair"] * (self.level == "pair")
        of_training += [f"resample: {self.resample}"] * (self.resample != "fixed")
        of_training += ["soft_labels"] * self.soft_labels
        if self.checker is not None:
            others = [*of_training, *(name for name in ("rho0", "rho1", "schedule") if asdict(self)[name])]
            if others:
                raise ValueError(
                    f"`checker` has its own rates and labels solutions one by one; remove {_join_names(others)}"
                )
        if of_training and self.applies_to != "verifier":
            raise ValueError(
                f"{_join_names(of_training)} is for the verifier's training; `applies_to` must then be `verifier`"
            )
        if self.soft_labels and len(of_training) > 1:
            raise ValueError(f"`soft_labels` draws nothing; remove {_join_names(of_training[:-1])}")

    @property
    def is_for_verifier(self) -> bool:
        return self.applies_to != "prover"

    @property
    def is_for_prover(self) -> bool:
        return self.applies_to != "verifier"

    @property
    def is_any(self) -> bool:
        """Whether there is any noise: a checker, or a rate above 0."""
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
    def _stated_rate(self, rate: float) -> float:
        """Omit rates that follow from `epsilon`, so that the written recipe can be loaded again."""
        return rate if self.epsilon is None else 0.0


def _join_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def check_rates(rho0: float, rho1: float) -> None:
    """
    Check flip rates of labels.

    Raises `ValueError` if a rate is outside [0, 1), or `rho0 + rho1 >= 1`, in which case a label says nothing about
    the
        truth or suggests the opposite.
    """
    for name, rate in (("rho0", rho0), ("rho1", rho1)):
        f.check_option(NoiseConfig, name, rate)
    if rho0 + rho1 >= 1:
        raise ValueError(
            f"`rho0 + rho1` is {rho0} + {rho1} = {rho0 + rho1}; it must be below 1, or the labels no longer indicate"
            " the truth."
        )


def restate_rates(stated: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Convert the values of `noise` to the form in which `override` states its rates, so that both can be merged."""
    has_rates = "rho0" in override or "rho1" in override
    if override.get("epsilon") is not None and not has_rates:
        return {key: value for key, value in stated.items() if key not in ("rho0", "rho1")}
    epsilon = stated.get("epsilon")
    if has_rates and "epsilon" not in override and epsilon is not None:
        return {**stated, "epsilon": None, "rho0": epsilon, "rho1": epsilon}
    return stated
