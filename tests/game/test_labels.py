"""Labels shown to the players, randomly flipped or from an imperfect checker, in a game and in its phases."""

import filecmp
import json
import shutil
import signal
from pathlib import Path

import pandas as pd
import pytest

from pvg_hf import load_recipe, play
from pvg_hf.app.index import Query
from pvg_hf.app.runs import OpenRun
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.extensions import ExtensionError
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.data.label_rates import label_rates
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.labels import LabelSource
from pvg_hf.noise.telemetry import count_calls, read_events
from pvg_hf.run.layout import PhaseKey, RunFolder, partial_of
from pvg_hf.run.phase_record import staged
from pvg_hf.tasks.base import Grade
from tests.game.test_distributed import start_two
from tests.support.game_runs import branch_off, differing, play_in_process
from tests.support.recall_task import RecallTask

pytestmark = pytest.mark.game

ROUGH = {"timeout": 0.2, "spurious_fail": 0.25, "spurious_pass": 0.25}
CHECKER = {
    "escalation_policy": "on_timeout",
    "tier": "balanced",
    "tiers": {"balanced": ROUGH, "slow_precise": {"timeout": 0.1}},
    "slice_by": "difficulty",
    "slices": {3: {"noise_enabled": False}},
}
NOISE = {"applies_to": "both", "checker": CHECKER}


def grade_or_fail(task: RecallTask, problem: dict, solution: str) -> Grade:
    """Raises an error on texts that no preflight check tries, although a task promises not to."""
    if solution == problem["reference"]:
        return Grade(answer="1", correct=True)
    if "has" in solution:
        raise RuntimeError(f"cannot read {solution!r}")
    return Grade(answer=None, correct=False)


def read_pool(folder: RunFolder, round_index: int) -> pd.DataFrame:
    names = ["base"] if round_index == BASE_ROUND else ["helpful", "sneaky"]
    return pd.concat([pd.read_parquet(folder.pool(round_index) / f"{name}.parquet") for name in names])


@pytest.fixture(scope="module")
def checked(tmp_path_factory, make_recipe) -> RunFolder:
    """A round of a game with an imperfect checker for both players."""
    place = tmp_path_factory.mktemp("checked")
    return play(load_recipe(make_recipe(place, num_rounds=1, noise=NOISE, logging__report=True)))


@pytest.mark.parametrize("round_index", [BASE_ROUND, 0])
def test_labels_of_the_pool_are_the_checkers_outcomes(round_index, checked):
    rows = read_pool(checked, round_index)
    rows = rows[rows["part"] == "verifier"]
    assert (rows["feedback"] == "VERIFIER_TIMEOUT").any()
    expected = {"VERIFIED": 1, "PROOF_INVALID": 0, "VERIFIER_SPURIOUS_FAIL": 0, "VERIFIER_SPURIOUS_PASS": 1}
    for row in rows.itertuples():
        label = None if pd.isna(row.label) else row.label
        if row.outcome in ("VERIFIED", "PROOF_INVALID"):
            assert label == expected.get(row.feedback)
            assert row.is_noise_flagged == row.feedback.startswith("VERIFIER_SPURIOUS")
            assert row.is_noise_flagged == (label not in (None, int(row.correct)))
        else:
            assert (row.feedback, label, row.is_noise_flagged) == (row.outcome, int(row.correct), False)
    quiet = rows[rows["difficulty"] == 3]
    assert len(quiet) > 5
    assert (quiet["feedback"] == quiet["outcome"]).all()


def test_judging_sees_clean_labels_only(checked):
    """Evaluation uses the grader's columns, and its solutions are not checked."""
    for name in ("test-helpful", "test-sneaky", "helpful", "sneaky"):
        rows = pd.read_parquet(checked.pool(0) / f"{name}.parquet")
        rows = rows[rows["part"] != "verifier"]
        assert len(rows) > 0
        assert (rows["label"] == rows["correct"]).all()
        assert (rows["feedback"] == rows["outcome"]).all()
    rows = read_pool(checked, 0)
    truths = rows["answer"] == rows["problem"].str.split().str[2]  # `Ana has 5 pens.`
    assert truths.tolist() == rows["correct"].tolist()


