"""The split of a task's problems, the pool of solutions, and the pairs that a verifier learns from."""

from pvg_hf.data.pairs.build import build_pairs
from pvg_hf.data.pool import load_pool, write_pool
from pvg_hf.data.schema import make_solution, solution_features
from pvg_hf.data.split import split_problems

__all__ = ["build_pairs", "load_pool", "make_solution", "solution_features", "split_problems", "write_pool"]
