"""The arithmetic world: word problems from a grammar, solutions in many forms, and a checker of their flaws."""

from pvg_hf.tasks.arithmetic.flaw import Flaw, FlawKind
from pvg_hf.tasks.arithmetic.task import ArithmeticTask, find_flaws

__all__ = ["ArithmeticTask", "Flaw", "FlawKind", "find_flaws"]
