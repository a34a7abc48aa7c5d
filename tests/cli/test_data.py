"""The commands that read people's data: kinds of files, splits, and the datasets of docs/reference/data.md."""

import gzip
import json
import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from pvg_hf.cli.main import main
from pvg_hf.data.annotations import read_scores
from pvg_hf.data.proofs import load_proofs
from pvg_hf.models import resolve_model
from tests.data.test_reading import DATASETS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "data.md").read_text(encoding="utf-8")
JUDGE = resolve_model("arithmetic-judge-small", "verifier")
TRAINING = ["--model", JUDGE, "max_steps=1", "use_cpu=true", "report_to=none"]
PROBLEM = "Ana has 2 pens.\nBen has 3 more than Ana.\nHow many pens does Ben have?"
ROWS = [
    {"problem": PROBLEM, "solution": f"Ben has 3 more than Ana: {answer}\n#### {answer}", "correct": answer == 5}
    for answer in (5, 6)
]


def write_lines(path, rows) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return str(path)


def write_kind(folder, kind, rows) -> str:
    """Write rows as one of the kinds of the page's table."""
    folder.mkdir(exist_ok=True)
    path, table = folder / f"own{kind}", pd.DataFrame(rows)
    if kind == "folder":
        write_lines(folder / "own" / "test.jsonl", rows)
        return str(folder / "own")
    if kind == ".json":
        path.write_text(json.dumps(rows))
    elif kind in (".csv", ".tsv"):
        table.to_csv(path, sep=";" if kind == ".csv" else "\t", index=False)
    elif kind == ".parquet":
        table.to_parquet(path)
    elif kind in (".jsonl", ".ndjson"):
        write_lines(path, rows)
    else:
        content = write_lines(folder / "own.jsonl", rows) and (folder / "own.jsonl").read_bytes()
        packed = gzip.compress(content) if kind.endswith(".gz") else pa.compress(content, codec="zstd", asbytes=True)
        path.write_bytes(packed)
    return str(path)


KINDS = [".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".jsonl.gz", ".jsonl.zst", "folder"]


@pytest.mark.parametrize("kind", KINDS)
def test_score_reads_every_kind(tmp_path, kind, capsys):
    assert main(["score", JUDGE, write_kind(tmp_path, kind, ROWS)]) == 0
    scored = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["solution"], row["correct"]) for row in scored] == [(row["solution"], row["correct"]) for row in ROWS]


@pytest.mark.parametrize("kind", [".json", ".csv", ".parquet", ".jsonl.zst", "folder"])
def test_a_verifier_is_trained_on_every_kind(tmp_path, kind):
    source = write_kind(tmp_path, kind, ROWS)
    assert main(["train", "verifier", source, "--output", str(tmp_path / "v"), *TRAINING]) == 0
    assert json.loads((tmp_path / "v" / "verifier_input.json").read_text())["template"].count("\n") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_proofs_and_annotations_are_read_from_every_kind(tmp_path, kind):
    proofs = [{"problem": "p", "proof": f"q{score}", "score": score} for score in (0, 0.5)]
    assert load_proofs(write_kind(tmp_path / "proofs", kind, proofs))["score"][:] == [0.0, 0.5]
    if kind != "folder":
        labels = [{"problem_id": "p", "solution": "s", "score": 0.5}]
        assert read_scores(write_kind(tmp_path / "labels", kind, labels)) == {("p", "s"): 0.5}


@pytest.mark.parametrize("command", ["score", "choose", "calibrate"])
def test_a_split_is_named_as_the_error_says(tmp_path, command, capsys):
    for name in ("test", "dev"):
        write_lines(tmp_path / "own" / f"{name}.jsonl", ROWS)
    words = [command, str(copied(tmp_path / "verifier")), str(tmp_path / "own")]
    assert main(words) == 2
    advised = re.search(r"`(--split \w+)`", capsys.readouterr().err)[1]
    assert main([*words, *advised.split()]) == 0


def copied(folder):
    """A verifier's folder outside of the package, without a calibration."""
    return shutil.copytree(JUDGE, folder, ignore=shutil.ignore_patterns("calibration.json"))


