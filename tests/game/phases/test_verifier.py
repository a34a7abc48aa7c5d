import filecmp
import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from pvg_hf import VerifierScorer, load_recipe, play
from pvg_hf.config import RecipeError
from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.data.pairs.build import TooFewPairsError
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.verifier_model import load_classifier
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import branch_off, differing, play_in_process

pytestmark = pytest.mark.game

LORA = {"r": 4}
HEAD = "score.weight"


def backbone(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of a full model's body by name; a language model's own head is tied to its embedding."""
    return {name: tensor for name, tensor in weights.items() if name.startswith("model.")}


def test_init_full_starts_from_the_initial_weights_and_a_new_head(play_phase, beginnings, player):
    play_phase("verifier", 1)
    ((_, weights),) = beginnings
    initial = load_file(player / "model.safetensors")
    assert backbone(weights).keys() == backbone(initial).keys()
    assert all(torch.equal(weights[name], initial[name]) for name in backbone(initial))
    assert 0.01 < weights[HEAD].std() < 0.03  # of 32 draws from normal(0, 0.02)


def test_init_head_only_starts_from_the_last_body_and_a_new_head(play_phase, beginnings, reference):
    play_phase("verifier", 1, verifier__init="head_only")
    ((_, weights),) = beginnings
    last = load_file(reference.verifier(0) / "model.safetensors")
    assert all(torch.equal(weights[name], last[name]) for name in backbone(last))
    assert not torch.equal(weights[HEAD], last[HEAD])
    assert 0.01 < weights[HEAD].std() < 0.03


def test_init_warm_starts_from_the_last_verifier(play_phase, beginnings, reference):
    play_phase("verifier", 1, verifier__init="warm")
    ((_, weights),) = beginnings
    last = load_file(reference.verifier(0) / "model.safetensors")
    assert weights.keys() == last.keys()
    assert all(torch.equal(weights[name], last[name]) for name in last)


@pytest.mark.parametrize("init", ["full", "head_only", "warm"])
def test_inits_agree_in_the_first_round(init, play_phase, reference):
    folder = play_phase("verifier", 0, verifier__init=init)
    mine, others = (run.verifier(0) / "model.safetensors" for run in (folder, reference))
    assert filecmp.cmp(mine, others, shallow=False)


def test_the_new_head_is_the_same_in_every_round(tmp_path, game, reference, beginnings):
    folder = branch_off(reference, tmp_path, "round-001/verifier")
    shutil.rmtree(folder.verifier(0))
    for round_index in (0, 1):
        play(load_recipe(game(verifier__max_steps=1)), phase="verifier", round_index=round_index)
    (_, first), (_, second) = beginnings
    assert torch.equal(first[HEAD], second[HEAD])


VALIDATED = {"verifier__eval_steps": 2, "verifier__save_steps": "auto", "verifier__lr_scheduler_type": "constant"}
AUTO = {"verifier__save_steps": "auto"}
CORRECTED = {"noise__rho0": 0.1, "noise__rho1": 0.1, "verifier__correction": "forward"}


@pytest.mark.parametrize(
    ("changes", "metric"),
    [
        ({}, "loss"),
        ({"verifier__lora": LORA}, "loss"),
        ({"verifier__kind": "likelihood"}, "loss"),
        ({"verifier__loss": "cross_entropy"}, "loss"),
        (CORRECTED, "accuracy"),
    ],
    ids=["head", "adapter", "likelihood", "cross-entropy", "correction"],
)
def test_the_best_validated_step_is_kept(changes, metric, play_phase, tmp_path):
    """With a constant learning rate, the verifier of a step is that of a training that ends there."""
    folder = play_phase("verifier", 0, **VALIDATED, **changes).verifier(0)
    values = read_json(folder / "validation.json")
    assert list(values) == ["2", "4", "6", "8"]
    best = (min if metric == "loss" else max)(values.values())
    kept = next(int(step) for step, value in values.items() if value == best)
    lines = [line for line in read_json_lines(folder / "metrics.jsonl") if "verifier/kept_step" in line]
    assert [line["verifier/kept_step"] for line in lines] == [kept]
    assert [line[f"verifier/best_validation_{metric}"] for line in lines] == [best]
    weights = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    assert len(weights) == 1
    assert not list(folder.glob("checkpoint*"))
    shutil.rmtree(tmp_path / "game")
    plain = {**VALIDATED, "verifier__eval_steps": None, "verifier__max_steps": kept}
    last = play_phase("verifier", 0, **plain, **changes).verifier(0)
    assert {path.name: path.read_bytes() for path in last.glob("*.safetensors")} == weights
    assert not (last / "validation.json").exists()


# The third validation is killed in its checkpoint, and when the phase is all but finished.
KILLS = [
    {"event": "open", "pattern": r"verifier/\.round-000\.partial/checkpoints/checkpoint-6/trainer_state"},
    {"event": "open", "pattern": r"verifier/\.round-000\.partial/config\.json"},
]


@pytest.mark.parametrize("rate", [0.003, 0.3])
def test_a_killed_and_moved_phase_keeps_the_same_step(rate, reference, tmp_path, make_recipe):
    changes = {**VALIDATED, "verifier__patience": 1, "verifier__max_steps": 12, "verifier__learning_rate": rate}
    runs = []
    for name in ("whole", "killed"):
        branch_off(reference, tmp_path / name, "round-000/verifier")
        for moment in KILLS if name == "killed" else ():
            order = {"signal": "SIGKILL", "moment": moment, "phase": "verifier", "round_index": 0}
            code = play_in_process({**order, "recipe": make_recipe(tmp_path / name, **changes)}, tmp_path / "log.txt")
            # Patience may have ended the training before the third validation.
            assert code == -9 or moment is KILLS[0], (tmp_path / "log.txt").read_text()
            if code == 0:
                break
            (tmp_path / name).rename(tmp_path / f"{name}-moved")
            name += "-moved"
        play(load_recipe(make_recipe(tmp_path / name, **changes)), phase="verifier", round_index=0)
        runs.append(RunFolder(tmp_path / name / "game"))
    assert differing(*runs) == []
    # The training ends at the first validation that is no better than all before it.
    values = list(read_json(runs[1].verifier(0) / "validation.json").values())
    assert [values[at] < min(values[:at]) for at in range(1, len(values) - 1)] == [True] * (len(values) - 2)
    assert len(values) == 6 or values[-1] >= min(values[:-1])


def test_a_verifier_is_not_chosen_by_labels_that_its_training_does_not_see(play_phase):
    with pytest.raises(RecipeError, match=r"`verifier\.eval_steps` is 2, and `noise` flips labels in training only"):
        play_phase("verifier", 0, verifier__eval_steps=2, noise__rho0=0.1, noise__resample="epoch", **AUTO)
    with pytest.raises(RecipeError, match=r"`verifier\.save_steps`.*set `verifier\.eval_steps`"):
        play_phase("verifier", 0, verifier__eval_steps=2)
    with pytest.raises(RecipeError, match=r"`patience` .*`eval_steps`"):
        play_phase("verifier", 0, verifier__patience=2)


@pytest.mark.parametrize(("head", "is_kept"), [("keep", True), ("new", False)])
def test_the_head_of_the_checkpoint_is_kept_if_configured(head, is_kept, play_phase, beginnings, player, tmp_path):
    model = load_classifier(str(player))
    draw_head(model, seed=5)
    model.save_pretrained(tmp_path / "with-head")
    AutoTokenizer.from_pretrained(player).save_pretrained(tmp_path / "with-head")
    play_phase("verifier", 0, verifier__model=str(tmp_path / "with-head"), verifier__head=head, verifier__max_steps=1)
    ((_, weights),) = beginnings
    assert torch.equal(weights[HEAD], model.state_dict()[HEAD]) == is_kept


@pytest.mark.parametrize("lora", [None, LORA])
def test_reloaded_verifier_gives_the_scores_that_the_phase_recorded(lora, play_phase):
    folder = play_phase("verifier", 0, verifier__lora=lora).verifier(0)
    assert (folder / "adapter_config.json").exists() == (lora is not None)
    heldout = pd.read_parquet(folder / "heldout.parquet")
    scores = VerifierScorer.from_pretrained(folder)(heldout["problem"].tolist(), heldout["solution"].tolist())
    assert len(scores) == 16
    assert np.ptp(scores) > 0.01
    np.testing.assert_allclose(scores, heldout["score"], atol=1e-5)


@pytest.mark.parametrize("init", ["full", "head_only", "warm"])
def test_adapters_are_continued_like_full_weights(init, tmp_path, game, reference, beginnings, player):
    folder = branch_off(reference, tmp_path, "round-001/verifier")
    shutil.rmtree(folder.verifier(0))
    for round_index in (0, 1):
        play(load_recipe(game(verifier__lora=LORA, verifier__init=init)), phase="verifier", round_index=round_index)
    first, second = beginnings
    adapters = [name for name in second[1] if "lora_" in name]
    head = next(name for name in second[1] if name.endswith("score.modules_to_save.default.weight"))
    last = first[0].model.state_dict()
    continues = {"full": (False, False), "head_only": (True, False), "warm": (True, True)}[init]
    assert (
        all(torch.equal(second[1][name], last[name]) for name in adapters),
        torch.equal(second[1][head], last[head]),
    ) == continues
    # the frozen base is the initial model's
    initial = load_file(player / "model.safetensors")
    layer = "model.layers.0.self_attn.q_proj"
    assert torch.equal(
        second[0].model.get_submodule(f"base_model.model.{layer}").base_layer.weight, initial[f"{layer}.weight"]
    )
    scores = VerifierScorer.from_pretrained(folder.verifier(1))
    heldout = pd.read_parquet(folder.verifier(1) / "heldout.parquet")
    np.testing.assert_allclose(
        scores(heldout["problem"].tolist(), heldout["solution"].tolist()), heldout["score"], atol=1e-5
    )


def test_settings_of_a_round_reach_the_trainer(play_phase, beginnings):
    changes = {"learning_rate": 0.005, "max_steps": 3, "trainer": {"adam_beta2": 0.9}, "center": 0.25}
    play_phase("verifier", 1, rounds={1: {"verifier": changes}})
    ((trainer, _),) = beginnings
    args = trainer.args
    assert (args.learning_rate, args.max_steps, args.adam_beta2, args.center) == (0.005, 3, 0.9, 0.25)


def test_mixture_of_the_second_round_holds_both_sources(reference):
    pairs = read_json(reference.verifier(1) / "pairs.json")
    assert {"base", "round-000"} <= {key.rpartition("/")[2] for key, count in pairs.items() if count}


def test_the_probability_of_a_score_is_that_of_the_held_out_solutions(reference):
    folder = reference.verifier(1)
    line = read_json(folder / "calibration.json")["probability"]
    assert line.keys() == {"slope", "intercept"}
    rows = scored_rows(pd.read_parquet(folder / "heldout.parquet"))
    probability = 1 / (1 + np.exp(-line["slope"] * rows["score"] - line["intercept"]))
    # A logistic regression with an intercept has the mean of its targets, which differ from 0 and 1 by 1/(N + 2).
    num_correct = int(rows["correct"].sum())
    num_incorrect = len(rows) - num_correct
    target = num_correct * (num_correct + 1) / (num_correct + 2) + num_incorrect / (num_incorrect + 2)
    assert probability.mean() == pytest.approx(target / len(rows), abs=1e-3)
    assert line["slope"] >= 0


def test_verifier_worse_than_asked_for_ends_the_round(play_phase):
    with pytest.raises(ValueError, match=r"`watchdogs\.min_pair_accuracy` = 1\.0") as caught:
        play_phase("verifier", 0, watchdogs__min_pair_accuracy=1.0)
    assert type(caught.value).__name__ == "DegenerateVerifierError"


def test_a_verifier_is_refused_by_the_labels_that_decide(play_phase, tmp_path):
    settings = {"stopping__labels": "observed", "noise": {"rho0": 0.3, "rho1": 0.0}}
    folder = play_phase("verifier", 0, **settings)
    (observed,) = [
        line["verifier/observed/heldout_pair_accuracy"]
        for line in read_json_lines(folder.verifier(0) / "metrics.jsonl")
        if "verifier/observed/heldout_pair_accuracy" in line
    ]
    shutil.rmtree(tmp_path / "game")
    with pytest.raises(ValueError, match=f"orders a share of {observed:.2f} of"):
        play_phase("verifier", 0, watchdogs__min_pair_accuracy=1.0, **settings)


def test_tied_pairs_are_half_won(play_phase):
    """A verifier that reads only the problem gives both solutions of a pair the same score."""
    folder = play_phase("verifier", 0, verifier__template="{{ problem }}")
    assert read_json(folder.verifier(0) / "calibration.json")["pair_accuracy"]["value"] == 0.5


def test_verifier_that_gives_everything_one_score_ends_the_round(play_phase, tmp_path):
    with pytest.raises(ValueError, match=r"same score.*`verifier.max_steps`"):
        play_phase("verifier", 0, verifier__template="has")
    assert not (tmp_path / "game" / "verifier" / "round-000").exists()


@pytest.mark.parametrize("parts", [{"verifier", "verifier_heldout"}, {"verifier"}, {"verifier_heldout"}])
@pytest.mark.parametrize("is_correct", [True, False])
def test_a_part_without_pairs_is_an_error_before_the_training(
    is_correct, parts, tmp_path, game, reference, beginnings
):
    """All its solutions are correct, or all incorrect."""
    rows = pd.read_parquet(reference.pool(-1) / "base.parquet")[["problem_id", "problem", "reference", "part"]]
    right = rows.drop_duplicates().assign(solution=rows["reference"])
    wrong = right.assign(solution="has 0\n#### 0")
    poor = right["part"].isin(parts)
    written = pd.concat([right[~poor], wrong[~poor], (right if is_correct else wrong)[poor]])
    file = tmp_path / "solutions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in written.to_dict("records")))
    message = "have no incorrect solution" if is_correct else "have no correct solution"
    if "verifier" not in parts:
        message = f"cannot be evaluated on D_V's held-out part: .*{message}.*`split.heldout_share`"
    with pytest.raises(ValueError, match=message):
        play(load_recipe(game(bootstrap__import_from=str(file))))
    assert beginnings == []


def imported(folder, base: pd.DataFrame, *solutions) -> str:
    """
    A file with solutions to all the verifier's problems, each from `write(index, row) -> text` or `(text, label)`.
    """
    problems = base.drop_duplicates("problem_id")[["problem_id", "problem", "reference", "part"]].to_dict("records")
    file = folder / "solutions.jsonl"
    rows = []
    for write in solutions:
        for index, row in enumerate(problems):
            text, label = write(index, row)
            rows.append({"problem_id": row["problem_id"], "solution": text, "label": label})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def right(index, row):
    return row["reference"], 1


def wrong(index, row):
    return "has 0\n#### 0", 0


def wrong_and_long(index, row):
    """A wrong solution, which is longer for every second problem."""
    return ("has 0\n" * (4 if index % 2 else 1)) + "#### 0", 0


@pytest.fixture
def base(reference) -> pd.DataFrame:
    return pd.read_parquet(reference.pool(-1) / "base.parquet")


@pytest.mark.parametrize("source", ["dataset", "both"])
def test_held_out_scores_include_references_if_pairs_use_them(source, tmp_path, game, base):
    """The base prover solved nothing, as a small one does on real problems."""
    recipe = load_recipe(game(bootstrap__import_from=imported(tmp_path, base, wrong), data__correct_source=source))
    for phase, round_index in (("bootstrap", None), ("verifier", 0)):
        folder = play(recipe, phase=phase, round_index=round_index)
    rows = pd.read_parquet(folder.verifier(0) / "heldout.parquet")
    heldout = base[base["part"] == "verifier_heldout"].drop_duplicates("problem_id").set_index("problem_id")
    for environment, is_correct in (("base", False), ("reference", True)):
        of_writer = rows[rows["environment"] == environment].set_index("problem_id")
        assert sorted(of_writer.index) == sorted(heldout.index)
        assert set(of_writer["correct"]) == {is_correct}
        assert of_writer["score"].notna().all()
    references = rows[rows["environment"] == "reference"].set_index("problem_id")["solution"]
    assert references.to_dict() == heldout["reference"].to_dict()
    assert read_json(folder.verifier(0) / "calibration.json")["pair_accuracy"]["n"] == len(heldout)


def test_a_held_out_part_without_correct_solutions_is_an_error_before_the_training(tmp_path, game, base, beginnings):
    """Some are labelled correct, so that there are pairs."""

    def called_correct(index, row):
        return ("has 1\n#### 1" if row["part"] == "verifier_heldout" else row["reference"]), 1

    recipe = game(bootstrap__import_from=imported(tmp_path, base, wrong, called_correct))
    recipe["bootstrap"]["import_columns"] = {"label": "label"}
    play(load_recipe(recipe), phase="bootstrap")
    number = base[base["part"] == "verifier_heldout"]["problem_id"].nunique()
    message = (
        rf"of {2 * number} solutions {2 * number} did not fail, 0 of these are correct, and 0 of {number} pairs .*"
        r"`data\.correct_source: dataset`"
    )
    with pytest.raises(ValueError, match=message):
        play(load_recipe(recipe), phase="verifier", round_index=0)
    assert beginnings == []


def test_quality_is_reported_by_round_and_role(reference):
    figures = read_json(reference.evaluation(1) / "metrics.json")
    prefix = "round/verifier_auc/"
    found = {key.removeprefix(prefix) for key in figures if key.startswith(prefix)}
    assert found == {"base", "round-000-helpful", "round-000-sneaky"}


def test_exclusions_are_recorded(tmp_path, game, base, tokenizer):
    """Each problem gives one pair; those with a long incorrect side are not trained on, and truncated when scored."""
    limit = len(tokenizer(base["problem"][0] + "\n" + base["reference"][0] + tokenizer.eos_token)["input_ids"])
    file = imported(tmp_path, base, right, wrong_and_long)
    recipe = load_recipe(game(bootstrap__import_from=file, verifier__max_length=limit))
    for phase, round_index in (("bootstrap", None), ("verifier", 0)):
        folder = play(recipe, phase=phase, round_index=round_index)
    problems = base.drop_duplicates("problem_id").reset_index(drop=True)
    is_long, is_heldout = problems.index % 2 == 1, problems["part"] == "verifier_heldout"
    lines = read_json_lines(folder.verifier(0) / "metrics.jsonl")
    counts = {key: value for line in lines for key, value in line.items()}
    assert counts["pairs/num_pairs"] == (~is_heldout).sum()
    assert counts["heldout_pairs/num_pairs"] == is_heldout.sum()
    assert counts["pairs/over_max_length"] == (is_long & ~is_heldout).sum() > 0
    assert counts["verifier/num_cut"] == 2 * (is_long & is_heldout).sum() > 0  # as a solution, and in its pair
    pairs = read_json(folder.verifier(0) / "pairs.json")
    assert pairs.items() <= counts.items()
    assert {"pairs/over_max_length", "heldout_pairs/num_solutions"} <= pairs.keys()


def test_loss_that_is_not_finite_ends_the_phase(play_phase, tmp_path):
    with pytest.raises(FloatingPointError, match=r"step 1 is nan"):
        play_phase("verifier", 0, learning_rate=1.0e30)
    assert not (tmp_path / "game" / "verifier" / "round-000").exists()
    assert len(read_json_lines(tmp_path / "game" / "metrics.jsonl")) == 0


def test_too_few_pairs_end_the_game_before_training(play_phase, tmp_path, beginnings):
    with pytest.raises(TooFewPairsError, match=r"50 pairs \(`watchdogs\.min_pairs`\)") as caught:
        play_phase("verifier", 0, watchdogs__min_pairs=50)  # there are 24 problems
    assert 0 < caught.value.report.num_pairs < 50
    assert list(beginnings) == []
    play_phase("verifier", 0, watchdogs__min_pairs=caught.value.report.num_pairs)  # the limit may change in a run


@pytest.mark.parametrize(
    ("num_problems", "least"), [(3, 1), (24, 2), (4000, 400), (7000, 500)], ids=lambda number: f"{number}"
)
def test_a_verifier_needs_500_pairs_or_a_tenth_of_its_problems(num_problems, least):
    assert WatchdogConfig().least_pairs(num_problems) == least
    assert WatchdogConfig(min_pairs=7).least_pairs(num_problems) == 7
