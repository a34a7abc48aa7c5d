"""Names of the files in a run's folder and in the folders of its phases; [`RunFolder`] has their places."""

from pvg_hf.core.disk_names import REVIEW
from pvg_hf.core.roles import Role

ROUND_FOLDERS = ("verifier", "prover", "pool", "evaluation")  # each has a folder for each round

ENVIRONMENT = "run.json"  # versions and machine that the run was last played with
STATE = "state.json"  # finished phases, and the digest of the metrics
REPORT = "report.html"
PILOT = "pilot.json"  # solutions that the base prover wrote before the game

JUDGING = "judging"  # folder of the evaluations that follow a round: `judging/NAME/round-000/`

# In the folder of the run and in that of each phase.
METRICS = "metrics.jsonl"  # a line for each step, and for each phase's end
EVENTS = "events.jsonl"  # events of the run, or calls of a checker in a phase

# In the folder of each phase.
PHASE_RECORD = "phase.json"  # processes, seconds and summary
CALL_SUMMARY = "checks.json"  # summary of the phase's calls of a checker

# In the folder of a round's verifier, next to its weights and its calibration.
HELDOUT = "heldout.parquet"  # scores of solutions to held-out problems
PAIRS = "pairs.json"  # numbers of pairs, and of solutions that are in none
VALIDATION = "validation.json"  # rewards of a generative verifier's checkpoints

# In the folder of a round's prover.
FALSE_POSITIVES = "false-positives.json"  # shares of wrong solutions accepted before and early in each training

# In the folder of a round's prover, next to its weights; with `roles: separate`, in that of each role.
BEST_HELPFUL = "best-helpful"  # folder of the best helpful checkpoint
CHECKPOINTS = (
    "checkpoints"  # folder of the trainer's checkpoints, deleted when the training ends; a verifier has it, too
)
WRONG_SOLUTIONS = "wrong-solutions.jsonl"  # counts of wrong solutions, and of accepted ones, early in a training
COMPLETIONS = "completions"  # folder of the solutions that were written in each step
STEPS = "steps.jsonl"  # metrics of a role that is trained separately
RECOVERY = "recovery.json"  # how the training started again after a collapse of the sneaky role

# In the folder of a round's solutions.
HELDOUT_HELPFUL = "heldout-helpful.parquet"  # helpful solutions of the verifier's held-out problems
BATCHES = "batches"  # folder of the batches that were sampled so far, deleted when the phase ends
LABELS = "labels"  # folder of the labels that a generative verifier assigned

# In the folder of a round's evaluation.
FIGURES = "metrics.json"  # figures with n and interval
PROBLEMS = "problems.parquet"  # figures of each test problem
ANSWERING = "answering.json"  # rules that choose answers, and their calibration
POOL_SCORE_PARTS = "pool_scores"  # folder of the pools that were scored so far, deleted when all are
POOL_SCORES = "pool_scores.parquet"  # scores of test solutions by the verifiers of several rounds
EVALUATIONS = "evaluations.parquet"  # evaluations of test proofs by a generative verifier

# In the folder of an evaluation that follows a round.
JUDGEMENT = "judgement.json"  # figures with n and interval, and the settings
ATTACK_CURVES = "curves.parquet"  # figures of each step of every attacker
ATTACK_OUTCOMES = "outcomes.parquet"  # a row per attacker: the step of the exploit, if any
ATTACK_TEXTS = "texts.parquet"  # texts that attack without training, with their scores
FOUND_ATTACKS = "found.parquet"  # texts that fooled the round's verifier
DRAWN_POOL = "pool.parquet"  # solutions that were drawn for the evaluation, with their scores

REWRITTEN = frozenset({PHASE_RECORD, REVIEW})
"""Files of a phase that may change after its end: the first contains its own digest, and people edit the second."""


def pool_file(role: Role) -> str:
    """Name of the file with solutions of the verifier's problems (D_V) in a role."""
    return f"{role}.parquet"


def pool_test_file(role: Role | str) -> str:
    """Name of the file with solutions of test problems in a role, or by the checkpoint `best-helpful`."""
    return f"test-{role}.parquet"
