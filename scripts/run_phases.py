"""
Play a game with separate processes for each phase, as vLLM in colocate mode and DeepSpeed need it:

    python scripts/run_phases.py recipes/gsm8k.yaml prover.generation=vllm_colocate
    python scripts/run_phases.py recipes/gsm8k.yaml --launcher "accelerate launch --config_file recipes/accelerate/multi_gpu.yaml"

Finished phases are not played again. If a phase fails, the script ends with its exit status.
"""

import shlex
import subprocess
import sys
from pathlib import Path

from pvg_hf.config import load_recipe
from pvg_hf.run.console import ScriptParser
from pvg_hf.run.layout import RunFolder, unfinished
from pvg_hf.run.resume import extended_recipe

SCRIPT = Path(__file__).with_name("run_rounds.py")


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--launcher", default="accelerate launch", help="command that starts each phase's processes")
    arguments = parser.parse_intermixed_args()

    try:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        phases = unfinished(extended_recipe(recipe, arguments.overrides))
    except ValueError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    # Late, because it loads torch.
    from pvg_hf.game.pilot import is_pilot_due

    parts = [
        ["--phase", phase.name, *([] if phase.round_index is None else ["--round", str(phase.round_index)])]
        for phase in phases
    ]
    if is_pilot_due(recipe, RunFolder.of(recipe), phases):
        parts.insert(0, ["--pilot"])
    for part in parts:
        command = [*shlex.split(arguments.launcher), str(SCRIPT), arguments.recipe, *arguments.overrides, *part]
        status = subprocess.run(command).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
