"""Reads the analyses of test proofs that the verifiers of a run wrote."""

from dataclasses import dataclass, field

import pandas as pd

from pvg_hf.core.integrity import DamagedFileError, check_file, naming_parquet
from pvg_hf.run.folder import RunFolder

_COLUMNS = ["problem", "role", "solution", "reference", "predicted", "evaluation", "issues"]


@dataclass(frozen=True)
class Evaluations:
    """
    Analyses of a run's test proofs.

    Args:
        tables (`dict[int, pd.DataFrame]`):
            Table of each round, with one row per analysis.
        damage (`list[str]`):
            Files that could not be read, and what to do about each.
    """

    tables: dict[int, pd.DataFrame] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)


def read_evaluations(folder: RunFolder) -> Evaluations:
    """Read the analyses of all rounds with a generative verifier."""
    found = Evaluations()
    for round_index, place in folder.rounds("evaluation").items():
        path = place / "evaluations.parquet"
        if not path.exists():
            continue
        try:
            check_file(path)
            with naming_parquet(path):
                found.tables[round_index] = pd.read_parquet(path, columns=_COLUMNS, page_checksum_verification=True)
        except DamagedFileError as err:
            found.damage.append(str(err))
    return found
