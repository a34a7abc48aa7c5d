"""
Print how long the tests of each file took, the longest first, from files that `pytest --junitxml` wrote.

With --write, write tests/file_seconds.json, by which tests/conftest.py lets the longest files begin first.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

NUM_FILES = 25
RECORD = Path(__file__).parents[1] / "tests" / "file_seconds.json"
MIN_SECONDS = 5

seconds: Counter[str] = Counter()
for path in filter(lambda word: word != "--write", sys.argv[1:]):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        # `tests.app.test_looks`, or `tests.app.test_looks.TestClass`
        parts = case.get("classname", "").split(".")
        name = "/".join([part for part in parts[1:] if part.islower()]) + ".py"
        seconds[name] += float(case.get("time", 0))
lines = [f"{sum(seconds.values()):.0f} s in {len(seconds)} files"]
lines += [f"{spent:6.0f} s  {name}" for name, spent in seconds.most_common(NUM_FILES)]
sys.stdout.write("\n".join(lines) + "\n")
if "--write" in sys.argv:
    record = {name: round(spent) for name, spent in seconds.most_common() if spent >= MIN_SECONDS}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
