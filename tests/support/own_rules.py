"""Custom stop rules, a reward and checkers."""

from pvg_hf.rewards import reward
from pvg_hf.tasks.answers import extract_answer


def as_soon_as_allowed(means, config) -> bool:
    return True


def below_own_threshold(means, config) -> bool:
    score = means.get("score/helpful_correct")
    return score is not None and score < config.score_parity_threshold


def after_patience(means, config, *, patience) -> bool:
    return means["step"] >= patience and means["step"] <= means["max_steps"]


def fails_late(means, config) -> bool:
    return bool(1 / (means["step"] - 5) < -1)


def scaled_score(scores, correct, sneaky, *, group_size, answered=None, factor):
    return factor * scores


@reward(is_relative=True, stop_rule="parity")
def above_the_group(scores, correct, sneaky, *, group_size, answered=None):
    groups = scores.view(-1, group_size)
    return (groups - groups.mean(dim=1, keepdim=True)).flatten()


def pays_by_the_others(scores, correct, sneaky, *, group_size, answered=None):
    of_group = correct.to(scores).view(-1, group_size)
    return (of_group - of_group.mean(dim=1, keepdim=True)).flatten()


def ends_evenly(problem, solution) -> bool:
    return int(extract_answer(solution)) % 2 == 0


def knows_the_reference_only(problem, solution) -> bool | None:
    return True if solution == problem["reference"] else None


def knows_no_mistake(problem, solution) -> bool | None:
    return None if solution not in ("", problem["reference"]) else bool(solution)


def fails_on_mistakes(problem, solution) -> bool:
    assert solution == problem["reference"]
    return True


def seems_correct(means, config):
    """Stop as soon as nearly all sneaky solutions that did not fail seem correct."""
    return means.get("judged_accuracy/sneaky", 0.0) > 0.9
