"""Auto-labelling: evidence, resuming, people's labels, and the script."""

import csv
import filecmp
import json
import shutil

import pytest
from datasets import Dataset

from pvg_hf import load_task
from pvg_hf.analyses.form import write_evaluation
from pvg_hf.analyses.scaled import ScaledVerification
from pvg_hf.cli.main import main
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.core.stop_checks import stoppable
from pvg_hf.sampling import Sample
from pvg_hf.scoring.auto_label import digest_of, label_proofs, read_labels
from pvg_hf.tasks.proofs.language import PROOF_SETTINGS

RULE = ScaledVerification(3, 3, 2)


class Writer:
    """Writes a given evaluation for each proof, and records the proofs; stops after a number of calls."""

    def __init__(self, told, qualities, calls: int | None = None):
        self.told, self.qualities, self.calls, self.evaluated, self.checked = told, qualities, calls, [], []

    def evaluate(self, problems, proofs, num_analyses):
        if self.calls is not None and len(self.evaluated) >= self.calls:
            raise KeyboardInterrupt
        self.evaluated += proofs
        assert {len(self.told[proof]) for proof in proofs} == {num_analyses}
        return [[self._sample(score) for score in self.told[proof]] for proof in proofs]

    def _sample(self, score) -> Sample:
        text = "no form" if score is None else write_evaluation(f"said {score}", score)
        return Sample(text, len(text), is_truncated=False)

    def check(self, problems, proofs, analyses, num_checks):
        self.checked += list(zip(problems, proofs, analyses, strict=True))
        assert len(set(self.checked)) == len(self.checked)  # equal questions would get equal answers
        assert len(problems) == len(proofs) == len(analyses)
        return [self.qualities[proof][:num_checks] for proof in proofs]


TOLD = {"good": [1, 1, None], "bad": [0, 0, 1], "odd": [0, 1, 1], "known": [1, 1, 1]}
QUALITIES = {"bad": [1.0, 1.0, 0.0, 1.0, 0.0, 1.0], "odd": [1.0, 1.0, None]}


def proofs(*names, scores=None) -> Dataset:
    rows = [{"problem": f"about {name}", "proof": name, "score": (scores or {}).get(name)} for name in names]
    return Dataset.from_dict({key: [row[key] for row in rows] for key in ("problem", "proof", "score")})


def label(folder, *, names=("good", "bad", "odd"), scores=None, writer=None, rule=RULE, **settings):
    writer = writer or Writer(TOLD, QUALITIES)
    done = label_proofs(
        proofs(*names, scores=scores),
        evaluate=writer.evaluate,
        check=writer.check,
        rule=rule,
        folder=folder,
        show_progress=False,
        **settings,
    )
    return {row["proof"]: (row["score"], row["label_source"]) for row in done}, writer


def fill_in(path, scores: dict[str, str]) -> None:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "score": scores.get(row["proof"], row["score"])} for row in rows)


def review(folder) -> dict[str, str]:
    with (folder / "review.csv").open(newline="") as file:
        return {row["proof"]: row["score"] for row in csv.DictReader(file)}


def test_labels_are_written_with_their_evidence(tmp_path):
    labels, writer = label(tmp_path, names=("good", "bad", "known", "odd"), scores={"known": 0.5})
    assert labels == {"good": (1.0, "auto"), "bad": (0.0, "auto"), "known": (0.5, "given"), "odd": (None, None)}
    assert writer.evaluated == ["good", "bad", "odd"]
    assert writer.checked == [("about odd", "odd", "said 0"), ("about bad", "bad", "said 0")]
    evidence = [json.loads(line) for line in (tmp_path / "evidence.jsonl").read_text().splitlines()]
    assert [row["label"] for row in evidence] == [1.0, 0.0, None]
    assert [analysis["score"] for analysis in evidence[0]["analyses"]] == [1.0, 1.0, None]
    assert [analysis["qualities"] for analysis in evidence[1]["analyses"]] == [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], []]
    assert evidence[2]["analyses"][0]["text"] == write_evaluation("said 0", 0)
    assert review(tmp_path) == {"odd": ""}
    lines = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [line["score"] for line in lines] == [1.0, 0.0, 0.5, None]


def test_a_person_decides_and_is_never_overwritten(tmp_path, caplog):
    label(tmp_path)
    fill_in(tmp_path / "review.csv", {"odd": "0.5"})
    labels, writer = label(tmp_path)
    assert "not in the data" not in caplog.text
    assert labels["odd"] == (0.5, "human")
    assert writer.evaluated == []
    assert review(tmp_path) == {"odd": "0.5"}
    label(tmp_path, names=("good", "bad"))  # without the proof; the person's work stays
    assert "holds scores of 1 proofs that are not in the data" in caplog.text
    assert review(tmp_path) == {"odd": "0.5"}
    assert label(tmp_path)[0]["odd"] == (0.5, "human")
    assert label(tmp_path, scores={"odd": 1.0})[0]["odd"] == (1.0, "given")


