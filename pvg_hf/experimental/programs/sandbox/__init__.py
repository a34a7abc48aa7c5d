"""Running untrusted programs: cases, limits, outcomes and isolation."""

from pvg_hf.experimental.programs.sandbox.agreement import outputs_agree
from pvg_hf.experimental.programs.sandbox.backends import is_weak
from pvg_hf.experimental.programs.sandbox.cases import (
    NOTHING,
    CallCase,
    Case,
    CaseOutcome,
    CaseResult,
    Comparison,
    Limits,
    StdinCase,
)
from pvg_hf.experimental.programs.sandbox.session import Sandbox, SandboxCounts, open_sandbox

__all__ = [
    "NOTHING",
    "CallCase",
    "Case",
    "CaseOutcome",
    "CaseResult",
    "Comparison",
    "Limits",
    "Sandbox",
    "SandboxCounts",
    "StdinCase",
    "is_weak",
    "open_sandbox",
    "outputs_agree",
]
