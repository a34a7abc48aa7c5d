"""Evaluations of the texts of a round."""

import shutil

import pandas as pd
import pytest

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.experimental.judging.judged_texts import cut_to_budget
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.game.phases.evaluate import SOLUTION_KEYS
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.run.layout import POOL_SCORES, RunFolder, pool_test_file


@pytest.fixture
def run(tmp_path, reference) -> RunFolder:
    """A copy of the reference run that may be changed."""
    return RunFolder(shutil.copytree(reference.root, tmp_path / "game"))


def test_separability_of_a_round_has_both_discriminators(run):
    overrides = [
        "role_separability.num_problems=6",
        "role_separability.num_folds=2",
        "role_separability.num_epochs=0.5",
    ]
    (result,) = evaluate_run(run.root, round_index=0, only=["role_separability"], overrides=overrides)
    names = {f"{name}/{key}" for name in ("ngrams", "transformer") for key in ("all", "incorrect")}
    assert set(result.figures) == names
    assert result.figure("ngrams/all").n == result.figure("transformer/all").n
    (again,) = evaluate_run(run.root, round_index=0, only=["role_separability"], overrides=overrides, again=True)
    assert again.figures == result.figures


def test_the_transformer_can_be_left_out(run):
    overrides = ["role_separability.discriminator=none"]
    (result,) = evaluate_run(run.root, round_index=0, only=["role_separability"], overrides=overrides)
    assert set(result.figures) == {"ngrams/all", "ngrams/incorrect"}


def test_style_of_a_round(run):
    (result,) = evaluate_run(run.root, round_index=0, only=["style"], overrides=["style.num_folds=2"])
    assert {"explained/all", "explained_within/all", "auc/rest"} <= set(result.figures)


def test_style_is_also_probed_on_texts_that_all_verifiers_have_scored(run):
    overrides = ["style.num_folds=2"]
    rounds = [evaluate_run(run.root, round_index=k, only=["style"], overrides=overrides)[0] for k in (0, 1)]
    texts = pd.read_parquet(run.pool(BASE_ROUND) / pool_test_file(Role.HELPFUL))
    for result in rounds:
        assert result.figure("base/explained_within/all").n == len(scored_rows(texts.assign(score=0.0)))
    assert (
        len({result.figure("base/explained_within/all").value for result in rounds}) == 2
    )  # each verifier's own scores
    # With the scores of the other round, the figure is the other round's: texts and folds are the same.
    own, other = (pd.read_parquet(run.evaluation(k) / POOL_SCORES) for k in (1, 0))
    is_base, other = own["round_index"] == BASE_ROUND, other[other["round_index"] == BASE_ROUND]
    own.loc[is_base, "score"] = own[is_base].merge(other, on=SOLUTION_KEYS)["score_y"].to_numpy()
    own.to_parquet(run.evaluation(1) / POOL_SCORES)
    (run.evaluation(1) / "digests.json").unlink()
    (again,) = evaluate_run(run.root, round_index=1, only=["style"], overrides=overrides, again=True)
    assert again.figure("base/explained_within/all") == rounds[0].figure("base/explained_within/all")


@pytest.mark.parametrize(
    "judge",
    [[], ["legibility.judge=arithmetic-prover", "legibility.question="], ["legibility.judge=VERIFIER"]],
    ids=["packaged", "language model", "round's verifier"],
)
def test_legibility_by_any_judge(run, judge):
    names = {"VERIFIER": str(run.verifier(0)), "arithmetic-prover": resolve_model("arithmetic", "prover")}
    overrides = ["legibility.token_budget=12"]
    for setting in judge:
        key, _, value = setting.partition("=")
        overrides.append(f"{key}={names.get(value, value)!r}")
    (result,) = evaluate_run(run.root, round_index=0, only=["legibility"], overrides=overrides)
    assert (result.figure("token_budget").value, result.figure("token_budget").n) == (12, 1)
    assert result.figure("judge_cut/sneaky_incorrect").n == result.figure("num_lines/sneaky_incorrect").n
    for name in ("judge_auc/game", "judge_auc/helpful", "base/readability/helpful_correct"):
        assert name in result.figures


def test_a_default_judge_that_was_not_pulled_is_named(run):
    shutil.rmtree(run.verifier(0))
    with pytest.raises(ValueError, match=r"round-000 does not exist.*`legibility\.judge=FOLDER`"):
        evaluate_run(run.root, round_index=1, only=["legibility"])


def test_a_budget_keeps_whole_tokens():
    tokenizer = load_tokenizer(resolve_model("arithmetic-judge-small", "verifier"))
    text = "Ana has 12\nBen has 6 more than Ana: 12 + 6 = 18\n#### 18"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    for budget in (1, 3, 7):
        short = cut_to_budget(tokenizer, text, budget)
        assert text.startswith(short)
        assert tokenizer(short, add_special_tokens=False)["input_ids"] == ids[:budget]
    assert cut_to_budget(tokenizer, text, len(ids)) == cut_to_budget(tokenizer, text, None) == text
