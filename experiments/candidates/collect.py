"""
Write the figures of the games with other mixtures that were played again, and of one round with every candidate. Research code.

    python experiments/candidates/collect.py MIXTURES ONES FIGURES

MIXTURES has the games of `mixtures.py`, ONES those of `game.py`; FIGURES is `verifier-candidates-games.json`, whose `mixtures_again`
and `one_round` are replaced.
"""

import json
import re
import sys
from pathlib import Path

MIXTURES, ONES, FIGURES = map(Path, sys.argv[1:])
MACHINE = "AMD EPYC, another one than the second machine; 2 cores, one thread each"
NAMES = re.compile(r"(accuracy|base_accuracy)/(helpful|sneaky)|pools/accepted/.*|test_auc|test_pair_accuracy|valid_sneaky|verifier_pair_accuracy|verifier_auc/base")


def figures_of(folder):
    """Figures of each evaluated round of a game, with their intervals over problems."""
    rounds = {}
    for path in sorted(folder.glob("evaluation/round-*/metrics.json")):
        figures = {name.removeprefix("round/"): figure for name, figure in json.loads(path.read_text()).items()}
        rounds[path.parent.name] = {
            name: {key: value if key == "n" else round(value, 4) for key, value in figure.items()}
            for name, figure in sorted(figures.items())
            if NAMES.fullmatch(name)
        }
    return rounds


def games_of(root, prefix):
    """Figures of all games in a folder, by what was played and by seed."""
    found = {}
    for folder in sorted(root.glob(f"{prefix}-*")):
        name, seed = folder.name.removeprefix(f"{prefix}-").rsplit("-", 1)
        found.setdefault(name, {})[seed] = figures_of(folder)
    return found


def main():
    figures = json.loads(FIGURES.read_text())
    figures["mixtures_again"] = {
        "commit": "45b067d2",
        "script": "experiments/candidates/mixtures.py",
        "machine": MACHINE,
        "games": games_of(MIXTURES, "short"),
    }
    figures["one_round"] = {
        "commit": "e9aede1 with library.patch of 50838e16",
        "script": "experiments/candidates/game.py",
        "machine": MACHINE,
        "games": games_of(ONES, "one"),
    }
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
