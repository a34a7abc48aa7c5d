import re
import shutil
import statistics
from functools import partial

import pandas as pd
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file

from pvg_hf import VerifierScorer, load_recipe, load_task, play
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.honest_solutions import HonestSide, _describe_scores, heldout_scores
from pvg_hf.game.watchdogs import Watchdogs
from pvg_hf.models.prover_model import load_prover
from pvg_hf.sampling import Sampler
from pvg_hf.tasks import PromptBuilder
from pvg_hf.trainers.prover.stopping import StopRule
from tests.support.game_runs import (
    branch_off,
    differing,
    forget_digests,
    play_in_process,
    prover_steps,
    whole_and_killed,
)
from tests.support.recall_task import write_solution

pytestmark = pytest.mark.game

LORA = {"r": 4}
THE_PROVER = {"phase": "prover", "round_index": 0}


def is_same(weights, others):
    return weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in others)


def test_shared_prover_is_trained_in_both_roles_alike(play_phase, beginnings):
    folder = play_phase("prover", 0)
    ((trainer, _),) = beginnings
    assert sorted(set(trainer.train_dataset["role"])) == ["helpful", "sneaky"]
    assert len(trainer.train_dataset) == 6 * 4  # steps, prompts a step: one epoch, which can be continued at any step
    steps = prover_steps(folder)
    assert list(steps) == [1, 2, 3, 4, 5, 6]
    assert all({"prover/accuracy/helpful", "prover/accuracy/sneaky"} & line.keys() for line in steps.values())


def test_every_trained_weight_moved_and_reference_is_the_base(play_phase, beginnings, player):
    folder = play_phase("prover", 0)
    ((trainer, weights),) = beginnings
    base, last = load_file(player / "model.safetensors"), load_file(folder.prover(0) / "model.safetensors")
    assert is_same({name: weights[name] for name in base}, base)
    assert [name for name in base if torch.equal(base[name], last[name])] == []
    reference = trainer.ref_model.state_dict()
    assert is_same({name: reference[name] for name in base}, base)
    steps = prover_steps(folder)
    assert steps[1]["prover/kl"] == pytest.approx(0, abs=1e-6)
    assert steps[6]["prover/kl"] > 0


@pytest.mark.parametrize("lora", [pytest.param(None, marks=pytest.mark.nightly), LORA])
def test_init_previous_continues_the_last_prover_with_the_base_as_reference(
    lora, tmp_path, game, reference, beginnings, player
):
    folder = branch_off(reference, tmp_path, "round-000/prover")
    # At this learning rate six steps move the prover by far more than rounding, whatever it samples.
    recipe = load_recipe(game(prover__init="previous", prover__lora=lora, prover__learning_rate=0.003))
    for phase, round_index in (("prover", 0), ("mint", 0), ("evaluate", 0), ("verifier", 1), ("prover", 1)):
        play(recipe, phase=phase, round_index=round_index)
    first, *_, second = beginnings
    last = first[0].model.state_dict()
    assert is_same(second[1], last)
    assert prover_steps(folder, 0)[1]["prover/kl"] == pytest.approx(0, abs=1e-6)
    assert prover_steps(folder, 1)[1]["prover/kl"] > 1e-6

    base = load_file(player / "model.safetensors")
    if lora is None:
        references = second[0].ref_model.state_dict()
        assert is_same({name: references[name] for name in base}, base)
    else:
        assert second[0].ref_model is None  # the adapters are switched off instead
        layer = "model.layers.0.mlp.up_proj"
        frozen = second[0].model.get_submodule(f"base_model.model.{layer}").base_layer.weight
        assert torch.equal(frozen, base[f"{layer}.weight"])
        assert (folder.prover(1) / "adapter_model.safetensors").exists()
        assert not (folder.prover(1) / "model.safetensors").exists()


def test_both_players_can_have_adapters(tmp_path, game, reference):
    branch_off(reference, tmp_path, "round-000/verifier")
    folder = play(load_recipe(game(prover__lora=LORA, verifier__lora=LORA, num_rounds=1)))
    assert {path.name for path in folder.root.rglob("*.safetensors")} == {"adapter_model.safetensors"}
    rows = pd.read_parquet(folder.pool(0) / "sneaky.parquet")
    scores = VerifierScorer.from_pretrained(folder.verifier(0))(rows["problem"].tolist(), rows["solution"].tolist())
    assert rows["score"].tolist() == pytest.approx(scores, abs=1e-5)


