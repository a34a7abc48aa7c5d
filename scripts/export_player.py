"""
Export a trained player as a checkpoint of full weights, with its adapter merged, for servers such as vLLM:

    python scripts/export_player.py runs/gsm8k --player prover --checkpoint best-helpful --output exported/prover
"""

import argparse
import sys
from pathlib import Path

from pvg_hf.run.console import quiet_libraries, set_up_logging
from pvg_hf.run.layout import RunFolder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--player", choices=["prover", "verifier"], default="prover")
    parser.add_argument("--round", type=int, dest="round_index", help="round, from 0 (default: the last trained one)")
    parser.add_argument(
        "--checkpoint",
        choices=["last", "best-helpful", "helpful", "sneaky"],
        help="checkpoint of the prover (default: `last`, or `helpful` if each role has a separate adapter)",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder to create")
    parser.add_argument(
        "--dtype",
        choices=["bfloat16", "float16", "float32"],
        help="type of the weights (default: bfloat16 for a prover, and float32 for a verifier, to keep its threshold valid)",
    )
    arguments = parser.parse_args()

    set_up_logging()
    try:
        folder = RunFolder.find(arguments.run)
        source = folder.player(arguments.player, arguments.round_index, arguments.checkpoint)
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        import torch

        from pvg_hf.models.export import export_merged

        dtypes = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32, None: None}
        export_merged(source, arguments.output, player=arguments.player, dtype=dtypes[arguments.dtype])
    except (ValueError, OSError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    print(f"{source} -> {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
