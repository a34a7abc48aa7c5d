from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from pvg_hf import VerifierScorer, load_recipe
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng, derive_seed
from pvg_hf.data.problems import GameProblems
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.verifier_quality import pair_accuracy
from pvg_hf.models.prover_model import load_prover
from pvg_hf.noise.draws import label_draw, solution_key
from pvg_hf.rewards import correctness_gated_convincingness, goodhart
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.static_sampler import StaticSampler
from pvg_hf.trainers.common.grpo import SampledGRPOTrainer
from tests.support.game_runs import prover_steps
from tests.support.own_rules import scaled_score
from tests.support.recall_task import write_solution

pytestmark = pytest.mark.game


def heldout_lines(folder):
    """The prover phase's figures of the steps at which its held-out solutions were judged."""
    lines = read_json_lines(folder.prover(0) / "metrics.jsonl")
    return [line for line in lines if "prover/heldout/selection" in line]


def heldout_solutions(folder, weights, max_new_tokens=8, num_samples=2, with_rows=False):
    """
    Scores of a prover's solutions to the first four of D_pi's held-out problems, with the seeds that a phase uses;
    whether they are correct, and whether they state the right answer though they may be truncated.
    """
    recipe = load_recipe(folder.recipe)
    world = GameProblems.load(recipe)
    problems = world.parts["prover_heldout"].to_list()[:4]
    model, tokenizer = load_prover(weights)
    prompts = [world.prompt(problem, Role.HELPFUL, tokenizer) for problem in problems]
    seed = derive_seed(recipe.seed, "round-000", "prover", "heldout")
    rngs = [[derive_rng(seed, problem["problem_id"], i) for i in range(num_samples)] for problem in problems]
    written = Sampler(model, tokenizer, max_new_tokens=max_new_tokens).sample(prompts, rngs)
    rows = [(problem, sample) for problem, row in zip(problems, written, strict=True) for sample in row]
    score = VerifierScorer.from_pretrained(folder.verifier(0))
    scores = score([problem["problem"] for problem, _ in rows], [sample.text for _, sample in rows])
    is_stated = torch.tensor([world.task.grade(problem, sample.text).correct for problem, sample in rows])
    is_cut = torch.tensor([sample.is_truncated for _, sample in rows])
    found = torch.tensor(scores), is_stated & ~is_cut, is_stated
    if not with_rows:
        return found
    grades = [world.task.grade(problem, sample.text) for problem, sample in rows]
    is_judged = [g.answer is not None and not s.is_truncated for g, (_, s) in zip(grades, rows, strict=True)]
    return *found, [(p["problem_id"], s.text, judged) for (p, s), judged in zip(rows, is_judged, strict=True)]


@pytest.mark.parametrize(
    ("reward", "options", "judge"),
    [
        ("src", {}, correctness_gated_convincingness),
        ("goodhart", {}, goodhart),
        ("cgc", {"floor": -9.0}, partial(correctness_gated_convincingness, floor=-9.0)),
        ("tests.support.own_rules:scaled_score", {"factor": 3.0}, partial(scaled_score, factor=3.0)),
        ("pvg_hf.rewards:signed_relative_convincingness", {}, correctness_gated_convincingness),
        ("tests.support.own_rules:above_the_group", {}, correctness_gated_convincingness),
    ],
    ids=["src", "goodhart", "cgc", "own", "src by module", "own relative"],
)
def test_prover_is_judged_by_its_heldout_solutions(reward, options, judge, play_phase):
    """
    The measure is the reward that it is trained with and its options; for a relative reward it is CGC, as the reward
    itself says nothing about the group.
    """
    folder = play_phase("prover", 0, prover__reward=reward, prover__reward_options=options)
    line = heldout_lines(folder)[-1]
    assert line["step"] == 6
    scores, correct, _ = heldout_solutions(folder, folder.prover(0))
    rewards = judge(scores, correct, torch.zeros(8, dtype=torch.bool), group_size=2)
    assert line["prover/heldout/accuracy"] == pytest.approx(correct.float().mean().item())
    assert line["prover/heldout/score"] == pytest.approx(scores.mean().item(), abs=1e-5)
    assert line["prover/heldout/selection"] == pytest.approx(rewards.mean().item(), abs=1e-5)


@pytest.mark.parametrize(
    ("reward", "options", "highest"),
    [
        ("composite", {"weights": {"test_pass_rate": 2.0, "acceptance_prob": 1.0}}, 3.0),
        ("gated_multiplicative", {"alpha": 0.5}, 1.0),
    ],
)
def test_a_prover_is_trained_and_judged_by_several_signals(reward, options, highest, play_phase):
    settings = {"reward": reward, "reward_options": options, "roles": "helpful_only"}
    changes = {f"prover__{key}": value for key, value in settings.items()}
    folder = play_phase("prover", 0, task__name="tests.support.recall_task:TestedRecallTask", **changes)
    lines = read_json_lines(folder.prover(0) / "metrics.jsonl")
    assert all(0 <= line["prover/reward/helpful"] <= highest for line in lines if "prover/reward/helpful" in line)
    scores, correct, _ = heldout_solutions(folder, folder.prover(0))
    # Correct solutions pass all tests; what incorrect ones earn depends on whether they have an answer.
    least = scores.sigmoid() + 2.0 if reward == "composite" else scores.sigmoid() * 0.5
    assert (
        least[correct].sum() / len(scores) - 1e-5 <= heldout_lines(folder)[-1]["prover/heldout/selection"] <= highest
    )


