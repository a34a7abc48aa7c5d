"""Checkers that err at one rate in different ways."""

import json
import runpy
import shutil
import sys
from dataclasses import dataclass
from math import nan
from pathlib import Path

import pandas as pd
import pytest

from experiments.arms import CLEAN, arm_folder, arms_table, describe_arms, find_fill, game_recipe, play_arms
from pvg_hf import load_recipe
from pvg_hf.config import RecipeError
from pvg_hf.config.noise_section import ErrorBucketConfig
from pvg_hf.core.integrity import read_json
from pvg_hf.run.jobs import JobFolder, JobsFailedError
from pvg_hf.run.lock import locked
from tests.support.game_runs import copy_until, differing, forget_digests, play_in_process


def bucket(FPR, selector):
    return {"selector": selector, "FPR": FPR}


SEVENS = "matches(completion_extracted, '7$')"
ALL = "completion_full_chars >= 0"
# Every problem of the task, by a column: half of all wrong solutions, as of the arm with random errors.
ANY_PROBLEM = "difficulty >= 3"

WRONG = pd.DataFrame(
    {
        "problem_id": "a",
        "solution": [f"#### {number}" for number in (7, 17, 1, 2, 3, 4, 5, 6, 8, 9)],  # two end in 7
        "reference": "#### 100",
        "difficulty": [5] * 4 + [3] * 6,
    }
)


def fill(*buckets, rate):
    return find_fill([ErrorBucketConfig(**one) for one in buckets], rate, WRONG, seed=3)


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        ([], 0.2),
        ([bucket(0.5, SEVENS)], 1 / 8),  # the key accepts half of 2 in 10; .1 more of the other 8 in 10
        ([bucket(1.0, SEVENS)], 0),
        ([bucket(0.0, SEVENS)], 1 / 4),
        ([bucket(0.0, "difficulty == 5")], 1 / 3),  # .2 of the other 6 in 10
        ([bucket(0.2, ALL)], 0),  # nothing is outside
        ([{"selector": SEVENS, "TPR": 0.5}], 0.2),  # the bucket has no rate of its own for wrong solutions
    ],
    ids=["random", "half of a key", "a whole key", "never a key", "by a column", "no solution outside", "TPR only"],
)
def test_random_errors_outside_the_buckets_fill_up_to_the_rate(buckets, expected):
    assert fill(*buckets, rate=0.2) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("buckets", "rate", "told"),
    [
        ([bucket(0.5, SEVENS)], 0.05, r"0\.100 to 0\.900 .* is 0\.05\. Use a rarer selector or a lower FPR"),
        ([bucket(0.5, SEVENS)], 0.95, r"0\.100 to 0\.900 .* is 0\.95\. Use a rarer selector or a higher FPR"),
        ([bucket(0.1, ALL)], 0.2, r"0\.100 to 0\.100 .* higher FPR"),
    ],
    ids=["too much", "too little", "no solution outside"],
)
def test_a_rate_out_of_reach_is_refused(buckets, rate, told):
    with pytest.raises(ValueError, match=told):
        fill(*buckets, rate=rate)


@dataclass
class Played:
    """A comparison in which one checker cannot err at the rate."""

    recipe: dict
    folder: JobFolder
    error: JobsFailedError

    def run(self, arm: str):
        return arm_folder(load_recipe(self.recipe), (0, arm))


@pytest.fixture(scope="session")
def make_arms(make_recipe):
    """Makes recipes of comparisons, as plain values: one seed and the smallest games."""

    def make(output_dir, checkers, **changes):
        small = {
            "name": "arms",
            "num_rounds": 1,
            "arms": {"rate": 0.5, "seeds": [0], "checkers": checkers},
            "data": {"correct_source": "both"},  # there are pairs as long as the base prover makes mistakes
            "verifier__max_steps": 2,
            "prover__max_steps": 2,
            "prover__roles": "helpful_only",
            "prover__reward": "correctness_only",
        }
        return make_recipe(output_dir, **{**small, **changes})

    return make


@pytest.fixture(scope="module")
def played(make_arms, tmp_path_factory) -> Played:
    """Tests read it and never write to it."""
    checkers = {"random": [], "all": [bucket(1.0, ALL)], "problems": [bucket(0.5, ANY_PROBLEM)]}
    recipe = make_arms(tmp_path_factory.mktemp("arms"), checkers)
    with pytest.raises(JobsFailedError) as caught:
        play_arms(load_recipe(recipe))
    return Played(recipe, JobFolder(Path(recipe["output_dir"]) / "arms"), caught.value)