def test_every_call_is_an_event_and_figures_are_computed_from_events(checked):
    for folder, phase in ((checked.pool(-1), "bootstrap"), (checked.prover(0), "prover"), (checked.pool(0), "mint")):
        counts, told = count_calls(read_events(folder / "events.jsonl")), read_json(folder / "checks.json")
        assert (told["phase"], told["calls"], told["digest"]) == (phase, counts.num_calls, counts.digest)
        assert counts.num_calls > 20
        metrics = {key: value for line in read_json_lines(folder / "metrics.jsonl") for key, value in line.items()}
        timeouts = [key for key in metrics if key.startswith("verifier.noise.timeout.rate/balanced/")]
        assert "verifier.noise.timeout.rate/balanced/4" in timeouts
        assert metrics["verifier.noise.timeout.rate/balanced/4/configured"] == 0.2
        assert metrics["verifier.noise.timeout.rate/balanced/3"] == 0
        transition = "balanced_to_slow_precise"
        assert metrics[f"verifier.escalation.count/{transition}"] == counts.escalations["balanced->slow_precise"] > 0
        assert 0 <= metrics[f"verifier.escalation.success_rate/{transition}"] <= 1


def test_the_pool_agrees_with_the_events(checked):
    for round_index in (BASE_ROUND, 0):
        folder = checked.pool(round_index)
        last = {(event["problem"], event["solution"]): event["code"] for event in read_events(folder / "events.jsonl")}
        rows = read_pool(checked, round_index)
        rows = rows[rows["part"] == "verifier"]
        asked = rows[rows["outcome"].isin(["VERIFIED", "PROOF_INVALID"])].drop_duplicates(["problem_id", "solution"])
        assert sorted(last.values()) == sorted(asked["feedback"])
        metrics = {key: value for line in read_json_lines(folder / "metrics.jsonl") for key, value in line.items()}
        assert metrics["feedback.noise_flagged.count"] == rows["is_noise_flagged"].sum()
        assert metrics["feedback.abstained.count"] == rows["label"].isna().sum()


def test_the_log_of_the_run_names_each_phases_digest(checked):
    told = [event for event in read_json_lines(checked.events) if event["event"] == "checks"]
    assert [(event["phase"], event["round"]) for event in told] == [("bootstrap", None), ("prover", 0), ("mint", 0)]
    assert told[2]["digest"] == read_json(checked.pool(0) / "checks.json")["digest"]


def test_the_report_shows_the_checker(checked):
    page = checked.report.read_text()
    assert "The imperfect checker" in page
    assert "round 0 prover, balanced, 4" in page
    assert read_json(checked.pool(0) / "checks.json")["digest"][:12] in page


def test_a_prover_is_rewarded_by_labels_and_unlabelled_solutions_have_no_effect(play_phase):
    noise = {"applies_to": "prover", "checker": {"tiers": {"balanced": ROUGH}}}
    settings = {"prover__reward": "correctness_only", "logging__log_completions": True}
    folder = play_phase("prover", 0, noise=noise, **settings)
    rows = pd.concat(map(pd.read_parquet, sorted((folder.prover(0) / "completions").glob("*.parquet"))))
    abstained = rows["correctness_only"].isna()
    assert 0 < abstained.mean() < 0.5
    assert (rows.loc[abstained, "advantage"] == 0).all()
    aligned = rows["correct"] ^ (rows["role"] == "sneaky")
    is_checked = rows["outcome"].isin(["VERIFIED", "PROOF_INVALID"])
    paid_wrongly = ~abstained & is_checked & (rows["correctness_only"] != aligned)
    steps = [line for line in read_json_lines(folder.prover(0) / "metrics.jsonl") if "prover/feedback.count" in line]
    for line in steps:
        is_of_step = rows["step"] == line["step"]
        assert line["prover/feedback.noise_flagged.count"] == paid_wrongly[is_of_step].sum()
        assert line["prover/feedback.abstained.count"] == abstained[is_of_step].sum()
        clean = rows[is_of_step & (rows["role"] == "helpful")]["correct"].mean()  # accuracies go by the grade
        assert line["prover/accuracy/helpful"] == pytest.approx(clean, abs=1e-4)
    assert paid_wrongly.sum() > 5
    assert len(steps) == 6


