"""The proofs world: chains of steps graded 1, 0.5 or 0, and a small language of analyses that a checker can read."""

from pvg_hf.tasks.proofs.flaw_detection import Issue, OmissionKind, find_issues, grade_proof
from pvg_hf.tasks.proofs.language import NamedIssue, judge_issues, rate_analysis, read_issues
from pvg_hf.tasks.proofs.task import ProofsTask

__all__ = [
    "Issue",
    "NamedIssue",
    "OmissionKind",
    "ProofsTask",
    "find_issues",
    "grade_proof",
    "judge_issues",
    "rate_analysis",
    "read_issues",
]
