from pvg_hf.data.report import PairReport


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
