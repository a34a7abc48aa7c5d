"""Games with a generative verifier, which writes an evaluation and predicts a score."""

import json
import shutil
import signal

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from pvg_hf import load_recipe, play
from pvg_hf.analyses.form import text_before_evaluation
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.config import RecipeError
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.data.pool import load_pool
from pvg_hf.data.problems import GameProblems
from pvg_hf.data.review import read_review
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.phases.verifier import training_proofs
from pvg_hf.run.layout import PhaseKey, RunFolder
from pvg_hf.scoring import GenerativeVerifier
from pvg_hf.scoring.auto_label import read_labels
from pvg_hf.trainers.generative.trainer import ScoreVerifierTrainer
from tests.support.game_runs import differing, play_in_process

PHASES = ("verifier", "mint", "evaluate")
SELF_EVALUATION = {
    "prover__roles": "helpful_only",
    "prover__self_evaluation": {},
    "prover__max_completion_length": 64,
    "task__prompts": {"helpful": "{{ problem }}\nhelpful solution and evaluation:\n"},
}


def context_of(folder: RunFolder, round_index: int, *changes: str) -> PhaseContext:
    recipe = load_recipe(folder.recipe, changes)
    return PhaseContext(recipe, folder, PhaseKey("verifier", round_index), GameProblems.load(recipe), StopRequest())


def test_the_verifier_is_the_best_validated_one_with_its_prompts(score_run):
    for round_index in (0, 1):
        place = score_run.verifier(round_index)
        rewards = read_json(place / "validation.json")
        assert list(rewards) == ["2", "4"]
        metrics = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
        (best,) = [
            line["verifier/best_validation_reward"] for line in metrics if "verifier/best_validation_reward" in line
        ]
        assert best == max(rewards.values())
        scores = GenerativeVerifier.from_pretrained(place, device="cpu")(
            ["Ana has 5 pens."] * 2, ["has 5\n#### 5", "has 4"]
        )
        assert all(0 <= score <= 1 for score in scores)
        assert not list(place.glob("checkpoint*"))


def test_solutions_are_scored_by_the_mean_of_evaluations(score_run):
    rows = load_pool(sorted(score_run.pool(0).glob("test-*.parquet"))).to_pandas()
    assert set(rows["score"]) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert rows["score"].nunique() > 1


def test_evaluations_without_a_score_are_counted_and_reported(score_run):
    lines = [line for file in score_run.root.rglob("metrics.jsonl") for line in read_json_lines(file)]
    counts = {phase: [line[key] for line in lines if (key := f"{phase}/num_unreadable") in line] for phase in PHASES}
    assert all(counts.values())
    assert sum(map(sum, counts.values())) > 0
    assert "Evaluations without a score" in (score_run.root / "report.html").read_text()


def test_new_proofs_are_labelled_by_the_rounds_verifier(score_run):
    labels = read_labels(score_run.pool(0) / "labels")
    rows = load_pool([score_run.pool(0) / f"{role}.parquet" for role in ("helpful", "sneaky")], parts=("verifier",))
    written = {(row["problem"], row["solution"]) for row in rows if not row["is_truncated"]}
    assert 0 < len(labels) <= len(written)
    assert labels.keys() <= written
    lines = (score_run.pool(0) / "labels" / "labels.jsonl").read_text().splitlines()
    assert {(row["problem"], row["proof"]) for row in map(json.loads, lines)} == written
    figures = read_json(score_run.evaluation(0) / "metrics.json")
    assert figures["round/labels/coverage"]["value"] == pytest.approx(len(labels) / len(written))


def test_the_next_verifier_learns_from_both(score_run):
    """It trains on the base prover's proofs with the task's scores, and on the round's with their labels."""
    labels = read_labels(score_run.pool(0) / "labels")
    rows = training_proofs(context_of(score_run, 1)).to_list()
    base = load_pool([score_run.pool(-1) / "base.parquet"]).to_pandas()
    truth = {(row.problem, row.solution): float(row.correct) for row in base.itertuples()}
    known = {**labels, **truth}
    asked = [row for row in rows if row["analysis"] is None]
    assert asked
    assert all(row["score"] == known[row["problem"], row["proof"]] for row in asked)
    assert any((row["problem"], row["proof"]) not in truth for row in asked)
    assert any(row["analysis"] is not None for row in rows)


