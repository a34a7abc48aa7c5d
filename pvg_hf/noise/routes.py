"""Which way a solution's check takes, by its problem."""

from collections.abc import Mapping

from pvg_hf.noise.predicates import Predicate
from pvg_hf.noise.routing import Routing
from pvg_hf.noise.verdicts import Problem

EVERYTHING = "all"  # the slice of problems that no column parts


class Routes:
    """
    Args:
        routing ([`Routing`]):
            Of every slice that has none of its own.
        slice_by (`str`, *optional*):
            The column of the problems whose values are the slices.
        slices (`Mapping[str, Routing]`, *optional*):
            Overrides, by the text of the column's value.
        critical (`str`, *optional*):
            Problems whose solutions go straight to `slow_precise`; see [`~pvg_hf.noise.predicates.Predicate`].

    Raises:
        ValueError: for slices without a column, or a condition that cannot be read.
    """

    def __init__(
        self,
        routing: Routing | None = None,
        *,
        slice_by: str | None = None,
        slices: Mapping[str, Routing] | None = None,
        critical: str | None = None,
    ):
        if slices and slice_by is None:
            raise ValueError(f"There are overrides for the slices {list(slices)}, but no `slice_by` to tell them by.")
        self.routing = routing or Routing()
        self.slice_by = slice_by
        self.slices = dict(slices or {})
        self.critical = None if critical is None else Predicate(critical)
        ways = [self.routing, *self.slices.values()]
        self._critical = {id(way): way.critical() for way in ways} if critical is not None else {}

    def of(self, problem: Problem) -> tuple[Routing, str]:
        """The routing of a problem's solutions, and the name of its slice."""
        name = EVERYTHING if self.slice_by is None else str(problem[self.slice_by])
        routing = self.slices.get(name, self.routing)
        if self.critical is not None and self.critical(problem):
            return self._critical[id(routing)], name
        return routing, name