SAMPLES = {
    "HuggingFaceH4/ultrafeedback_binarized": {"train_prefs": "UltraFeedback", "test_prefs": "UltraFeedback"},
    "trl-lib/ultrafeedback_binarized": {"train": "chats without a prompt", "test": "chats without a prompt"},
    "Anthropic/hh-rlhf": {"train": "HH-RLHF"},
    "stanfordnlp/SHP": {"train": "SHP"},
    "nvidia/HelpSteer2": {"train": "HelpSteer"},
    "allenai/reward-bench": {"raw": "text pair", "filtered": "text pair"},
    "allenai/reward-bench-2": {"test": "RewardBench 2"},
    "peiyi9979/Math-Shepherd": {"train": "Math-Shepherd"},
    "trl-lib/math_shepherd": {"train": "stepwise"},
}
OTHER_KIND = {
    "HelpSteer": {"correctness": 2},
    "Math-Shepherd": {"label": DATASETS["Math-Shepherd"][0]["input"].replace("ки", "+")},
    "stepwise": {"labels": [True, False]},
}
OUTPUTS = {"outputs.jsonl": "vLLM", "samples.jsonl": "lm-eval", "batch.jsonl": "OpenAI"}


def commands_of_the_page() -> dict[str, list[str]]:
    table = PAGE.partition("| dataset | options |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [shlex.split(re.search(r"\| `([^`]+)` \|$", line)[1]) for line in table.splitlines()]
    return {words[0]: words[1:] for words in rows}


def test_the_page_has_a_command_for_each_dataset():
    assert set(commands_of_the_page()) == {*SAMPLES, *OUTPUTS}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_commands_of_the_page_train_a_verifier(tmp_path, name):
    for split, sample in SAMPLES[name].items():
        row = DATASETS[sample][0]
        rows = [row, {**row, **OTHER_KIND[sample]}] if sample in OTHER_KIND else [row]
        write_lines(tmp_path / "own" / f"{split}.jsonl", rows)
    words = ["train", "verifier", str(tmp_path / "own"), *commands_of_the_page()[name]]
    assert main([*words, "--output", str(tmp_path / "v"), *TRAINING]) == 0


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_commands_of_the_page_score_outputs(tmp_path, name, capsys):
    row, _, problem, solutions = DATASETS[OUTPUTS[name]]
    source = write_lines(tmp_path / name, [{**row, "custom_id": "1"}])
    assert main(["score", JUDGE, source, *commands_of_the_page()[name]]) == 0
    scored = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["problem"], row["solution"]) for row in scored] == [(problem, text) for text, _ in solutions]


def test_another_split_is_evaluated(tmp_path, capsys):
    for name in ("train_prefs", "test_prefs"):
        write_lines(tmp_path / "own" / f"{name}.jsonl", ROWS)
    words = ["train", "verifier", str(tmp_path / "own"), "--split", "train_prefs", "--eval-split", "test_prefs"]
    assert main([*words, "--output", str(tmp_path / "v"), *TRAINING]) == 0
    assert "pair accuracy" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["choose", "calibrate", "train"])
def test_one_id_of_two_problems_ends_the_command(tmp_path, command, capsys):
    rows = [{**row, "problem_id": "1", "problem": problem} for row in ROWS for problem in ("p", "q")]
    source = write_lines(tmp_path / "own.jsonl", rows)
    if command == "train":
        words = ["train", "verifier", source, "--output", str(tmp_path / "v"), *TRAINING]
    else:
        words = [command, str(copied(tmp_path / "verifier")), source]
    assert main(words) == 2
    assert re.search(r"`1` has two texts: 'p' \(.*line 1\) and 'q' \(.*line 2\)", capsys.readouterr().err)


@pytest.mark.parametrize("command", ["score", "train"])
def test_a_number_that_is_not_finite_in_another_column_is_no_matter(tmp_path, command):
    source = tmp_path / "own.jsonl"
    source.write_text("".join(json.dumps(row)[:-1] + ', "logprob": -1e400}\n' for row in ROWS))
    words = {"score": ["score", JUDGE, str(source)], "train": ["train", "verifier", str(source), *TRAINING]}[command]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize("mapped", ["problem", "answer=a", "=a"])
def test_a_column_is_mapped_by_its_name(tmp_path, mapped, capsys):
    assert main(["score", JUDGE, write_lines(tmp_path / "own.jsonl", ROWS), "--column", mapped]) == 2
    assert re.search(rf"`--column {mapped}`: write OURS=THEIRS; .*problem_id", capsys.readouterr().err)
