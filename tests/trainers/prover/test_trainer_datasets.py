"""Datasets that cannot be trained or evaluated on."""

import pytest

from tests.support.prover_training import prover_trainer, role_rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (role_rows().remove_columns("role"), r"lacks the column\(s\) \['role'\]; it has \['prompt', 'problem'\]"),
        (role_rows().remove_columns(["prompt", "problem"]), r"lacks the column\(s\) \['prompt', 'problem'\]"),
        (role_rows(["helpful", "base"]), r"Unknown role\(s\) \['base'\]"),
        (role_rows().to_iterable_dataset(), r"is a IterableDataset.*`streaming=False`"),
        (role_rows(["helpful"], num_problems=3), "has 3 prompts, fewer than the 4 of one generation batch"),
    ],
)
def test_wrong_datasets_are_refused(rows, message, prover, tmp_path):
    with pytest.raises(ValueError, match=message):
        prover_trainer(prover, tmp_path, rows=rows)


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"first": role_rows(), "second": rows}])
def test_wrong_evaluation_datasets_are_refused(wrap, prover, tmp_path):
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['problem'\]"):
        prover_trainer(prover, tmp_path, eval_dataset=wrap(role_rows().remove_columns("problem")))


@pytest.mark.parametrize(
    ("scorer", "part"),
    [("runs/verifier", r"the path 'runs/verifier'.*VerifierScorer\.from_pretrained"), (None, "a NoneType")],
)
def test_a_scorer_that_is_no_function_is_refused(scorer, part, prover, tmp_path):
    with pytest.raises(ValueError, match=f"`scorer` is {part}"):
        prover_trainer(prover, tmp_path, scorer=scorer)
