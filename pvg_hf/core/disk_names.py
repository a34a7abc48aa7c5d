"""Names of rounds, and of files and folders on disk that several layers read; importing them loads nothing else."""

import re
from pathlib import Path

TRIAL = ".try-"  # begins the names of folders that exist while it is tried whether a folder can be written to

BASE_ROUND = -1
"""`round_index` of solutions that were imported or written by the base prover."""

CALIBRATION = "calibration.json"  # in the folder of a verifier

# Two levels below a prover's folder or checkpoint: the Trainer would take an adapter one level below for the policy's.
CRITIC_FOLDER = Path("critic", "value_model")

PHASE_RECORD = "phase.json"  # in the folder of a phase: processes, seconds and summary

ANNOTATIONS = "annotations.jsonl"  # in a run's folder: labels and notes that people gave solutions in the app
REVIEW = "review.csv"  # undecided proofs, for people to label

ROUND_NAME = r"round-(?:[0-9]{3}|[1-9][0-9]{3,})"  # pattern of the names of rounds from 0 on


def round_name(round_index: int) -> str:
    """Return `base` for the round before the first, else `round-000`, `round-001`, ..."""
    return "base" if round_index == BASE_ROUND else f"round-{round_index:03d}"


def round_folders(folder: Path) -> dict[int, Path]:
    """Map rounds to their folders, by [`round_name`] and without `base`; a copy such as `round-000.bak` is ignored."""
    found = {path: round_index_of(path.name) for path in folder.glob("round-*") if path.is_dir()}
    rounds = {index: path for path, index in found.items() if index is not None}
    return dict(sorted(rounds.items()))


def round_index_of(name: str) -> int | None:
    """Parse a name from [`round_name`]; `None` for `base` and for any other text."""
    return int(name.removeprefix("round-")) if re.fullmatch(ROUND_NAME, name) else None
