"""The distribution of a routed checker's results, in closed form."""

from dataclasses import dataclass

from pvg_hf.config.noise_section import check_rates
from pvg_hf.core.roles import ABSTENTIONS, ACCEPTING, Outcome
from pvg_hf.noise.routing import POSSIBLE_VERDICTS, Routing, Tier, can_pay


@dataclass(frozen=True)
class Ending:
    """
    Distribution of a checker's results, for solutions with the same truth.

    Args:
        accept, reject, abstain: Shares that sum to 1.
        num_calls, cost, duration_ms: Means per solution. Only timeouts take time, as on the virtual clock.
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
    Distribution of a checker's results, given the truth: those for `correct` and for `incorrect` solutions.
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
        Rates `(rho0, rho1)` of the labels that the checker gives, without abstentions, as corrections need them.

        Raises:
            ValueError: if there are no labels, or they do not indicate the truth.
        """
        labelled = [1 - ending.abstain for ending in (self.incorrect, self.correct)]
        if min(labelled) <= 0:
            raise ValueError(
                "The checker abstains from every solution, so that there is no label to correct: lower `timeout`, or"
                " raise `budget`."
            )
        rho0, rho1 = self.incorrect.accept / labelled[0], self.correct.reject / labelled[1]
        check_rates(rho0, rho1)
        return rho0, rho1


def routed_channel(routing: Routing) -> RoutedChannel:
    """
    Compute the channel from a solution's truth to its label, over all tiers and attempts.

    It follows the probability that a solution reaches each tier. Errors, hanging and failures of the base checker are
    not included, and neither are budgets per round and in total, which depend on the number of solutions.
    """
    return RoutedChannel(_find_ending(routing, is_correct=True), _find_ending(routing, is_correct=False))


def _find_ending(routing: Routing, *, is_correct: bool) -> Ending:
    accept = reject = abstain = num_calls = cost = duration_ms = spent = 0.0
    reach = 1.0  # P(a solution reaches this tier)
    for place, tier in enumerate(routing.path):
        # The budget ends the path: an abstention.
        if not can_pay(tier, spent, routing.budget):
            abstain += reach
            break
        spent += tier.cost
        num_calls, cost = num_calls + reach, cost + reach * tier.cost
        duration_ms += reach * tier.timeout * tier.mean_timeout_ms
        further = 0.0
        for code, share in word_rates(tier, is_correct=is_correct).items():
            # Escalated solutions reach the next tier; at the last tier every result is final.
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
    """Return the probability of each outcome of a call, for solutions with one truth."""
    noise, false, true = POSSIBLE_VERDICTS[is_correct]
    spurious = vars(tier)[noise]
    return {Outcome.VERIFIER_TIMEOUT: tier.timeout, false: spurious, true: 1 - tier.timeout - spurious}
