"""Parts of a page whose state is its address: links and forms in them change it, and Back leads to the view before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from markupsafe import Markup

from pvg_hf.app.events import INVISIBLE, SLOW
from pvg_hf.app.links import parse_link


@dataclass(frozen=True)
class ShownView:
    """A view as HTML: the form, what it selects, and the view's own address, a query string."""

    form: str
    content: str
    address: str


def build_view(demo: gr.Blocks, show: Callable[[Mapping[str, str]], ShownView]) -> tuple[gr.Textbox, gr.HTML]:
    """
    Build a form and what it selects. It must be called within the context of `demo`.

    `show` renders the view of an address. Within it, the browser handles links that begin with `?`, and changes of the
    form, without loading the page again (`script.js`). Returns the component with the last address, and that with the
    selection.
    """
    form, content = gr.HTML(elem_id="view-form"), gr.HTML(elem_id="view")
    address = gr.Textbox(elem_classes=[INVISIBLE], elem_id="address")

    def load(request: gr.Request) -> list[str]:
        shown = show(dict(request.query_params))
        return [shown.form, frame_view(shown, "")]

    def visit(asked: str) -> list[Any]:
        shown = show(parse_link(asked))
        # A form that is being filled in keeps its cursor.
        return [gr.skip() if asked.startswith("form") else shown.form, frame_view(shown, asked)]

    demo.load(load, None, [form, content], **SLOW)
    # `input` fires for typed characters only.
    address.change(visit, address, [form, content], trigger_mode="always_last", **SLOW)
    return address, content


def frame_view(shown: ShownView, asked: str) -> str:
    """Render what a view selects as the answer to an address."""
    frame = '<div class="view" data-asked="{}" data-address="{}">{}</div>'
    return Markup(frame).format(asked, shown.address, Markup(shown.content))
