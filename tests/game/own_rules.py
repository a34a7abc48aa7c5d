"""Stop rules and a reward of a user's own."""


def as_soon_as_allowed(means, config) -> bool:
    return True


def below_own_threshold(means, config) -> bool:
    return means["score/helpful_correct"] < config.score_parity_threshold


def scaled_score(scores, correct, sneaky, *, group_size, answered=None, factor):
    return factor * scores
