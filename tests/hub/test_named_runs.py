"""A published run is named by its id in every command that takes a run or a verifier."""

import json

import pytest

from tests.support.loopback_hub import OWNER

RUN = f"{OWNER}/game"


@pytest.fixture
def run(published, client):
    return lambda *words: client("run_command", *map(str, words))


@pytest.fixture
def answers(tmp_path):
    file = tmp_path / "answers.jsonl"
    rows = [{"problem": "2 3 5", "solution": text, "correct": text == "#### 5"} for text in ("#### 5", "#### 3")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["status", RUN], "verifier"),
        (["report", RUN], "report.html"),
        (["compare", f"{RUN}:0", f"{RUN}:1"], "helpful accuracy"),
        (["score", RUN, "FILE"], '"score"'),
        (["score", f"{RUN}-verifier", "FILE"], '"score"'),
        (["score", f"{RUN}:0", "FILE"], '"score"'),
        (["choose", RUN, "FILE"], '"verifier"'),
        (["export", RUN, "--player", "verifier", "--output", "OUTPUT"], "OUTPUT"),
        (["export", RUN, "--player", "prover", "--output", "OUTPUT"], "OUTPUT"),
        (["evaluate", RUN, "--round", "1", "--only", "style"], "explained"),
        (["space", RUN, "--output", "OUTPUT"], "OUTPUT"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_published_run_is_found(words, shown, run, answers, tmp_path):
    places = {"FILE": str(answers), "OUTPUT": str(tmp_path / "output")}
    if words[0] == "evaluate":  # its task is custom code
        assert "--trust" in run(*words)[2]
        run("plan", RUN, "--trust")
    status, said, told = run(*(places.get(word, word) for word in words))
    assert status == 0, told
    assert places.get(shown, shown) in said


@pytest.mark.parametrize(
    ("words", "next_command"),
    [
        (["push", RUN], f"`pvg pull {RUN}`"),
        (["plan", RUN, "--trust"], "`prover.model=...`"),  # a local path of the machine that published it
        (["calibrate", RUN, "FILE"], f"`pvg export {RUN} --player verifier --output VERIFIER`"),
        (["score", f"{OWNER}/nothing", "FILE"], f"{OWNER}/nothing-verifier"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_where_it_is_not_the_next_command_is_named(words, next_command, run, answers):
    status, said, told = run(*(str(answers) if word == "FILE" else word for word in words))
    assert (status, said) == (2, "")
    assert next_command in told
