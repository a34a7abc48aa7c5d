"""
Open the app on a run: its solutions, its rounds, its verifiers, and scores of your own texts.

    python -m pvg_hf.app runs/quickstart
    python -m pvg_hf.app org/run                              # the last published round

By default, the app is reachable only from this machine; set GRADIO_SERVER_NAME to change this. It needs no GPU and
trains nothing.
"""

import argparse
import socket
import sys
from collections.abc import Callable, Sequence

from pvg_hf.hub.locate import find_local_run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = run_parser("python -m pvg_hf.app", __doc__)
    return open_app(parser, parser.parse_args(arguments), serve_options)


def serve_options(options: argparse.Namespace) -> None:
    """Serve the app with the options of a command line."""
    from pvg_hf.app.app import serve_run

    serve_run(options.run, options.port)


def run_parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the arguments of every app: a run and a port."""
    parser = argparse.ArgumentParser(
        prog=command, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="folder of a run, or the name of a published one (org/run)")
    parser.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    return parser


def open_app(
    parser: argparse.ArgumentParser, options: argparse.Namespace, serve: Callable[[argparse.Namespace], None]
) -> int:
    """Serve an app, and return the exit status. What can be wrong is checked before gradio and torch are imported."""
    if options.port is not None and not 1 <= options.port <= 65535:
        parser.error(f"--port must be from 1 to 65535, not {options.port}")
    try:
        if options.port is not None:
            check_port(options.port)
        find_local_run(options.run)
        print(f"Loading {options.run} ...", flush=True)
        from pvg_hf.run.console import quiet_libraries, set_up_logging

        set_up_logging()
        quiet_libraries()
        serve(options)
    except (ValueError, OSError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def check_port(port: int) -> None:
    """Check that the app can be served at a port; a `ValueError` if it cannot."""
    # Gradio checks the port only after everything is loaded, and its message names environment variables.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a recently closed port counts as free
        try:
            probe.bind(("127.0.0.1", port))  # as Gradio does
        except OSError as err:
            raise ValueError(
                f"Port {port} cannot be used ({err.strerror}). Set another `--port`, or omit it to use the first free"
                " port from 7860."
            ) from err


if __name__ == "__main__":
    sys.exit(main())
