"""Turns and rounds."""

import pytest

from pvg_hf.experimental.messages.game_clock import GameClock, TurnPlan


def turns(plan: TurnPlan, losses=None) -> str:
    clock, seen = GameClock(plan), ""
    losses = iter(losses or [0.0] * 1000)
    while not clock.is_over:
        seen += clock.turn[0]
        clock.advance(next(losses) if clock.turn == "prover" else None)
    return seen


def test_turns_of_fixed_length():
    plan = TurnPlan(2, 3, 2)
    assert turns(plan) == "pppvv" * 2
    assert (plan.max_steps, plan.player_steps("prover"), plan.player_steps("verifier")) == (10, 6, 4)


def test_simultaneous_play():
    plan = TurnPlan(2, 3, 2, is_simultaneous=True)
    assert turns(plan) == "b" * 10
    assert plan.player_steps("prover") == 10


def test_a_verifier_alone():
    assert turns(TurnPlan(2, 0, 2)) == "vvvv"


def test_the_prover_stops_when_its_loss_stops_falling():
    # Windows of two: (4, 3) to (2, 1) falls, (3, 2) to (1, 1) falls, (2, 1) to (1, 1) falls, (1, 1) to (1, 1) does
    # not.
    losses = [4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    assert turns(TurnPlan(1, 20, 1, patience=2), losses) == "p" * 7 + "v"
    assert turns(TurnPlan(1, 5, 1, patience=2), losses) == "p" * 5 + "v"  # the cap


def test_figures_of_a_response_by_hand():
    clock = GameClock(TurnPlan(1, 8, 1))
    for loss in (8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 3.0, 2.0):
        figures = clock.advance(loss)
    # The third quarter's mean is 3.5 and the last one's 2.5, two steps later.
    assert figures == pytest.approx({"response_steps": 8, "response_gain": 6, "response_slope": 0.5})


def test_a_restored_clock_goes_on():
    plan = TurnPlan(3, 2, 1)
    clock, other = GameClock(plan), GameClock(plan)
    for _ in range(4):
        clock.advance(1.0)
    other.load_state_dict(clock.state_dict())
    assert (other, other.turn, other.round_index) == (clock, "prover", 1)
