"""A visitor without a browser, who sends requests that a page would send, or others."""

import json
import secrets
from typing import Any

import httpx


class Visitor:
    """
    Sends requests to the app by plain HTTP.

    Args:
        url (`str`):
            Address of the app.
    """

    def __init__(self, url: str, **options: Any):
        self.http = httpx.Client(base_url=url, timeout=120, follow_redirects=True, **options)
        self.session = secrets.token_hex(6)
        self.config = self.http.get("/config").raise_for_status().json()

    def component(self, elem_id: str) -> int:
        return next(part["id"] for part in self.config["components"] if part["props"].get("elem_id") == elem_id)

    def event(self, elem_id: str, name: str = "click") -> int:
        """Number of the event `name` of a component; for `load`, of the page that fills the component."""
        part = self.component(elem_id)
        for call in self.config["dependencies"]:
            targets = [list(target) for target in call["targets"]]
            if [part, name] in targets or (name == "load" and part in call["outputs"] and targets[0][1] == "load"):
                return call["id"]
        raise LookupError(f"{elem_id} has no event {name}.")

    def call(self, event: int, *data: Any) -> dict[str, Any]:
        """
        Send an event and wait.

        Returns:
            `dict`: `success`, and `output` with the values of the outputs or the error.
        """
        order = {"data": list(data), "fn_index": event, "session_hash": self.session, "event_data": None}
        self.http.post("/gradio_api/queue/join", json=order).raise_for_status()
        with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as stream:
            for line in stream.iter_lines():
                message = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                if message.get("msg") == "process_completed":
                    return message
        raise ConnectionError("The app ended the event without an answer.")

    def outputs(self, event: int) -> list[int]:
        return next(call["outputs"] for call in self.config["dependencies"] if call["id"] == event)
