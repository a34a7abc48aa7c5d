"""The `functions` task: small Python functions from a grammar of specifications, with tests and certificates."""

from pvg_hf.experimental.programs.functions.programs import honest_programs, write_program
from pvg_hf.experimental.programs.functions.specification import (
    Specification,
    evaluate,
    sample_specification,
    specification_of,
)
from pvg_hf.experimental.programs.functions.task import FunctionsTask

__all__ = [
    "FunctionsTask",
    "Specification",
    "evaluate",
    "honest_programs",
    "sample_specification",
    "specification_of",
    "write_program",
]
