"""Fresh attackers: trained, found or not, resumed, and shown."""

import shutil
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import pytest

from pvg_hf import load_recipe
from pvg_hf.config.sections import AttackSettings
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.core.roles import Role
from pvg_hf.experimental.attacks import fresh_attacker
from pvg_hf.experimental.attacks.attack_plan import Attack, AttackedVerifier
from pvg_hf.experimental.attacks.exploit import Exploit
from pvg_hf.experimental.attacks.fresh_attacker import CURVE, RESULT, AttackResult, attack_curve, run_attacks
from pvg_hf.experimental.judging.judged_round import JudgedRun
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.experimental.judging.trained_attacks import attacked_verifier, helpful_score
from pvg_hf.run.jobs import JobsFailedError
from pvg_hf.run.judgements import judgement_folder
from pvg_hf.run.layout import RunFolder
from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer
from tests.support.game_runs import play_in_process


@pytest.fixture
def run(tmp_path, reference) -> RunFolder:
    """A copy of the reference run that may be changed."""
    return RunFolder(shutil.copytree(reference.root, tmp_path / "game"))


@pytest.fixture
def verifier(reference) -> AttackedVerifier:
    return attacked_verifier(JudgedRun.open(reference.root).round(0))


def small(**changes) -> AttackSettings:
    return AttackSettings(**{"rewards": ["src"], "seeds": [0], "max_steps": 4, "num_problems": 3, **changes})


def test_the_attacker_is_the_sneaky_role_alone(verifier):
    attack = verifier.attacks(AttackSettings())[0]
    assert replace(attack, digest="") == Attack(0, "src", "grpo", 0, 24)  # four times the phase's steps
    recipe = verifier.attacker_recipe(attack, AttackSettings())
    assert (recipe.prover.roles, recipe.prover.init, recipe.prover.max_steps) == ("sneaky_only", "base", 24)
    assert (recipe.stopping.rule, recipe.stopping.score_parity_threshold) == ("parity_and_incorrect", 0.0)
    goodhart = verifier.attacker_recipe(Attack(0, "goodhart", "ppo", 1, 8), AttackSettings())
    assert (goodhart.stopping.rule, goodhart.prover.algorithm) == ("goodhart", "ppo")
    assert len({recipe.seed, goodhart.seed, verifier.recipe.seed}) == 3
    settings = AttackSettings(algorithms=["grpo", "ppo"], seeds=[3, 4], max_steps=7)
    assert len({attack.name for attack in verifier.attacks(settings)}) == 3 * 2 * 2


def test_the_criterion_does_not_depend_on_the_cap(verifier):
    # The game's phases have 6 planned steps, 2 batches of 4 steps with PPO's default number of iterations.
    assert verifier.recipe.prover.max_steps == 6
    for algorithm, weight in (("grpo", 5 / 6), ("ppo", 1.0)):
        recipes = [verifier.attacker_recipe(Attack(0, "src", algorithm, 0, cap), small()) for cap in (8, 400)]
        assert [recipe.stopping.ema for recipe in recipes] == pytest.approx([weight] * 2)
    goodhart = [verifier.attacker_recipe(Attack(0, "goodhart", "grpo", 0, cap), small()) for cap in (8, 400)]
    assert {recipe.stopping.goodhart_window for recipe in goodhart} == {1}
    stated = replace(verifier.recipe, stopping=replace(verifier.recipe.stopping, ema=0.3, goodhart_window=5))
    attacked = replace(verifier, recipe=stated)
    assert attacked.attacker_recipe(Attack(0, "src", "grpo", 0, 400), small()).stopping.ema == 0.3
    assert attacked.attacker_recipe(Attack(0, "src", "grpo", 0, 400), small(ema=0.2)).stopping.ema == 0.2
    # A window needs that many steps.
    assert attacked.attacker_recipe(Attack(0, "goodhart", "grpo", 0, 3), small()).stopping.goodhart_window == 3


