"""What the sections of a recipe are made of: the dataclass, and types with their bounds."""

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

section = dataclass(config=ConfigDict(extra="forbid"), kw_only=True)

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
ProperShare = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
FlipRate = Annotated[float, Field(ge=0, lt=1)]
