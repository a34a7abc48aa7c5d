"""Starting and ending the app: what cannot be served is reported in one line, and temporary files are removed."""

import functools
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from pvg_hf.app.__main__ import main
from tests.support.app_visitor import Visitor


@pytest.fixture
def start(repository):
    """Start the app in a separate process."""
    started = []

    def begin(*arguments: str, **environment: str) -> subprocess.Popen:
        settings = {**os.environ, "PYTHONPATH": str(repository), "HF_HUB_OFFLINE": "1", **environment}
        command = [sys.executable, "-m", "pvg_hf.app", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # A shell's background job, as these tests may be, ignores Ctrl-C, and so would its children.
        listen = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
        started.append(subprocess.Popen(command, env=settings, preexec_fn=listen, **pipes))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: root / "nothing", "nothing does not exist"),
        (lambda root: root, "it has no recipe.yaml"),
        (lambda root: (root / "recipe.yaml").write_text("num_rounds: many") and root, "Restore the recipe"),
        (lambda root: "ana/nothing", "ana/nothing cannot be"),
    ],
    ids=["missing folder", "folder without a recipe", "invalid recipe", "unknown name"],
)
def test_a_run_that_cannot_be_opened_is_reported_in_one_message(tmp_path, capsys, make, message):
    assert main([str(make(tmp_path))]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert "Traceback" not in said


def test_a_port_in_use_is_reported_in_one_line(arithmetic_run, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main([str(arithmetic_run), "--port", str(port)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"error: Port {port} cannot be used")
    assert "--port" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_an_invalid_port_is_refused(port, capsys):
    with pytest.raises(SystemExit):
        main(["runs/any", "--port", port])
    assert port in capsys.readouterr().err


@pytest.mark.app
def test_ctrl_c_while_loading_ends_the_app_quietly(start, arithmetic_run):
    process = start(str(arithmetic_run))
    assert process.stdout.readline() == f"Loading {arithmetic_run} ...\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in said


@pytest.mark.app
def test_temporary_files_are_removed(start, run_copy, tmp_path):
    place = tmp_path / "temporary"
    place.mkdir()
    before = sorted(run_copy.rglob("*"))
    process = start(str(run_copy), TMPDIR=str(place), MPLCONFIGDIR=str(tmp_path))
    process.stdout.readline()
    url = process.stdout.readline().split()[1]
    for _ in range(3):
        visit_rounds(url)
    assert list(place.glob("pvg-*"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert list(place.glob("pvg-*")) == []
    assert [path for path in place.glob("gradio/**/*") if path.is_file()] == []  # Gradio itself leaves an empty folder
    assert sorted(run_copy.rglob("*")) == before


def visit_rounds(url: str) -> str:
    """Load the page of rounds with its plots."""
    visitor = Visitor(url)
    event = visitor.event("figures", "load")
    reply = visitor.call(event)
    assert reply["success"]
    return reply["output"]["data"][visitor.outputs(event).index(visitor.component("figures"))]


def test_five_first_visitors_at_once_see_the_same_figures(serve, arithmetic_run):
    url, _ = serve(arithmetic_run)
    pages = []
    visitors = [threading.Thread(target=lambda: pages.append(visit_rounds(url))) for _ in range(5)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert len(pages) == 5
    assert all(page == pages[0] and "helpful accuracy" in page for page in pages)
