"""Writes proofs of each score."""

import re

import numpy as np

from pvg_hf.tasks.arithmetic.flaws import sample_flawed_solution
from pvg_hf.tasks.arithmetic.grammar import Story
from pvg_hf.tasks.arithmetic.solutions import reference_solution
from pvg_hf.tasks.proofs.checker import OmissionKind, check_proof, grade_proof

OMISSION_RATE = 0.3  # share of the flawed proofs that leave something out as well

_CALCULATION = re.compile(r": .* = ")


def write_proof(rng: np.random.Generator, story: Story, score: float) -> str:
    """A proof whose score is `score`: without an issue (1), with one omission (0.5), or with a flaw (0)."""
    if score == 1:
        return reference_solution(story)
    if score == 0.5:
        return leave_out(rng, reference_solution(story))
    while True:  # a contradicted conclusion is fatal whatever is left out, so this ends
        proof = sample_flawed_solution(rng, story)
        if rng.random() < OMISSION_RATE:
            proof = leave_out(rng, proof, OmissionKind.BARE_CLAIM)
        if grade_proof(check_proof(story, proof)) == 0:  # a miscopied number can be what was left out
            return proof


def leave_out(rng: np.random.Generator, proof: str, kind: OmissionKind | None = None) -> str:
    """The proof with one step's calculation, or the conclusion, left out; without a step, the conclusion."""
    *lines, conclusion = proof.split("\n")
    if kind is None:
        kind = list(OmissionKind)[rng.integers(len(OmissionKind))]
    if kind is OmissionKind.MISSING_CONCLUSION or len(lines) == 1:
        return "\n".join(lines)
    place = int(rng.integers(1, len(lines)))
    lines[place] = _CALCULATION.sub(": = ", lines[place])
    return "\n".join([*lines, conclusion])
