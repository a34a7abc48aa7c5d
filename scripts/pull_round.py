"""
Download a published round as a run's folder, to read it or to continue the game:

    python scripts/pull_round.py ana/quickstart             # the last one
    python scripts/pull_round.py ana/quickstart 2 --output-dir runs --with-earlier-players
"""

import argparse
import sys

from pvg_hf.hub.locate import PUBLISHED_NAME
from pvg_hf.run.console import quiet_libraries, set_up_logging


def read_round(text: str) -> int | str:
    return text if text == "latest" else int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="NAMESPACE/RUN, the prefix of the repositories' names")
    parser.add_argument(
        "round_index", nargs="?", default="latest", type=read_round, metavar="round", help="a number, or `latest`"
    )
    parser.add_argument("--output-dir", default="runs", help="parent of the run's folder")
    parser.add_argument(
        "--with-earlier-players", action="store_true", help="download the players of earlier rounds, too"
    )
    arguments = parser.parse_args()
    if not PUBLISHED_NAME.fullmatch(arguments.run):
        parser.error(f"{arguments.run} is no name of a published run, such as ana/quickstart")

    set_up_logging()
    quiet_libraries()
    # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
    from pvg_hf import pull_round
    from pvg_hf.core.hub_access import HubError

    try:
        print(pull_round(**vars(arguments)))
    except (ValueError, OSError, HubError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
