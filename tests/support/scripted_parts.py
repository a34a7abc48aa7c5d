"""Parts of a check whose processes run a few lines; imported without torch."""

import sys
from dataclasses import dataclass

from tools.gpu_check.parts import Part

COUNT = """
import json, os, pathlib, sys
result = pathlib.Path(sys.argv[1])
number = json.loads(result.read_text())["number"] if result.exists() else 0
partial = result.with_suffix(".partial")
partial.write_text(json.dumps({"number": number + 1}))
os.replace(partial, result)  # the check reads this file while the process runs
"""


@dataclass(frozen=True)
class Scripted(Part):
    """Its process counts its runs in the file of its result, and then runs `lines`."""

    lines: str = ""

    def command(self, step, *, work, result, is_toy):
        return [sys.executable, "-c", COUNT + self.lines, str(result)]


def make_part(name: str, lines: str = "", minutes: float = 1) -> Scripted:
    return Scripted(name, "", minutes, lines=lines)
