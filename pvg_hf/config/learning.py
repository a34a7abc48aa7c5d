"""The sections of a recipe that are about learning from labels that may be wrong."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pvg_hf.config.fields import CountOrZero, FlipRate, NonNegative, section


@section
class InvarianceConfig:
    """Invariance of the verifier over environments: what it learns should hold in every round, whoever wrote the solutions."""

    method: str = Field(
        "none",
        description="`none`; `balanced`, every batch holds as many pairs of each environment; a penalty on how the plain loss "
        "differs over environments, `vrex` or `irmv1`; `balanced+vrex`, `balanced+irmv1`; or a penalty of your own as "
        "`package.module:Name`. Penalties go with `bradley_terry` and `correction: none`.",
    )
    environments: Literal["round", "round_role"] = Field(
        "round",
        description="What is one environment: the pairs of a round, or those of a round and role. A pair belongs to its "
        "incorrect solution's.",
    )
    weight: NonNegative | None = Field(
        None,
        description="Weight of the penalty; 10 for V-REx, 100 for IRMv1 and 1 for your own if left out. Above 1, the whole loss "
        "is divided by it.",
    )
    warmup_steps: CountOrZero | None = Field(
        None,
        description="Steps before the penalty is switched on and the optimiser's moments are reset; a tenth of "
        "`verifier.max_steps` if left out.",
    )
    irm_form: Literal["plain", "two_halves"] = Field(
        "plain",
        description="IRMv1 as it was published, or without its bias by two halves of each environment's pairs.",
    )
    crowded: Literal["cycle", "refuse"] = Field(
        "cycle",
        description="Where a batch cannot hold as many pairs of each environment: go through the environments in turn, or end "
        "with an error.",
    )


@section
class RatesConfig:
    """The rates of wrong labels that corrections assume."""

    source: Literal["noise", "given", "trusted"] = Field(
        "noise",
        description="`noise`: what that section injects. `given`: `rho0` and `rho1` of this section, for labels that came with "
        "errors. `trusted`: estimated in each phase that corrects, from the solutions of a few problems whose clean truth is known.",
    )
    rho0: FlipRate = Field(0.0, description="For `given`: P(label 1 | truth 0).")
    rho1: FlipRate = Field(0.0, description="For `given`: P(label 0 | truth 1); `rho0 + rho1` must stay below 1.")
    trusted_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.05, description="For `trusted`: share of D_V's problems whose clean truth the estimate may see."
    )

    @model_validator(mode="after")
    def _check(self) -> "RatesConfig":
        if self.source != "given" and (self.rho0 or self.rho1):
            raise ValueError(f"`rho0` and `rho1` are of `source: given`, and `source` is `{self.source}`")
        if self.rho0 + self.rho1 >= 1:
            raise ValueError(f"`rho0 + rho1` must be below 1; got {self.rho0 + self.rho1}")
        return self
