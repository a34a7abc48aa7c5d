"""Running untrusted programs: cases, limits, outcomes and isolation."""

from pvg_hf.experimental.programs.sandbox.agreement import outputs_agree
from pvg_hf.experimental.programs.sandbox.cases import NOTHING, CallCase, Case, Comparison, StdinCase
from pvg_hf.experimental.programs.sandbox.outcomes import CaseOutcome, CaseResult
from pvg_hf.experimental.programs.sandbox.program_limits import Limits
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
    "open_sandbox",
    "outputs_agree",
]
