"""The sandbox `remote` with the real client of Hugging Face Jobs, against a server of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pvg_hf.experimental.programs.sandbox import open_sandbox
from pvg_hf.experimental.programs.sandbox.backends import make_backends
from tests.support.loopback_jobs import serving_jobs

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def jobs():
    with serving_jobs() as server:
        yield server


@pytest.fixture
def run_remotely(jobs, tmp_path):
    def run():
        (tmp_path / "kept").touch()
        environment = {
            **os.environ,
            "HF_ENDPOINT": jobs.address,
            "HF_TOKEN": "hf_loopback",
            "HF_HOME": str(tmp_path),
            "HF_HUB_OFFLINE": "0",
        }
        return subprocess.run(
            [sys.executable, "-m", "tests.support.remote_programs", str(tmp_path / "kept")],
            env=environment,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


EXPECTED = [["passed", "wrong"], ["passed", "wrong"], ["timed_out"]]


@pytest.mark.skipif(sys.platform != "linux", reason="programs are filtered, which needs Linux")
def test_programs_run_on_other_machines(jobs, run_remotely):
    ended = run_remotely()
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["outcomes"][:3] == EXPECTED
    assert said["outcomes"][3][0] in ("passed", "crashed")  # whether a refused signal ends a program is its own affair
    written, first, second = said["outputs"]
    if os.geteuid() == 0:  # as in the image, where programs must not change what later ones run on
        assert written == '"refused"'
    assert first != second  # each job has a process with the hash seed of its repetition
    assert said["isolation"].startswith("remote: a virtual machine")
    assert said["lost"] == 0
    assert {spec["dockerImage"] for spec in jobs.jobs.values()} == {"python:3.11-slim"}
    assert sorted(jobs.cancelled) == sorted(jobs.jobs)  # no machine is left to be paid for
    sent = json.dumps(jobs.commands)
    assert "hf_loopback" not in sent
    is_disclosed = "undisclosed" in sent  # the expected output
    assert not is_disclosed


def test_a_machine_that_fails_is_replaced(jobs, run_remotely):
    jobs.broken = 1
    ended = run_remotely()
    assert ended.returncode != 0
    assert "cannot run a harmless program" in ended.stderr
    assert sorted(jobs.cancelled) == sorted(jobs.jobs)


def test_it_is_never_taken_without_being_named(monkeypatch):
    monkeypatch.setattr("pvg_hf.experimental.programs.sandbox.backends.get_token", lambda: "hf_loopback")
    backends = make_backends()
    assert backends["remote"].lacking is None
    assert [name for name, backend in backends.items() if not backend.is_automatic] == ["remote", "none"]


def test_a_missing_token_is_said(monkeypatch):
    monkeypatch.setattr("pvg_hf.experimental.programs.sandbox.backends.get_token", lambda: None)
    with pytest.raises(ValueError, match=r"`remote` does not work here: there is no Hugging Face token"):
        open_sandbox("remote")
