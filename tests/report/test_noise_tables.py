from dataclasses import replace

import pytest

from pvg_hf.core.integrity import convert
from pvg_hf.report.tables import (
    calls_table,
    channel_table,
    escalation_table,
    false_positive_table,
    noise_table,
)
from pvg_hf.run.read import load_run
from pvg_hf.run.stored import CallSummary, FalsePositives

FIGURE = {"value": 0.125, "low": 0.0625, "high": 0.25, "n": 1600}
ENDING = {
    "accept": 0.0308,
    "reject": 0.9595,
    "abstain": 0.0097,
    "num_calls": 2.95,
    "cost": 6.84,
    "duration_ms": 7104.0,
}
TOLD = {
    "phase": "mint",
    "round": 0,
    "calls": 12_000,
    "codes": {"VERIFIED": 3000, "VERIFIER_SPURIOUS_PASS": 50, "PROOF_INVALID": 2000, "VERIFIER_TIMEOUT": 7},
    "flagged": 50,
    "abstained": 7,
    "cost": 24_000.0,
    "duration_ms": 90_000.0,
    "digest": "0123456789abcdef" * 4,
    "rates": [{"noise": "spurious_pass", "tier": "balanced", "slice": "4", "configured": 0.1, **FIGURE}],
    "escalations": {"fast_noisy->balanced": FIGURE},
    "channels": {"all": {"correct": {**ENDING, "accept": 0.9, "reject": 0.05}, "incorrect": ENDING}},
}


@pytest.fixture(scope="module")
def run(run_template):
    """A run with an imported base, and a checker in its first round."""
    return replace(
        load_run(run_template(2)),
        call_summaries=convert([TOLD, {**TOLD, "phase": "bootstrap", "round": -1, "rates": []}], list[CallSummary]),
    )


def test_a_line_for_each_phase_that_checked(run):
    table = calls_table(run)
    assert [place for place, _ in table.rows] == ["round 0 mint", "bootstrap"]
    values = [cell.value for cell in table.rows[0][1]]
    assert values == ["12,000", "3,050", "2,000", "7", "50", "24,000", "90", "0123456789ab"]
    assert len(table.headers) == len(values) + 1


def test_measured_rates_are_next_to_configured_ones(run):
    ((place, cells),) = noise_table(run).rows
    assert place == "round 0 mint, balanced, 4"
    assert [cell.value for cell in cells] == ["\N{EN DASH}", "\N{EN DASH}", "0.1250 (set to 0.1)"]
    assert (cells[2].interval, cells[2].n) == ("[0.0625, 0.2500]", "n=1,600")


def test_escalations_and_the_channel_are_tabulated(run):
    assert next(place for place, _ in escalation_table(run).rows) == "round 0 mint, fast_noisy->balanced"
    ((name, cells),) = channel_table(run).rows
    assert name == "all"
    assert [cell.value for cell in cells] == ["0.0308", "0.0500", "0.0097", "0.0097", "2.95", "2.95"]


def test_the_rise_of_false_positives_has_a_row_for_each_checker_and_role(run):
    rise = {"checker": "labels", "role": "helpful", "before": FIGURE, "early": FIGURE, "rise": {**FIGURE, "n": 40}}
    found = convert([{"round": 1, "rises": [rise]}], list[FalsePositives])
    ((place, cells),) = false_positive_table(replace(run, false_positives=found)).rows
    assert place == "round 1, helpful, by the labels"
    assert [(cell.value, cell.n) for cell in cells] == [("0.125", "n=1,600"), ("0.125", "n=1,600"), ("0.125", "n=40")]


def test_a_run_without_a_checker_has_no_such_tables(run_template):
    run = load_run(run_template(2))
    for table in (calls_table(run), noise_table(run), escalation_table(run), channel_table(run)):
        assert table.rows == []
