"""Files that are published for a round, also by a publication that failed and was repeated."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pvg_hf import load_recipe
from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.core.figure import Figure
from pvg_hf.run.judgements import Judgement, judgement_folder, load_judgements
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import forget_digests
from tests.support.hub_client import ClientError
from tests.support.loopback_hub import OWNER, TOKEN, Fault
from tests.support.stored_repos import Blob

RUNS = ("game-prover", "game-verifier", "game-solutions")


@pytest.fixture
def expected(both_rounds):
    """The state of the Hub after both rounds were published without an error."""
    return both_rounds[0].state()


def test_every_repository_has_both_rounds(expected):
    state = expected
    assert sorted(state) == sorted(f"{OWNER}/{name}" for name in RUNS)
    for revisions in state.values():
        assert sorted(revisions) == ["main", "round-000", "round-001"]
        assert revisions["main"] == revisions["round-001"]


def test_players_are_at_the_root_with_the_best_helpful_one_in_a_folder(expected, reference):
    prover = expected[f"{OWNER}/game-prover"]["round-000"]
    verifier = expected[f"{OWNER}/game-verifier"]["round-000"]
    for file in ("model.safetensors", "best-helpful/model.safetensors", "config.json", "tokenizer.json"):
        assert prover[file] == (reference.prover(0) / file).read_bytes()
    for file in ("model.safetensors", "tokenizer.json", "verifier_input.json", "calibration.json"):
        assert verifier[file] == (reference.verifier(0) / file).read_bytes()


def test_no_local_path_is_published(expected, reference, player):
    """The game was played in a temporary folder, with players from another one."""
    for name in RUNS:
        recipe = load_recipe(yaml.safe_load(expected[f"{OWNER}/{name}"]["round-001"]["recipe.yaml"]))
        assert recipe.output_dir == "runs"
        assert recipe.unpublished_paths() == ["verifier.model", "prover.model"]
    paths = [str(path).encode() for path in (reference.root.parent, player)]
    contents = {(name, file): text for name, tags in expected.items() for file, text in tags["round-001"].items()}
    assert [place for place, text in contents.items() if any(path in text for path in paths)] == []


def test_pool_is_published_as_it_is(expected, reference):
    for k, name in enumerate(["round-000", "round-001"]):
        solutions = expected[f"{OWNER}/game-solutions"][name]
        pool = {path: path.relative_to(reference.root).as_posix() for path in reference.root.glob("pool/*/*.parquet")}
        wanted = {place: path.read_bytes() for path, place in pool.items() if k == 1 or "round-001" not in place}
        assert {
            path: content
            for path, content in solutions.items()
            if path.startswith("pool/") and path.endswith(".parquet")
        } == wanted


def test_no_pickle_and_no_token_is_published(both_rounds):
    state, said = both_rounds[0].state(), both_rounds[1]
    contents = {
        path: content
        for revisions in state.values()
        for files in revisions.values()
        for path, content in files.items()
    }
    assert [path for path in contents if path.endswith((".bin", ".pt", ".pth", ".pkl"))] == []
    assert [path for path, content in contents.items() if TOKEN.encode() in content] == []
    assert "Published ana/game-solutions, round-001" in said
    assert TOKEN not in said


def test_files_with_unknown_names_are_not_published(hub, client, reference, tmp_path, expected):
    folder = tmp_path / "game"
    shutil.copytree(reference.root, folder)
    for name in ("training_args.bin", "optimizer.pt", "modeling_evil.py", "notes.txt", ".env"):
        (folder / "prover" / "round-000" / name).write_bytes(b"x")
        (folder / name).write_bytes(b"x")
    for k in range(2):
        client("push", str(folder), k)
    assert hub.state() == expected


def test_everything_is_private_unless_the_recipe_says_otherwise(hub, client, reference):
    client("push", str(reference.root), 0)
    assert [repo.is_private for repo in hub.repos.values()] == [True] * 3
    client("push", str(reference.root), 0, run_name="open", private=False)
    assert [hub.repo(f"open-{name}").is_private for name in ("prover", "verifier", "solutions")] == [False] * 3


def test_a_public_repository_is_refused_for_a_private_run(hub, client, reference):
    client("push", str(reference.root), 0, private=False)
    with pytest.raises(ClientError, match=r"ana/game-prover is public"):
        client("push", str(reference.root), 1)
    assert hub.repo("game-prover").tags.keys() == {"round-000"}


def test_publishing_again_sends_nothing(hub, client, reference, expected):
    for k in (0, 1, 0, 1):
        client("push", str(reference.root), k)
    assert hub.state() == expected
    assert sum("/commit/" in request for request in hub.requests) == 6
    assert sum("PUT" in request for request in hub.requests) == len(hub.large)


def judge(folder, name: str, round_index: int, **settings) -> dict:
    """Store a result of an evaluation, and return its files by path."""
    place = judgement_folder(RunFolder(folder), name, round_index)
    Judgement(name, round_index, "Title", {}, {"2": Figure(0.5, 0.25, 0.75, 8)}, settings, 1.5).write(place)
    pd.DataFrame({"solution": ["it is right"]}).to_parquet(place / "found.parquet")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in place.iterdir()}


def test_evaluations_are_published_with_the_newest_round(published, client, reference, tmp_path, expected):
    folder = tmp_path / "runs" / "game"
    shutil.copytree(reference.root, folder)
    stored = {**judge(folder, "best_of_n", 0, size=8), **judge(folder, "untrained_attacks", 1)}
    (folder / "judging" / "attacks" / "attackers").mkdir(parents=True)
    (folder / "judging" / "attacks" / "attackers" / "curve.parquet").write_bytes(b"of an attacker")
    for k in (0, 1):
        client("push", str(folder), k)
    state = published.state()
    solutions = state[f"{OWNER}/game-solutions"]
    assert {path: text for path, text in solutions["round-001"].items() if path.startswith("judging/")} == stored
    assert solutions["main"] == solutions["round-001"]
    # The earlier round and the players are as they were, and another publication sends nothing.
    assert solutions["round-000"] == expected[f"{OWNER}/game-solutions"]["round-000"]
    players = [f"{OWNER}/game-prover", f"{OWNER}/game-verifier"]
    assert [state[name] for name in players] == [expected[name] for name in players]
    before = list(published.requests)
    client("push", str(folder), 1)
    assert not [
        request for request in published.requests[len(before) :] if "/commit/" in request or "/tag/" in request
    ]
    pulled = client("pull", f"{OWNER}/game", "latest", str(tmp_path / "pulled"))
    assert load_judgements(RunFolder(Path(pulled))) == load_judgements(RunFolder(folder))
    # A machine without them leaves them where they are.
    client("push", str(reference.root), 1)
    assert published.state() == state


def test_a_judge_in_a_local_folder_is_not_named(published, client, reference, tmp_path):
    folder = tmp_path / "game"
    shutil.copytree(reference.root, folder)
    judge(folder, "legibility", 1, judge=str(tmp_path), question="/path?", token_budget=8)
    client("push", str(folder), 1)
    files = published.state()[f"{OWNER}/game-solutions"]["round-001"]
    settings = json.loads(files["judging/legibility/round-001/judgement.json"])["settings"]
    assert settings == {"judge": NOT_PUBLISHED, "question": "/path?", "token_budget": 8}


# Each meets the first request of its kind, or the one after `skip` others.
FAULTS = {
    "503 on a commit": Fault("POST .*/commit/", 503),
    "503 on a commit that was carried out": Fault("POST .*/commit/", 503, is_after=True),
    "503 on a tag that was set": Fault("POST .*/tag/", 503, is_after=True, skip=1),
    "429 on the list of files": Fault("GET .*/tree/", 429),
    "504 while a repository is made": Fault("POST .*/create", 504, is_after=True),
    "connection lost in a large file": Fault("PUT /blobs/", drops=True),
    "signature of an upload's address expired": Fault("PUT /blobs/", 403, count=2),
    "connection lost in a commit": Fault("POST .*/commit/", drops=True),
    "500 for two attempts": Fault("POST .*/commit/", 500, count=2),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_passing_fault_changes_nothing(name, hub, client, reference, expected):
    fault = replace(FAULTS[name])
    hub.faults.append(fault)
    for k in range(2):
        client("push", str(reference.root), k)
    assert fault.count == 0
    assert hub.state() == expected


def test_a_commit_of_somebody_else_is_kept(hub, client, reference, expected):
    """It is made between our request for the repository's state and our commit, whose parent is then stale (412)."""
    client("push", str(reference.root), 0)
    repo = hub.repo("game-prover")

    def commit_notes() -> None:
        repo.commit({**repo.commits[repo.log[-1]], "NOTES.md": Blob(b"mine", False)})

    hub.faults.append(Fault("POST .*game-prover/commit/", act=commit_notes))
    client("push", str(reference.root), 1)
    assert hub.faults[0].count == 0
    assert repo.files("round-001") == {**expected[f"{OWNER}/game-prover"]["round-001"], "NOTES.md": b"mine"}


