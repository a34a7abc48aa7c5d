"""Processes wait for the one that publishes; publishing itself is tested in tests/hub."""

import runpy
from pathlib import Path

from tests.support.game_runs import PROCESSES
from tests.support.ports import find_free_port

SCRIPT = Path(__file__).parents[1] / "support" / "waiting_process.py"


def test_others_wait_until_the_main_process_is_done(tmp_path):
    port = find_free_port()
    started = []
    for rank in range(2):
        names = {"RANK": rank, "PORT": port, "FOLDER": str(tmp_path)}
        started.append(PROCESSES.Process(target=runpy.run_path, args=(str(SCRIPT), names, "__main__")))
        started[-1].start()
    for process in started:
        process.join(timeout=400)
    assert [process.exitcode for process in started] == [0, 0]
    assert [(tmp_path / f"went-on-{rank}").read_text() for rank in range(2)] == ["worked-0", "worked-0"]
