"""A checker that errs systematically, for a worker process: it imports nothing."""


def takes_eight(problem: dict, solution: str) -> bool:
    """Accept the correct answer, and eight."""
    _, is_stated, answer = solution.rpartition("####")
    return bool(is_stated) and answer.strip() in (problem["reference"].rpartition("####")[2].strip(), "8")
