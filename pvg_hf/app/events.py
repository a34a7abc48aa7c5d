"""Common settings of the pages' events."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

# Fast events show no progress indicator. None of the app's functions is exposed as an API.
FAST: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
SLOW: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}

# Class of hidden components. `visible="hidden"` is not enough: an update that makes a column visible also shows
# everything inside it.
INVISIBLE = "not-shown"

# Replaces the last input by the net number of steps since the last call.
TAKE_STEPS = "(...values) => [...values.slice(0, -1), window.pvgTakeSteps()]"

# Puts a query string into the browser's address, after the current path: without it, the address would be the main
# page's.
SHOW_ADDRESS = "(link) => history.replaceState(null, '', location.pathname + link)"


def choices_of(rounds: Sequence[int]) -> dict[str, Any]:
    """Choices and value of a dropdown of rounds; the last round is selected."""
    return {"choices": [(f"round {k}", k) for k in rounds], "value": max(rounds, default=None)}


def wire(
    triggers: Sequence[Callable[..., Dependency]],
    function: Callable[..., Any],
    inputs: Sequence[Component],
    outputs: Sequence[Component],
    *,
    latest: bool = False,
    js: str | None = None,
) -> Dependency:
    """
    Call a function on any of several events, one call at a time.

    With `latest`, events during a call lead to one more call afterwards; otherwise they are dropped. The JavaScript
    function `js` maps the inputs' values to those that are sent.
    """
    mode = "always_last" if latest else "once"
    return gr.on(list(triggers), function, list(inputs), list(outputs), trigger_mode=mode, js=js, **FAST)


def shown_if(is_shown: bool) -> list[str]:
    """Value of `elem_classes` that shows or hides a component."""
    return [] if is_shown else [INVISIBLE]
