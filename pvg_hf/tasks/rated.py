"""What a task can say about written analyses, where it knows every issue that a proof has."""

from typing import Protocol, runtime_checkable

from pvg_hf.tasks.base import Problem


@runtime_checkable
class RatesAnalyses(Protocol):
    """A task with an exact meta-verifier, such as [`~tasks.proofs.ProofsTask`]."""

    def rate_analyses(self, problems: list[str], proofs: list[str], analyses: list[str]) -> list[float]:
        """The quality of each analysis, in [0, 1]."""
        ...

    def named_issues(self, problem: str, proof: str, analysis: str) -> list[tuple[str, bool]]:
        """Each issue that an analysis names, as a text, and whether the proof has it."""
        ...

    def analysis_of(self, problem: Problem, proof: str, index: int) -> tuple[str, float]:
        """An analysis of a proof that may err, and its quality; `index` tells those of one proof apart."""
        ...
