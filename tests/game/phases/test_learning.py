"""Corrections and invariance in the phases of a game."""

import shutil

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.core.seeding import derive_uniform
from pvg_hf.data.pairs.choose import read_candidates
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.assumed_rates import assumed_rates
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.run.layout import PhaseKey
from tests.support.game_runs import branch_off, bytes_of

pytestmark = pytest.mark.game


def events_of(folder, name):
    return [event for event in read_json_lines(folder.events) if event["event"] == name]


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_exact_correction_uses_rates_estimated_on_trusted_problems(share, game, beginnings):
    recipe = load_recipe(
        game(
            noise={"rho0": 0.1, "rho1": 0.1},
            rates={"source": "trusted", "trusted_share": share},
            data={"pairs": "all", "pair_share": 0.9},
            verifier__correction="exact",
        )
    )
    play(recipe, phase="bootstrap")
    folder = play(recipe, phase="verifier", round_index=0)

    pool = read_candidates(folder.training_pools(0), parts=("verifier",), rounds=[-1])
    trusted = [name for name in pool.problem_ids if derive_uniform(0, "trusted", name) < share]
    rows = [row for row in pool.rows if pool.problem_ids[row["problem"]] in trusted]
    rates = [
        sum(row["label"] != row["correct"] for row in rows if row["correct"] == truth)
        / sum(row["correct"] == truth for row in rows)
        for truth in (False, True)
    ]
    ((trainer, _),) = beginnings
    assert trainer.args.assumed_rates == pytest.approx(tuple(rates))
    assert not trainer.args.injects_noise
    assert {"chosen_label", "rejected_label"} <= set(trainer.train_dataset.column_names)
    (event,) = events_of(folder, "rates_estimated")
    assert (event["rho0/value"], event["rho1/value"]) == pytest.approx(tuple(rates))
    assert event["rho1/n"] == sum(row["correct"] for row in rows)
    assert event["rho1/low"] <= rates[1] < event["rho1/high"]
    lines = read_json_lines(folder.verifier(0) / "metrics.jsonl")
    (rate,) = [line["verifier/rates/rho1/value"] for line in lines if "verifier/rates/rho1/value" in line]
    assert rate == pytest.approx(rates[1])
    counts = read_json(folder.verifier(0) / "pairs.json")
    assert counts["pairs/num_pairs"] > counts["heldout_pairs/num_pairs"] > 0


def test_rates_estimated_on_trusted_problems_reach_the_provers_correction(game, beginnings):
    recipe = load_recipe(
        game(
            noise={
                "checker": {"tiers": {"balanced": {"spurious_fail": 0.2, "spurious_pass": 0.2}}},
                "applies_to": "both",
            },
            rates={"source": "trusted", "trusted_share": 1.0},
            prover__reward_correction="backward",
            prover__max_steps=1,
        )
    )
    play(recipe, phase="bootstrap")
    play(recipe, phase="verifier", round_index=0)
    folder = play(recipe, phase="prover", round_index=0)
    rows = read_candidates(folder.training_pools(0), parts=("verifier",), rounds=[-1]).rows
    rates = [(rows["label"] != rows["correct"])[rows["correct"] == truth].mean() for truth in (False, True)]
    expected = pytest.approx(tuple(rates))
    assert min(rates) > 0
    trainer, _ = beginnings[-1]
    assert (trainer.args.rho0, trainer.args.rho1) == expected
    (event,) = events_of(folder, "reward_correction")
    assert (event["rho0"], event["rho1"]) == expected
    assert [event["phase"] for event in events_of(folder, "rates_estimated")] == ["prover"]
    told = [line.get("prover/rates/rho1/value") for line in read_json_lines(folder.prover(0) / "metrics.jsonl")]
    assert any(value is not None for value in told)


