"""Renders values as HTML. Everything is escaped, so that text written by a model is shown as text."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pvg_hf.report.page import make_environment

FOLDER = Path(__file__).parent
_ENVIRONMENT = make_environment(FOLDER / "templates")


def render(template: str, **values: Any) -> str:
    """Render a template of the app or of the report."""
    return _ENVIRONMENT.get_template(f"{template}.html.jinja").render(**values)


def notice(text: str, *, kind: str = "note") -> str:
    """Render a message in a box of the kind `note` or `problem`; its lines become paragraphs."""
    return render("notice", lines=text.splitlines(), kind=kind)


def problems(texts: Iterable[str]) -> str:
    """Render each problem in a separate box; empty if there are none."""
    return "".join(notice(text, kind="problem") for text in texts)


def heading(title: str, explanation: str) -> Markup:
    """Render a page's title and explanation."""
    return Markup("<h1>{}</h1><p class='soft'>{}</p>").format(title, explanation)
