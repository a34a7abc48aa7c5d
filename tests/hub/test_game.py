"""
A game publishes its rounds as it runs, survives failures of the Hub, and continues elsewhere from what is published.
"""

import shutil

import pytest

from pvg_hf import load_recipe
from pvg_hf.check.machine import check_hub
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.resume import check_same_recipe
from tests.support.game_runs import copy_until, differing, forget_digests
from tests.support.hub_client import ClientError
from tests.support.loopback_hub import OWNER, Fault

TAGS = {"round-000", "round-001"}


@pytest.fixture
def finished(tmp_path, reference) -> RunFolder:
    """A copy of the reference run."""
    shutil.copytree(reference.root, tmp_path / "game")
    return RunFolder(tmp_path / "game")


@pytest.fixture
def recipe(tmp_path, make_recipe):
    return lambda **changes: make_recipe(tmp_path, hub__push=True, **changes)


def _alerts(folder: RunFolder) -> list[dict]:
    return [event for event in folder.read_events()[0] if event["event"] == "alert" and event["kind"] == "hub"]


def test_a_failing_hub_is_an_alert_and_does_not_change_the_game(hub, client, recipe, reference, tmp_path):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    hub.faults.append(Fault("POST /api/repos/create", 401, count=99))
    said = client("play_recipe", recipe(logging__report=True))
    assert differing(folder, reference) == []
    (alert,) = _alerts(folder)
    assert alert["round"] == 0
    assert "401" in alert["message"]
    assert f"pvg push {folder.root}" in alert["message"]
    assert "could not be published" in said
    assert "could not be published" in folder.report.read_text()
    assert hub.repos == {}


def test_every_evaluated_round_is_published_and_noted(hub, client, finished, recipe, reference):
    """This includes rounds evaluated before `hub.push` was set, which may change in a run."""
    client("publish", recipe())
    for name in ("game-prover", "game-verifier", "game-solutions"):
        assert hub.repo(name).tags.keys() == TAGS
    noted = [event for event in finished.read_events()[0] if event["event"] == "published"]
    assert [(event["round"], event["run"]) for event in noted] == [(0, f"{OWNER}/game"), (1, f"{OWNER}/game")]
    assert differing(finished, reference) == []
    hub.requests.clear()
    client("publish", recipe())
    assert hub.requests == []


@pytest.mark.nightly
def test_the_app_on_the_run_is_a_space_that_each_round_renews(hub, client, recipe, reference, tmp_path):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    client("play_with_space", recipe(hub__space=True))
    space = hub.repo("game-app")
    assert space.is_private
    assert {"app.py", "runs/game/recipe.yaml", "runs/game/evaluation/round-001/metrics.json"} <= space.files().keys()
    assert _alerts(folder) == []
    shutil.rmtree(folder.evaluation(1))
    hub.faults.append(Fault("POST /api/spaces/.*/commit/", 403))
    client("play_with_space", recipe(hub__space=True))
    (alert,) = _alerts(folder)
    assert "ana/game-app could not be updated" in alert["message"]


def test_failed_publications_are_repeated_with_the_next_round(hub, client, finished, recipe):
    hub.faults.append(Fault("POST .*/commit/", 403))
    client("publish", recipe())
    client("publish", recipe())
    assert hub.repo("game-solutions").tags.keys() == TAGS
    (alert,) = _alerts(finished)
    assert "403" in alert["message"]


def test_a_finished_run_that_is_played_again_publishes_what_is_missing(hub, client, finished, recipe, reference):
    """It was stopped while its last round was being published."""
    client("push", str(finished.root), 0)
    hub.faults.append(Fault("POST .*/commit/", 403))
    client("play_recipe", recipe())
    (alert,) = _alerts(finished)
    assert alert["round"] == 1
    client("play_recipe", recipe())
    assert hub.repo("game-solutions").tags.keys() == TAGS
    assert differing(finished, reference) == []
    hub.requests.clear()
    client("play_recipe", recipe())
    assert hub.requests == []


