"""`pvg score`, `choose`, `calibrate`, `train`, `compare` and `report` on a finished game."""

import json
import re
import shutil

import pandas as pd
import pytest
from peft import PeftModel
from transformers import AutoModelForCausalLM

from pvg_hf.cli.main import main
from pvg_hf.models import resolve_model
from pvg_hf.scoring import VerifierScorer


@pytest.fixture
def labelled(reference, tmp_path):
    """Solutions of a game with their correctness, as a user would have them."""
    rows = pd.read_parquet(reference.pool(0) / "test-helpful.parquet")
    sneaky = pd.read_parquet(reference.pool(0) / "test-sneaky.parquet")
    file = tmp_path / "labelled.jsonl"
    pd.concat([rows, sneaky])[["problem", "solution", "correct"]].to_json(file, orient="records", lines=True)
    return file


@pytest.fixture
def verifier(reference, tmp_path):
    """A verifier's folder outside of any run, without a calibration."""
    folder = tmp_path / "verifier"
    shutil.copytree(reference.verifier(0), folder, ignore=shutil.ignore_patterns("digests.json", "calibration.json"))
    return folder


def test_a_calibration_gives_probabilities_and_a_threshold(verifier, labelled, tmp_path, capsys):
    output = tmp_path / "scores.jsonl"
    assert main(["score", str(verifier), str(labelled), "--output", str(output)]) == 0
    plain = [json.loads(line) for line in output.read_text().splitlines()]
    assert "probability" not in plain[0]

    assert main(["calibrate", str(verifier), str(labelled)]) == 0
    assert "incorrect_accepted" in capsys.readouterr().out
    assert main(["score", str(verifier), str(labelled), "--output", str(output)]) == 0
    scored = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["score"] for row in scored] == pytest.approx([row["score"] for row in plain], abs=1e-5)
    scorer = VerifierScorer.from_pretrained(verifier, device="cpu")
    assert all((row["score"] >= scorer.threshold(0.95)) == row["accepted"] for row in scored)
    first = scored[0]
    assert scorer.probability([first["problem"]], [first["solution"]]) == pytest.approx(
        [first["probability"]], abs=1e-5
    )
    best = scorer.choose(first["problem"], [row["solution"] for row in scored if row["problem"] == first["problem"]])
    of_problem = [row["score"] for row in scored if row["problem"] == first["problem"]]
    assert of_problem[best] == pytest.approx(max(of_problem), abs=1e-5)


def test_without_a_calibration_the_error_says_how_to_make_one(verifier):
    scorer = VerifierScorer.from_pretrained(verifier, device="cpu")
    with pytest.raises(ValueError, match="pvg calibrate"):
        scorer.threshold()
    with pytest.raises(ValueError, match="no solution"):
        scorer.choose("How many?", [])


def test_a_runs_own_calibration_is_not_replaced(reference, labelled, capsys):
    before = (reference.verifier(0) / "calibration.json").read_bytes()
    assert main(["calibrate", str(reference.verifier(0)), str(labelled)]) == 2
    assert "pvg export" in capsys.readouterr().err
    assert (reference.verifier(0) / "calibration.json").read_bytes() == before


