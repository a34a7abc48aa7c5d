"""
Play a prover-verifier game: the same as `pvg play`, for launchers that start a script.

    accelerate launch --num_processes 2 scripts/run_rounds.py recipes/gsm8k.yaml prover.beta=0.1 seed=1
"""

import sys

from pvg_hf.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["play", *sys.argv[1:]]))