@pytest.mark.parametrize("skip", range(3))
def test_a_push_stopped_between_upload_and_tag_is_resumed(skip, hub, client, reference, expected):
    hub.faults.append(Fault("POST .*/tag/", 500, count=3, skip=skip))
    with pytest.raises(ClientError, match=r"round-000: .*500") as caught:
        client("push", str(reference.root), 0)
    assert "HubError" in caught.value.kinds
    assert "round-000" not in hub.repo("game-solutions").tags  # which would say that all is there
    for k in range(2):
        client("push", str(reference.root), k)
    assert hub.state() == expected


def test_a_push_killed_before_its_tag_is_resumed(hub, client, reference, expected, tmp_path):
    pid = tmp_path / "pid"
    hub.faults.append(Fault("POST .*/tag/", 500, act=lambda: os.kill(int(pid.read_text()), signal.SIGKILL)))
    assert client("push_in_child", str(reference.root), 0, str(pid)) == -signal.SIGKILL
    assert hub.repo("game-prover").tags == {}
    for k in range(2):
        client("push", str(reference.root), k)
    assert hub.state() == expected


def test_an_expired_token_is_named_and_not_tried_again(hub, client, reference):
    hub.tokens = {"another"}
    with pytest.raises(ClientError, match=r"401.*expired.*`hf auth login`") as caught:
        client("push", str(reference.root), 0)
    assert len(hub.requests) == 1
    assert TOKEN not in caught.value.trace
    assert hub.state() == {}


