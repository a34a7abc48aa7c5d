"""A run is opened by its folder or by its name on the Hub."""

import shutil
from pathlib import Path

import pytest

from pvg_hf.run.layout import RunFolder
from tests.support.hub_client import ClientError
from tests.support.loopback_hub import OWNER, Fault

RUN = f"{OWNER}/game"


def test_a_published_run_answers_as_the_one_that_was_played(published, client, reference):
    problem = "What did Ana write down?"
    client("locate", RUN)
    client("run_command", "plan", RUN, "--trust")  # its task is custom code
    assert client("answer", RUN, problem) == client("answer", str(reference.root), problem)


def test_a_published_run_is_fetched_once(published, client):
    folder = client("locate", RUN)
    assert RunFolder(Path(folder)).read_recipe().name == "game"
    published.requests.clear()
    assert client("locate", RUN) == folder
    assert [request for request in published.requests if "resolve" in request] == []


def test_a_fetched_run_opens_while_the_hub_is_unreachable(published, client):
    folder = client("locate", RUN)
    published.faults.append(Fault("GET /api/", 503, count=99))
    assert client("locate", RUN) == folder
    with pytest.raises(ClientError, match="503") as caught:
        client("locate", "ana/never-fetched")
    assert "HubError" in caught.value.kinds


def test_the_app_opens_a_published_run_as_the_one_that_was_played(published, client, reference):
    assert client("open_in_the_app", RUN) == client("open_in_the_app", str(reference.root))


def test_the_app_fetches_no_prover(published, client):
    client("open_in_the_app", RUN)
    prover = f"/{OWNER}/game-prover"
    assert [request for request in published.requests if prover in request] == []
    folder = Path(client("locate", RUN))  # what needs the provers does not take the folder without them
    assert any((folder / "prover").rglob("*.safetensors"))
    published.requests.clear()
    client("open_in_the_app", RUN)  # and the whole one is good enough for the app
    assert [request for request in published.requests if "resolve" in request] == []


def test_the_app_says_why_a_published_run_cannot_be_opened(hub, client):
    with pytest.raises(ClientError, match=r"ana/nothing .*404") as caught:
        client("open_in_the_app", "ana/nothing")
    assert "ValueError" in caught.value.kinds


def test_a_study_of_a_published_run_continues_when_the_next_round_is_published(hub, client, reference):
    shutil.rmtree(client.home / "pvg_hf", ignore_errors=True)
    client("push", str(reference.root), 0)
    first = Path(client("locate", RUN))
    study = Path(client("find_study", RUN))
    assert study == client.home / "pvg_hf" / "ana--game" / "study"
    study.mkdir()
    (study / "sheets.jsonl").write_text("new\n")
    client("push", str(reference.root), 1)
    assert client("locate", RUN) != str(first)
    assert client("find_study", RUN) == str(study)
    assert (study / "sheets.jsonl").read_text() == "new\n"
    assert client("find_study", str(reference.root)) == str(reference.root / "study")
    shutil.rmtree(client.home / "pvg_hf")


def test_a_local_folder_is_returned_unchanged(client, reference, tmp_path):
    assert client("locate", str(reference.root)) == str(reference.root)
    assert client("locate", str(tmp_path / "nothing")) == str(tmp_path / "nothing")