def test_a_checker_that_cannot_err_at_the_rate_is_named_and_the_others_are_compared(played):
    assert list(played.error.failed) == ["seed 0, all"]
    assert "1 of 4 jobs" in str(played.error)
    assert "- seed 0, all: `arms.checkers.all` cannot err at `arms.rate`" in str(played.error)
    assert "1.000 to 1.000" in str(played.error)
    assert not played.run("all").root.exists()
    rows = [line.split(" | ")[:2] for line in played.folder.summary.read_text().splitlines() if line.startswith("| ")]
    assert rows[2:] == [["| clean", "1"], ["| random", "1"], ["| all", "0"], ["| problems", "1"]]


def test_the_figures_are_those_of_the_games(played):
    table = pd.read_csv(played.folder.root / "games.csv").set_index("arm")
    assert list(table.index) == [CLEAN, "random", "problems"]
    for arm in table.index:
        accuracy = read_json(played.run(arm).evaluation(0) / "metrics.json")["round/accuracy/helpful"]["value"]
        assert table.loc[arm, "accuracy"] == pytest.approx(accuracy)
        change = table.loc[arm, "accuracy"] - table.loc[CLEAN, "accuracy"]
        assert table.loc[arm, "change"] == pytest.approx(nan if arm == CLEAN else change, nan_ok=True)
    assert pd.isna(table.loc[CLEAN, "static_rate"])
    assert 0 <= table.loc["random", "static_rate"] <= 1


def test_arms_differ_in_the_checkers_errors_only(played):
    """An arm that accepts half of every problem's wrong solutions is the arm with random errors, by another name."""
    recipes = {arm: played.run(arm).read_recipe() for arm in (CLEAN, "random", "problems")}
    assert recipes[CLEAN].noise.checker is None
    for arm, filled in (("random", 0.5), ("problems", 0.0)):
        noise = recipes[arm].noise
        assert (noise.applies_to, noise.checker.noise_enabled) == ("prover", False)
        assert filled == noise.checker.errors.FPR
        assert (recipes[arm].seed, recipes[arm].arms) == (0, None)
    clean, *others = (pd.read_parquet(played.run(arm).pool(-1) / "base.parquet") for arm in recipes)
    for rows in others:
        pd.testing.assert_frame_equal(rows, clean.assign(prover=rows["prover"]))  # a name, with that of the game
    table = pd.read_csv(played.folder.root / "games.csv").set_index("arm")
    columns = ["static_rate", "accuracy", "change", "rise"]
    pd.testing.assert_series_equal(
        table.loc["random", columns], table.loc["problems", columns], check_names=False, check_dtype=False
    )


def test_finished_games_are_not_played_again_and_others_are_resumed(played, make_arms, tmp_path):
    for arm in (CLEAN, "random"):
        shutil.copytree(played.run(arm).root, tmp_path / played.run(arm).root.name)
    copy_until(played.run("problems"), tmp_path, "round-000/mint")
    checkers = {name: played.recipe["arms"]["checkers"][name] for name in ("random", "problems")}
    recipe = load_recipe(make_arms(tmp_path, checkers))
    runs = {arm: arm_folder(recipe, (0, arm)) for arm in (CLEAN, *checkers)}
    events = {arm: run.events.read_bytes() for arm, run in runs.items()}
    assert "To play  1 of 3 games" in describe_arms(recipe)
    folder = play_arms(recipe)
    assert runs[CLEAN].events.read_bytes() == events[CLEAN]
    assert runs["random"].events.read_bytes() == events["random"]
    assert runs["problems"].events.read_bytes() != events["problems"]
    assert differing(runs["problems"], played.run("problems")) == []
    before, now = (pd.read_csv(place.root / "games.csv") for place in (played.folder, folder))
    pd.testing.assert_frame_equal(before, now)
    assert "To play  0 of 3 games" in describe_arms(recipe)


@pytest.fixture
def changed(played):
    """Makes the recipe of the finished comparison with other values."""

    def change(sections):
        return load_recipe({**played.recipe, **sections})

    return change


