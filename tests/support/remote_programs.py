"""Runs programs in the sandbox `remote` and prints the outcome of each. `HF_ENDPOINT` names the server of the Jobs."""

import json
import sys

from pvg_hf.experimental.programs.sandbox import CallCase, Limits, StdinCase, open_sandbox

SHORT = Limits(wall_seconds=0.5, processor_seconds=0.5)
PROGRAMS = (
    (
        "def double(x):\n    return 2 * x if x < 3 else 0",
        [CallCase("double", (number,), 2 * number) for number in (1, 3)],
    ),
    ("print(input() + 'é')", [StdinCase("a\n", "aé"), StdinCase("b\n", "undisclosed")]),
    ("def wait():\n    while True: pass", [CallCase("wait", (), None)]),
    ("import os\nos.kill(os.getppid(), 9)\ndef one(): return 1", [CallCase("one", (), 1)]),
    (
        "def write(path):\n    try:\n        open(path, 'a')\n    except PermissionError:\n        return 'refused'\n    return 'written'",
        [CallCase("write", (sys.argv[1],))],
    ),
    ("def order():\n    return hash('a')", [CallCase("order", ())]),
)

if __name__ == "__main__":
    with open_sandbox("remote", num_workers=2) as sandbox:
        results = sandbox.run_many([(program, cases, SHORT) for program, cases in PROGRAMS])
        outcomes = [[result.outcome.value for result in found] for found in results]
        again = sandbox.run(*PROGRAMS[-1], repeat=1)
        outputs = [results[-2][0].output, results[-1][0].output, again[0].output]
        said = {
            "outcomes": outcomes,
            "outputs": outputs,
            "isolation": sandbox.isolation,
            "lost": sandbox.counts.lost_workers,
        }
        sys.stdout.write(json.dumps(said))
