"""
Open the app on a run: its solutions, its rounds, scores of your own texts, and a legibility study.

    python -m pvg_hf.app runs/quickstart
    python -m pvg_hf.app org/run                              # the last published round
    python -m pvg_hf.app runs/quickstart --study-only --study-repo org/answers

By default, the app is reachable only from this machine; set GRADIO_SERVER_NAME to change this. It needs no GPU and trains nothing.
"""

import argparse
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from pvg_hf.experimental.messages.folder import MessageRunFolder
from pvg_hf.experimental.study import MAX_PARTICIPANTS, NUM_SOLUTIONS, SECONDS
from pvg_hf.hub.locate import find_local_run


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        # What can be wrong is checked before the imports, which take several seconds.
        if options.port is not None:
            check_port(options.port)
        if not MessageRunFolder(Path(options.run)).recipe.is_file():
            find_local_run(options.run)
        print(f"Loading {options.run} ...", flush=True)
        _serve(options)
    except (ValueError, OSError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _serve(options: argparse.Namespace) -> None:
    from pvg_hf.game.console import quiet_libraries, set_up_logging

    set_up_logging()
    quiet_libraries()
    from pvg_hf.app.app import StudySettings, serve

    settings = StudySettings(
        folder=options.study_dir,
        seconds=options.study_seconds,
        num_solutions=options.study_solutions,
        repository=options.study_repo,
        is_alone=options.study_only,
        max_participants=options.study_participants,
    )
    serve(options.run, settings, options.port)


def check_port(port: int) -> None:
    """
    Check that the app can be served at a port.

    Raises:
        ValueError: if it cannot.
    """
    # Gradio checks the port only after everything is loaded, and its message names environment variables.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a recently closed port counts as free
        try:
            probe.bind(("127.0.0.1", port))  # as Gradio does
        except OSError as err:
            raise ValueError(
                f"Port {port} cannot be used ({err.strerror}). Set another `--port`, or omit it to use the first free port "
                "from 7860."
            ) from err


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pvg_hf.app", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="folder of a run, or the name of a published one (org/run)")
    parser.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    parser.add_argument("--study-dir", type=Path, help="folder of the answers (default: RUN/study)")
    parser.add_argument(
        "--study-seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"time limit for a solution (default {SECONDS:g})",
    )
    parser.add_argument(
        "--study-solutions",
        type=int,
        default=NUM_SOLUTIONS,
        metavar="N",
        help=f"solutions per participant (default {NUM_SOLUTIONS})",
    )
    parser.add_argument(
        "--study-participants",
        type=int,
        default=MAX_PARTICIPANTS,
        metavar="N",
        help=f"maximum number of participants, including those with CSV sheets (default {MAX_PARTICIPANTS})",
    )
    parser.add_argument(
        "--study-repo", metavar="ORG/NAME", help="dataset repository to commit answers to; needs HF_TOKEN"
    )
    parser.add_argument("--study-only", action="store_true", help="show only the study")
    options = parser.parse_args(arguments)
    if options.study_seconds <= 0 or options.study_solutions < 1 or options.study_participants < 1:
        parser.error("--study-seconds must be above 0, --study-solutions and --study-participants at least 1")
    if options.port is not None and not 1 <= options.port <= 65535:
        parser.error(f"--port must be from 1 to 65535, not {options.port}")
    return options


if __name__ == "__main__":
    sys.exit(main())