def test_a_persons_labels_come_first(score_run, tmp_path):
    base = load_pool([score_run.pool(-1) / "base.parquet"], parts=("verifier",)).to_pandas()
    row = base[~base["is_truncated"]].iloc[0]
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"problem_id": row["problem_id"], "solution": row["solution"], "score": 0.5}))
    context = context_of(score_run, 1, f"data.annotations={path}")
    rows = [one for one in training_proofs(context).to_list() if one["analysis"] is None]
    found = {one["score"] for one in rows if (one["problem"], one["proof"]) == (row["problem"], row["solution"])}
    assert found == {0.5}


def test_evaluations_are_kept_with_their_issues_and_figures(score_run):
    rows = pd.read_parquet(score_run.evaluation(1) / "evaluations.parquet")
    figures = read_json(score_run.evaluation(1) / "metrics.json")
    assert figures["round/evaluations/accuracy"]["value"] == pytest.approx(
        (rows["predicted"] == rows["reference"]).mean()
    )
    flawed = rows[rows["reference"] == 0]
    assert figures["round/evaluations/false_positive_rate"]["value"] == pytest.approx(
        (flawed["predicted"] == 1).mean()
    )
    cells = [figures[f"round/evaluations/confusion/0_as_{name}"]["value"] for name in ("0", "0.5", "1", "none")]
    assert sum(cells) == pytest.approx(1)
    named = [is_real for issues in rows["issues"] for _, is_real in json.loads(issues)]
    assert figures["round/evaluations/hallucinated"]["value"] == pytest.approx(1 - sum(named) / len(named))
    page = score_run.report.read_text()
    assert "evaluations of test proofs" in page
    assert ("hallucinated</span>" in page) == (not all(named))


@pytest.mark.game
def test_a_killed_game_ends_in_the_same_bytes(score_run, make_score_recipe, tmp_path):
    recipe, log = make_score_recipe(tmp_path), tmp_path / "log.txt"
    deaths = [
        ("open", r"verifier/\.round-000\.partial/checkpoints/checkpoint-4/trainer_state", 1),
        ("os.rename", r"pool/\.round-000\.partial/labels/\.?labels\.jsonl", 1),
        ("os.rename", r"evaluation/\.round-000\.partial/metrics\.json'", 1),
    ]
    for event, pattern, count in deaths:
        moment = {"event": event, "pattern": pattern, "count": count}
        code = play_in_process({"recipe": recipe, "signal": "SIGKILL", "moment": moment}, log)
        assert code == -signal.SIGKILL, log.read_text()
    assert differing(play(load_recipe(recipe)), score_run) == []


def test_scores_of_a_person_are_trained_on(score_run, tmp_path):
    """They are added to the verifier's labels, and replace them where both exist."""
    folder = tmp_path / "labels"
    shutil.copytree(score_run.pool(0) / "labels", folder)
    undecided = pd.read_csv(folder / "review.csv", dtype={"score": "string"})
    assert len(undecided)
    undecided["score"] = "0.5"
    undecided.to_csv(folder / "review.csv", index=False)
    assert set(read_review(folder / "review.csv").values()) == {0.5}
    before, after = read_labels(score_run.pool(0) / "labels"), read_labels(folder)
    assert len(after) == len(before) + len(undecided)
    assert list(after.values()).count(0.5) == list(before.values()).count(0.5) + len(undecided)


