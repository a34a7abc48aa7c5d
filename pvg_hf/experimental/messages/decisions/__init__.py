"""Worlds of the message game: decision problems whose answer is yes or no, with known truth."""

from pvg_hf.experimental.messages.decisions.decision_world import WORLDS, DecisionProblems, DecisionWorld, load_world

__all__ = ["WORLDS", "DecisionProblems", "DecisionWorld", "load_world"]