@pytest.mark.parametrize(("mixture", "is_noisy"), [("equal_per_round", True), ("latest", False)])
def test_rounds_outside_the_mixture_are_not_used_to_estimate_rates(mixture, is_noisy, game, reference, tmp_path):
    """The base's labels are noisy, at moment 0, and those of round 0 are not."""
    schedule = {"start": 1.0, "end": 0.0, "length": 1}
    recipe = load_recipe(
        game(
            noise={"epsilon": 0.4, "schedule": schedule},
            rates={"source": "trusted", "trusted_share": 1.0},
            data__mixture=mixture,
            verifier__correction="forward",
        )
    )
    folder = branch_off(reference, tmp_path, "round-001/verifier")
    shutil.rmtree(folder.pool(-1))
    play(recipe, phase="bootstrap")
    context = PhaseContext(recipe, folder, PhaseKey("verifier", 1), GameProblems.load(recipe), StopRequest())
    rates = assumed_rates(context, "verifier").rates
    assert (sum(rates) > 0.1) == is_noisy
    assert is_noisy or rates == (0.0, 0.0)


def test_too_few_trusted_problems_are_refused(game):
    recipe = load_recipe(game(rates={"source": "trusted", "trusted_share": 1e-9}, verifier__correction="forward"))
    play(recipe, phase="bootstrap")
    with pytest.raises(ValueError, match=r"0 trusted problems: .*`rates.trusted_share`"):
        play(recipe, phase="verifier", round_index=0)


def test_stated_rates_reach_the_trainers(play_phase, beginnings):
    rates = {"source": "given", "rho0": 0.1, "rho1": 0.2}
    play_phase("verifier", 0, rates=rates, verifier__correction="forward")
    ((trainer, _),) = beginnings
    assert trainer.args.assumed_rates == (0.1, 0.2)
    assert not trainer.args.injects_noise


@pytest.mark.parametrize(
    ("environments", "names"),
    [
        ("round", {"base", "round-000"}),
        ("round_role", {"base", "round-000-helpful", "round-000-sneaky"}),
    ],
)
def test_environments_of_a_round_are_its_sources(environments, names, play_phase, beginnings):
    invariance = {"method": "balanced+irmv1", "environments": environments, "warmup_steps": 3, "weight": 5.0}
    folder = play_phase("verifier", 1, verifier__invariance=invariance, verifier__pairs_per_step=6)
    ((trainer, _),) = beginnings
    assert set(trainer.invariance.names) == names
    lines = [line for line in read_json_lines(folder.verifier(1) / "metrics.jsonl") if "verifier/penalty" in line]
    assert [line["verifier/penalty_weight"] for line in lines] == [0, 0, 0, 5, 5, 5, 5, 5]
    assert all(line[f"verifier/risk/{name}"] > 0 for line in lines for name in names)


def test_the_first_round_trains_without_invariance(play_phase, reference):
    folder = play_phase("verifier", 0, verifier__invariance={"method": "balanced+vrex"})
    name = "verifier/round-000/model.safetensors"
    assert bytes_of(folder)[name] == bytes_of(reference)[name]


@pytest.mark.parametrize(
    ("reward", "rates", "verdict", "reason"),
    [
        ("src", {"rho0": 0.1, "rho1": 0.2}, "real", "not a multiple"),
        ("correctness_only", {"rho0": 0.1, "rho1": 0.2}, "rescaling", "times 1.429"),
        ("goodhart", {"rho0": 0.1, "rho1": 0.2}, "nothing", "same under either label"),
        ("src", {"rho0": 0.0, "rho1": 0.0}, "nothing", "Both rates are 0"),
    ],
)
def test_the_prover_phase_logs_the_effect_of_its_correction(reward, rates, verdict, reason, play_phase, beginnings):
    folder = play_phase(
        "prover",
        0,
        prover__reward=reward,
        prover__reward_correction="backward",
        prover__max_steps=1,
        **(
            {"rates": {"source": "given", **rates}}
            if any(rates.values())
            else {"noise": {"epsilon": 0.0, "applies_to": "both"}}
        ),
    )
    (event,) = events_of(folder, "reward_correction")
    assert (event["verdict"], event["reward"]) == (verdict, reward)
    assert reason in event["reason"]
    assert (event["rho0"], event["rho1"]) == (rates.get("rho0", 0.0), rates.get("rho1", 0.0))
    ((trainer, _),) = beginnings
    assert (trainer.args.reward_correction, trainer.args.rho1) == ("backward", rates.get("rho1", 0.0))


def test_without_a_correction_nothing_is_logged(reference):
    assert events_of(reference, "reward_correction") == events_of(reference, "rates_estimated") == []