def test_noise_of_the_verifier_alone_leaves_the_provers_reward_clean(reference, play_phase, tmp_path):
    folder = play_phase("prover", 0, noise={"checker": CHECKER})
    assert not (folder.prover(0) / "events.jsonl").exists()
    names = [str(path.relative_to(folder.root)) for path in folder.prover(0).glob("*.safetensors")]
    assert names
    assert [name for name in differing(folder, reference) if name in names] == []


def test_noise_of_the_prover_alone_leaves_the_pool_clean(tmp_path, game):
    folder = play(load_recipe(game(noise={"applies_to": "prover", "checker": CHECKER})), phase="bootstrap")
    rows = read_pool(folder, BASE_ROUND)
    assert (rows["label"] == rows["correct"]).all()
    assert not (folder.pool(-1) / "events.jsonl").exists()


DEATHS = {
    "bootstrap": ("os.rename", r"pool/\.base\.partial/test-helpful\.parquet'"),
    "prover": ("open", r"prover/\.round-000\.partial/checkpoints/checkpoint-4/trainer_state"),
    "mint": ("os.rename", r"pool/\.round-000\.partial/sneaky\.parquet'"),
}
BUDGETS = {"per_round": 200, "total": 380}  # the mint of round 0 runs out of them


@pytest.fixture(scope="module")
def limited(tmp_path_factory, make_recipe) -> RunFolder:
    noise = {**NOISE, "checker": {**CHECKER, "budget": BUDGETS}}
    return play(load_recipe(make_recipe(tmp_path_factory.mktemp("limited"), num_rounds=1, noise=noise)))


def test_budgets_apply_to_the_round_and_to_the_game(limited):
    costs = {name: read_json(folder / "checks.json")["cost"] for name, folder in (
        ("bootstrap", limited.pool(-1)), ("prover", limited.prover(0)), ("mint", limited.pool(0))
    )}  # fmt: skip
    assert costs["prover"] + costs["mint"] <= BUDGETS["per_round"]
    assert sum(costs.values()) <= BUDGETS["total"]
    codes = read_json(limited.pool(0) / "checks.json")["codes"]
    assert codes["BUDGET_EXHAUSTED"] > 0
    rows = read_pool(limited, 0)
    assert rows.loc[rows["feedback"] == "BUDGET_EXHAUSTED", "label"].isna().all()


def test_equal_solutions_of_both_roles_are_paid_for_once(tmp_path, game):
    """
    `roles: separate`: three texts cost 6, so that of the two further texts of the other role one is within the budget
    of 8.
    """
    noise = {"applies_to": "prover", "checker": {"noise_enabled": False, "budget": {"per_round": 8}}}
    recipe = load_recipe(game(noise=noise, prover__roles="separate"))
    context = PhaseContext(
        recipe, RunFolder.of(recipe), PhaseKey("prover", 0), GameProblems.load(recipe), StopRequest()
    )
    rows = [
        {"problem_id": "p", "solution": f"has {number}", "correct": True, "outcome": "VERIFIED"} for number in range(5)
    ]
    partial = partial_of(context.folder.prover(0))
    told = {}
    for role, number in (("helpful", 3), ("sneaky", 5)):
        with staged(partial / role, is_main=True) as output:
            labels = LabelSource(context, output, is_noisy=True)
            labels.begin()
            told[role] = labels(rows[:number], step=0)
            labels.close()
    assert told == {"helpful": ["VERIFIED"] * 3, "sneaky": ["VERIFIED"] * 4 + ["BUDGET_EXHAUSTED"]}
    costs = [event["cost"] for role in told for event in read_events(partial / role / "events.jsonl")]
    assert costs == [2, 2, 2, 2, 0]


