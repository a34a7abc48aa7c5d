"""The app as a Space of the Hub, and the answers of a study that it uploads."""

import json
import shutil

import pytest

from tests.support.hub_client import ClientError
from tests.support.loopback_hub import OWNER, TOKEN, Fault
from tests.support.stored_repos import Blob, Repo


def test_a_space_is_private_and_holds_the_app_and_its_run(hub, client, reference, repository):
    status, said, told = client("run_command", "space", str(reference.root), f"{OWNER}/app")
    assert (status, told.count("error")) == (0, 0)
    assert said.strip().endswith(f"spaces/{OWNER}/app")
    space = hub.repo("app")
    files = space.files()
    assert space.is_private
    assert {"app.py", "README.md", "requirements.txt", "pvg_hf/app/app.py", "runs/game/recipe.yaml"} <= files.keys()
    assert not [path for path in files if path.endswith((".bin", ".pt", ".pkl", ".pyc"))]


def test_a_public_space_is_warned_of(hub, client, reference, repository):
    options = ["--public", "--study", "--study-participants", "30"]
    status, _, told = client("run_command", "space", str(reference.root), f"{OWNER}/app", *options)
    assert status == 0
    assert "Warning: a public Space" in told
    assert not hub.repo("app").is_private
    assert json.loads(hub.repo("app").files()["space.json"])["arguments"][-2:] == ["--participants", "30"]


@pytest.mark.parametrize("run", ["nope", f"{OWNER}/nobody", f"{OWNER}/unfinished", "FOLDER/nope", "FOLDER"])
def test_no_space_is_made_for_a_folder_that_is_not_a_run(run, hub, client, repository, tmp_path):
    if run.endswith("unfinished"):
        hub.repos["dataset", f"{run}-solutions"] = Repo(is_private=True)
        hub.repos["dataset", f"{run}-solutions"].commit({})
    before = set(hub.repos)
    status, said, told = client(
        "run_command", "space", run.replace("FOLDER", str(tmp_path)), f"{OWNER}/app", "--public"
    )
    assert (status, said) == (2, "")
    *_, line = told.strip().splitlines()
    assert run.removeprefix("FOLDER") in line
    assert "public Space" not in told  # no Space is made of it
    assert set(hub.repos) == before


def test_no_space_is_made_for_a_damaged_run(hub, client, repository, tmp_path):
    (tmp_path / "recipe.yaml").write_text("prover: {bet: 1}")
    status, _, told = client("run_command", "space", str(tmp_path), f"{OWNER}/app")
    assert (status, hub.requests) == (2, [])
    assert "Unknown key `bet`" in told


def test_a_damaged_pool_is_refused_before_the_warning_of_a_public_space(hub, client, reference, repository, tmp_path):
    run = shutil.copytree(reference.root, tmp_path / "game")
    with (run / "pool" / "round-000" / "helpful.parquet").open("r+b") as file:
        file.truncate(100)
    status, _, told = client("run_command", "space", str(run), f"{OWNER}/app", "--public")
    assert (status, hub.requests) == (2, [])
    assert "helpful.parquet is damaged" in told
    assert "public Space" not in told


def test_a_space_of_a_private_run_needs_a_token(published, client):
    said = client("push_app", f"{OWNER}/game", f"{OWNER}/app")
    assert "ana/game is private: the Space opens it only with a secret HF_TOKEN" in said
    published.repo("game-solutions").is_private = False
    assert "secret" not in client("push_app", f"{OWNER}/game", f"{OWNER}/app")


def test_a_space_is_pushed_without_warnings_of_the_client(hub, client, reference, repository):
    _, _, told = client("run_command", "space", str(reference.root), f"{OWNER}/app")
    assert told == ""


def test_a_space_that_the_token_may_not_write_is_an_error(hub, client, reference, repository):
    hub.tokens = {"another"}
    status, _, told = client("run_command", "space", str(reference.root), f"{OWNER}/app")
    assert status == 2
    assert told.startswith("error: ")
    assert "401" in told