def test_a_refused_round_is_an_alert_too(hub, client, finished, recipe, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(finished.root, other)
    shutil.copy(other / "pool/round-000/helpful.parquet", other / "pool/round-000/sneaky.parquet")
    forget_digests(other)
    client("push", str(other), 0)
    client("publish", recipe())
    (alert,) = _alerts(finished)
    assert "other content of pool/round-000/sneaky.parquet" in alert["message"]
    assert hub.repo("game-solutions").tags.keys() == {"round-000"}


def test_rounds_whose_weights_were_deleted_are_passed_over(hub, client, finished, recipe):
    (finished.prover(0) / "model.safetensors").unlink()
    (finished.prover(0) / "best-helpful" / "model.safetensors").unlink()
    client("publish", recipe())
    assert hub.repo("game-solutions").tags.keys() == {"round-001"}
    assert _alerts(finished) == []


def test_a_game_continued_on_another_machine_ends_in_the_same_bytes(hub, client, make_recipe, reference, tmp_path):
    """Round 0 is published from one folder; round 1 is played in another, empty one."""
    client("push", str(copy_until(reference, tmp_path / "here", "round-001/verifier").root), 0)
    elsewhere = make_recipe(tmp_path / "elsewhere", resume_from_hub=f"{OWNER}/game", hub__push=True)
    said = client("play_recipe", elsewhere)
    folder = RunFolder(tmp_path / "elsewhere" / "game")
    assert "after round 0 of ana/game" in said
    assert differing(folder, reference) == []
    assert hub.repo("game-prover").tags.keys() == TAGS
    assert _alerts(folder) == []
    assert not (folder.root / ".pull").exists()


def test_an_existing_run_is_not_pulled_again(hub, client, finished, make_recipe, tmp_path, reference):
    client("play_recipe", make_recipe(tmp_path, resume_from_hub=f"{OWNER}/game"))
    assert hub.requests == []
    assert differing(finished, reference) == []


def test_continuing_an_unpublished_run_is_an_error_and_creates_no_run(hub, client, make_recipe, tmp_path):
    with pytest.raises(ClientError, match=r"`resume_from_hub`: .*404"):
        client("play_recipe", make_recipe(tmp_path, resume_from_hub=f"{OWNER}/nothing"))
    assert not (tmp_path / "game").exists()
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / "notes.txt").write_text("mine")
    with pytest.raises(ClientError, match=r"notes\.txt .*recipe\.yaml"):
        client("play_recipe", make_recipe(tmp_path, resume_from_hub=f"{OWNER}/nothing"))


def test_another_recipe_than_the_published_one_is_refused(hub, client, make_recipe, reference, tmp_path):
    client("push", str(reference.root), 0)
    with pytest.raises(ClientError, match=r"- `prover.beta`: 0.05 before, 0.5 now"):
        client("play_recipe", make_recipe(tmp_path, resume_from_hub=f"{OWNER}/game", prover__beta=0.5))
    assert [request for request in hub.requests if request.startswith("GET /blobs/")] == []
    assert not (tmp_path / "game").exists()


@pytest.mark.parametrize("change", [{"hub__push": True}, {"hub__namespace": "bob"}, {"resume_from_hub": "ana/game"}])
def test_settings_of_the_hub_may_change_in_a_run(change, reference, make_recipe, tmp_path):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    check_same_recipe(folder, load_recipe(make_recipe(tmp_path, **change)))


def test_hub_settings_cannot_be_overridden_in_a_round(reference, make_recipe, tmp_path):
    from pvg_hf.check.mistakes import check_recipe

    found = check_recipe(load_recipe(make_recipe(tmp_path, rounds={1: {"hub": {"push": True}}})), None)
    assert found == ["`rounds.1` overrides `hub`, which holds for the whole game; set it at the top level."]


def test_mistakes_are_reported_before_anything_is_played(client, make_recipe, tmp_path):
    assert client("mistakes", make_recipe(tmp_path, hub__push=True)) == []
    found = client("mistakes", make_recipe(tmp_path, hub__push=True, hub__run_name="a--b", resume_from_hub="game"))
    assert [mistake.split(":")[0] for mistake in found] == ["`resume_from_hub`", "`hub.run_name`"]


@pytest.mark.parametrize(
    ("rights", "is_refused"),
    [
        ({"role": "write"}, False),
        ({"role": "read"}, True),
        ({"role": "fineGrained", "fineGrained": {"scoped": [{"permissions": ["repo.content.read"]}]}}, True),
        ({"role": "fineGrained", "fineGrained": {"scoped": [{"permissions": ["repo.write"]}]}}, False),
    ],
    ids=["write", "read", "fine-grained read", "fine-grained write"],
)
def test_a_token_that_may_only_read_is_a_mistake(rights, is_refused, hub, client, make_recipe, tmp_path):
    hub.token_rights = rights
    mistakes = client("mistakes", make_recipe(tmp_path, hub__push=True))
    assert len(mistakes) == is_refused
    assert all("`hub.push`" in mistake and "`loopback` may only read" in mistake for mistake in mistakes)


def test_a_token_that_is_refused_is_a_mistake_and_a_hub_that_is_down_is_not(hub, client, make_recipe, tmp_path):
    hub.faults.append(Fault("GET /api/whoami-v2", 503))
    assert client("mistakes", make_recipe(tmp_path, hub__push=True)) == []
    hub.tokens = {"another"}
    (mistake,) = client("mistakes", make_recipe(tmp_path, hub__push=True))
    assert "`hub.push`" in mistake
    assert "401" in mistake


def test_a_space_shows_a_published_run(make_recipe, tmp_path):
    (mistake,) = check_hub(load_recipe(make_recipe(tmp_path, hub__space=True)))
    assert "Set `hub.push: true` too" in mistake


def test_a_missing_token_and_an_offline_client_are_mistakes(make_recipe, tmp_path, monkeypatch):
    """This process, unlike the client's, is offline."""
    from pvg_hf.check.machine import check_hub

    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "none"))
    found = list(check_hub(load_recipe(make_recipe(tmp_path, hub__push=True))))
    assert [("HF_TOKEN" in mistake, "HF_HUB_OFFLINE" in mistake) for mistake in found] == [
        (True, False),
        (False, True),
    ]
    assert list(check_hub(load_recipe(make_recipe(tmp_path)))) == []
