"""How the pages' events are sent."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

# What answers at once shows no sign of waiting. None of the app's functions is an API for others.
FAST: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
SLOW: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}

# Of a part that is not to be seen yet, and may be filled all the same.
HIDDEN: Any = "hidden"

# Puts a query string into the browser's address; by itself it would be taken for one of the main page.
SHOW_ADDRESS = "(link) => history.replaceState(null, '', location.pathname + link)"


def choices_of(rounds: Sequence[int]) -> dict[str, Any]:
    """Of a dropdown of rounds: the last one is chosen."""
    return {"choices": [(f"round {k}", k) for k in rounds], "value": max(rounds, default=None)}


def wire(
    triggers: Sequence[Callable[..., Dependency]],
    function: Callable[..., Any],
    inputs: Sequence[Component],
    outputs: Sequence[Component],
    *,
    latest: bool = False,
) -> Dependency:
    """Call a function on any of several events; with `latest`, on the last one of those that come while it runs."""
    mode = "always_last" if latest else "once"
    return gr.on(list(triggers), function, list(inputs), list(outputs), trigger_mode=mode, **FAST)
