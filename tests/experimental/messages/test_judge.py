"""Judging: thresholds, shares, attackers, and the gate of the noise experiments."""

import math

import pytest
import torch

from pvg_hf.core.figure import Figure, wilson
from pvg_hf.core.integrity import convert
from pvg_hf.experimental.messages.building import open_world
from pvg_hf.experimental.messages.game_modules import MessageGame
from pvg_hf.experimental.messages.judge import (
    MessageJudgement,
    acceptance_threshold,
    attack_messages,
    chance_of,
    judge_game,
    passes_gate,
    precision_at,
    relative_distance,
    train_fresh_prover,
)
from tests.support.message_games import game_of, small_game, small_recipe


@pytest.mark.parametrize(
    ("overrides", "prob"),
    [
        ([], 0.25),
        (["noise.epsilon=0.1"], 0.3),
        (["noise.epsilon=0.1", "training.correction=forward"], 0.25),
        (["noise.rho1=0.4"], 0.15),
    ],
    ids=["clean", "noisy", "corrected", "asymmetric"],
)
def test_the_threshold_is_on_the_scale_of_clean_labels(overrides, prob):
    threshold = acceptance_threshold(small_recipe("judging.accept_at=0.25", *overrides))
    assert threshold == pytest.approx(math.log(prob / (1 - prob)))


def test_precision_at_coverage_by_hand():
    scores = torch.tensor([4.0, 3.0, 2.0, 1.0])
    is_yes = torch.tensor([True, False, True, False])
    assert precision_at(scores, is_yes, 0.25).value == 1.0
    assert (precision_at(scores, is_yes, 0.5).value, precision_at(scores, is_yes, 0.5).n) == (0.5, 2)


def linear_game() -> MessageGame:
    """The score is 2 (z_1 - z_2) - 1, whatever the problem; the prover always sends (0, 0)."""
    game = small_game().eval()
    with torch.no_grad():
        for parameter in game.prover.parameters():
            parameter.zero_()
        first, last = game.verifier.network[0], game.verifier.network[-1]
        for layer in (first, last):
            layer.weight.zero_()
            layer.bias.zero_()
        # relu(u) - relu(-u) = u, with u = z_1 - z_2; the message follows the four inputs.
        first.weight[0, 4:] = torch.tensor([1.0, -1.0])
        first.weight[1, 4:] = torch.tensor([-1.0, 1.0])
        last.weight[0, :2] = torch.tensor([2.0, -2.0])
        last.bias.fill_(-1.0)
    return game


def test_an_attack_finds_the_best_message():
    game, problems = linear_game(), {"inputs": torch.ones(3, 4)}
    judging = small_recipe("judging.attack_steps=200").judging
    best = attack_messages(game, problems, game.message(problems).detach(), judging, seed=0)
    # The best message is (1, -1), with a score of 3; tanh reaches it in the limit.
    assert best.tolist() == pytest.approx([3.0] * 3, abs=0.15)
    assert all(parameter.requires_grad for parameter in game.verifier.parameters())


def test_an_attack_is_at_least_as_strong_as_the_prover():
    game, problems = linear_game(), {"inputs": torch.ones(600, 4)}  # more than a batch
    judging = small_recipe("judging.attack_steps=1").judging
    # tanh reaches this message in the limit alone.
    start = torch.tensor([[1.0, -1.0]]).repeat(600, 1)
    assert attack_messages(game, problems, start, judging, seed=0).tolist() == [3.0] * 600


def test_a_fresh_prover_beats_one_that_says_nothing():
    recipe = small_recipe("judging.fresh_prover_steps=300", "training.learning_rate=0.01")
    loaded = open_world(recipe)
    game = game_of(recipe, loaded)
    fresh = train_fresh_prover(game, loaded, recipe)
    problems = {"inputs": loaded.test.columns["inputs"]}
    assert fresh.verifier is game.verifier
    assert fresh.prover_loss(problems) < game.prover_loss(problems)


def test_all_figures_of_a_game():
    recipe = small_recipe()
    loaded = open_world(recipe)
    figures = judge_game(game_of(recipe, loaded), loaded, recipe).figures
    assert figures["accuracy"].n == 60
    assert figures["soundness"].n == figures["completeness"].n == 30
    assert figures["soundness_attack"].n == 10
    assert figures["accuracy"].value == pytest.approx((figures["soundness"].value + figures["completeness"].value) / 2)
    assert {
        "clean_loss",
        "soundness_fresh",
        "precision_at_0.1",
        "accuracy_shuffled",
        "message_diversity",
    } <= figures.keys()
    again = MessageJudgement(convert(MessageJudgement(figures).to_dict(), dict[str, Figure]))
    assert again.figures == figures


def test_the_distance_of_parameters_by_hand():
    ours, theirs = small_game(), small_game()
    assert relative_distance(ours, theirs) == 0
    with torch.no_grad():
        for parameter in ours.verifier.parameters():
            parameter.mul_(1.5)
    assert relative_distance(ours, theirs) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs", "num_yes", "expected"),
    [(0.8, 0.7, 500, True), (0.8, 0.78, 500, False), (0.51, 0.3, 500, False), (0.8, 0.7, 200, False)],
    ids=["passes", "no-better-than-without", "chance", "the-more-frequent-answer"],
)
def test_the_gate(ours, theirs, num_yes, expected):
    # At n = 1000, the interval of a difference is about .037 to either side, and that of an accuracy about .03.
    judged = [judgement(value, num_yes) for value in (ours, theirs)]
    assert passes_gate(*judged) == expected


def judgement(accuracy: float, num_yes: int) -> MessageJudgement:
    counts = {"completeness": num_yes, "soundness": 1000 - num_yes}
    shares = {name: wilson(accuracy, number, number) for name, number in counts.items()}
    return MessageJudgement({"accuracy": wilson(accuracy, 1000, 1000), **shares})


def test_chance_is_the_share_of_the_more_frequent_answer():
    assert [chance_of(judgement(0.5, num_yes)) for num_yes in (500, 200, 900)] == [0.5, 0.8, 0.9]
