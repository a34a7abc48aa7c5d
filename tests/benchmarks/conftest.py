"""`benchmarks` is not part of the package, and is found from the repository's root."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]
