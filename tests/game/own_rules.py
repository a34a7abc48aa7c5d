"""Stop rules, a reward and a checker of a user's own."""

from pvg_hf.tasks.answers import extract_answer


def as_soon_as_allowed(means, config) -> bool:
    return True


def below_own_threshold(means, config) -> bool:
    return means["score/helpful_correct"] < config.score_parity_threshold


def scaled_score(scores, correct, sneaky, *, group_size, answered=None, factor):
    return factor * scores


def pays_by_the_others(scores, correct, sneaky, *, group_size, answered=None):
    of_group = correct.to(scores).view(-1, group_size)
    return (of_group - of_group.mean(dim=1, keepdim=True)).flatten()


def ends_evenly(problem, solution) -> bool:
    return int(extract_answer(solution)) % 2 == 0
