"""
Publish the rounds of a run on the Hub, except those that are already published:

    python scripts/push_run.py runs/quickstart
    python scripts/push_run.py runs/quickstart hub.namespace=ana hub.private=false --round 1

Settings override those of the recipe in the run's folder. The token is that of `hf auth login`, or HF_TOKEN.
"""

import sys
from pathlib import Path

from pvg_hf.config import load_recipe
from pvg_hf.core.hub_access import HubError
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging
from pvg_hf.run.layout import RunFolder


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("overrides", nargs="*", metavar="hub.key=value", help="settings that override the recipe")
    parser.add_argument(
        "--round", type=int, dest="round_index", metavar="K", help="publish only this round (default: all)"
    )
    arguments = parser.parse_intermixed_args()

    set_up_logging()
    try:
        hub = load_recipe(RunFolder.find(arguments.run).recipe, arguments.overrides).hub
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.hub.publication import publishable_rounds
        from pvg_hf.hub.push import push_round

        rounds = publishable_rounds(arguments.run) if arguments.round_index is None else [arguments.round_index]
        for round_index in rounds:
            print(f"round {round_index}: {push_round(arguments.run, round_index, hub=hub)}")
    except (ValueError, OSError, HubError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    if not rounds:
        print(f"error: {arguments.run} has no round that is evaluated and has its weights.", file=sys.stderr)
    return 0 if rounds else 2


if __name__ == "__main__":
    sys.exit(main())
