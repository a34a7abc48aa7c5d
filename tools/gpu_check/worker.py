"""
Run one part of the check in a separate process; `tools/check_gpu.py` starts it.

    python -m tools.gpu_check.worker PART --work FOLDER --result FILE [--toy] [--phases NAME,...]
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch

from pvg_hf.core.files import write_json
from pvg_hf.game.limits import OutOfMemory
from pvg_hf.run.console import quiet_libraries, set_up_logging
from tools.gpu_check.games import GAMES, play_and_measure
from tools.gpu_check.machine import probe_machine
from tools.gpu_check.parts import OUT_OF_MEMORY, ROOT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--phases", default="")
    arguments = parser.parse_args()
    set_up_logging()
    quiet_libraries()
    save = partial(write_json, arguments.result)
    known = json.loads(arguments.result.read_text(encoding="utf-8")) if arguments.result.exists() else {}
    if arguments.part == "probe":
        save(probe_machine())
    elif arguments.part == "tests":
        return run_tests(arguments.work, save, is_toy=arguments.toy)
    else:
        assert arguments.part in GAMES
        phases = [name for name in arguments.phases.split(",") if name]
        play_and_measure(arguments.part, arguments.work, is_toy=arguments.toy, phases=phases, known=known, save=save)
    return 0


def run_tests(work: Path, save: Callable[[dict[str, Any]], None], *, is_toy: bool) -> int:
    """
    Run the tests marked `gpu` (only count them with toy sizes, as there is no GPU), and return pytest's exit status.
    """
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.gpu" in path.read_text("utf-8")]
    report = work / "tests.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-m", "gpu", "--junitxml", str(report)]
    command += ["--collect-only"] if is_toy else []
    done = subprocess.run([*command, *map(str, sorted(files))], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    sys.stderr.write(done.stdout)
    if is_toy:
        save({"num_collected": len(re.findall(r"^tests/.*::", done.stdout, re.MULTILINE))})
        return done.returncode
    suite = ElementTree.parse(report).getroot().find("testsuite")
    counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    unlike = [
        case.get("name")
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    save({**counts, "not_passed": unlike})
    return done.returncode


def _status() -> int:
    try:
        return main()
    except (OutOfMemory, torch.OutOfMemoryError) as err:
        sys.stderr.write(f"{err}\n")
        return OUT_OF_MEMORY


if __name__ == "__main__":
    sys.exit(_status())
