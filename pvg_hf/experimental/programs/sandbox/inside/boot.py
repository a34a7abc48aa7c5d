"""
First lines of a worker's Python, passed to it by `-c`.

They read the sources of the package's modules that run inside from stdin, so that no file of it need be readable
there.
"""

import importlib.util
import json
import os
import sys
from typing import Any

HEADER_BYTES = 8


def read_exactly(descriptor: int, number: int) -> bytes:
    """Return the next `number` bytes of a descriptor; exit if it ends before, as the parent has then ended."""
    parts = []
    while number:
        part = os.read(descriptor, min(number, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        number -= len(part)
    return b"".join(parts)


def encode_frame(message: Any) -> bytes:
    """Return a message as it is sent: its length in eight hexadecimal digits and its JSON, in ASCII."""
    data = json.dumps(message).encode()
    return b"%0*x" % (HEADER_BYTES, len(data)) + data


def read_frame(descriptor: int) -> Any:
    """Return the next message of a descriptor; exit if it ends before."""
    return json.loads(read_exactly(descriptor, int(read_exactly(descriptor, HEADER_BYTES), 16)))


class SourceImporter:
    """Imports modules from a mapping of dotted names to sources."""

    def __init__(self, sources: dict[str, str]):
        self.sources = sources

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        is_package = any(other.startswith(name + ".") for other in self.sources)
        return importlib.util.spec_from_loader(name, self, is_package=is_package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.sources[module.__name__], f"<{module.__name__}>", "exec"), module.__dict__)


if __name__ == "__main__":
    sent = read_frame(0)
    sys.meta_path.insert(0, SourceImporter(sent["sources"]))
    from pvg_hf.experimental.programs.sandbox.inside.relay import serve

    serve(is_filtered=sent["is_filtered"])