def test_adapters_are_loaded_again_on_the_revision_of_their_base(
    tmp_path, game, reference, player, tokenizer, monkeypatch
):
    """The Hub's cache has only the revision `v1` of the model, so that no other one can be loaded."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    repository, commit = tmp_path / "hub" / "models--org--player", "1" * 40
    shutil.copytree(player, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "v1").write_text(commit)
    branch_off(reference, tmp_path, "round-000/verifier")
    on_revision = {"model": "org/player", "revision": "v1", "lora": LORA, "max_steps": 2}
    changes = {f"{name}__{key}": value for name in ("prover", "verifier") for key, value in on_revision.items()}
    folder = play(load_recipe(game(num_rounds=1, **changes)))
    adapters = list(folder.root.rglob("adapter_config.json"))
    assert len(adapters) == 3  # the verifier's, the prover's and its best helpful one
    named = [read_json(adapter) for adapter in adapters]
    assert {(config["base_model_name_or_path"], config["revision"]) for config in named} == {("org/player", "v1")}


def solutions_by(source, rows: pd.DataFrame, role: str, tokenizer) -> list[str]:
    """Solutions to the problems of `rows` by the prover in a folder, with the seeds that minting uses in round 0."""
    prompts = PromptBuilder(load_task("tests.support.recall_task:RecallTask"))
    sampler = Sampler(*load_prover(source), max_new_tokens=8)
    problems = rows.drop_duplicates("problem_id").to_dict("records")
    texts = [prompts.render(problem, role, tokenizer) for problem in problems]
    rngs = [[derive_rng(0, "round-000", "mint", role, problem["problem_id"], 0)] for problem in problems]
    return [row[0].text for row in sampler.sample(texts, rngs)]


@pytest.mark.parametrize(("roles", "trained"), [("sneaky_only", "sneaky"), ("helpful_only", "helpful")])
def test_untrained_role_is_played_by_the_base_prover(roles, trained, play_phase, beginnings, player, tokenizer):
    folder = play_phase("prover", 0, prover__roles=roles)
    ((trainer, _),) = beginnings
    assert set(trainer.train_dataset["role"]) == {trained}
    seen = {key for line in prover_steps(folder).values() for key in line if key.startswith("prover/accuracy/")}
    assert seen == {f"prover/accuracy/{trained}"}
    assert (folder.prover(0) / "best-helpful").exists() == (trained == "helpful")

    play_phase("mint", 0, prover__roles=roles)
    for role in ("helpful", "sneaky"):
        rows = pd.read_parquet(folder.pool(0) / f"{role}.parquet").query("sample_index == 0")
        written = rows.drop_duplicates("problem_id")["solution"].tolist()
        of_base, of_trained = (solutions_by(source, rows, role, tokenizer) for source in (player, folder.prover(0)))
        assert len(written) > 20
        assert of_base != of_trained
        assert written == (of_trained if role == trained else of_base)


def test_sneaky_only_is_compared_with_references(tmp_path, game, reference, monkeypatch):
    """
    The helpful side is the task's reference solutions: nothing is minted for it, and parity and the score gap are
    measured against it.
    """
    sides = []

    def note_side(made, *args, **settings):
        sides.append(settings["fixed"])
        return made(*args, **settings)

    for made in (StopRule, Watchdogs):
        monkeypatch.setattr(f"pvg_hf.game.monitors.{made.__name__}", partial(note_side, made))
    folder = branch_off(reference, tmp_path, "round-001/verifier")
    for finished in (folder.prover(0), folder.pool(0)):
        shutil.rmtree(finished)
    recipe = load_recipe(game(prover__roles="sneaky_only", data__correct_source="dataset"))
    for phase, round_index in (("prover", 0), ("mint", 0), ("verifier", 1)):
        play(recipe, phase=phase, round_index=round_index)

    problems = GameProblems.load(recipe).parts["prover_heldout"].to_list()[:4]
    scorer = VerifierScorer.from_pretrained(folder.verifier(0))
    scores = scorer([problem["problem"] for problem in problems], [problem["reference"] for problem in problems])
    side = {"score": sum(scores) / 4, "error": statistics.stdev(scores) / 2, "num_scored": 4}
    assert sides == 2 * [{f"{part}/helpful_correct": pytest.approx(value, abs=1e-5) for part, value in side.items()}]

    assert len(pd.read_parquet(folder.pool(0) / "helpful.parquet")) == 0
    assert len(pd.read_parquet(folder.pool(0) / "sneaky.parquet")) > 40
    pairs = read_json(folder.verifier(1) / "pairs.json")
    assert {key for key, count in pairs.items() if "/correct/" in key and count} == {
        "pairs/correct/reference",
        "heldout_pairs/correct/reference",
    }


def test_the_helpful_side_of_the_stop_rule_is_observed_and_that_of_the_report_is_clean():
    line = {"prover/heldout/score_correct": 2.0, "prover/heldout/score_observed_correct": 1.0}
    line |= {"prover/heldout/score_correct/error": 0.5, "prover/heldout/score_correct/n": 7}
    clean = {"score/helpful_correct": 2.0, "error/helpful_correct": 0.5, "num_scored/helpful_correct": 7}
    observed = {"score/helpful_correct": 1.0}
    earlier, later = dict.fromkeys(line, 9.0), {"prover/kl": 0.1}
    assert HonestSide.of_metrics([earlier, line, later], "observed") == HonestSide(observed, clean)
    assert HonestSide.of_metrics([earlier, line, later], "clean") == HonestSide(clean, clean)
    assert (
        HonestSide.of_metrics([earlier, dict.fromkeys(line)], "clean") == HonestSide()
    )  # the last evaluation had no such solution


def test_failed_solutions_are_no_part_of_a_fixed_side():
    outcomes = ("VERIFIED", "VERIFIED", "PROOF_INVALID", "TRUNCATED")
    rows = [{"outcome": outcome, "problem_id": str(number)} for number, outcome in enumerate(outcomes)]

    def described(mean, error):
        return {"score/helpful_correct": mean, "error/helpful_correct": error, "num_scored/helpful_correct": 2}

    # By the labels of a checker, which accepts a mistake and has none for one of the correct solutions: 1 and 4, whose
    # standard deviation is 3 / sqrt(2), and the error of their mean 1.5.
    assert _describe_scores(rows, [1.0, 2.0, 4.0, 8.0], [1, None, 1, 1]) == pytest.approx(described(2.5, 1.5))
    truth = [True, True, False, True]
    assert _describe_scores(rows, [1.0, 2.0, 4.0, 8.0], truth) == pytest.approx(described(1.5, 0.5))
    assert _describe_scores(rows, [1.0, 2.0, 4.0, 8.0], [0, 0, 0, 1]) == {}


@pytest.mark.parametrize(
    ("scores", "problems", "mean", "error"),
    [([1.0, 3.0, 8.0], ["a", "a", "b"], 4.0, 3.0), ([1.0, 3.0], ["a", "a"], 2.0, None), ([], [], None, None)],
    ids=["two problems", "one problem", "none"],
)
def test_the_error_of_heldout_scores_counts_problems(scores, problems, mean, error):
    """Problem a has the mean 2 and b 8: a standard deviation of sqrt(18), over sqrt(2) problems."""
    found = heldout_scores("s", scores, problems)
    assert found == {"s": mean, "s/error": error and pytest.approx(error), "s/n": len(scores)}


def test_a_fixed_side_with_only_truncated_solutions_is_reported(play_phase, tokenizer):
    """
    The maximum length is that of a whole solution without its end token: answers are right, but may be parts of
    others.
    """
    length = len(tokenizer(write_solution(5))["input_ids"])
    settings = {"roles": "sneaky_only", "max_completion_length": length, "max_steps": 1}
    changes = {f"prover__{key}": value for key, value in settings.items()}
    folder = play_phase("prover", 0, watchdogs__max_truncated=1.0, **changes)
    kinds = [event["kind"] for event in read_json_lines(folder.events) if event["event"] == "alert"]
    assert "no_honest_side" in kinds


def test_inputs_that_the_verifier_does_not_see_whole_are_counted(play_phase, tmp_path, reference):
    folder = branch_off(reference, tmp_path, "round-000/prover")
    file = folder.verifier(0) / "verifier_input.json"
    forget_digests(folder.root)
    write_json(file, {**read_json(file), "max_length": 9})
    for phase in ("prover", "mint", "evaluate"):
        play_phase(phase, 0, prover__roles="sneaky_only", prover__max_steps=2, logging__log_completions=True)

    def count(problems, solutions) -> int:
        scorer = VerifierScorer.from_pretrained(folder.verifier(0))
        scorer(problems.tolist(), solutions.tolist())
        return scorer.num_cut

    for step, line in prover_steps(folder).items():
        rows = pd.read_parquet(folder.prover(0) / "completions" / f"completions_{step:05d}.parquet")
        assert line["prover/num_cut"] == count(rows["prompt"].str.split("\n").str[0], rows["completion"]) > 0
    minted = [pd.read_parquet(file) for file in folder.pool(0).glob("*.parquet")]
    base = [pd.concat([pd.read_parquet(file) for file in folder.pool(-1).glob("test-*.parquet")])]
    # Each file is scored separately when it is minted, so that a solution in two files counts twice.
    for phase, scored, place in (("mint", minted, folder.pool(0)), ("evaluate", base, folder.evaluation(0))):
        lines = read_json_lines(place / "metrics.jsonl")
        counts = [line[f"{phase}/num_cut"] for line in lines if f"{phase}/num_cut" in line]
        assert counts == [sum(count(rows["problem"], rows["solution"]) for rows in scored)]
        assert counts[0] > 0


def test_separate_adapters_are_trained_one_after_the_other(play_phase, beginnings, player):
    folder = play_phase("prover", 0, prover__roles="separate", prover__lora=LORA)
    assert [set(trainer.train_dataset["role"]) for trainer, _ in beginnings] == [{"helpful"}, {"sneaky"}]
    assert [trainer.ref_model for trainer, _ in beginnings] == [None, None]
    # each began from the base, with an adapter that does nothing yet
    assert all(not tensor.any() for _, weights in beginnings for name, tensor in weights.items() if "lora_B" in name)
    steps = prover_steps(folder)
    assert list(steps) == list(range(1, 13))
    assert "prover/accuracy/sneaky" not in steps[6]
    assert "prover/accuracy/helpful" not in steps[7]
    adapters = [load_file(folder.prover(0) / role / "adapter_model.safetensors") for role in ("helpful", "sneaky")]
    assert adapters[0].keys() == adapters[1].keys()
    assert not is_same(*adapters)
    assert (folder.prover(0) / "helpful" / "best-helpful" / "adapter_model.safetensors").exists()


def test_the_helpful_adapter_has_its_own_number_of_steps(play_phase, beginnings):
    changes = {"prover__roles": "separate", "prover__lora": LORA, "prover__helpful_max_steps": 3}
    folder = play_phase("prover", 0, **changes)
    assert [trainer.args.max_steps for trainer, _ in beginnings] == [3, 6]
    steps = prover_steps(folder)
    assert list(steps) == list(range(1, 10))
    assert "prover/accuracy/helpful" in steps[3]
    assert "prover/accuracy/sneaky" in steps[4]


def test_separate_adapters_mint_their_own_role(play_phase, tokenizer):
    changes = {"prover__roles": "separate", "prover__lora": LORA, "prover__learning_rate": 0.01}
    folder = play_phase("prover", 0, **changes)
    play_phase("mint", 0, **changes)
    for role, other in (("helpful", "sneaky"), ("sneaky", "helpful")):
        rows = pd.read_parquet(folder.pool(0) / f"{role}.parquet").query("sample_index == 0")
        written = rows.drop_duplicates("problem_id")["solution"].tolist()
        mine, others = (solutions_by(folder.prover(0) / name, rows, role, tokenizer) for name in (role, other))
        assert mine != others
        assert written == mine


@pytest.mark.nightly
def test_separate_adapters_killed_in_the_second_resume_to_the_same_bytes(tmp_path, make_recipe, reference):
    changes = {"prover__roles": "separate", "prover__lora": LORA}
    file = r"\.round-000\.partial/\.sneaky\.partial/checkpoints/checkpoint-4/trainer_state"
    runs = whole_and_killed(reference, tmp_path, make_recipe, changes, file)
    assert differing(*runs) == []
    continued = [event for event in read_json_lines(runs[1].events) if event["event"] == "continued"]
    assert [event["checkpoint"] for event in continued] == ["checkpoint-2"]


@pytest.mark.nightly
def test_solutions_of_all_steps_are_kept_if_the_prover_is_killed_while_it_is_saved(tmp_path, make_recipe, reference):
    changes = {"logging__log_completions": True, "prover__save_steps": 4}  # of 6 steps
    file = r"prover/\.round-000\.partial/config\.json"
    runs = whole_and_killed(reference, tmp_path, make_recipe, changes, file)
    assert len(list((runs[1].prover(0) / "completions").glob("*.parquet"))) == 6
    assert differing(*runs) == []


def test_settings_of_a_round_reach_the_trainer(play_phase, beginnings):
    changes = {"beta": 0.25, "temperature": 0.5, "max_steps": 2, "reward": "cgc", "trainer": {"adam_beta2": 0.9}}
    play_phase("prover", 1, rounds={1: {"prover": changes}})
    ((trainer, _),) = beginnings
    args = trainer.args
    assert (args.beta, args.temperature, args.max_steps, args.reward, args.adam_beta2) == (0.25, 0.5, 2, "cgc", 0.9)
    assert trainer.beta == 0.25


def test_micro_batches_make_the_same_step(play_phase, beginnings, reference):
    """4 prompts with 4 solutions each, in one batch and in quarters: the gradient norms are equal up to rounding."""
    folder = play_phase("prover", 0, prover__micro_batch_size=4, prover__max_steps=1, prover__eval_steps=1)
    ((trainer, _),) = beginnings
    assert (trainer.args.per_device_train_batch_size, trainer.args.gradient_accumulation_steps) == (4, 4)
    mine, whole = prover_steps(folder)[1], prover_steps(reference)[1]
    assert mine["prover/reward"] == pytest.approx(whole["prover/reward"], abs=1e-5)
    assert mine["prover/grad_norm"] == pytest.approx(whole["prover/grad_norm"], rel=1e-3)


def test_a_custom_stop_rule_ends_the_phase(play_phase):
    """
    10 % of 20 planned steps are 2, so the third step is the first that may be the last; it is evaluated as the last.
    """
    folder = play_phase(
        "prover",
        0,
        stopping__rule="tests.support.own_rules:as_soon_as_allowed",
        prover__max_steps=20,
        prover__eval_steps=7,
    )
    steps = prover_steps(folder)
    assert list(steps) == [1, 2, 3]
    assert ["prover/heldout/selection" in line for line in steps.values()] == [False, False, True]
    assert (folder.prover(0) / "best-helpful" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("signal", "file", "code"),
    [
        ("SIGKILL", r"partial/config\.json", -9),  # when the weights of step 3, the last, are about to be written
        ("SIGINT", r"checkpoints/checkpoint-2/config\.json", 1),  # after step 2: it is caught in step 3
    ],
)
def test_rule_that_fires_where_a_checkpoint_is_due_fires_there_again(
    signal, file, code, tmp_path, make_recipe, reference
):
    changes = {
        "stopping__rule": "tests.support.own_rules:as_soon_as_allowed",
        "prover__max_steps": 20,
        "prover__save_steps": 1,
    }
    runs = []
    for name in ("whole", "ended"):
        output_dir = tmp_path / name
        runs.append(branch_off(reference, output_dir, "round-000/prover"))
        recipe = make_recipe(output_dir, **changes)
        if name == "ended":
            order = {"signal": signal, "moment": {"event": "open", "pattern": file}, **THE_PROVER}
            assert play_in_process({"recipe": recipe, **order}, tmp_path / "log.txt") == code
        play(load_recipe(recipe), phase="prover", round_index=0)
    assert differing(*runs) == []


def test_truncation_beyond_the_limit_ends_the_phase(play_phase, tmp_path):
    with pytest.raises(ValueError, match=r"100% .*`max_completion_length=2`"):
        play_phase("prover", 0, prover__max_completion_length=2)
    assert not (tmp_path / "game" / "prover" / "round-000").exists()


def test_the_summary_counts_the_solutions_of_scores_alone(reference):
    told = read_json(reference.prover(0) / "phase.json")["summary"]
    assert re.search(r"helpful accuracy [\d.]+, ", told)
    assert re.search(r"score of sneaky incorrect [-\d.]+ \(n=\d+\)", told)


def test_loss_that_is_not_finite_ends_the_phase(play_phase, tmp_path):
    with pytest.raises(FloatingPointError, match=r"step \d is nan"):
        play_phase("prover", 0, learning_rate=1.0e30, watchdogs__max_truncated=1.0)
    assert not (tmp_path / "game" / "prover" / "round-000").exists()


class SeesReversedRanks(Watchdogs):
    """Watchdogs of a phase whose verifier ranks incorrect solutions above correct ones in every step."""

    def update(self, step, figures):
        return super().update(step, {**figures, "score_correctness_correlation": -0.5 - 0.01 * step})


def test_goodharting_ends_the_phase_if_configured(play_phase, monkeypatch):
    """The phase of six steps is tested in two halves and as a whole."""
    monkeypatch.setattr("pvg_hf.game.monitors.Watchdogs", SeesReversedRanks)
    folder = play_phase("prover", 0, watchdogs__window=3, watchdogs__goodharting="stop")
    assert list(prover_steps(folder)) == [1, 2, 3]
    (told,) = [
        event
        for event in read_json_lines(folder.events)
        if event["event"] == "alert" and event["kind"] == "goodharting"
    ]
    assert told["message"].startswith("Step 3: ")
    assert (told["phase"], told["round"]) == ("prover", 0)


@pytest.mark.nightly
def test_a_shared_base_changes_only_the_memory(tmp_path, make_recipe):
    adapters = {"prover__lora": {"r": 2}, "verifier__lora": {"r": 2}, "prover__max_steps": 2, "verifier__max_steps": 2}
    runs = [
        play(load_recipe(make_recipe(tmp_path / str(shares), num_rounds=1, verifier__shares_base=shares, **adapters)))
        for shares in (False, True)
    ]
    weights = [(run.prover(0) / "adapter_model.safetensors").read_bytes() for run in runs]
    assert weights[0] == weights[1]
    # Minting merges an adapter into separate weights, and keeps it apart from shared ones: equal up to rounding.
    pools = [pd.read_parquet(run.pool(0) / "sneaky.parquet") for run in runs]
    assert pools[0]["solution"].equals(pools[1]["solution"])
    assert pools[1]["score"].tolist() == pytest.approx(pools[0]["score"].tolist(), abs=1e-5)


def test_the_rise_of_false_positives_is_measured_by_the_labels_and_by_the_verifier(play_phase):
    folder = play_phase("prover", 0, noise={"applies_to": "prover", "rho0": 0.4})
    written = read_json_lines(folder.prover(0) / "wrong-solutions.jsonl")
    assert {row["step"] for row in written} == {0, 1}  # of six steps: before the first, and the one after it
    assert all(0 <= row["accepted"] <= row["wrong"] for row in written)
    rises = {
        f"{one['checker']}_{one['role']}": one for one in read_json(folder.prover(0) / "false-positives.json")["rises"]
    }
    assert {"labels_helpful", "labels_sneaky", "verifier_helpful", "verifier_sneaky"} >= rises.keys() != set()
    lines = read_json_lines(folder.prover(0) / "metrics.jsonl")
    for name, one in rises.items():
        assert one["before"]["n"] == sum(
            row["wrong"] for row in written if row["step"] == 0 and f"{row['checker']}_{row['role']}" == name
        )
        assert any(line.get(f"false_positive_rise/{name}/before", -1) == one["before"]["value"] for line in lines)
