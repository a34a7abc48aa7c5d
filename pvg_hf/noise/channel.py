"""What a routed checker does from end to end, in closed form."""

from dataclasses import dataclass

from pvg_hf.core.roles import ABSTENTIONS, ACCEPTING, Outcome
from pvg_hf.noise.rates import check_rates
from pvg_hf.noise.routing import Routing, Tier, can_pay


@dataclass(frozen=True)
class Ending:
    """
    How the checks of solutions of one truth end.

    Args:
        accept, reject, abstain (`float`):
            Shares, which sum to 1.
        num_calls, cost, duration_ms (`float`):
            Means over the solutions. Only timeouts last, as on the virtual clock.
    """

    accept: float
    reject: float
    abstain: float
    num_calls: float
    cost: float
    duration_ms: float


@dataclass(frozen=True)
class RoutedChannel:
    """
    Args:
        correct, incorrect ([`Ending`]):
            Of the checks of correct and of incorrect solutions.
    """

    correct: Ending
    incorrect: Ending

    @property
    def false_accept(self) -> float:
        """P(accepted | incorrect)."""
        return self.incorrect.accept

    @property
    def false_reject(self) -> float:
        """P(rejected | correct)."""
        return self.correct.reject

    @property
    def label_rates(self) -> tuple[float, float]:
        """
        `(rho0, rho1)` of the labels that the check gives, those that it gives none left out: what a correction takes.

        Raises:
            ValueError: if there are no labels, or they do not point to the truth.
        """
        told = [1 - ending.abstain for ending in (self.incorrect, self.correct)]
        if min(told) <= 0:
            raise ValueError("The checker abstains from every solution, so that there is no label to correct.")
        rho0, rho1 = self.incorrect.accept / told[0], self.correct.reject / told[1]
        check_rates(rho0, rho1)
        return rho0, rho1


def routed_channel(routing: Routing) -> RoutedChannel:
    """
    The channel from a solution's truth to the label of its check, over all tiers and attempts, by following the
    probability that a check gets as far as each of them. A base checker that errs, hangs or fails is no part of it, nor
    are the budgets of a round and of the whole, which depend on how many solutions there are.

    Args:
        routing ([`Routing`]):
            Tiers and policy.

    Returns:
        [`RoutedChannel`].
    """
    return RoutedChannel(_ending(routing, is_correct=True), _ending(routing, is_correct=False))


def _ending(routing: Routing, *, is_correct: bool) -> Ending:
    accept = reject = abstain = num_calls = cost = duration_ms = spent = 0.0
    reach = 1.0  # P(the check gets as far as this tier)
    for place, tier in enumerate(routing.path):
        if not can_pay(tier, spent, routing.budget):
            abstain += reach
            break
        spent += tier.cost
        num_calls, cost = num_calls + reach, cost + reach * tier.cost
        duration_ms += reach * tier.timeout * tier.mean_timeout_ms
        further = 0.0
        for code, share in word_rates(tier, is_correct=is_correct).items():
            if place + 1 < len(routing.path) and routing.escalates(code):
                further += reach * share
            elif code in ABSTENTIONS:
                abstain += reach * share
            elif code in ACCEPTING:
                accept += reach * share
            else:
                reject += reach * share
        reach = further
    return Ending(accept, reject, abstain, num_calls, cost, duration_ms)


def word_rates(tier: Tier, *, is_correct: bool) -> dict[Outcome, float]:
    """How often a call says what, of solutions of one truth."""
    spurious = tier.spurious_fail if is_correct else tier.spurious_pass
    false, true = (
        (Outcome.VERIFIER_SPURIOUS_FAIL, Outcome.VERIFIED)
        if is_correct
        else (Outcome.VERIFIER_SPURIOUS_PASS, Outcome.PROOF_INVALID)
    )
    return {Outcome.VERIFIER_TIMEOUT: tier.timeout, false: spurious, true: 1 - tier.timeout - spurious}