def test_a_network_that_stays_away_is_an_error(hub, client, reference):
    hub.faults.append(Fault("", drops=True, count=99))
    with pytest.raises(ClientError) as caught:
        client("push", str(reference.root), 0, namespace=OWNER)
    assert "HubError" in caught.value.kinds
    assert len(hub.requests) == 3


@pytest.fixture
def other_run(reference, tmp_path):
    """The same run with other solutions in round 0."""
    folder = tmp_path / "other"
    shutil.copytree(reference.root, folder)
    shutil.copy(folder / "pool/round-000/helpful.parquet", folder / "pool/round-000/sneaky.parquet")
    forget_digests(folder)
    return folder


def test_a_round_with_other_content_is_refused(hub, client, reference, other_run, expected):
    for k in range(2):
        client("push", str(reference.root), k)
    with pytest.raises(ClientError) as caught:
        client("push", str(other_run), 0)
    assert "game-solutions has other content of pool/round-000/sneaky.parquet" in str(caught.value)
    assert "hub.overwrite: true" in str(caught.value)
    assert "ValueError" in caught.value.kinds
    assert hub.state() == expected


@pytest.mark.parametrize("name", RUNS)
def test_a_tag_that_somebody_else_sets_meanwhile_is_refused(name, hub, client, reference):
    def steal() -> None:
        repo = hub.repo(name)
        repo.tags["round-000"] = repo.log[0]

    hub.faults.append(Fault(f"POST .*{name}/tag/", act=steal))
    with pytest.raises(ClientError, match=f"{name} .*other content") as caught:
        client("push", str(reference.root), 0)
    assert "ValueError" in caught.value.kinds


def test_a_tag_with_the_same_content_may_be_set_by_somebody_else(hub, client, reference):
    """Only the card differs, which follows from the package's version."""

    def steal() -> None:
        repo = hub.repo("game-prover")
        repo.commit({**repo.commits[repo.log[-1]], "README.md": Blob(b"another", False)})
        repo.tags["round-000"] = repo.log[-1]

    hub.faults.append(Fault("POST .*game-prover/tag/", act=steal))
    client("push", str(reference.root), 0)
    assert hub.repo("game-solutions").tags.keys() == {"round-000"}


def test_overwriting_takes_back_the_rounds_after_it(hub, client, reference, other_run):
    for k in range(2):
        client("push", str(reference.root), k)
    client("push", str(other_run), 0, overwrite=True)
    solutions = hub.repo("game-solutions")
    assert [hub.repo(name).tags.keys() for name in RUNS] == [{"round-000"}] * 3
    sneaky = (other_run / "pool/round-000/sneaky.parquet").read_bytes()
    assert solutions.files("round-000")["pool/round-000/sneaky.parquet"] == sneaky
    assert solutions.files("main") == solutions.files("round-000")
    client("push", str(other_run), 1)
    assert solutions.tags.keys() == {"round-000", "round-001"}


def test_a_round_before_published_ones_is_refused(hub, client, reference):
    """The published rounds were not played from this one."""
    client("push", str(reference.root), 1)
    with pytest.raises(ClientError, match=r"- ana/game-prover .*: round-001"):
        client("push", str(reference.root), 0)
    client("push", str(reference.root), 0, overwrite=True)
    assert [hub.repo(name).tags.keys() for name in RUNS] == [{"round-000"}] * 3


@pytest.mark.parametrize(
    ("folder", "round_index", "message"),
    [
        ("nothing", 0, "nothing does not exist"),
        ("game", 5, r"Round 5 of .*round-005.* \[0, 1\]"),
    ],
)
def test_missing_rounds_cannot_be_published(folder, round_index, message, client, hub, reference):
    with pytest.raises(ClientError, match=message):
        client("push", str(reference.root.with_name(folder)), round_index, namespace=OWNER)
    assert hub.requests == []


@pytest.mark.parametrize("settings", [{"run_name": "a--b"}, {"namespace": "-x"}, {"run_name": "x" * 90}])
def test_names_that_the_hub_does_not_take_are_refused(settings, client, hub, reference):
    with pytest.raises(ClientError, match="repository name"):
        client("push", str(reference.root), 0, **{"namespace": OWNER, **settings})
    assert hub.requests == []