def test_seeds_and_checkers_may_be_added(changed, played):
    arms = played.recipe["arms"]
    more = {**arms, "seeds": [0, 1], "checkers": {**arms["checkers"], "sevens": [bucket(0.5, SEVENS)]}}
    described = describe_arms(changed({"arms": more}))
    assert "To play  7 of 10 games" in described  # all but the three that are finished
    assert "Checkers clean, random, all, problems, sevens\nSeeds    0, 1\n" in described
    assert "arms-clean-seed-1" in described


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        (
            lambda recipe: {"verifier": {**recipe["verifier"], "max_steps": 3}},
            r"verifier\.max_steps`: 2 before, 3 now",
        ),
        (
            lambda recipe: {"arms": {**recipe["arms"], "rate": 0.4}},
            r"noise\.checker\.errors\.FPR`: 0\.5 before, 0\.4 now",
        ),
        (
            lambda recipe: {"arms": {**recipe["arms"], "checkers": {"random": [bucket(0.5, ALL)]}}},
            r"noise\.checker\.errors\.strategy",
        ),
    ],
    ids=["the game", "the rate", "a checker"],
)
def test_a_changed_recipe_is_refused_before_anything_is_played(sections, told, changed, played):
    recipe, events = changed(sections(played.recipe)), played.run(CLEAN).events.read_bytes()
    for run in (play_arms, describe_arms):
        with pytest.raises(ValueError, match=rf"(?s)another recipe:.*{told}.*another `name`"):
            run(recipe)
    assert played.run(CLEAN).events.read_bytes() == events


def test_one_process_plays_a_comparison(make_arms, tmp_path):
    recipe = load_recipe(make_arms(tmp_path, {"random": []}))
    with (
        locked(tmp_path / "arms", is_main=True),
        pytest.raises(ValueError, match=r"The comparison in .* is being played"),
    ):
        play_arms(recipe)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("checkers", "changes", "told"),
    [
        ({}, {}, r"`arms\.checkers`"),
        ({"random": []}, {"arms": None}, r"`arms\.checkers`"),
        ({"random": []}, {"noise": {"epsilon": 0.1}}, "leave `noise` out"),
        ({"random": []}, {"rounds": {0: {"noise": {"epsilon": 0.1}}}}, "leave `noise` out"),
        (
            {"random": []},
            {"prover__reward": "src", "prover__trainer": {"seed": 1}},
            r"1 mistake\(s\):\n- `prover.trainer`",
        ),
        (
            {"random": [], "hard": [bucket(1.0, "dificulty >= 4")]},
            {},
            r"1 mistake\(s\):\n- In `arms.checkers.hard`: .*`dificulty`.* Did you mean `difficulty`\?",
        ),
    ],
    ids=["no checkers", "no section", "noise", "noise of a round", "in every game", "in a checker"],
)
def test_mistakes_are_reported_before_any_training(checkers, changes, told, make_arms, tmp_path):
    recipe = load_recipe(make_arms(tmp_path, checkers, **changes))
    for run in (play_arms, describe_arms):
        with pytest.raises(RecipeError, match=told):
            run(recipe)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arms", "told"),
    [
        ({"checkers": {"clean": []}}, "`arms.checkers`: `clean` is the game without errors"),
        ({"checkers": {"a b": []}}, "`arms.checkers`: 'a b' cannot be a checker's name; use letters, digits"),
        ({"checkers": {"../x": []}}, "`arms.checkers`: '../x' cannot be"),
        ({"checkers": {"hard": [bucket(1.0, "difficulty above 1")]}}, "`arms.checkers.hard.0`.*above"),
        ({"checkers": {"hard": bucket(1.0, SEVENS)}}, "`arms.checkers.hard`"),
        ({"rate": 0}, "`arms.rate`.* 0"),
        ({"seeds": [1, 0, 1]}, "`arms.seeds`.* 1 is repeated"),
        ({"seeds": []}, "`arms.seeds`"),
        ({"chekers": {}}, "Did you mean `checkers`"),
    ],
)
def test_mistakes_in_the_section_are_reported(arms, told):
    with pytest.raises(RecipeError, match=told):
        load_recipe({"arms": arms})


def test_a_base_prover_without_mistakes_cannot_be_compared(make_arms, played, tmp_path):
    recipe = load_recipe(make_arms(tmp_path, {"random": []}))
    folder = copy_until(played.run(CLEAN), tmp_path, "round-000/verifier")
    forget_digests(folder.root)
    file = folder.pool(-1) / "base.parquet"
    pd.read_parquet(file).assign(correct=True).to_parquet(file)
    with pytest.raises(ValueError, match=r"None of the \d+ .*solutions_per_problem"):
        game_recipe(recipe, (0, "random"))


