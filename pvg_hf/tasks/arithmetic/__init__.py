"""
The arithmetic world: word problems from a grammar, solutions as chains of steps, and a checker that finds their flaws.
"""

from pvg_hf.tasks.arithmetic.checker import Flaw, FlawKind, check_solution
from pvg_hf.tasks.arithmetic.grammar import Event, Story, parse_story, sample_story
from pvg_hf.tasks.arithmetic.task import ArithmeticTask

__all__ = ["ArithmeticTask", "Event", "Flaw", "FlawKind", "Story", "check_solution", "parse_story", "sample_story"]
