"""Ports for the servers that tests start."""

import os
import socket
from contextlib import suppress

# Below the ports that systems choose for connections (32768 on Linux), and above those that Gradio would choose (7860
# and above). Each process of the tests begins at a place of its own.
_FIRST, _NUM = 10_000, 22_000
_PORTS = (_FIRST + (os.getpid() * 100 + index) % _NUM for index in range(_NUM))


def find_free_port() -> int:
    """Return a port of this machine's that is free, and that nothing else takes before it is used."""
    for port in _PORTS:
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError("All ports are taken.")
