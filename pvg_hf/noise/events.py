"""The event of a call as a line of an event log, and a digest of many of them."""

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from pvg_hf.noise.routing import Call
from pvg_hf.noise.verdicts import Verdict
from pvg_hf.outcomes import Outcome

EVENT = "check"
_DIGESTED = ("round", "problem", "solution", "slice", "attempt", "tier", "noise", "code", "truth", "cost", "seed_path")
_MODULUS = 1 << 256
_quoted = json.encoder.encode_basestring_ascii
_JSON = {True: "true", False: "false", None: "null"}


class Asked(NamedTuple):
    """
    What a check is about.

    Args:
        problem_id (`str`), solution (`int`):
            The problem, and the [`~pvg_hf.noise.draws.solution_key`].
        slice_name (`str`):
            That the problem stands in.
        round_index (`int`):
            -1 for what was written before the first round.
        step (`int`, *optional*):
            Of a training.
    """

    problem_id: str
    solution: int
    slice_name: str
    round_index: int
    step: int | None


def event_line(
    asked: Asked, call: Call, verdict: Verdict, attempt: int, seed_path: str, *, is_late: bool = False
) -> str:
    """
    A line of JSON, by hand: a call may cost no more than microseconds.

    Args:
        asked ([`Asked`]), call ([`Call`]), verdict ([`Verdict`]):
            The question, what was said, and what the base checker says.
        attempt (`int`), seed_path (`str`):
            See [`~pvg_hf.noise.draws.check_path`].
        is_late (`bool`):
            Whether the verdict takes longer than the tier's time budget, so that only a timeout can be said.
    """
    noise = "null" if call.noise is None else f'"{call.noise}"'
    more = "" if asked.step is None else f', "step": {asked.step}'
    if is_late:
        more += ', "is_late": true'
    if call.code == Outcome.VERIFIER_INTERNAL_ERROR:
        more += f', "detail": {_quoted(verdict.error)}'
    return (
        f'{{"event": "{EVENT}", "round": {asked.round_index}, "problem": {_quoted(str(asked.problem_id))}, '
        f'"solution": "{asked.solution:016x}", "slice": {_quoted(asked.slice_name)}, "attempt": {attempt}, '
        f'"tier": "{call.tier}", "noise": {noise}, "code": "{call.code}", "truth": {_JSON[verdict.passed]}, '
        f'"duration_ms": {call.duration_ms!r}, "cost": {call.cost!r}, "seed_path": "{seed_path}"{more}}}\n'
    )


def digest_events(events: Iterable[Mapping[str, Any]]) -> str:
    """
    What two equal runs share, whatever the order of their events: the sum of the events' hashes. Durations are left out,
    which a real clock measures.

    Returns:
        `str`: 64 hexadecimal digits.
    """
    total = 0
    for event in events:
        text = json.dumps([event[name] for name in _DIGESTED])
        total += int.from_bytes(blake2b(text.encode(), digest_size=32).digest(), "big")
    return f"{total % _MODULUS:064x}"
