"""
Publish the app on a run as a Space, which is private by default:

    python scripts/push_space.py runs/quickstart org/quickstart-app
    python scripts/push_space.py org/run org/run-study --study --study-repo org/run-answers
    python scripts/push_space.py runs/quickstart --output build/space      # write the folder, push nothing

The token is that of `hf auth login`, or HF_TOKEN. The Space needs a secret HF_TOKEN in its settings if a study commits answers
or the published run is private.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from pvg_hf.core.hub_access import HubError
from pvg_hf.hub.locate import find_local_run
from pvg_hf.run.console import quiet_libraries, set_up_logging


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a run, which is copied into the Space, or the name of a published run")
    parser.add_argument("space", nargs="?", help="ORG/NAME of the Space")
    parser.add_argument("--output", type=Path, help="write the Space's files to this folder, and push nothing")
    parser.add_argument("--public", action="store_true", help="make a new Space public")
    parser.add_argument(
        "--study", action="store_true", help="serve the legibility study (experimental), and not the app"
    )
    parser.add_argument("--study-participants", type=int, metavar="N", help="maximum number of participants")
    parser.add_argument("--study-repo", metavar="ORG/NAME", help="dataset repository that answers are committed to")
    arguments = parser.parse_args()
    if (arguments.space is None) == (arguments.output is None):
        parser.error("name a Space, or a folder with --output")

    set_up_logging()
    options = ["--participants", str(arguments.study_participants)] if arguments.study_participants else []
    options += ["--repo", arguments.study_repo] if arguments.study_repo else []
    if options and not arguments.study:
        parser.error("--study-participants and --study-repo need --study")
    try:
        find_local_run(arguments.run)  # refuses a wrong folder
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.app.space import APP, build_space, push_space

        app = "pvg_hf.experimental.study" if arguments.study else APP
        if arguments.output:
            print(build_space(arguments.run, arguments.output, tuple(options), app=app))
            return 0
        warn = partial(print, file=sys.stderr)
        is_private = not arguments.public
        print(push_space(arguments.run, arguments.space, tuple(options), app=app, is_private=is_private, warn=warn))
    except (HubError, ValueError, OSError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
