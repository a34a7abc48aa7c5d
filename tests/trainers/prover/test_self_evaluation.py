"""Rewards of a prover that evaluates its own proof."""

import pytest

from pvg_hf.analyses.form import OPENING, read_evaluation
from pvg_hf.tasks.base import Grade
from pvg_hf.tasks.proofs.language import SELF_EVALUATION_PROMPT
from pvg_hf.trainers.prover.self_evaluation import SelfEvaluatingProverTrainer
from tests.support.prover_training import loss_lines, prover_args, read_completions


def train(writer, tmp_path, **options):
    """Take one step on eight groups; returns the texts, the inputs of scorer and grader, and the log."""
    from datasets import Dataset

    texts = [f"Ana has {n} pens." for n in (3, 4, 5, 6, 7, 8, 3, 4)]
    rows = [
        {"prompt": SELF_EVALUATION_PROMPT.replace("{{ problem }}", t), "problem": t, "role": "helpful"} for t in texts
    ]
    seen: list[str] = []

    def score(problems, proofs):
        seen.extend(proofs)
        return [0.25 if len(proof) % 2 else 0.75 for proof in proofs]

    def grade(row, proof):
        seen.append(proof)
        return Grade(answer=proof, correct=True)

    args = prover_args(
        tmp_path, max_steps=1, per_device_train_batch_size=32, max_completion_length=64, log_completions=True
    )
    trainer = SelfEvaluatingProverTrainer(
        str(writer), scorer=score, grader=grade, args=args, train_dataset=Dataset.from_list(rows), **options
    )
    trainer.train()
    return read_completions(tmp_path), seen, loss_lines(trainer)[0]


@pytest.mark.parametrize("has_meta", [False, True])
def test_rewards_are_those_of_the_formula(writer, tmp_path, has_meta):
    options = {"proof_weight": 0.5, "evaluation_weight": 0.5}
    if has_meta:
        options["meta_verifier"] = lambda problems, proofs, analyses: (
            [0.5, None] * (len(problems) // 2) + [0.5] * (len(problems) % 2)
        )
    table, seen, log = train(writer, tmp_path, **options)
    assert not any(OPENING in proof for proof in seen)
    expected, asked = [], []
    for text in table["completion"]:
        read = read_evaluation(text)
        proof = text.partition(OPENING)[0].rstrip()
        value = 0.25 if len(proof) % 2 else 0.75
        agreement = 0 if read.score is None else 1 - abs(read.score - value)
        quality = (0.0 if sum(asked) % 2 else 0.5) if has_meta else 1
        asked.append(read.has_form)
        expected.append(read.has_form * (0.5 * value + 0.5 * agreement * quality))
    assert table["self_evaluation"].tolist() == pytest.approx(expected)
    assert len(set(expected)) > 2
    assert log["self_evaluation/format_rate"] == pytest.approx(_share_of_form(table))
    if has_meta:  # of the evaluations in the right form, it rated every second one only
        assert log["self_evaluation/unreadable"] == pytest.approx((sum(asked) // 2) / sum(asked))
        assert log["self_evaluation/quality"] == pytest.approx((sum(asked) + 1) // 2 * 0.5 / sum(asked))
    else:
        assert "self_evaluation/unreadable" not in log


def test_qualities_outside_their_range_are_refused(writer, tmp_path):
    with pytest.raises(ValueError, match=r"meta-verifier .* 2\.0"):
        train(writer, tmp_path, meta_verifier=lambda problems, proofs, analyses: [2.0] * len(problems))


def _share_of_form(table) -> float:
    return table["completion"].map(lambda text: read_evaluation(text).has_form).mean()