@pytest.mark.nightly
def test_killed_and_continued_a_game_ends_in_the_same_outcomes(limited, tmp_path, make_recipe):
    """This includes budgets that were half spent when it was killed."""
    noise = {**NOISE, "checker": {**CHECKER, "budget": BUDGETS}}
    recipe, log = make_recipe(tmp_path, num_rounds=1, noise=noise), tmp_path / "log.txt"
    for event, pattern in DEATHS.values():
        order = {"recipe": recipe, "signal": "SIGKILL", "moment": {"event": event, "pattern": pattern}}
        assert play_in_process(order, log) == -signal.SIGKILL, log.read_text()
    killed = play(load_recipe(recipe))
    assert differing(killed, limited) == []
    for name in ("pool/base", "prover/round-000", "pool/round-000"):
        mine, others = (read_json(run.root / name / "checks.json") for run in (killed, limited))
        assert mine == others
        assert (killed.root / name / "events.jsonl").read_text().count("\n") == others["calls"] + others["codes"].get(
            "BUDGET_EXHAUSTED", 0
        )


def test_a_custom_checker_is_called(tmp_path, game, monkeypatch):
    """It accepts even numbers, in a separate process."""
    checker = {"base": "tests.support.own_rules:ends_evenly", "tiers": {"balanced": dict.fromkeys(ROUGH, 0)}}
    folder = play(load_recipe(game(noise={"checker": checker})), phase="bootstrap")
    rows = read_pool(folder, BASE_ROUND)
    rows = rows[rows["outcome"].isin(["VERIFIED", "PROOF_INVALID"]) & (rows["part"] == "verifier")]
    assert rows["label"].tolist() == [int(answer) % 2 == 0 for answer in rows["answer"]]
    assert (rows["label"] != rows["correct"]).any()
    assert not rows["is_noise_flagged"].any()


