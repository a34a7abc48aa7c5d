"""Budgets for the cost of a checker's calls, per round and in total."""

import math

from pvg_hf.config.fields import check_option
from pvg_hf.config.noise_section import BudgetConfig


class Ledger:
    """
    Budgets that all solutions share, on a first-come, first-served basis.

    Only here does the order of the solutions matter. The game grades them in the order of the pool, whatever the
    batches and processes.

    Args:
        per_round (`float`, *optional*), total (`float`, *optional*):
            Budgets, above 0; unlimited by default.
        spent_in_round (`float`), spent (`float`):
            Cost of earlier calls, in the current round and in total.

    Raises:
        ValueError: for a budget that is not above 0.
    """

    def __init__(
        self,
        per_round: float | None = None,
        total: float | None = None,
        *,
        spent_in_round: float = 0.0,
        spent: float = 0.0,
    ):
        for name, budget in (("per_round", per_round), ("total", total)):
            check_option(BudgetConfig, name, budget, name=f"The budget `{name}`")
        self.per_round = math.inf if per_round is None else per_round
        self.total = math.inf if total is None else total
        self.spent_in_round = spent_in_round
        self.spent = spent
        self._round: int | None = None

    @property
    def is_limited(self) -> bool:
        return min(self.per_round, self.total) < math.inf

    def enter(self, round_index: int) -> None:
        """Enter a round. A new round resets its budget."""
        if self._round not in (None, round_index):
            self.spent_in_round = 0.0
        self._round = round_index

    def can_pay(self, cost: float) -> bool:
        return self.spent_in_round + cost <= self.per_round and self.spent + cost <= self.total

    def pay(self, cost: float) -> None:
        self.spent_in_round += cost
        self.spent += cost
