"""A checker that errs in a pattern, for a worker process: it imports nothing."""


def takes_eight(problem: dict, solution: str) -> bool:
    """Whether it is right, or eight."""
    return solution.strip() in (problem["reference"], "has 8\n#### 8")