@pytest.mark.parametrize("noise", [{}, {"rho0": 0.4, "rho1": 0.4}])
def test_labels_of_people_replace_the_graders_and_the_noises(tmp_path, game, reference, noise):
    """For the problems that verifiers are trained on; truth, other solutions and other parts stay as they are."""
    before = read_pool(RunFolder(reference.root), BASE_ROUND)
    before = before[before["outcome"].isin(["VERIFIED", "PROOF_INVALID"])]
    chosen = [before[(before["correct"] == k) & (before["part"] == "verifier")].iloc[0] for k in (True, True, False)]
    chosen[1] = before[before["correct"] & (before["part"] == "verifier")].iloc[-1]
    chosen.append(before[before["part"] == "verifier_heldout"].iloc[0])
    scores = [0, 0.5, 1, 1 - int(chosen[-1]["correct"])]
    path = tmp_path / "labels.jsonl"
    lines = [
        {"problem_id": row["problem_id"], "solution": row["solution"], "score": score}
        for row, score in zip(chosen, scores, strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = load_recipe(game(noise=noise, data={"annotations": str(path)}))
    rows = read_pool(play(recipe, phase="bootstrap"), BASE_ROUND)
    labels = [
        rows[(rows["problem_id"] == row["problem_id"]) & (rows["solution"] == row["solution"])].iloc[0]
        for row in chosen
    ]
    shown = [(None if pd.isna(row["label"]) else row["label"], row["feedback"], row["correct"]) for row in labels]
    assert shown == [
        (0, "VERIFIER_SPURIOUS_FAIL", True),
        (None, "UNDECIDED", True),
        (1, "VERIFIER_SPURIOUS_PASS", False),
        (int(chosen[-1]["correct"]), chosen[-1]["outcome"], chosen[-1]["correct"]),
    ]
    others = rows[~rows["solution"].isin([row["solution"] for row in chosen])]
    assert (others["label"] != others["correct"]).any() == bool(noise)


def test_a_game_learns_from_labels_given_in_the_app(reference, play_phase, tmp_path):
    run = OpenRun(Path(shutil.copytree(reference.root, tmp_path / "labelled")))
    listed = run.index().find(Query(0, is_test=False, correct=True))
    rows = run.index().read([one.place for one in listed])
    one, row = next(pair for pair in zip(listed, rows, strict=True) if pair[1]["part"] == "verifier")
    assert run.annotate(one.key, score=0.0, note="guessed").endswith("annotations.jsonl.")
    folder = play_phase("mint", 0, data={"annotations": str(run.folder.root)})
    rows = read_pool(folder, 0)
    same = (rows["problem_id"] == one.problem_id) & (rows["solution"] == row["solution"])
    assert rows[same]["label"].tolist() == [0] * same.sum()
    assert same.any()
    assert (rows[~same]["label"] == rows[~same]["correct"]).all()
    lines = read_json_lines(folder.pool(0) / "metrics.jsonl")
    assert [line[key] for line in lines for key in line if key.endswith("feedback.annotated.count")] == [same.sum()]


@pytest.mark.parametrize("base", ["grade", "tests.support.own_rules:ends_evenly"])
def test_an_error_of_the_tasks_grade_is_not_a_checker_outcome(base, tmp_path, game, monkeypatch):
    """
    The grade is the truth, for which there is no substitute: the phase ends, and is resumed once the task is
    corrected.
    """
    recipe = load_recipe(game(noise={"applies_to": "both", "checker": {"base": base}}))
    with monkeypatch.context() as patched:
        patched.setattr(RecallTask, "grade", grade_or_fail)
        with pytest.raises(ExtensionError, match="cannot read"):
            play(recipe, phase="bootstrap")
    assert not RunFolder(tmp_path / "game").pool(BASE_ROUND).exists()
    assert play(recipe, phase="bootstrap").pool(BASE_ROUND).exists()


def test_an_error_of_the_tasks_grade_ends_a_provers_training(play_phase, monkeypatch):
    monkeypatch.setattr(RecallTask, "grade", grade_or_fail)
    with pytest.raises(ExtensionError, match="cannot read"):
        play_phase("prover", 0, noise=NOISE)


def test_a_schedule_over_rounds_moves_the_rates_of_the_labels(tmp_path, game, reference, beginnings):
    """The base's solutions are moment 0, at factor 0; those of round 0 are moment 1, at factor 1."""
    noise = {"epsilon": 0.4, "schedule": {"kind": "linear", "length": 1}}
    recipe = game(noise=noise, verifier__correction="forward")
    folder = branch_off(reference, tmp_path, "round-000/mint")
    shutil.rmtree(folder.pool(-1))
    play(load_recipe(recipe), phase="bootstrap")
    assert not read_pool(folder, BASE_ROUND)["is_noise_flagged"].any()
    play(load_recipe(recipe), phase="mint", round_index=0)
    rows = read_pool(folder, 0)
    rows = rows[rows["part"] == "verifier"]
    assert 0.2 < rows["is_noise_flagged"].mean() < 0.6
    play(load_recipe(recipe), phase="evaluate", round_index=0)
    play(load_recipe(recipe), phase="verifier", round_index=1)
    args = beginnings[-1][0].args
    assert (args.rho0, args.noise_rho0) == (0.2, 0.0)  # half of the mixture is the base's


def test_a_schedule_over_steps_moves_the_rates_of_the_trainer(play_phase, beginnings):
    noise = {"rho0": 0.4, "rho1": 0.2, "schedule": {"over": "steps", "kind": "linear", "length": 8}}
    play_phase("verifier", 0, noise=noise, verifier__correction="forward")
    args = beginnings[-1][0].args
    assert (args.noise_rho0, args.noise_rho1) == pytest.approx((0.35, 0.175))  # of the last step, the eighth
    assert (args.rho0, args.rho1) == (args.noise_rho0, args.noise_rho1)


def test_a_schedule_over_steps_moves_the_rates_that_a_provers_correction_assumes(play_phase):
    """The reward by the label is (1 - e) / (1 - 2 e) or - e / (1 - 2 e) at the step's rate e."""
    noise = {"epsilon": 0.4, "applies_to": "prover", "schedule": {"over": "steps", "kind": "linear", "length": 8}}
    settings = {"prover__reward": "correctness_only", "prover__reward_correction": "backward"}
    folder = play_phase("prover", 0, noise=noise, logging__log_completions=True, **settings)
    files = sorted((folder.prover(0) / "completions").glob("*.parquet"))
    assert len(files) == 6
    for step, file in enumerate(files):
        rows = pd.read_parquet(file)
        rate = 0.4 * step / 8
        paid = rows.loc[rows["outcome"].isin(["VERIFIED", "PROOF_INVALID"]), "correctness_only"]
        by_label = paid.map(lambda reward: reward > 0.5).map({True: 1 - rate, False: -rate}) / (1 - 2 * rate)
        assert paid.nunique() == 2
        assert paid.tolist() == pytest.approx(by_label.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("loss", "injected"),
    [("bradley_terry", (0.0, 0.0)), ("cross_entropy", pytest.approx((0.35, 0.175)))],
    ids=["bradley_terry", "cross_entropy"],
)
def test_soft_labels_on_a_schedule_over_steps_draw_nothing(loss, injected, play_phase, beginnings):
    schedule = {"over": "steps", "kind": "linear", "length": 8}
    noise = {"rho0": 0.4, "rho1": 0.2, "soft_labels": True, "schedule": schedule}
    folder = play_phase("verifier", 0, noise=noise, verifier__loss=loss)
    args = beginnings[-1][0].args
    assert (args.rho0, args.rho1) == pytest.approx((0.35, 0.175))  # of the last step, the eighth
    assert (args.noise_rho0, args.noise_rho1) == injected  # as means of single solutions, or none
    lines = read_json_lines(folder.verifier(0) / "metrics.jsonl")
    assert not any(line.get("verifier/flipped") or line.get("verifier/tied") for line in lines)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("bradley_terry", {"correction": "smoothing", "noise_rho0": 0.0, "noise_resample": "fixed", "rho0": 0.2}),
        ("cross_entropy", {"correction": "none", "noise_rho0": 0.2, "noise_resample": "mean"}),
    ],
)
def test_soft_labels_set_these_trainer_arguments(loss, expected, play_phase, beginnings):
    play_phase("verifier", 0, noise={"epsilon": 0.2, "soft_labels": True}, verifier__loss=loss)
    args = vars(beginnings[-1][0].args)
    assert {name: args[name] for name in expected} == expected


