"""Pairs chosen independently of their labels, for which corrections are unbiased."""

from collections import Counter
from math import comb

import numpy as np
import pytest
import torch
from datasets import Features

from pvg_hf.core.seeding import derive_uniform
from pvg_hf.data.pairs.build import LABELLED_PAIR_FEATURES, build_pairs
from pvg_hf.data.pool import write_pool
from pvg_hf.data.schema import SOLUTION_COLUMNS
from pvg_hf.losses import exact_pairwise, pointwise_cross_entropy
from tests.support import pool_rows

RATES = (0.1, 0.3)
CENTER = 1e-12  # lets unbounded losses through and changes nothing


def solution(problem, sample, *, label, correct, round_index=-1, **columns):
    role = "base" if round_index == -1 else "sneaky"
    places = {"round_index": round_index, "role": role, "sample": sample}
    return pool_rows.solution(
        problem, f"{problem} {round_index} {sample}", label, correct=correct, **{**places, **columns}
    )


@pytest.fixture
def build(tmp_path):
    def build(rows, **settings):
        write_pool(tmp_path / "pool.parquet", [rows], Features(SOLUTION_COLUMNS))
        settings = {"seed": 0, "round_index": 1, "weights": {-1: 0.5, 0: 0.5}, "solutions_per_problem": 4, **settings}
        return build_pairs(tmp_path / "pool.parquet", **{"pairs": "all", **settings})

    return build


def test_all_pairs_of_a_problem_with_both_labels(build):
    rows = [
        solution("a", 0, label=0, correct=False),
        solution("a", 1, label=1, correct=False),
        solution("a", 0, label=0, correct=True, round_index=0),
        solution("b", 0, label=1, correct=True),  # alone
    ]
    pairs, report = build(rows)
    assert pairs.features == LABELLED_PAIR_FEATURES
    found = {
        (row["chosen"], row["rejected"], row["chosen_label"], row["rejected_label"], row["source"]) for row in pairs
    }
    assert found == {
        ("a -1 1", "a -1 0", 1, 0, "base"),  # labelled correct comes first
        ("a -1 1", "a 0 0", 1, 0, "round-000"),
        ("a -1 0", "a 0 0", 0, 0, "round-000"),  # in a tie the later solution counts as the incorrect one
    }
    assert len(pairs) == report.num_pairs == 3
    assert {row["chosen"]: row["chosen_correct"] for row in pairs} == {"a -1 1": False, "a -1 0": False}
    assert report.without_pair == {"no_solution": 0, "one_text": 1}
    assert report.correct == {"base": 1}
    assert report.incorrect == {"base": 1, "round-000": 1}
    assert report.short == {"base/too_few_solutions": 1, "round-000/too_few_solutions": 3}


def test_solutions_are_chosen_independently_of_their_labels(build):
    # Six of one label and two of the other in each source of each problem.
    truths = [True] * 6 + [False] * 2
    rows = [
        solution(f"p{problem:03d}", sample, label=int(correct), correct=correct, round_index=round_index)
        for problem in range(200)
        for round_index in (-1, 0)
        for sample, correct in enumerate(truths)
    ]
    pairs, _ = build(rows)
    assert len(pairs) == 200 * comb(4, 2)
    used = {(row[side], row[f"{side}_label"]) for row in pairs for side in ("chosen", "rejected")}
    assert Counter(text.split()[1] for text, _ in used) == {"-1": 400, "0": 400}
    # 800 draws without replacement of a share of 3/4: standard deviation below sqrt(3/16 / 800) = .0153; five of them.
    assert np.mean([label for _, label in used]) == pytest.approx(0.75, abs=5 * 0.0153)
    flipped = [{**row, "label": 1 - row["label"]} for row in rows]
    again, _ = build(flipped)
    assert {frozenset((row["chosen"], row["rejected"])) for row in again} == {
        frozenset((row["chosen"], row["rejected"])) for row in pairs
    }


