import pytest

from pvg_hf.data.pairs.build import PairReport, TooFewPairsError


def test_metrics_are_flat():
    report = PairReport(
        num_pairs=3,
        num_problems=2,
        num_solutions=9,
        dropped={"failed": 1, "abstained": 0},
        failed={"NO_ANSWER": 1},
        correct={"base": 2},
        unused={"not_chosen/base/correct": 5},
        short={"base/too_few_correct": 4},
    )
    assert report.as_metrics() == {
        "pairs/num_pairs": 3,
        "pairs/num_problems": 2,
        "pairs/num_solutions": 9,
        "pairs/dropped/abstained": 0,
        "pairs/dropped/failed": 1,
        "pairs/failed/NO_ANSWER": 1,
        "pairs/correct/base": 2,
        "pairs/unused/not_chosen/base/correct": 5,
        "pairs/short/base/too_few_correct": 4,
        "pairs/unfilled": 0,
    }
    assert report.as_metrics("heldout_pairs")["heldout_pairs/dropped/failed"] == 1
    assert report.as_metrics("heldout_pairs").keys().isdisjoint(report.as_metrics())


@pytest.mark.parametrize(
    ("counts", "parts"),
    [
        (
            {
                "num_solutions": 40,
                "failed": {"NO_ANSWER": 3},
                "dropped": {"failed": 3},
                "without_pair": {"no_correct": 9},
            },
            ["9 have no correct solution", "3 failed (NO_ANSWER 3)", "`prover.warmup`", "`data.correct_source: both`"],
        ),
        (
            {"num_solutions": 40, "without_pair": {"no_correct": 1, "no_incorrect": 8}},
            ["Of 9 problems", "8 have no incorrect solution", "harder problems"],
        ),
        (
            {
                "num_solutions": 9,
                "failed": {"TRUNCATED": 9},
                "dropped": {"failed": 9},
                "without_pair": {"no_solution": 4},
            },
            ["4 have no solution that could be used", "`prover.max_completion_length`"],
        ),
        (
            {
                "num_solutions": 9,
                "failed": {"NO_ANSWER": 6, "TRUNCATED": 1},
                "dropped": {"failed": 7},
                "without_pair": {"no_correct": 4},
            },
            ["7 failed (NO_ANSWER 6, TRUNCATED 1)", "`task.answer_format: lenient`"],
        ),
        (
            {"num_solutions": 9, "dropped": {"abstained": 8}, "without_pair": {"no_solution": 4}},
            ["8 have no label", "`noise.checker`"],
        ),
        (
            {"num_solutions": 9, "dropped": {"outside_mixture": 9}, "without_pair": {"no_solution": 4}},
            ["9 are from rounds of weight 0", "`data.mixture`"],
        ),
        ({"num_solutions": 0}, ["no solution to any of the problems"]),
    ],
    ids=["no correct", "no incorrect", "cut", "no answer", "no label", "other rounds", "empty"],
)
def test_the_error_for_no_pairs_has_a_remedy(counts, parts):
    message = PairReport(num_pairs=0, num_problems=0, **counts).explain_failure()
    assert [part for part in parts if part not in message] == []


def test_the_error_for_too_few_pairs_counts_what_is_missing():
    report = PairReport(
        num_pairs=3,
        num_problems=2,
        num_solutions=40,
        short={"base/too_few_correct": 7, "round-000/too_few_correct": 2, "base/too_few_incorrect": 1},
        refilled={"round-000": 4},
        unfilled=6,
        without_pair={"no_correct": 8},
    )
    message = str(TooFewPairsError(report, " 5 are needed."))
    assert "Only 3 pairs" in message
    assert "Of 10 problems 2 have a pair, 8 have no correct solution" in message
    assert (
        "6 places for solutions stay empty (9 for want of correct ones, 1 for want of incorrect ones; other" in message
    )
    assert message.endswith(" 5 are needed.")