def test_a_runs_last_verifier_chooses_among_answers(reference, labelled, tmp_path, capsys):
    output = tmp_path / "chosen.jsonl"
    assert main(["choose", str(reference.root), str(labelled), "--output", str(output)]) == 0
    told = capsys.readouterr()
    assert told.out.strip() == str(output)
    assert "right: verifier" in told.err
    chosen = [json.loads(line) for line in output.read_text().splitlines()]
    assert all(0 < row["probability"] < 1 for row in chosen)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"problem": "p", "solution": 4, "correct": 1}', "`solution` must be a text"),
        ('{"problem": "p", "solution": "s", "is_correct": 1}', "`--column correct=NAME`"),
        ('{"problem": "p", "solution": "s", "correct": null}', "`correct` must be 0 or 1"),
        ('{"problem": "p", "solution": "s", "correct": "perhaps"}', "must be true or false"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(verifier, tmp_path, line, message, capsys):
    file = tmp_path / "rows.jsonl"
    file.write_text(line + "\n")
    assert main(["calibrate", str(verifier), str(file)]) == 2
    assert message in capsys.readouterr().err
    assert not (verifier / "calibration.json").exists()


def test_columns_have_the_users_names(verifier, labelled, tmp_path, capsys):
    file = tmp_path / "renamed.jsonl"
    pd.read_json(labelled, lines=True).rename(columns={"problem": "question"}).to_json(
        file, orient="records", lines=True
    )
    assert main(["score", str(verifier), str(file), "--column", "problem=question"]) == 0
    assert main(["score", str(verifier), str(file), "--column", "question"]) == 2
    assert "OURS=THEIRS" in capsys.readouterr().err


def test_texts_that_the_verifier_cannot_read_are_warned_of(verifier, tmp_path, caplog, capsys):
    file = tmp_path / "solutions.jsonl"
    file.write_text(json.dumps({"problem": "An elephant weighs 3 t.", "solution": "Its weight: 3"}) + "\n")
    with caplog.at_level("WARNING", logger="pvg_hf"):
        assert main(["score", str(verifier), str(file)]) == 0
    assert "cannot read the texts" in caplog.text
    assert "score" in json.loads(capsys.readouterr().out)


def test_a_verifier_is_trained_on_pairs_and_loads(verifier, labelled, tmp_path, capsys):
    rows = pd.read_json(labelled, lines=True)
    sides = {side: rows[rows["correct"] == side].groupby("problem")["solution"].first() for side in (True, False)}
    pairs = pd.DataFrame({"chosen": sides[True], "rejected": sides[False]}).dropna().reset_index(names="prompt")
    file, output = tmp_path / "pairs.jsonl", tmp_path / "trained"
    pairs.to_json(file, orient="records", lines=True)
    words = ["train", "verifier", str(file), "--model", str(verifier), "--output", str(output), "--eval", str(file)]
    assert main([*words, "max_steps=1", "use_cpu=true", "report_to=none"]) == 0
    assert capsys.readouterr().out.strip().endswith(str(output))
    assert len(VerifierScorer.from_pretrained(output, device="cpu")(["p"], ["s"])) == 1
    assert main([*words, "max_steps=1"]) == 2  # the folder is not empty
    assert main([*words[:-3], str(tmp_path / "new"), "lerning_rate=1"]) == 2
    assert "Did you mean `learning_rate`?" in capsys.readouterr().err


def test_a_verifier_is_trained_on_labelled_solutions(verifier, labelled, tmp_path, caplog):
    file, output = tmp_path / "train.jsonl", tmp_path / "trained"
    rows = pd.read_json(labelled, lines=True).rename(columns={"problem": "question"})
    rows.to_json(file, orient="records", lines=True)
    words = ["train", "verifier", str(file), "--column", "problem=question", "--model", str(verifier)]
    settings = ["max_steps=1", "use_cpu=true", "report_to=none"]
    with caplog.at_level("INFO", logger="pvg_hf"):
        assert main([*words, "--output", str(output), *settings]) == 0
    sizes = rows.groupby("question")["correct"].agg(["sum", "size"])
    both = sizes[(sizes["sum"] > 0) & (sizes["sum"] < sizes["size"])]
    num_pairs = both[["sum"]].assign(other=both["size"] - both["sum"]).max(axis=1).sum()
    assert f"{num_pairs} pairs, from {len(both)} of {len(sizes)} problems" in caplog.text
    assert json.loads((output / "verifier_input.json").read_text())["template"] == "{{ problem }}\n{{ solution }}"
    rows[rows["correct"] == 1].to_json(file, orient="records", lines=True)
    assert main([*words, "--output", str(tmp_path / "other"), *settings]) == 2


@pytest.mark.game
def test_a_prover_is_trained_on_a_task_and_loads(arithmetic_run, tmp_path, capsys):
    output = tmp_path / "prover"
    words = ["train", "prover", "arithmetic", "--model", "arithmetic", "--output", str(output), "--lora"]
    sizes = ["per_device_train_batch_size=16", "num_generations=8", "max_completion_length=64"]
    settings = [*sizes, "max_steps=2", "learning_rate=1e-3", "use_cpu=true", "report_to=none"]
    with pytest.raises(SystemExit):
        main([*words, *settings])
    assert "needs a --verifier" in capsys.readouterr().err
    assert main([*words, *settings, "--verifier", f"{arithmetic_run}:0"]) == 0
    assert capsys.readouterr().out.strip().endswith(str(output))
    trained = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(resolve_model("arithmetic", "prover")), output
    )
    # One step may leave the weights as they were: if all solutions are cut, none is rewarded.
    assert trained.peft_config["default"].r == 16


def test_rounds_are_compared_and_a_report_written(reference, capsys):
    assert main(["compare", f"{reference.root}:0", f"{reference.root}:1"]) == 0
    said = capsys.readouterr().out
    assert "helpful accuracy" in said
    assert "origin" not in said
    assert main(["compare", f"{reference.root}:0", f"{reference.root}:1", "--json"]) == 0
    assert "difference" in json.loads(capsys.readouterr().out)["accuracy/helpful"]
    assert main(["compare", f"{reference.root}:7", str(reference.root)]) == 2
    assert "no evaluated round 7; it has [0, 1]" in capsys.readouterr().err
    assert main(["report", str(reference.root)]) == 0
    _, headline, *_, last = capsys.readouterr().out.strip().splitlines()
    assert re.match(r"(As|Partly as|Not as) hoped: verifier 1 |Not clear: verifier 1 ", headline)
    assert last == str(reference.report)


def test_a_finished_game_ends_with_what_it_found_and_the_next_commands(reference, tmp_path, capsys):
    folder = tmp_path / reference.root.name
    shutil.copytree(reference.root, folder)
    assert main(["play", str(folder), f"output_dir={tmp_path}"]) == 0
    told = capsys.readouterr().out
    share = r"\d+ % \[\d+, \d+\] \(n=\d+\)"
    first = f"Of the helpful prover's solutions to test problems, {share} are correct; before the game, {share} were."
    assert re.match(first, told)
    assert f"Report: {folder / 'report.html'}" in told
    assert told.splitlines()[-2] == f"Look at the solutions: pvg show {folder}"
    assert told.splitlines()[-1].endswith("num_rounds=3")


def test_figures_are_printed_as_json(reference, labelled, tmp_path, capsys):
    def figures_of(*words):
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    run = str(reference.root)
    place = f"output_dir={reference.root.parent}"
    chosen = figures_of("choose", run, str(labelled))
    assert chosen["right"]["verifier"]["n"] == chosen["num_problems"]
    assert chosen["right"]["any solution"]["value"] >= chosen["right"]["verifier"]["value"]
    assert figures_of("choose", run, str(labelled), "--output", str(tmp_path / "chosen.jsonl")) == chosen
    assert len((tmp_path / "chosen.jsonl").read_text().splitlines()) == chosen["num_problems"]
    state = figures_of("status", run, place)
    assert state["num_finished"] == state["num_phases"] == len(state["phases"])
    assert {phase["state"] for phase in state["phases"]} == {"finished"}
    plan = figures_of("plan", run, place)
    assert plan["seconds_left"] == 0  # the game is finished
    assert {phase["phase"] for phase in plan["phases"]} >= {"verifier", "prover", "mint", "evaluate"}
    assert figures_of("play", run, place, "--status") == state
