"""Parts of a page whose state is its address: links and forms in them change it, and Back leads to the view before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component
from markupsafe import Markup

from pvg_hf.app.events import INVISIBLE, SLOW
from pvg_hf.app.links import parse_link


@dataclass(frozen=True)
class ShownView:
    """A view as HTML: the form, what it selects, and the view's own address, a query string."""

    form: str
    content: str
    address: str


@dataclass(frozen=True)
class ViewParts:
    """The components of a view, and how it is rendered."""

    show: Callable[[Mapping[str, str]], ShownView]
    form: gr.HTML
    content: gr.HTML
    address: gr.Textbox  # the last address that was asked for


def build_view(show: Callable[[Mapping[str, str]], ShownView]) -> ViewParts:
    """Build a form and what it selects, which `show` renders for an address; [`wire_view`] adds their events."""
    form, content = gr.HTML(elem_id="view-form"), gr.HTML(elem_id="view")
    return ViewParts(show, form, content, gr.Textbox(elem_classes=[INVISIBLE], elem_id="address"))


def wire_view(
    demo: gr.Blocks,
    view: ViewParts,
    fill: Callable[..., Sequence[Any]] | None = None,
    inputs: Sequence[Component] = (),
    outputs: Sequence[Component] = (),
) -> None:
    """
    Show the view of each address. The browser handles links that begin with `?` in it, and changes of its form,
    without loading the page again (`script.js`).

    `fill`, if given, returns values of other components, `outputs`, from the address and the values of `inputs`. They
    come with the view: in a call of their own they would replace what a person had entered in between.
    """

    def filled(values: Mapping[str, str], given: Sequence[Any]) -> Sequence[Any]:
        return fill(values, *given) if fill else ()

    def load(request: gr.Request, *given: Any) -> list[Any]:
        values = dict(request.query_params)
        shown = view.show(values)
        return [shown.form, frame_view(shown, ""), *filled(values, given)]

    def visit(asked: str, *given: Any) -> list[Any]:
        values = parse_link(asked)
        shown = view.show(values)
        # A form that is being filled in keeps its cursor.
        form = gr.skip() if asked.startswith("form") else shown.form
        return [form, frame_view(shown, asked), *filled(values, given)]

    changed = [view.form, view.content, *outputs]
    progress: dict[str, Any] = {"show_progress_on": view.content, **SLOW}
    demo.load(load, list(inputs), changed, **progress)
    # `input` fires for typed characters only.
    view.address.change(visit, [view.address, *inputs], changed, trigger_mode="always_last", **progress)


def frame_view(shown: ShownView, asked: str) -> str:
    """Render what a view selects as the answer to an address."""
    frame = '<div class="view" data-asked="{}" data-address="{}">{}</div>'
    return Markup(frame).format(asked, shown.address, Markup(shown.content))
