"""`pvg push`, `pull` and `space`, run by the process that talks to the Hub."""

import shutil
from pathlib import Path

import pytest

from tests.support.loopback_hub import OWNER, TOKEN

TAGS = {"round-000", "round-001"}


@pytest.fixture
def run(client):
    return lambda *words: client("run_command", *map(str, words))


def test_a_run_is_published_and_a_round_pulled(hub, run, reference, tmp_path):
    status, said, _ = run("push", reference.root)
    assert (status, said) == (0, f"round 0: {OWNER}/game\nround 1: {OWNER}/game\n")
    assert hub.repo("game-solutions").tags.keys() == TAGS
    status, said, _ = run("pull", f"{OWNER}/game", "0", "--output-dir", tmp_path)
    assert (status, said) == (0, f"{tmp_path / 'game'}\n")
    assert sorted(path.name for path in (tmp_path / "game" / "evaluation").iterdir()) == ["round-000"]


def test_settings_and_a_single_round_can_be_given(hub, run, reference):
    status, said, _ = run("push", reference.root, "hub.run_name=other", "--round", 1, "hub.private=false")
    assert (status, said) == (0, f"round 1: {OWNER}/other\n")
    assert hub.repo("other-prover").tags.keys() == {"round-001"}
    assert not hub.repo("other-prover").is_private


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["push", "RUN", "--round", "7"], "Round 7 of"),
        (["push", "RUN", "hub.publish=true"], "Unknown key `publish` in section `hub`"),
        (["push", "nothing"], "nothing does not exist."),
        (["pull", "ana/nobody"], "the Hub answered 404"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message, hub, run, reference, tmp_path):
    status, said, told = run(*(str(reference.root) if word == "RUN" else word for word in arguments))
    assert (status, said) == (2, "")
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["push", "RUN"],
        ["push", "RUN", f"hub.namespace={OWNER}"],
        ["space", "RUN", f"{OWNER}/app"],
        ["pull", f"{OWNER}/game"],
    ],
)
def test_a_missing_token_ends_in_one_line_with_the_remedy(arguments, published, client, reference):
    words = (str(reference.root) if word == "RUN" else word for word in arguments)
    status, said, told = client("run_command_without_token", *words)
    assert (status, said) == (2, "")
    (line,) = told.strip().splitlines()
    assert line.startswith("error: ")
    assert "`hf auth login`, or set HF_TOKEN" in line


def test_a_run_without_a_round_is_reported(hub, run, reference, tmp_path):
    shutil.copytree(reference.root, tmp_path / "game", ignore=shutil.ignore_patterns("evaluation"))
    status, _, told = run("push", tmp_path / "game")
    assert status == 2
    assert "has no round that is evaluated and has its weights" in told


def test_no_token_is_written_to_the_run(hub, run, reference, tmp_path):
    folder = tmp_path / "game"
    shutil.copytree(reference.root, folder)
    run("push", folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if TOKEN.encode() in Path(path).read_bytes()] == []