@pytest.mark.parametrize(
    ("changes", "is_plain"),
    [
        ({"noise": {"epsilon": 0.1, "applies_to": "prover"}}, True),
        (
            {"rates": {"source": "given", "rho0": 0.1, "rho1": 0.1}},
            False,
        ),  # of the task's grader, which grades here too
    ],
)
def test_held_out_scores_are_corrected_only_for_noise_in_their_labels(changes, is_plain, play_phase):
    folder = play_phase("prover", 0, prover__reward="cgc", prover__reward_correction="backward", **changes)
    line = heldout_lines(folder)[-1]
    scores, correct, _ = heldout_solutions(folder, folder.prover(0))
    plain = torch.where(correct, scores, -2.0).mean().item()
    assert (line["prover/heldout/selection"] == pytest.approx(plain, abs=1e-5)) == is_plain


def test_truncated_held_out_solutions_count_as_failed(play_phase, tokenizer):
    """
    The maximum length is that of a whole solution without its end token: solutions that state a right answer are
    truncated.
    """
    length = len(tokenizer(write_solution(5))["input_ids"])
    settings = {"max_completion_length": length, "max_steps": 2, "eval_samples": 8}
    folder = play_phase(
        "prover", 0, watchdogs__max_truncated=1.0, **{f"prover__{key}": value for key, value in settings.items()}
    )
    line = heldout_lines(folder)[-1]
    scores, correct, is_stated = heldout_solutions(folder, folder.prover(0), length, num_samples=8)
    assert (is_stated & ~correct).any()
    assert line["prover/heldout/accuracy"] == pytest.approx(correct.float().mean().item())
    # Which solutions are correct depends on what was sampled; there may be none.
    score_correct = pytest.approx(scores[correct].mean().item(), abs=1e-5) if correct.any() else None
    assert line["prover/heldout/score_correct"] == score_correct
    by_cgc = torch.where(correct, scores, -2.0)
    assert line["prover/heldout/selection"] == pytest.approx(by_cgc.mean().item(), abs=1e-5)


def test_only_every_few_steps_and_the_last_step_are_judged(play_phase):
    folder = play_phase("prover", 0, prover__eval_steps=4)
    assert [line["step"] for line in heldout_lines(folder)] == [4, 6]


def selection_figures(folder) -> list[float]:
    """The starting point's figure, and those of the evaluations."""
    steps = prover_steps(folder)
    assert [step for step, line in steps.items() if "prover/start/selection" in line] == [1]
    return [steps[1]["prover/start/selection"], *(line["prover/heldout/selection"] for line in heldout_lines(folder))]


def test_best_checkpoint_is_the_one_that_was_judged_best(play_phase):
    folder = play_phase("prover", 0, prover__learning_rate=0.01, watchdogs__max_truncated=1.0)
    figures = selection_figures(folder)
    assert len(figures) > 2
    scores, correct, _ = heldout_solutions(folder, folder.prover(0) / "best-helpful")
    rewards = torch.where(correct, scores, -2.0)  # CGC of the helpful role
    assert max(figures) == pytest.approx(rewards.mean().item(), abs=1e-5)


def test_the_starting_point_is_judged_by_the_same_draws(play_phase):
    folder = play_phase("prover", 0, prover__max_steps=1)
    recipe = load_recipe(folder.recipe)
    scores, correct, _ = heldout_solutions(folder, recipe.prover.model)
    line = prover_steps(folder)[1]
    assert line["prover/start/accuracy"] == pytest.approx(correct.float().mean().item())
    assert line["prover/start/score"] == pytest.approx(scores.mean().item(), abs=1e-5)
    assert line["prover/start/selection"] == pytest.approx(torch.where(correct, scores, -2.0).mean().item(), abs=1e-5)


def test_the_starting_point_is_kept_if_no_checkpoint_is_better(play_phase):
    """
    Steps so small that the weights change and no solution does: every evaluation has the figure of the starting point.
    """
    folder = play_phase("prover", 0, prover__learning_rate=1e-7)
    assert len(set(selection_figures(folder))) == 1
    places = (folder.prover(0) / "best-helpful", Path(load_recipe(folder.recipe).prover.model), folder.prover(0))
    kept, start, last = (load_file(place / "model.safetensors") for place in places)
    assert [name for name, tensor in kept.items() if not torch.equal(tensor, start[name])] == []
    assert [name for name, tensor in last.items() if not torch.equal(tensor, start[name])] != []