def test_a_persons_scores_outlive_the_review_file(tmp_path):
    label(tmp_path)
    fill_in(tmp_path / "review.csv", {"odd": "0.5"})
    label(tmp_path)
    (tmp_path / "review.csv").unlink()
    assert label(tmp_path)[0]["odd"] == (0.5, "human")
    assert review(tmp_path) == {"odd": "0.5"}
    fill_in(tmp_path / "review.csv", {"odd": ""})
    assert label(tmp_path)[0]["odd"] == (None, None)


def test_a_proof_that_comes_with_and_without_a_score_has_it(tmp_path):
    rows = proofs("good", "odd").to_list()
    rows.insert(0, {**rows[0], "score": 0.0})
    writer = Writer(TOLD, QUALITIES)
    settings = {"evaluate": writer.evaluate, "check": writer.check, "rule": RULE, "folder": tmp_path}
    labels = label_proofs(Dataset.from_list(rows), show_progress=False, **settings)
    assert labels["score"][:] == [0.0, 0.0, None]
    assert labels["label_source"][:] == ["given", "given", None]
    assert writer.evaluated == ["odd"]
    assert read_labels(tmp_path) == {("about good", "good"): 0.0}


def test_proofs_scored_by_a_person_are_not_labelled_again(tmp_path):
    label(tmp_path)
    fill_in(tmp_path / "review.csv", {"odd": "1"})
    (tmp_path / "evidence.jsonl").unlink()
    labels, writer = label(tmp_path)
    assert writer.evaluated == ["good", "bad"]
    assert labels["odd"] == (1.0, "human")


def test_damaged_labels_are_named(tmp_path):
    label(tmp_path)
    with (tmp_path / "labels.jsonl").open("a") as file:
        file.write('{"problem": ')
    with pytest.raises(DamagedFileError, match=r"labels\.jsonl is damaged"):
        read_labels(tmp_path)


def test_stopped_labelling_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("pvg_hf.scoring.auto_label.PROOFS_AT_ONCE", 1)
    whole, _ = label(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        label(tmp_path / "stopped", writer=Writer(TOLD, QUALITIES, calls=2))
    with (tmp_path / "stopped" / "evidence.jsonl").open("ab") as file:
        file.write(b'{"key": "torn')
    labels, writer = label(tmp_path / "stopped")
    assert labels == whole
    assert writer.evaluated == ["odd"]
    for name in ("labels.jsonl", "review.csv"):
        assert filecmp.cmp(tmp_path / "stopped" / name, tmp_path / "whole" / name, shallow=False)


def test_it_can_be_stopped_before_each_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("pvg_hf.scoring.auto_label.PROOFS_AT_ONCE", 1)
    writer = Writer(TOLD, QUALITIES)

    def stop_after_two() -> None:
        if len(writer.evaluated) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError), stoppable(stop_after_two):
        label(tmp_path, writer=writer)
    assert writer.evaluated == ["good", "bad"]
    assert len((tmp_path / "evidence.jsonl").read_text().splitlines()) == 2
    assert not (tmp_path / "labels.jsonl").exists()
    assert label(tmp_path)[1].evaluated == ["odd"]


def test_other_settings_are_refused(tmp_path):
    label(tmp_path, made_by={"verifier": "a"})
    with pytest.raises(ValueError, match=r"`num_analyses` was 3 and is 4"):
        label(tmp_path, rule=ScaledVerification(4, 3, 2), made_by={"verifier": "a"})
    with pytest.raises(ValueError, match=r"`verifier` was 'a' and is 'b'"):
        label(tmp_path, made_by={"verifier": "b"})


@pytest.fixture
def verifier_folder(tiny_prover, tmp_path):
    folder = tmp_path / "verifier"
    folder.mkdir()
    for file in tiny_prover.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    settings = PROOF_SETTINGS
    type(settings)(settings.evaluate_prompt, settings.judge_prompt, 8, 0.8).save(folder)
    return folder


def test_a_verifier_is_identified_by_its_contents(verifier_folder, tmp_path):
    copy = shutil.copytree(verifier_folder, tmp_path / "elsewhere")
    assert digest_of(copy) == digest_of(verifier_folder)
    for name in ("model.safetensors", "score_verifier.json"):
        before, content = digest_of(copy), (copy / name).read_bytes()
        (copy / name).write_bytes(content + b"?")
        assert digest_of(copy) != before


@pytest.mark.game
def test_the_command_labels_proofs(verifier_folder, tmp_path, capsys, caplog):
    """An untrained verifier labels nothing: all proofs are left to a person."""
    task = load_task("proofs", num_train=1, num_test=3)
    rows = [{"problem": row["problem"], "text": row["proof"]} for row in task.rated_proofs("test")]
    (tmp_path / "proofs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [tmp_path / "proofs.jsonl", "--verifier", verifier_folder, "--output", tmp_path / "labels"]
    arguments += ["--column", "proof=text", "--device", "cpu", "-n", 2, "-m", 1, "-k", 1]
    assert main(["label", *map(str, arguments)]) == 0
    assert "0 auto, 3 undecided" in caplog.text
    assert capsys.readouterr().out == f"{tmp_path / 'labels'}\n"
    assert list(review(tmp_path / "labels").values()) == ["", "", ""]
    assert main(["label", *map(str, arguments[:-1]), "3"]) == 2
    assert "`num_agreements` (k) is 3, more than the 2 analyses" in capsys.readouterr().err
