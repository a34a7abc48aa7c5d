"""
Name the tests that failed, each with the first line of its error, in as few lines as the end of a log has room for.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

MAX_TESTS, MAX_CHARACTERS = 15, 200

failed = []
for path in filter(Path.exists, map(Path, sys.argv[1:])):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        for problem in (*case.iterfind("failure"), *case.iterfind("error")):
            reason = next(iter(problem.get("message", "").splitlines()), "")
            failed.append(f"{case.get('classname')}::{case.get('name')}: {reason}"[:MAX_CHARACTERS])
more = [f"and {len(failed) - MAX_TESTS} more"] if len(failed) > MAX_TESTS else []
sys.exit("\n".join([f"{len(failed)} failed:", *failed[:MAX_TESTS], *more]) if failed else 0)
