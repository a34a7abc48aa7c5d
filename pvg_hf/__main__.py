"""
`python -m pvg_hf` is the command `pvg`, also where its script is not on the path, as under `accelerate launch -m`.
"""

import sys

from pvg_hf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
