"""Ports for the servers that tests start."""

import socket


def find_free_port() -> int:
    """A free port of this machine's, not one that Gradio would choose (7860 and above)."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
