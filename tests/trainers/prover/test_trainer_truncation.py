"""Solutions that reach the maximum length."""

import pytest

from pvg_hf.models.prover import load_prover
from pvg_hf.tasks.grade import Grade
from tests.support.prover_training import loss_lines, prover_trainer, read_completions


def test_a_step_of_truncated_solutions_stops_the_run(tiny_prover, tmp_path):
    settings = {"max_truncated_share": 0.5, "max_completion_length": 2}
    with pytest.raises(ValueError, match=r"100% of the solutions .* `max_completion_length=2` .*allowed: 50%"):
        prover_trainer(str(tiny_prover), tmp_path, settings=settings).train()


@pytest.mark.parametrize(
    ("grade", "outcome"),
    [
        (Grade("18", correct=True), "VERIFIED"),
        (Grade("1", correct=False), "PROOF_INVALID"),
        (Grade("18", correct=True, certified=False), "UNCERTIFIED"),
        (Grade("1", correct=False, certified=False), "UNCERTIFIED"),
    ],
)
def test_truncated_and_uncertified_solutions_play_neither_role(grade, outcome, prover, tmp_path):
    """CGC pays its floor for them, and the others, which all play one of the roles, their score."""
    settings = {"max_steps": 1, "log_completions": True, "reward": "cgc", "reward_options": {"floor": -9.0}}
    trainer = prover_trainer(prover, tmp_path, grader=lambda row, solution: grade, settings=settings)
    trainer.train()
    (log,), table = loss_lines(trainer), read_completions(tmp_path)
    cut = table["outcome"] == "TRUNCATED"
    assert 0 < cut.sum() < len(table)
    assert set(table["outcome"][~cut]) == {outcome}
    role = "helpful" if grade.correct else "sneaky"
    is_paid = ~cut & (table["role"] == role) & (outcome != "UNCERTIFIED")
    assert table["cgc"].tolist() == pytest.approx(table["score"].where(is_paid, -9.0).tolist())
    assert not (table["correct"] & cut).any()
    assert log["failed/sneaky"] == (1 if outcome == "UNCERTIFIED" else log["truncated/sneaky"])
    assert log["valid_sneaky"] == (1 - log["failed/sneaky"] if outcome == "PROOF_INVALID" else 0)


def test_every_end_token_of_the_model_ends_a_solution(tiny_prover, tmp_path):
    model, tokenizer = load_prover(tiny_prover)
    model.generation_config.eos_token_id = list(range(1, len(tokenizer)))
    settings = {"max_truncated_share": 0.0, "max_completion_length": 3, "max_steps": 1}
    trainer = prover_trainer(model, tmp_path, settings=settings)
    trainer.train()
    assert loss_lines(trainer)[0]["truncated/helpful"] == 0
