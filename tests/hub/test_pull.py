"""A published round is pulled as a run's folder, byte for byte, despite errors on the way."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from pvg_hf import load_recipe
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.resume import find_damage
from tests.support.game_runs import bytes_of
from tests.support.hub_client import ClientError
from tests.support.loopback_hub import OWNER, Fault
from tests.support.stored_repos import Blob

RUN = f"{OWNER}/game"


def _differing_paths(pulled: str, reference: RunFolder, *, without: str = "nothing") -> list[str]:
    mine, others = bytes_of(RunFolder(Path(pulled))), bytes_of(reference)
    expected = {path for path in others if path != "metrics.jsonl" and without not in path}
    assert mine.keys() == expected
    return [path for path in mine if mine[path] != others[path]]


@pytest.mark.smoke
def test_the_last_round_has_everything_needed_to_continue(published, client, reference, tmp_path):
    folder = client("pull", RUN, "latest", str(tmp_path))
    assert folder == str(tmp_path / "game")
    earlier = [path for path in bytes_of(reference) if "round-000" in path and path.endswith(".safetensors")]
    mine = bytes_of(RunFolder(Path(folder)))
    assert bytes_of(reference).keys() - mine.keys() == {*earlier, "metrics.jsonl"}
    assert [path for path in mine if mine[path] != bytes_of(reference)[path]] == []
    assert find_damage(load_recipe(reference.recipe), RunFolder(Path(folder))) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["game"]
    assert json.loads((tmp_path / "game" / "origin.json").read_text()) == {"run": RUN, "round": 1, "trusted": []}


def test_earlier_players_come_when_they_are_asked_for(published, client, reference, tmp_path):
    folder = client("pull", RUN, "latest", str(tmp_path), with_earlier_players=True)
    assert _differing_paths(folder, reference) == []


def test_an_earlier_round_is_pulled_without_later_ones(published, client, reference, tmp_path):
    folder = client("pull", RUN, 0, str(tmp_path))
    assert _differing_paths(folder, reference, without="round-001") == []


def test_nothing_but_known_files_is_pulled(published, client, tmp_path):
    for name in ("game-prover", "game-verifier", "game-solutions"):
        repo = published.repo(name)
        evil = ["training_args.bin", "optimizer.pt", "modeling.py", "../../escaped.json", "pool/round-001/x.pkl"]
        evil += ["prover/round-001/optimizer.pt", "prover/round-001/../../../../escaped.json", "/etc/escaped.json"]
        sha = repo.commit({**repo.commits[repo.tags["round-001"]], **{path: Blob(b"x", False) for path in evil}})
        repo.tags["round-001"] = sha
    folder = Path(client("pull", RUN, "latest", str(tmp_path / "runs")))
    names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert len(names) > 20
    assert [name for name in names if name.endswith((".bin", ".pt", ".py", ".pkl")) or "escaped" in name] == []
    assert [request for request in published.requests if "optimizer" in request or "escaped" in request] == []
    assert (folder / "recipe.yaml").is_file()


FAULTS = {
    "cut short": Fault("GET /blobs/", change=lambda body: body[: len(body) // 2], count=2),
    "of the right length, with other bytes": Fault("GET /blobs/", change=lambda body: body[:-1] + b"?"),
    "503": Fault("GET /.*/resolve/", 503, count=2),  # of three attempts
    "signature of a download's address expired": Fault("GET /blobs/", 403, count=2),
    "no answer": Fault("GET /api/.*/refs", drops=True),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_download_that_went_wrong_is_made_again(name, published, client, reference, tmp_path):
    fault = replace(FAULTS[name])
    published.faults.append(fault)
    folder = client("pull", RUN, "latest", str(tmp_path), with_earlier_players=True)
    assert fault.count == 0
    assert _differing_paths(folder, reference) == []


def test_permanent_damage_is_an_error_and_leaves_no_run(published, client, reference, tmp_path):
    """Files that were downloaded are not requested again."""
    whole, before = 5, len(published.requests)
    published.faults.append(Fault("GET /blobs/", change=lambda body: b"?" * len(body), count=99, skip=whole))
    with pytest.raises(ClientError, match=" hash ") as caught:
        client("pull", RUN, "latest", str(tmp_path))
    assert "HubError" in caught.value.kinds
    assert not (tmp_path / "game").exists()
    published.faults.clear()
    came, again = _blobs(published.requests[before:])[:whole], len(published.requests)
    folder = client("pull", RUN, "latest", str(tmp_path))
    assert len(came) == whole
    assert not set(came) & set(_blobs(published.requests[again:]))
    assert _is_same_where_it_is(folder, reference)


@pytest.mark.parametrize("num_moved", [0, 2])
def test_a_killed_pull_is_resumed(num_moved, published, client, reference, tmp_path):
    """It is killed while downloaded files are moved to their places."""
    root = tmp_path / "game"
    assert client("begin_and_be_killed", str(root), RUN, num_moved) == -signal.SIGKILL
    assert len([path for path in root.iterdir() if path.name != ".pull"]) == num_moved
    published.requests.clear()
    assert client("begin", str(root), RUN) == 1
    assert published.requests == []
    assert _is_same_where_it_is(str(root), reference)
    assert (root / "recipe.yaml").is_file()
    assert not (root / ".pull").exists()


def _blobs(requests: list[str]) -> list[str]:
    return [request for request in requests if request.startswith("GET /blobs/")]


def _is_same_where_it_is(folder: str, reference: RunFolder) -> bool:
    mine, others = bytes_of(RunFolder(Path(folder))), bytes_of(reference)
    return len(mine) > 20 and all(others[path] == content for path, content in mine.items())


@pytest.mark.parametrize(
    ("run", "round_index", "message"),
    [
        (RUN, 7, r"Round 7 of ana/game .*\[0, 1\]"),
        (f"{OWNER}/nobody", "latest", "404.*repository or revision"),
        ("game", 0, r"`NAMESPACE/RUN`, .*got 'game'"),
        ("a/b/c", 0, "is named `NAMESPACE/RUN`"),
        ("ana/../etc", 0, "is named `NAMESPACE/RUN`"),
        ("ana/..", 0, r"`ana/\.\.-\w+`"),
    ],
)
def test_missing_runs_and_rounds_cannot_be_pulled(run, round_index, message, published, client, tmp_path):
    with pytest.raises(ClientError, match=message):
        client("pull", run, round_index, str(tmp_path))
    assert not (tmp_path / "game").exists()


def test_nothing_is_written_over_a_run(published, client, tmp_path):
    """Only the recipe, which has the run's name, is downloaded."""
    (tmp_path / "game").mkdir()
    with pytest.raises(ClientError, match=r"game already exists.*`output_dir`"):
        client("pull", RUN, 0, str(tmp_path))
    assert os.listdir(tmp_path) == ["game"]
    assert os.listdir(tmp_path / "game") == []
    fetched = {request.rpartition("/")[2] for request in published.requests if "/resolve/" in request}
    assert fetched == {"recipe.yaml"}
    assert _blobs(published.requests) == []


def test_a_round_without_all_its_tags_is_not_published(published, client, tmp_path):
    """The tag of the solutions is set last."""
    del published.repo("game-solutions").tags["round-001"]
    folder = Path(client("pull", RUN, "latest", str(tmp_path)))
    assert not (folder / "evaluation" / "round-001").exists()