def test_the_table_has_means_over_seeds():
    """
    The half-width by Student's t with one degree of freedom is half the difference of the two values, times 12.706.
    """
    recipe = load_recipe({"arms": {"seeds": [0, 1], "checkers": {"key": [], "other": []}}})
    rows = [
        (0, CLEAN, nan, 0.75, nan, nan, False),
        (0, "key", 0.1, 0.25, -0.5, 0.3, True),
        (1, CLEAN, nan, 0.75, nan, nan, False),
        (1, "key", 0.1, 0.24, -0.51, nan, False),
    ]
    columns = ["seed", "arm", "static_rate", "accuracy", "change", "rise", "has_alert"]
    lines = arms_table(recipe, pd.DataFrame(rows, columns=columns)).splitlines()
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]] == [
        ["clean", "2", "none", "0.750", "none", "none", "0 of 2"],
        [
            "key",
            "2",
            "0.100",
            "0.245 [0.181, 0.309]",  # .005 x 12.706 = .0635
            "-0.505 [-0.569, -0.441]",
            "0.300",
            "1 of 2",
        ],
        ["other", "0", "none", "none", "none", "none", "0 of 0"],
    ]


@pytest.fixture
def compare(repository, tmp_path, monkeypatch, capsys):
    """Run the script, and return its exit status and what it printed."""

    def run(*arguments: str) -> tuple[int, str, str]:
        script = str(repository / "experiments" / "arms.py")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(script, run_name="__main__")
        return ended.value.code, *capsys.readouterr()

    return run


def test_the_script_says_what_it_does_and_where_results_are(compare):
    status, said, _ = compare("--help")
    assert status == 0
    for part in ("recipes/noise/same-rate.yaml", "--seeds", "--plan", "OUTPUT_DIR/NAME-ARM-seed-K", "summary.md"):
        assert part in said


@pytest.mark.parametrize(
    ("recipe", "arguments", "told"),
    [
        ({}, [], ["`arms.checkers`", "arms: {checkers: {random: []}}"]),
        ({}, ["--plan"], ["`arms.checkers`"]),
        ({}, ["--seeds", "0"], ["`arms.checkers`"]),
        ({"arms": {"checkers": {"a b": []}}}, [], ["'a b'", "use letters, digits"]),
        ({"arms": {"checkers": {"clean": []}}}, ["--plan"], ["`clean`", "another name"]),
        ({"arms": {"checkers": {"a": []}}}, ["--seeds", "0", "0"], ["`arms.seeds`", "0 is repeated"]),
        ({"arms": {"checkers": {"a": []}}}, ["arms.rate=2"], ["`arms.rate`", "2"]),
        ({"arms": {"checkers": {"a": []}}}, ["--arms.rate", "0.2"], ["arms.rate=0.2"]),
        (None, [], ["recipe.json"]),
    ],
    ids=["no section", "no section, plan", "seeds only", "name", "clean", "seeds", "rate", "dashes", "no file"],
)
def test_the_script_ends_with_a_message(recipe, arguments, told, compare, tmp_path):
    path = tmp_path / "recipe.json"
    if recipe is not None:
        path.write_text(json.dumps(recipe))
    status, _, said = compare(str(path), *arguments)
    assert status == 2
    assert all(part in said for part in told), said
    assert "Traceback" not in said
    assert [file for file in tmp_path.iterdir() if file != path] == []


def test_the_script_plans_the_seeds_that_it_is_given(compare, make_arms, tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(make_arms(tmp_path / "runs", {"random": []})))
    status, said, _ = compare(str(path), "prover.max_steps=3", "--plan", "--seeds", "4", "5")
    assert status == 0
    assert "Seeds    4, 5\nTo play  4 of 4 games" in said
    assert "arms-clean-seed-4" in said
    assert not (tmp_path / "runs").exists()


@pytest.mark.nightly
def test_a_stopped_comparison_resumes_where_it_was_stopped(played, make_arms, repository, tmp_path):
    path, log = tmp_path / "recipe.json", tmp_path / "log.txt"
    path.write_text(json.dumps(make_arms(tmp_path, {"random": []})))
    script = {"script": str(repository / "experiments" / "arms.py"), "arguments": [str(path)]}
    moment = {"event": "os.rename", "pattern": r"arms-random-seed-0/pool/\.round-000\.partial/helpful\.parquet'"}
    assert play_in_process({**script, "signal": "SIGINT", "moment": moment}, log) == 130, log.read_text()
    assert f"finished work is kept. Resume with: python -m experiments.arms {path}" in " ".join(
        log.read_text().split()
    )
    assert not (tmp_path / "arms" / "summary.md").exists()
    recipe = load_recipe(path)
    clean, random = (arm_folder(recipe, (0, arm)) for arm in (CLEAN, "random"))
    events = clean.events.read_bytes()
    assert play_in_process(script, log) == 0, log.read_text()
    assert clean.events.read_bytes() == events
    assert differing(random, played.run("random")) == []
    assert "| random | 1 |" in log.read_text()
