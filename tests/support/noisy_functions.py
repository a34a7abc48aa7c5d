"""Checkers as a user writes them, for worker processes."""

import os
import subprocess
import sys
import time


def behave(problem: dict, solution: str) -> bool:
    """Do what the solution says."""
    match solution:
        case "hang":
            time.sleep(600)
        case "hang with a child":
            subprocess.run(["sleep", "600"], check=True)
        case "raise":
            raise RuntimeError("no such lemma")
        case "die":
            os._exit(3)
        case "exit":
            sys.exit("no such prover")
        case "shrug":
            return None
    return solution == "right"


def sees(problem: dict, solution: str) -> bool:
    """Whether the variable that the solution names is set, also for a program that the function starts."""
    found = subprocess.run(["printenv", solution], capture_output=True).returncode == 0
    assert found == (solution in os.environ)
    return found