def test_attacks_of_two_rounds_in_one_job(run, caplog):
    settings = [
        "attacks.rewards=[src, goodhart]",
        "attacks.seeds=[0]",
        "attacks.max_steps=4",
        "attacks.num_problems=3",
    ]
    events = run.events.read_bytes()
    results = evaluate_run(run.root, only=["attacks"], overrides=settings, num_workers=1)
    assert [result.round_index for result in results] == [0, 1]
    for result in results:
        assert {"src/found", "src/median_steps", "src/accepted", "goodhart/found"} <= set(result.figures)
        assert result.figure("src/found").n == 1
        scores_met, whole = (result.figure(f"src/{name}_steps") for name in ("convincing", "median"))
        assert min(filter(None, (scores_met.value, scores_met.low))) <= min(filter(None, (whole.value, whole.low)))
    assert "src/p_against_round_0" in results[1].figures
    outcomes = pd.read_parquet(judgement_folder(run, "attacks", 1) / "outcomes.parquet")
    assert sorted(outcomes["attack"]) == ["goodhart", "src"]
    curves = pd.read_parquet(judgement_folder(run, "attacks", 1) / "curves.parquet")
    assert set(curves["attack"]) == {"goodhart", "src"}
    assert curves["step"].between(1, 4).all()
    score = helpful_score(JudgedRun.open(run.root).round(1))
    # If no helpful solution of the round is correct, the base prover's are what an attacker must reach.
    assert score is None or curves["helpful_score"].eq(score).all()
    # The game's own event log is untouched, and the attackers' weights are not kept.
    assert run.events.read_bytes() == events
    attackers = run.root / "judging" / "attacks" / "attackers"
    assert len(list(attackers.iterdir())) == 4
    assert not list(attackers.rglob("*.safetensors"))
    # Another seed trains only new attackers.
    before = {path: path.stat().st_mtime_ns for path in attackers.rglob(CURVE)}
    more = [settings[0], "attacks.seeds=[0, 1]", *settings[2:]]
    again = evaluate_run(run.root, round_index=0, only=["attacks"], overrides=more, again=True, num_workers=1)
    assert again[0].figure("src/found").n == 2
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    # Round 1 is compared with the attackers that round 0 has now. Its own, with one seed, are not trained again.
    read = results[1].inputs
    (renewed,) = evaluate_run(run.root, round_index=1, only=["attacks"], num_workers=1)
    assert (renewed.inputs != read, renewed.figures) == (True, results[1].figures)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    shutil.rmtree(attackers)  # as in a run that was pulled from the Hub
    assert evaluate_run(run.root, round_index=1, only=["attacks"], num_workers=1) == [renewed]
    assert not attackers.exists()


def test_a_killed_job_resumes_to_the_same_curves(tmp_path, reference, verifier, monkeypatch):
    """The job is killed in its second attacker, after the checkpoint of two of its four steps."""
    num_trained = Counter()

    def training_step(trainer, *arguments, do=ProverGRPOTrainer.training_step, **kwargs):
        num_trained[Path(trainer.args.output_dir).parts[len(tmp_path.parts)]] += 1
        return do(trainer, *arguments, **kwargs)

    monkeypatch.setattr(ProverGRPOTrainer, "training_step", training_step)
    settings, moment = small(seeds=[0, 1]), {"event": "open", "pattern": "seed-1-.*checkpoint-4/trainer_state.json"}
    whole = run_attacks([verifier], settings, tmp_path / "whole", num_workers=1)[0]
    order = {"signal": "SIGKILL", "moment": moment, "attacked": str(reference.root), "settings": vars(settings)}
    assert play_in_process({**order, "root": str(tmp_path / "killed")}, tmp_path / "log.txt") == -9
    first, second = (tmp_path / "killed" / result.attack.name for result in whole)
    finished = (first / CURVE).stat().st_mtime_ns
    assert not second.exists()
    resumed = run_attacks([verifier], settings, tmp_path / "killed", num_workers=1)[0]
    assert (first / CURVE).stat().st_mtime_ns == finished
    assert [len(result.curve()) for result in whole] == [4, 4]
    assert num_trained["killed"] == num_trained["whole"] / 4  # two of eight steps
    for mine, theirs in zip(resumed, whole, strict=True):
        assert mine.exploit == theirs.exploit
        pd.testing.assert_frame_equal(mine.curve(), theirs.curve())
        pd.testing.assert_frame_equal(mine.texts(), theirs.texts())


def test_any_executor_runs_the_attacks(tmp_path, verifier):
    # A process that is spawned gets its work by pickle, as the workers of a cluster do.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        results = run_attacks([verifier], small(max_steps=2), tmp_path, executor=executor)
    (result,) = results[0]
    assert result.attack.name.startswith("round-000-src-grpo-seed-0-of-2-")
    assert AttackResult.read(tmp_path / result.attack.name) == result


def test_a_damaged_result_is_named(tmp_path):
    write_json(tmp_path / RESULT, {"attack": 1})
    with pytest.raises(DamagedFileError, match=rf"{RESULT} .*`attack`"):
        AttackResult.read(tmp_path)


def test_attackers_may_see_something_else_than_the_sneaky_role_of_the_round(verifier):
    values = verifier.recipe.to_dict()
    prompts = {"sneaky": "{{ problem }}\n{{ honest_solution or '' }}"}
    plain = replace(verifier, recipe=load_recipe({**values, "task": {**values["task"], "prompts": prompts}}))
    problem = plain.problems(small()).sample("test", 1)[0]

    def prompt(settings):
        return plain.problems(settings).prompts.text(problem, Role.SNEAKY, honest_solution=problem["reference"])

    assert problem["reference"] not in prompt(small())
    assert problem["reference"] in prompt(small(sneaky_sees="honest_solution"))
    attack = Attack(0, "src", "grpo", 0, 4)
    assert verifier.attacker_recipe(attack, small(sneaky_sees="honest_solution")).task.sneaky_sees == "honest_solution"


