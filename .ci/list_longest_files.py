"""Print how long the tests of each file took, the longest first: `LONGEST_FILES` in tests/conftest.py is kept by this."""

import sys
from collections import Counter
from xml.etree import ElementTree

NUM_FILES = 25

for path in sys.argv[1:]:
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        seconds[case.get("classname", "")] += float(case.get("time", 0))
    lines = [f"{path}: {sum(seconds.values()):.0f} s in {len(seconds)} files"]
    lines += [f"{spent:6.0f} s  {name}" for name, spent in seconds.most_common(NUM_FILES)]
    sys.stdout.write("\n".join(lines) + "\n")
