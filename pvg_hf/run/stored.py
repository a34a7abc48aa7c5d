"""
What the JSON files of a run hold: a type for each kind, for [`~pvg_hf.core.integrity.read_json`].

A phase's record, a verifier's calibration, and the results of evaluations have their types where they are made.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.core.stopwatch import TimeSplit
from pvg_hf.noise.channel import RoutedChannel
from pvg_hf.noise.telemetry import NoiseRate


@dataclass(frozen=True)
class RunState:
    """`state.json`."""

    finished: list[str]  # phases, in order
    error: str | None = None  # that ended the last start


@dataclass(frozen=True)
class Environment:
    """`run.json`, which has further facts: what a run was last played with."""

    versions: dict[str, str | None] = field(default_factory=dict)
    git_revision: str | None = None
    launcher: str = "python"
    num_processes: int = 1
    num_threads: int | None = None
    sandbox: str | None = None


@dataclass(frozen=True)
class PilotRow:
    """A solution of the pilot."""

    role: Role
    outcome: Outcome
    problem_id: str
    problem: str
    solution: str
    answer: str | None
    num_tokens: int
    strict_answer: str | None = None
    lenient_answer: str | None = None
    lenient_correct: bool = False


@dataclass(frozen=True)
class PilotFile:
    """`pilot.json`."""

    settings: dict[str, Any]  # sections of the recipe
    rows: list[PilotRow]


@dataclass(frozen=True)
class MetricLine:
    """Fields of each line of `metrics.jsonl`, besides its metrics."""

    phase: str
    round: int | None
    step: int | None


@dataclass(frozen=True)
class LoggedEvent:
    """Fields of each line of `events.jsonl`."""

    event: str
    time: float | None = None
    phase: str | None = None
    round: int | None = None


@dataclass(frozen=True, kw_only=True)
class _PhaseEvent(LoggedEvent):
    phase: str
    round: int | None


@dataclass(frozen=True, kw_only=True)
class _PhaseFinished(_PhaseEvent):
    seconds: float
    split: TimeSplit = field(default_factory=dict)
    peak_flops: float | None = None
    task_use: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class _LoggedAlert(_PhaseEvent):
    kind: str
    message: str


@dataclass(frozen=True, kw_only=True)
class _OutOfMemory(_PhaseEvent):
    micro_batch_size: int


@dataclass(frozen=True, kw_only=True)
class _Published(LoggedEvent):
    run: str


EVENT_TYPES = {
    "phase_finished": _PhaseFinished,
    "alert": _LoggedAlert,
    "out_of_memory": _OutOfMemory,
    "published": _Published,
}
"""Types of the events that are read again; any other is a [`LoggedEvent`]."""


@dataclass(frozen=True)
class CallSummary:
    """`checks.json`: a phase's calls of a checker."""

    phase: Annotated[str, Field(pattern="^(warmup|bootstrap|verifier|prover|mint|evaluate)$")]
    round: int
    calls: int
    codes: dict[str, int]  # outcomes of the solutions
    flagged: int
    abstained: int
    cost: float
    duration_ms: float
    digest: str
    rates: list[NoiseRate]
    escalations: dict[str, Figure]  # share of escalated calls that accepted, by transition
    channels: dict[str, RoutedChannel]


@dataclass(frozen=True)
class FalsePositiveRise:
    """Share of wrong solutions that a checker accepts, before the training and early in it, and the difference."""

    checker: str
    role: str
    before: Figure
    early: Figure
    rise: Figure

    @property
    def name(self) -> str:
        return f"{self.checker}_{self.role}"


@dataclass(frozen=True)
class FalsePositives:
    """`false-positives.json` of a prover phase."""

    round: int
    rises: list[FalsePositiveRise]


@dataclass(frozen=True)
class Recovery:
    """`recovery.json` of a training that started again."""

    recovery: Literal["none", "temperature", "easier", "supervised"]


@dataclass(frozen=True)
class TrackedRun:
    """`tracking.json`."""

    id: str  # in the trackers


@dataclass(frozen=True)
class CheckpointState:
    """Fields of a checkpoint's `trainer_state.json` that are read."""

    global_step: int
    max_steps: int
    best_model_checkpoint: str | None = None