MOSTLY_ACCEPTED = {"rho0": 0.9, "rho1": 0.0}


def observed_labels(problem_ids, texts, correct, seed=0) -> list[bool]:
    """Labels after flips of incorrect solutions at the rate of `MOSTLY_ACCEPTED`."""
    keys = [solution_key(*solution) for solution in zip(problem_ids, texts, strict=True)]
    return [bool(c) or label_draw(seed, key) < 0.9 for c, key in zip(correct, keys, strict=True)]


@pytest.mark.parametrize(("labels", "is_observed"), [("clean", False), ("observed", True)])
def test_the_checkpoint_is_chosen_by_the_labels_of_the_recipe(labels, is_observed, play_phase):
    noise = {**MOSTLY_ACCEPTED, "applies_to": "prover"}
    folder = play_phase("prover", 0, prover__reward="cgc", stopping__labels=labels, noise=noise)
    line = heldout_lines(folder)[-1]
    scores, correct, _, rows = heldout_solutions(folder, folder.prover(0), with_rows=True)
    problem_ids, texts, is_judged = zip(*rows, strict=True)
    flipped = observed_labels(problem_ids, texts, correct, load_recipe(folder.recipe).seed)
    decisive = (torch.tensor(flipped) if is_observed else correct) & torch.tensor(is_judged)
    assert line["prover/heldout/selection"] == pytest.approx(
        torch.where(decisive, scores, -2.0).mean().item(), abs=1e-5
    )
    assert line["prover/heldout/accuracy"] == pytest.approx(
        correct.float().mean().item()
    )  # judging is by clean labels
    assert ("prover/heldout/score_observed_correct" in line) == is_observed


@pytest.mark.parametrize(("labels", "last"), [("clean", 6), ("observed", 1)])
def test_a_phase_stops_by_the_labels_of_the_recipe(labels, last, play_phase):
    """The rule waits until nearly all sneaky solutions that did not fail seem correct, which at this rate they do."""
    noise = {"rho0": 0.99, "rho1": 0.0, "applies_to": "prover"}
    rule = "tests.support.own_rules:seems_correct"
    folder = play_phase("prover", 0, stopping={"rule": rule, "labels": labels}, noise=noise)
    assert max(prover_steps(folder)) == last


@pytest.mark.parametrize("labels", ["clean", "observed"])
def test_the_threshold_is_chosen_by_the_labels_of_the_recipe(labels, play_phase):
    folder = play_phase("verifier", 0, stopping__labels=labels, noise={"rho0": 0.3, "rho1": 0.0})
    rows = scored_rows(pd.read_parquet(folder.verifier(0) / "heldout.parquet"))
    correct = rows["correct"].to_numpy()
    if labels == "observed":
        keys = [solution_key(*solution) for solution in zip(rows["problem_id"], rows["solution"], strict=True)]
        seed = load_recipe(folder.recipe).seed
        flips = [label_draw(seed, key) < 0.3 for key in keys]
        assert any(flips[i] and not correct[i] for i in range(len(rows)))
        correct = correct | flips
    threshold = read_json(folder.verifier(0) / "calibration.json")["threshold"]
    assert threshold == Acceptance.at(rows.loc[correct, "score"]).threshold
    lines = read_json_lines(folder.verifier(0) / "metrics.jsonl")
    recorded = {key: value for line in lines for key, value in line.items() if "heldout_pair" in key}
    if labels == "observed":
        assert recorded["verifier/observed/heldout_pair_accuracy"] == pair_accuracy(rows.assign(correct=correct)).value
    else:
        assert "verifier/observed/heldout_pair_accuracy" not in recorded


@pytest.fixture
def static_samplers(monkeypatch):
    """Samples with a static cache where weights are not sharded, as on a GPU. Lists the samplers that were made."""
    made: list[StaticSampler] = []

    class Listed(StaticSampler):
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)
            made.append(self)

    monkeypatch.setattr("pvg_hf.sampling.engines.StaticSampler", Listed)
    monkeypatch.setattr(
        "pvg_hf.sampling.engines.choose_sampler",
        lambda model, *, is_sharded=False: (Sampler if is_sharded else Listed, ""),
    )
    return made


def test_training_and_selection_share_a_cache_that_leaves_room(play_phase, static_samplers):
    folder = play_phase("prover", 0, prover__max_steps=2, prover__eval_steps=1)
    assert len(heldout_lines(folder)) == 2
    assert [sampler.leaves_room for sampler in static_samplers] == [True]


def test_a_prover_with_sharded_weights_is_judged_without_a_static_cache(play_phase, static_samplers, monkeypatch):
    monkeypatch.setattr(SampledGRPOTrainer, "is_sharded", True)
    folder = play_phase("prover", 0, prover__max_steps=1)
    assert len(heldout_lines(folder)) == 1
    assert static_samplers == []
