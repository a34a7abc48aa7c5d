"""A checker that errs in a pattern, for a worker process: it imports nothing."""


def takes_eight(problem: dict, solution: str) -> bool:
    """Whether the stated answer is right, or eight."""
    _, is_stated, answer = solution.rpartition("####")
    return bool(is_stated) and answer.strip() in (problem["reference"].rpartition("####")[2].strip(), "8")
