"""
Hugging Face Jobs on this machine, as far as the client's sandboxes need them: a job is started, answers for its sandbox
server, runs commands as processes of this machine, and is cancelled.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OWNER = "ana"
PORT_MARK = "--49983."  # of the port of the sandbox server, which the client looks for in an address


class LoopbackJobs(ThreadingHTTPServer):
    """
    The jobs that were asked for.

    Attributes:
        jobs (`dict[str, dict[str, Any]]`): what each job was started with.
        cancelled (`list[str]`): those that were cancelled.
        commands (`list[dict[str, Any]]`): what was run.
        broken (`int`): how many of the next commands end without an answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.jobs: dict[str, dict[str, Any]] = {}
        self.cancelled: list[str] = []
        self.commands: list[dict[str, Any]] = []
        self.broken = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start_job(self, spec: dict[str, Any]) -> dict[str, Any]:
        name = f"job{len(self.jobs)}"
        self.jobs[name] = spec
        return {
            "id": name,
            "createdAt": "2026-01-01T00:00:00.000Z",
            "dockerImage": spec["dockerImage"],
            "flavor": spec["flavor"],
            "status": {"stage": "RUNNING", "message": None, "exposeUrls": [f"{self.address}/{name}{PORT_MARK}"]},
            "owner": {"id": "0", "name": OWNER, "type": "user"},
        }


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackJobs

    def do_GET(self) -> None:
        if self.path == "/api/whoami-v2":
            self._answer({"type": "user", "name": OWNER, "auth": {"accessToken": {"role": "write"}}})
        elif self.path.endswith("/health"):
            self._answer({"protocol": 3})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self.path.strip("/").split("/")
        if parts[:2] == ["api", "jobs"] and parts[-1] == "cancel":
            self.server.cancelled.append(parts[-2])
            self._answer({})
        elif parts[:2] == ["api", "jobs"]:
            self._answer(self.server.start_job(json.loads(body)))
        elif parts[1:] == ["v1", "exec"]:
            self._execute(json.loads(body))
        else:
            self.send_error(404)

    def _execute(self, order: dict[str, Any]) -> None:
        self.server.commands.append(order)
        if self.server.broken:
            self.server.broken -= 1
            self._answer_lines([])
            return
        program, *arguments = order["cmd"]
        assert program == "python3"
        ended = subprocess.run(
            [sys.executable, *arguments],
            input=order["stdin"],
            env=order["env"],
            cwd=order["cwd"],
            timeout=order["timeout"],
            capture_output=True,
            text=True,
        )
        half = len(ended.stdout) // 2
        self._answer_lines(
            [
                {"event": "stdout", "data": ended.stdout[:half]},
                {"event": "ping"},
                {"event": "stdout", "data": ended.stdout[half:]},
                {"event": "stderr", "data": ended.stderr},
                {"event": "exit", "exit_code": ended.returncode, "duration_ms": 1},
            ]
        )

    def _answer_lines(self, lines: list[dict[str, Any]]) -> None:
        self._send("".join(json.dumps(line) + "\n" for line in lines).encode())

    def _answer(self, value: dict[str, Any]) -> None:
        self._send(json.dumps(value).encode())

    def _send(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving_jobs() -> Iterator[LoopbackJobs]:
    """Serve until the block ends."""
    with LoopbackJobs() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
