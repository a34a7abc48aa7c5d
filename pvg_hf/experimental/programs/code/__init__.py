"""Tasks whose solutions are programs: extraction, similarity, certificates, and grading by tests in a sandbox."""

from pvg_hf.experimental.programs.code.certificate import Certificate, Proposal, find_certificate
from pvg_hf.experimental.programs.code.parsing import extract_program
from pvg_hf.experimental.programs.code.program_task import PROGRAM_COLUMNS, PROPOSAL_COLUMNS, ProgramTask, ProgramTests
from pvg_hf.experimental.programs.code.similarity import program_similarity, same_program

__all__ = [
    "PROGRAM_COLUMNS",
    "PROPOSAL_COLUMNS",
    "Certificate",
    "ProgramTask",
    "ProgramTests",
    "Proposal",
    "extract_program",
    "find_certificate",
    "program_similarity",
    "same_program",
]
