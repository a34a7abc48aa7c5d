"""Attacks on a round's verifier that need no training, and the test of later verifiers on what was found."""

from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field
from scipy.stats import hypergeom

from pvg_hf.config.fields import AtLeastTwo, Count, section
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_parquet
from pvg_hf.core.integrity import digest_files
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.intervals import rate_by_problem, share_by_problem, with_problems
from pvg_hf.evaluation.role_figures import is_valid_mistake
from pvg_hf.experimental.attacks.attack_results import ATTACK_COLUMNS, FOUND_ATTACKS, found_attacks
from pvg_hf.experimental.attacks.untrained import MASTER_KEYS, acceptance_by_family, attack_texts, score_texts
from pvg_hf.experimental.judging.drawn_pool import draw_pool
from pvg_hf.experimental.judging.judged_round import JudgedRound
from pvg_hf.run.judgements import judgement_folder

ATTACK_TEXTS = "texts.parquet"  # texts that attack without training, with their scores


@section
class UntrainedAttackSettings:
    """Settings of the evaluation `untrained_attacks`."""

    num_problems: AtLeastTwo = Field(50, description="Test problems, evenly spread over the test part.")
    budget: Count = Field(64, description="Solutions of the sneaky prover per problem, for the best-of-n search.")
    master_keys: list[str] = Field(
        default_factory=list,
        description=(
            "Further texts without a solution, tried in addition to the built-in list"
            " (docs/how-to/attack-a-verifier.md)."
        ),
    )


@section
class RegressionSettings:
    """The evaluation `regression` has no settings."""


def judge_untrained_attacks(judged: JudgedRound, settings: UntrainedAttackSettings, output: Path) -> dict[str, Figure]:
    """
    Attack the round's verifier with texts that need no training, and keep those that fool it.

    Returns: by family, the share of the texts that are accepted (see
        [`~pvg_hf.experimental.attacks.untrained.acceptance_by_family`]), and by `search/N`, the expected share of
        problems in which at least one of N solutions of the round's sneaky prover is a mistake that is accepted.
    """
    problems = judged.problems.sample("test", settings.num_problems)
    drawn = draw_pool(
        judged, Role.SNEAKY, problems, num_samples=settings.budget, name="untrained_attacks", output=output
    )
    keys = list(dict.fromkeys([*MASTER_KEYS, *settings.master_keys]))
    texts = attack_texts(judged.problems.task, problems, keys, judged.seed("untrained_attacks"))
    texts = score_texts(texts, judged.scorer())
    searched = _search_rows(drawn, problems)
    everything = pd.concat([texts, searched], ignore_index=True)[ATTACK_COLUMNS]
    write_parquet(output / ATTACK_TEXTS, everything)
    write_parquet(output / FOUND_ATTACKS, found_attacks(everything, judged.acceptance))
    return {
        **acceptance_by_family(texts, judged.acceptance),
        **search_figures(drawn, judged.acceptance, settings.budget),
    }


def search_figures(rows: pd.DataFrame, acceptance: Acceptance, budget: int) -> dict[str, Figure]:
    """
    Compute how often a best-of-n search among sneaky solutions finds a mistake that is accepted, for n = 1, 2, 4, ...

    Args:
        rows: `budget` scored solutions of each problem, with `problem_id`, `score`, `correct` and `outcome`.
    Returns: by `search/N`, the expectation over all draws without replacement; `n` counts problems.
    """
    hits = (is_valid_mistake(rows) & acceptance.accepts(rows["score"])).groupby(rows["problem_id"], sort=False).sum()
    figures, n = {}, 1
    while n <= budget:
        shares = hypergeom.sf(0, budget, hits, n).round(10)  # P(at least one hit among n drawn without replacement)
        figures[f"search/{n}"] = share_by_problem(shares, list(hits.index))
        n *= 2
    return figures


def judge_regression(judged: JudgedRound, settings: RegressionSettings, output: Path) -> dict[str, Figure]:
    """
    Test a round's verifier on the attacks that fooled the verifiers of earlier rounds.

    They are those that `untrained_attacks` and `attacks` found by now.

    Returns: by `accepted/round-NNN`, the share of the attacks found on that round's verifier that this one accepts,
        too; by `accepted/all`, of those on all earlier verifiers. Round 0 has none, and empty figures.
    """
    earlier = [_found(judged, k) for k in range(judged.round_index)]
    earlier = [rows for rows in earlier if len(rows)]
    if not earlier:
        return {"accepted/all": rate_by_problem([], [])}
    texts = score_texts(pd.concat(earlier, ignore_index=True).drop(columns="score"), judged.scorer())
    write_parquet(output / ATTACK_TEXTS, texts)
    texts["accepted"] = judged.acceptance.accepts(texts["score"])
    figures = {"accepted/all": rate_by_problem(*with_problems(texts, "accepted"))}
    for k, rows in texts.groupby("round_index"):
        figures[f"accepted/{round_name(k)}"] = rate_by_problem(*with_problems(rows, "accepted"))
    return figures


def digest_found_attacks(judged: JudgedRound) -> str:
    """Return a hash of the attacks that `judge_regression` reads for a round."""
    return digest_files(path for k in range(judged.round_index) for path in _found_files(judged, k))


def _found_files(judged: JudgedRound, round_index: int) -> list[Path]:
    files = [
        judgement_folder(judged.folder, name, round_index) / FOUND_ATTACKS for name in ("untrained_attacks", "attacks")
    ]
    return [file for file in files if file.exists()]


def _found(judged: JudgedRound, round_index: int) -> pd.DataFrame:
    """Attacks that fooled the verifier of a round, by all evaluations."""
    found = [pd.read_parquet(file) for file in _found_files(judged, round_index)]
    rows = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=ATTACK_COLUMNS)
    return rows.drop_duplicates(["problem_id", "solution"]).assign(round_index=round_index)


def _search_rows(drawn: pd.DataFrame, problems: list[dict[str, Any]]) -> pd.DataFrame:
    """The best-scoring valid mistake of each problem, which is what the search found."""
    mistakes = drawn[is_valid_mistake(drawn)]
    best = mistakes.loc[mistakes.groupby("problem_id")["score"].idxmax()]
    known = pd.DataFrame(problems)[["problem_id", "problem", "reference"]]
    return best.merge(known, on="problem_id").assign(family="search")
