"""Runs programs in the sandbox `remote` and prints what became of each; its process is told where the Jobs are."""

import json
import sys

from pvg_hf.sandbox import CallCase, Limits, StdinCase, open_sandbox

SHORT = Limits(wall_seconds=0.5, processor_seconds=0.5)
PROGRAMS = (
    (
        "def double(x):\n    return 2 * x if x < 3 else 0",
        [CallCase("double", (number,), 2 * number) for number in (1, 3)],
    ),
    ("print(input() + 'é')", [StdinCase("a\n", "aé"), StdinCase("b\n", "secret")]),
    ("def wait():\n    while True: pass", [CallCase("wait", (), None)]),
    ("import os\nos.kill(os.getppid(), 9)\ndef one(): return 1", [CallCase("one", (), 1)]),
)

if __name__ == "__main__":
    with open_sandbox("remote", num_workers=2) as sandbox:
        results = sandbox.run_many([(program, cases, SHORT) for program, cases in PROGRAMS])
        outcomes = [[result.outcome.value for result in found] for found in results]
        said = {"outcomes": outcomes, "isolation": sandbox.isolation, "lost": sandbox.counts.lost_workers}
        sys.stdout.write(json.dumps(said))