def test_corrections_take_the_routed_channels_rates(play_phase, beginnings, reference):
    """They are means over D_V's problems; the rates on the slice without noise are 0."""
    play_phase("verifier", 0, noise=NOISE, verifier__correction="forward")
    args = beginnings[-1][0].args
    rows = pd.read_parquet(reference.pool(-1) / "base.parquet").drop_duplicates("problem_id")
    noisy = (rows[rows["part"] == "verifier"]["difficulty"] != 3).mean()
    # By hand: the balanced tier, and after a timeout the slow one, which times out one time in ten.
    rho0, rho1 = ((0.25 + 0.2 * rate) / (1 - 0.2 * 0.1) for rate in (0.001, 0.005))
    assert (args.rho0, args.rho1) == pytest.approx((noisy * rho0, noisy * rho1))
    assert (args.noise_rho0, args.noise_rho1) == (0, 0)


def test_the_provers_correction_assumes_the_rates_of_its_round(game):
    """They are 0 if the noise applies to the verifier only."""
    noise = {"epsilon": 0.4, "applies_to": "both", "schedule": {"kind": "linear", "length": 2}}
    for applies_to, expected in (("both", 0.2), ("prover", 0.2), ("verifier", 0.0)):
        recipe = load_recipe(game(noise={**noise, "applies_to": applies_to}))
        assert label_rates(recipe, 0, "prover", []) == pytest.approx((expected, expected))


@pytest.mark.nightly
def test_two_processes_get_the_labels_of_one(checked, tmp_path, make_recipe):
    recipe = make_recipe(tmp_path, num_rounds=1, noise=NOISE)
    log = tmp_path / "log.txt"
    assert start_two({"parts": [{"recipe": recipe, "phase": "bootstrap"}]}, log).wait(timeout=300) == 0, (
        log.read_text()
    )
    folder = RunFolder(tmp_path / "game")
    mine, others = (read_json(run.pool(-1) / "checks.json") for run in (folder, checked))
    assert mine == others
    assert mine["calls"] > 20
    for name in ("base.parquet", "events.jsonl"):
        assert filecmp.cmp(folder.pool(-1) / name, checked.pool(-1) / name, shallow=False)
