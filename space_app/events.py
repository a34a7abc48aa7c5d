"""How the pages' events are sent."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

# What answers at once shows no sign of waiting. None of the app's functions is an API for others.
FAST: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
SLOW: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}

# Class of components that hold values and are never shown. `visible="hidden"` does not do: an update that makes a column
# visible shows all that is within it, whatever was hidden by itself.
INVISIBLE = "not-shown"

# Puts the number of steps that were asked for since the last call in the place of the last input.
TAKE_STEPS = "(...values) => [...values.slice(0, -1), window.pvgTakeSteps()]"

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
    js: str | None = None,
) -> Dependency:
    """
    Call a function on any of several events, once at a time.

    Args:
        triggers (`Sequence[Callable]`):
            The events.
        function (`Callable`):
            What is called.
        inputs (`Sequence[Component]`), outputs (`Sequence[Component]`):
            Its arguments and results.
        latest (`bool`, *optional*, defaults to `False`):
            Whether events that come while it runs are followed by one more call; otherwise they are dropped.
        js (`str`, *optional*):
            A JavaScript function from the inputs' values to those that are sent.
    """
    mode = "always_last" if latest else "once"
    return gr.on(list(triggers), function, list(inputs), list(outputs), trigger_mode=mode, js=js, **FAST)


def shown_if(is_shown: bool) -> list[str]:
    """Classes of a component that is shown or not, for `elem_classes`."""
    return [] if is_shown else [INVISIBLE]