def test_an_attack_is_another_one_for_another_verifier_score_or_setting(tmp_path, reference, verifier):
    """Or else a result would be taken over for a verifier that was not attacked."""
    copy = replace(verifier, folder=shutil.copytree(verifier.folder, tmp_path / "copy"))
    (attack,) = verifier.attacks(small())
    assert copy.attacks(small()) == [attack]  # the same verifier elsewhere
    moved = load_recipe({**verifier.recipe.to_dict(), "output_dir": str(tmp_path)})
    assert replace(verifier, recipe=moved).attacks(small()) == [attack]
    other = replace(verifier, folder=reference.verifier(1))
    faster = load_recipe(
        {**verifier.recipe.to_dict(), "prover": {**verifier.recipe.to_dict()["prover"], "learning_rate": 1}}
    )
    names = {
        attack.name,
        other.attacks(small())[0].name,
        replace(verifier, helpful_score=-99.0).attacks(small())[0].name,
        replace(verifier, recipe=faster).attacks(small())[0].name,
        *(
            verifier.attacks(small(**change))[0].name
            for change in ({"num_problems": 4}, {"ema": 0.2}, {"sneaky_sees": "reference_answer"})
        ),
    }
    assert len(names) == 7
    calibration = copy.folder / "calibration.json"
    calibration.write_text(calibration.read_text().replace("threshold", "threshold "))
    assert replace(copy, round_index=0).attacks(small()) != [attack]


def test_a_critic_can_attack(tmp_path, verifier):
    result = run_attacks([verifier], small(algorithms=["ppo"], max_steps=2), tmp_path, num_workers=1)[0][0]
    assert result.attack.algorithm == "ppo"
    assert len(result.curve())
    assert len(result.texts()) == 3


def test_an_attacker_is_compared_with_the_helpful_score(tmp_path, verifier):
    high, low = (replace(verifier, helpful_score=score) for score in (1e9, -1e9))
    assert run_attacks([high], small(), tmp_path / "high", num_workers=1)[0][0].exploit == Exploit(None, 4)
    # Every score is above the low one, so that the attacker only has to be incorrect.
    result = run_attacks([low], small(), tmp_path / "low", num_workers=1)[0][0]
    curve = result.curve().set_index("step")
    means = curve.ewm(alpha=result.newest_weight, adjust=False, ignore_na=True).mean()
    is_met = (means["judged_accuracy/sneaky"] <= 0.05) & (means["failed/sneaky"] < 0.5)
    is_met &= means["score/sneaky_incorrect"].notna()
    assert result.exploit.step == (int(is_met.idxmax()) if is_met.any() else None)


def test_a_failed_attack_is_named_and_others_are_kept(tmp_path, verifier):
    missing = replace(verifier, folder=tmp_path / "missing", round_index=1)
    with pytest.raises(JobsFailedError, match=r"round 1, src by grpo, seed 0: .*missing"):
        run_attacks([verifier, missing], small(max_steps=2), tmp_path / "attacks", num_workers=1)
    (kept,) = (tmp_path / "attacks").glob("round-000-src-grpo-seed-0-of-2-*")
    assert AttackResult.read(kept).exploit.num_steps <= 2


def test_a_job_that_was_stopped_remembers_its_settings(run, monkeypatch):
    settings = ["attacks.rewards=[cgc]", "attacks.seeds=[0]", "attacks.max_steps=2", "attacks.num_problems=2"]

    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(fresh_attacker, "play_attack", stop)
    with pytest.raises(KeyboardInterrupt):
        evaluate_run(run.root, round_index=0, only=["attacks"], overrides=settings, num_workers=1)
    monkeypatch.undo()
    result = evaluate_run(run.root, round_index=0, only=["attacks"], num_workers=1)[0]
    assert (result.settings["rewards"], result.settings["max_steps"]) == (["cgc"], 2)


def test_an_unknown_reward_is_refused_before_training(run):
    with pytest.raises(ValueError, match="`sr`"):
        evaluate_run(run.root, round_index=0, only=["attacks"], overrides=["attacks.rewards=[sr]"], num_workers=1)


def test_the_curve_has_a_row_per_step_with_solutions():
    metrics = [
        {"step": 1, "prover/accuracy/sneaky": 0.5, "prover/score/sneaky_incorrect": 2.0},
        {"step": 1, "prover/heldout/accuracy": 0.5},
        {"step": 2, "prover/accuracy/sneaky": 0.0},
        {"step": None, "prover/num_cut": 0},
    ]
    curve = attack_curve(metrics)
    assert curve["step"].tolist() == [1, 2]
    assert curve["score/sneaky_incorrect"].isna().tolist() == [False, True]