def test_a_public_space_is_refused_for_a_private_run(hub, client, reference):
    client("push_app", str(reference.root), f"{OWNER}/open", is_private=False)
    before = hub.repo("open").log[:]
    with pytest.raises(ClientError, match=r"ana/open is public.*--public"):
        client("push_app", str(reference.root), f"{OWNER}/open")
    assert hub.repo("open").log == before


def test_a_space_that_is_renewed_keeps_no_event_log(hub, client, reference):
    client("push_app", str(reference.root), f"{OWNER}/app")
    space = hub.repo("app")
    before = space.files()
    others = {path: Blob(b"x", False) for path in ("runs/game/events.jsonl", "notes.txt")}
    space.commit({**space.commits[space.log[-1]], **others})
    client("push_app", str(reference.root), f"{OWNER}/app")
    assert space.files() == {**before, "notes.txt": b"x"}


def test_a_space_whose_network_is_away_for_a_while_is_tried_again(hub, client, reference):
    hub.faults += [Fault("POST .*/create", drops=True), Fault("POST .*/commit/", 503)]
    client("push_app", str(reference.root), f"{OWNER}/app")
    assert "app.py" in hub.repo("app").files()
    hub.faults.append(Fault("", drops=True, count=99))
    with pytest.raises(ClientError, match=f"{OWNER}/app is made: ") as caught:
        client("push_app", str(reference.root), f"{OWNER}/app")
    assert caught.value.kinds[0] == "HubError"


def test_a_study_without_network_is_reported_and_the_app_opens(hub, client, reference, tmp_path):
    hub.faults.append(Fault("", drops=True, count=99))
    said = client("open_study_app", str(reference.root), str(tmp_path), f"{OWNER}/answers")
    assert f"There is no study: {OWNER}/answers is read: " in said
    (tmp_path / "answers.jsonl").write_text("")  # nothing is to be fetched
    said = client("open_study_app", str(reference.root), str(tmp_path), f"{OWNER}/answers")
    assert f"There is no study: {OWNER}/answers is opened: " in said


def test_answers_that_cannot_be_read_for_a_while_are_not_overwritten(hub, client, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / ".lock").touch()  # as of a study that is opened
    client("upload_answers", f"{OWNER}/answers", str(first), ["one"])
    hub.faults.append(Fault("GET /api/datasets/", 503, count=2))
    restored, _ = client("upload_answers", f"{OWNER}/answers", str(second), ["two"])
    assert "answers.jsonl" in restored
    texts = [text for path, text in hub.repo("answers").files().items() if path.endswith("answers.jsonl")]
    assert texts == [b"one\ntwo\n"]


def test_a_studys_answers_are_committed_and_restored(hub, client, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    restored, said = client("upload_answers", f"{OWNER}/answers", str(first), ["one"])
    assert restored == []
    assert "not committed" not in said
    assert [text for path, text in hub.repo("answers").files().items() if path.endswith("answers.jsonl")] == [b"one\n"]
    assert hub.repo("answers").is_private
    restored, _ = client("upload_answers", f"{OWNER}/answers", str(second), ["two"])
    assert [path for path in restored if path.endswith("answers.jsonl")] == ["answers.jsonl"]
    texts = [text for path, text in hub.repo("answers").files().items() if path.endswith("answers.jsonl")]
    assert texts == [b"one\ntwo\n"]


def test_the_path_of_uncommitted_answers_is_reported(hub, client, tmp_path):
    hub.faults.append(Fault(r"POST .*/commit/main", status=403))
    _, said = client("upload_answers", f"{OWNER}/answers", str(tmp_path), ["one"])
    assert f"The last answers were not committed to {OWNER}/answers (" in said
    assert f"They are in {tmp_path.resolve()}" in said
    assert TOKEN not in said
    assert (tmp_path / "answers.jsonl").read_text() == "one\n"
