"""The section `sweep` of a recipe: the game over noise levels, seeds and corrections."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from pvg_hf.config.fields import Seed, section

Correction = Literal[
    "none", "smoothing", "forward", "backward", "exact", "pointwise", "pointwise_forward", "pointwise_backward"
]
Level = Annotated[float, Field(ge=0, lt=1)]
PLAIN, POINTWISE = "none", "pointwise"


@section
class SweepConfig:
    """
    Play the rest of the recipe once for each noise level, seed and correction (`scripts/sweep_noise.py`). A game by itself
    does not read this section.
    """

    form: Literal["verifier", "game"] = Field(
        "verifier",
        description="`verifier`: the first verifier alone, on solutions of the base prover. `game`: all rounds; the figures "
        "are of the last one.",
    )
    levels: Annotated[list[Level], Field(min_length=1)] = Field(
        default_factory=lambda: [0.0, 0.1, 0.2, 0.3, 0.4],
        description="Rates of wrong labels. The clean verifier, which all others are compared with, is trained in any case.",
    )
    vary: Literal["epsilon", "rho0", "rho1"] = Field(
        "epsilon", description="Which rate of `noise` the levels are; that section states none itself."
    )
    seeds: Annotated[list[Seed], Field(min_length=1)] = Field(
        default_factory=lambda: [0, 1, 2], description="In place of the recipe's `seed`; each has its own pool."
    )
    corrections: Annotated[list[Correction], Field(min_length=1)] = Field(
        default_factory=lambda: [PLAIN, "forward"],
        description="Of the verifier's loss. `pointwise` is cross-entropy on single solutions, by itself without a correction; all "
        "others are Bradley-Terry. `exact`, `pointwise_forward` and `pointwise_backward` come with `data.pairs: all`.",
    )

    @field_validator("levels", "seeds", "corrections")
    @classmethod
    def _each_once(cls, values: list[Any]) -> list[Any]:
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"each may stand there once; {', '.join(map(str, twice))} stands there again")
        return values
