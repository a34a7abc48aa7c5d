"""
Write a trained player as one checkpoint of full weights, its adapter merged, for servers such as vLLM:

    python scripts/export_player.py runs/gsm8k --player prover --checkpoint best-helpful --output exported/prover
"""

import argparse
import sys
from pathlib import Path

from pvg_hf.game.console import quiet_libraries, set_up_logging


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--player", choices=["prover", "verifier"], default="prover")
    parser.add_argument(
        "--round", type=int, dest="round_index", help="from 0; the last one that was trained by default"
    )
    parser.add_argument(
        "--checkpoint",
        choices=["last", "best-helpful", "helpful", "sneaky"],
        help="of the prover; by default `last`, or `helpful` where the roles have adapters of their own",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder that is made")
    parser.add_argument(
        "--dtype",
        choices=["bfloat16", "float16", "float32"],
        help="of the weights; bfloat16 for a prover by default, float32 for a verifier, so that its threshold holds",
    )
    arguments = parser.parse_args()

    set_up_logging()
    quiet_libraries()
    import torch

    from pvg_hf.models.export import export_merged
    from pvg_hf.run.folder import RunFolder

    try:
        source = RunFolder(arguments.run).player(arguments.player, arguments.round_index, arguments.checkpoint)
        dtypes = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32, None: None}
        export_merged(source, arguments.output, player=arguments.player, dtype=dtypes[arguments.dtype])
    except ValueError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    print(f"{source} -> {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