def test_pairs_are_kept_independently_of_their_labels(build):
    rows = [
        solution(f"p{problem:03d}", sample, label=sample % 2, correct=sample % 2 == 1)
        for problem in range(300)
        for sample in range(6)
    ]
    settings = {"solutions_per_problem": 6, "pair_share": 0.3, "weights": {-1: 1.0}, "round_index": 0}
    pairs, _ = build(rows, **settings)
    # 300 * 15 pairs, each kept with probability .3: standard deviation sqrt(4500 * .3 * .7) = 30.7; five of them.
    assert len(pairs) == pytest.approx(1350, abs=5 * 30.7)
    again, _ = build([{**row, "label": 1 - row["label"]} for row in rows], **settings)
    assert {frozenset((row["chosen"], row["rejected"])) for row in again} == {
        frozenset((row["chosen"], row["rejected"])) for row in pairs
    }


def noisy_pool(num_problems=1000, num_solutions=8, share_correct=0.8):
    """Labels that flip independently of each other, at `RATES`."""
    rng = np.random.default_rng(0)
    rows = []
    for problem in range(num_problems):
        for sample in range(num_solutions):
            correct = bool(rng.random() < share_correct)
            flips = rng.random() < RATES[correct]
            rows.append(solution(f"p{problem:04d}", sample, label=int(correct ^ flips), correct=correct))
    return rows


def exact_of(scores, labels, rates):
    return exact_pairwise(scores[:, 0], scores[:, 1], labels, rho0=rates[0], rho1=rates[1], center=CENTER)


def pointwise_of(scores, labels, rates):
    rho0, rho1 = rates
    settings = {"rho0": rho0, "rho1": rho1, "correction": "backward", "center": CENTER}
    return pointwise_cross_entropy(scores.flatten(), labels.flatten(), **settings)


@pytest.mark.parametrize("loss", [exact_of, pointwise_of])
@pytest.mark.parametrize(
    ("pairs", "share", "is_unbiased"), [("all", 1.0, True), ("all", 0.4, True), ("labelled", 1.0, False)]
)
def test_corrections_are_unbiased_for_pairs_that_were_chosen_without_regard_to_labels(
    build, loss, pairs, share, is_unbiased
):
    """
    The noise model: labels flip independently of each other, and pairs are chosen without regard to them. The mean
    over pairs of the corrected loss on noisy labels, less that of the loss on clean ones, then has the mean 0. It is
    taken on each of 20 blocks of problems, which are independent of each other: the blocks' mean lies beyond five of
    its standard errors for fewer than 1 of 10,000 seeds (Student's t with 19 degrees of freedom). Under a choice by
    label it does.
    """
    built, _ = build(noisy_pool(), pairs=pairs, pair_share=share, weights={-1: 1.0}, round_index=0)
    rows = built.to_pandas()
    rows = rows.assign(chosen_label=rows.get("chosen_label", 1), rejected_label=rows.get("rejected_label", 0))
    differences = []
    for _, block in rows.groupby(rows["problem_id"].str[-2:].astype(int) % 20):
        scores, noisy, clean = (
            torch.tensor(np.stack([column(block, side) for side in ("chosen", "rejected")], axis=1))
            for column in (
                lambda block, side: block[side].map(blind_score),
                lambda block, side: block[f"{side}_label"].astype(float),
                lambda block, side: block[f"{side}_correct"].astype(float),
            )
        )
        differences.append((loss(scores, noisy, RATES) - loss(scores, clean, (0.0, 0.0))).item())
    assert len(differences) == 20
    deviation = abs(np.mean(differences)) / (np.std(differences, ddof=1) / 20**0.5)
    assert deviation < 5 if is_unbiased else deviation > 5


def blind_score(text):
    """Scores that do not depend on labels, around 1: around 0, errors in single labels would cancel out."""
    return 3 * derive_uniform(text) - 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": "every"}, "`pairs` is `every`"),
        ({"pair_share": 0.0}, "`pair_share` is 0.0"),
        ({"correct_source": "both"}, "`correct_source` is `both`, but `pairs` is `all`"),
        ({"pairs": "labelled", "pair_share": 0.5}, "`pair_share` is 0.5"),
    ],
)
def test_settings_that_pairs_of_any_labels_cannot_use_are_errors(build, settings, message):
    with pytest.raises(ValueError, match=message):
        build([solution("a", 0, label=1, correct=True)], **settings)


def test_the_error_for_no_pairs_has_the_reason(build):
    with pytest.raises(ValueError, match=r"1 have solutions of a single text.*`bootstrap.solutions_per_problem`"):
        build([solution("a", 0, label=1, correct=True)])
