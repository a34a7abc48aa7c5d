"""
Write the figures of the five-round games with and without the language-model loss. Research code.

    python experiments/candidates/five_rounds.py GAMES FIGURES

GAMES has the games of `game.py` whose names begin with `five-`; FIGURES is `verifier-candidates-games.json`, whose `five_rounds` is replaced.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
from scipy.stats import t

GAMES, FIGURES = map(Path, sys.argv[1:])
NAMES = re.compile(r"(accuracy|base_accuracy)/(helpful|sneaky)|pools/accepted/.*|test_auc|test_pair_accuracy|valid_sneaky|verifier_pair_accuracy|verifier_auc/base")
ATTACKS = re.compile(r"attacks?/.*")


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


def summary(rounds):
    """Own prover's mistakes accepted and others, in the mean over the rounds, and in the last round."""
    last = list(rounds)[-1]
    own = [figures[f"pools/accepted/{name}/{name}"]["value"] for name, figures in rounds.items()]
    pools = [figure["value"] for name, figure in rounds[last].items() if name.startswith(f"pools/accepted/{last}/")]
    return {
        "rounds": len(rounds),
        "own_first": own[0],
        "own_mean": np.mean(own),
        "own_highest": max(own),
        "own_last": own[-1],
        "base_last": rounds[last][f"pools/accepted/{last}/base"]["value"],
        "pools_last": np.mean(pools),
        "helpful_mean": np.mean([figures["accuracy/helpful"]["value"] for figures in rounds.values()]),
        "helpful_last": rounds[last]["accuracy/helpful"]["value"],
        "sneaky_last": rounds[last]["accuracy/sneaky"]["value"],
        "auc_last": rounds[last]["test_auc"]["value"],
    }


def main():
    games = {}
    for folder in sorted(GAMES.glob("five-*")):
        name, seed = folder.name.removeprefix("five-").rsplit("-", 1)
        games.setdefault(name, {})[seed] = figures_of(folder)
    summaries = {name: {seed: summary(rounds) for seed, rounds in seeds.items() if rounds} for name, seeds in games.items()}
    differences = {}
    seeds = sorted(set(summaries.get("likelihood", {})) & set(summaries.get("likelihood_lm", {})))
    for key in ("own_first", "own_mean", "own_highest", "own_last", "base_last", "pools_last", "helpful_mean", "helpful_last", "sneaky_last", "auc_last"):
        if len(seeds) < 2:
            break
        values = np.array([summaries["likelihood_lm"][s][key] - summaries["likelihood"][s][key] for s in seeds])
        half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
        differences[key] = {"value": values.mean(), "low": values.mean() - half, "high": values.mean() + half, "n": len(values)}
    figures = json.loads(FIGURES.read_text())
    found = {
        "commit": "e9aede1 with library.patch of 50838e16",
        "script": "experiments/candidates/game.py",
        "machine": "AMD EPYC, another one than the second machine; 2 cores, one thread each",
        "games": games,
        "summaries": summaries,
        "differences": differences,
    }
    figures["five_rounds"] = json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 4))
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
