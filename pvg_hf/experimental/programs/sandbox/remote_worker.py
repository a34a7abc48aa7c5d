"""A worker on a machine of Hugging Face Jobs."""

import json
import logging
import secrets
from collections.abc import Mapping
from typing import Any

from huggingface_hub import Sandbox as JobsSandbox
from huggingface_hub.errors import HTTPError, SandboxError

from pvg_hf.experimental.programs.sandbox.backends import IMAGE, Backend
from pvg_hf.experimental.programs.sandbox.inside.boot import HEADER_BYTES, encode_frame
from pvg_hf.experimental.programs.sandbox.worker_process import (
    first_message,
    longest_seconds,
    results_of,
    worker_arguments,
    worker_environment,
)

logger = logging.getLogger(__name__)

_ERRORS = (SandboxError, HTTPError, OSError)


class RemoteWorker:
    """
    A worker in a virtual machine of its own ([`huggingface_hub.Sandbox`]), in which a process is started for each job.

    The machine is paid for by the minute, by the account of your token, and ends with the worker or ten minutes after
    its last job.

    Args:
        backend (`Backend`):
            How programs are isolated inside the machine.

    Raises:
        OSError: if there is no token or no machine.
    """

    def __init__(self, backend: Backend):
        self._backend = backend
        try:
            self._machine = JobsSandbox.create(image=IMAGE)
        except _ERRORS as err:
            raise OSError(f"The worker of the sandbox `{backend.name}` does not start: {err}") from err

    def run(self, job: Mapping[str, Any]) -> list[list[Any]] | None:
        """Run a program on its cases; as in [`pvg_hf.experimental.programs.sandbox.worker_process.WorkerProcess.run`]."""
        nonce = secrets.token_hex(16)
        sent = (first_message(self._backend, is_interactive=False), {**job, "nonce": nonce})
        try:
            ended = self._machine.run(
                ["python3", *worker_arguments()],
                env=worker_environment(job["seed"]),
                cwd="/",
                stdin="".join(encode_frame(message).decode("ascii") for message in sent),
                timeout=longest_seconds(job),
                check=False,
            )
        except _ERRORS as err:
            logger.warning("A machine of the sandbox `%s` failed: %s", self._backend.name, err)
            return None
        answers = _messages_in(ended.stdout)
        if len(answers) != 2:  # that it is ready, and the results
            logger.warning(
                "A machine of the sandbox `%s` gave no results: %s", self._backend.name, ended.stderr[-500:]
            )
            return None
        return results_of(answers[1], nonce, len(job["cases"]))

    def close(self) -> None:
        """End the machine."""
        self._machine.kill()


def _messages_in(text: str) -> list[Any]:
    """Messages in the output of a worker, up to the first that is none."""
    messages = []
    while text:
        try:
            end = HEADER_BYTES + int(text[:HEADER_BYTES], 16)
            messages.append(json.loads(text[HEADER_BYTES:end]))
        except (ValueError, RecursionError):
            break
        text = text[end:]
    return messages