@pytest.mark.game
def test_a_prover_can_evaluate_its_own_proofs(make_score_recipe, tmp_path):
    """Only its proofs go to the pool and the verifier; its reward rises if its evaluation of itself is accurate."""
    folder = play(load_recipe(make_score_recipe(tmp_path, num_rounds=1, **SELF_EVALUATION, prover__max_steps=3)))
    rows = load_pool([folder.pool(0) / "test-helpful.parquet"]).to_pandas()
    # A sampled text may also hold the beginning of the opening sentence; only the whole sentence opens an evaluation.
    assert [text for text in rows["solution"] if text_before_evaluation(text) != text] == []
    lines = [json.loads(line) for line in (folder.prover(0) / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "prover/self_evaluation/format_rate" in line]
    assert len(steps) == 3
    assert any(line["prover/self_evaluation/format_rate"] > 0 for line in steps)
    assert all(0 <= line["prover/reward"] <= 1 for line in steps)
    assert all(0 <= line["prover/self_evaluation/quality"] <= 1 for line in steps)  # by the verifier's meta-verifier


@pytest.mark.game
def test_a_warm_verifier_continues_its_adapter_with_the_first_as_reference(make_score_recipe, tmp_path, beginnings):
    changes = {"verifier__init": "warm", "verifier__lora": {"r": 4}, "verifier__score__beta": 0.1}
    changes |= {"prover__max_steps": 2, "verifier__score__labels": "task"}
    recipe = load_recipe(make_score_recipe(tmp_path, **changes))
    folder = play(recipe)
    verifiers = [(trainer, weights) for trainer, weights in beginnings if isinstance(trainer, ScoreVerifierTrainer)]
    assert len(verifiers) == 2
    saved = load_file(folder.verifier(0) / "adapter_model.safetensors")
    _, weights = verifiers[1]
    begun = {name.replace(".default", ""): tensor for name, tensor in weights.items() if "lora_" in name}
    assert begun.keys() == saved.keys()
    assert all(torch.equal(begun[name], saved[name]) for name in saved)
    for (trainer, _), is_first in zip(verifiers, (True, False), strict=True):
        assert trainer.ref_model is None  # the adapter is switched off instead
        lines = read_json_lines(folder.verifier(0 if is_first else 1) / "metrics.jsonl")
        first = next(line["verifier/kl"] for line in lines if "verifier/kl" in line)
        assert (first < 1e-6) == is_first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verifier__init": "head_only"}, "has no head; take `full` or `warm`"),
        ({"verifier__loss": "cross_entropy"}, "`verifier.loss` is for a verifier that learns from pairs"),
        ({"verifier__max_length": 7}, "`verifier.max_length` is for a verifier that learns from pairs"),
        ({"data__pairs": "all"}, "`data.pairs` chooses pairs"),
        ({"data__solutions_per_problem": 8}, "`data.solutions_per_problem` chooses pairs"),
        ({"verifier__save_steps": 2}, "set `verifier.score.eval_steps`"),
        ({"verifier__trainer": {"num_generations": 8}}, "key `verifier.score.num_generations`"),
        ({"verifier__trainer": {"judge_prompt": "?"}}, "key `verifier.score.judge_prompt`"),
        ({"verifier__trainer": {"per_device_train_batch_size": 8}}, "key `verifier.score.proofs_per_step`"),
        ({"verifier__score__chat_template_kwargs": {"tokenize": True}}, "`chat_template_kwargs` has `tokenize`"),
        (
            {"task__name": "tests.support.recall_task:RecallTask"},
            "`verifier.score.meta_verifier` is `task`, and the task",
        ),
        ({"verifier__score__evaluate_prompt": "{{ solution }}"}, "unknown variable `solution`"),
        ({"noise__rho0": 0.1, "task__name": "proofs"}, "learns from the scores of this task's proofs"),
        (
            {"verifier__init": "warm", "rounds": {1: {"verifier": {"lora": {}}}}},
            "round 0 has another `verifier.kind` or other",
        ),
        ({"noise__rho0": 0.1, "noise__resample": "epoch"}, "has no pairs"),
        (
            {"prover__algorithm": "ppo", "prover__ppo": {"critic": "verifier"}},
            "`prover.ppo.critic` is `verifier`, which needs `verifier.kind: bradley_terry`",
        ),
        ({**SELF_EVALUATION, "task__prompts": {}}, "write one in `task.prompts.helpful`"),
        ({**SELF_EVALUATION, "prover__roles": "shared"}, "it needs `prover.roles: helpful_only`; got `shared`"),
    ],
)
def test_invalid_recipes_are_refused(make_score_recipe, tmp_path, changes, message):
    recipe = load_recipe(make_score_recipe(tmp_path, **changes))
    assert any(message in mistake for mistake in check_recipe(recipe, GameProblems.load(recipe)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verifier__kind": "bradley_terry"}, "`score` has settings of `kind: score`"),
        ({"verifier__score__label_checks": 2}, r"`label_checks` \(m\) must be odd"),
        ({"verifier__score__label_agreements": 9}, "no proof could get a label"),
        ({"verifier__score__num_generations": 1}, "num_generations"),
    ],
)
def test_contradictory_settings_are_refused(make_score_recipe, tmp_path, changes, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe(make_score_recipe(tmp_path, **changes))


def test_the_recipes_of_these_tests_have_no_mistakes(make_score_recipe, tmp_path):
    for changes in ({}, SELF_EVALUATION, {"verifier__init": "warm"}, {"task__name": "proofs", "task__options": {}}):
        recipe = load_recipe(make_score_recipe(tmp_path, **changes))
        assert check_recipe(recipe, GameProblems.load(recipe)) == []
