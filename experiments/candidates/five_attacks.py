"""
Write the figures of fresh attackers against a game's verifiers, where 95 % of the round's own correct helpful solutions are accepted. Research code.

    python experiments/candidates/five_attacks.py GAME FIGURES

FIGURES is `verifier-candidates-games.json`; `five_rounds.attackers` is replaced.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from pvg_hf.core.figure import rate
from pvg_hf.scoring import VerifierScorer

GAME, FIGURES = map(Path, sys.argv[1:])
COMPLETENESS = 0.95


def main():
    found = {}
    for texts in sorted(GAME.glob("judging/attacks/attackers/*/texts.parquet")):
        name = texts.parent.name
        round_name = name[: len("round-000")]
        helpful = pd.read_parquet(GAME / "pool" / round_name / "test-helpful.parquet").query("correct")
        scores = VerifierScorer.from_pretrained(GAME / "verifier" / round_name)(list(helpful["problem"]), list(helpful["solution"]))
        threshold = np.quantile(scores, 1 - COMPLETENESS)
        rows = pd.read_parquet(texts)
        mistakes = rows[~rows["correct"]]
        attack = json.loads((texts.parent / "attack.json").read_text())
        shares = {
            "accepted_at_95_completeness": rate(int((mistakes["score"] > threshold).sum()), len(mistakes)),
            "accepted_at_own_threshold": rate(int((mistakes["score"] > 0).sum()), len(mistakes)),
            "incorrect": rate(len(mistakes), len(rows)),
        }
        found[name] = {
            "max_steps": attack["attack"]["max_steps"],
            "found": attack["exploit"]["step"] is not None,
            **{key: {"value": x.value, "low": x.low, "high": x.high, "n": x.n} for key, x in shares.items()},
        }
    figures = json.loads(FIGURES.read_text())
    figures["five_rounds"]["attackers"] = json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 4))
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
