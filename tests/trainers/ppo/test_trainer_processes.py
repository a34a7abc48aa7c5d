"""Prover and critic take the same steps on one process, on two, and in micro-batches."""

import json

import pytest

from tests.support.two_processes import run_on_two_processes
from tests.support.written_batches import STRUCTURES, train

pytestmark = pytest.mark.slow

FIGURES = {
    "loss",
    "loss/policy",
    "loss/value",
    "approx_kl",
    "kl",
    "critic/grad_norm",
    "critic/clip_ratio",
    "critic/value",
    "critic/return",
    "explained_variance",
    "grad_norm",
    "reward",
}
# The others are means over micro-batches, be their tokens many or few, as TRL's own are.
OF_STEPS = FIGURES - {"approx_kl", "kl", "critic/clip_ratio"}


def _check_same(result: dict, expected: dict, figures: set[str] = FIGURES) -> None:
    assert len(result["log"]) == len(expected["log"]) == 4
    for line, other in zip(result["log"], expected["log"], strict=True):
        assert figures & line.keys() == figures & other.keys()
        found, wanted = ({key: log[key] for key in figures & log.keys()} for log in (line, other))
        assert found == pytest.approx(wanted, rel=1e-3, abs=2e-5)
    assert result["sums"] == pytest.approx(expected["sums"], rel=1e-6)


@pytest.fixture(scope="module")
def twofold(prover, tmp_path_factory) -> list[dict]:
    """What each of two processes makes of it, by structure of the critic."""
    folder = tmp_path_factory.mktemp("twofold")
    run_on_two_processes("written_batches.py", prover, folder)
    return [json.loads((folder / f"process-{index}.json").read_text()) for index in (0, 1)]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_two_processes_and_micro_batches_make_the_same_steps(structure, twofold, prover, tmp_path):
    whole = train(prover, tmp_path / "whole", structure, per_device=16)
    assert whole["log"][3]["approx_kl"] > 1e-7
    results = [of_process[structure] for of_process in twofold]
    assert [result["num_processes"] for result in results] == [2, 2]
    assert results[0]["sums"] == results[1]["sums"]
    _check_same(results[0], whole)
    if structure == "adapter":
        _check_same(twofold[0]["parts"], whole, OF_STEPS)
    _check_same(train(prover, tmp_path / "parts", structure, per_device=4, accumulation=4), whole, OF_STEPS)
