"""Values as HTML. Everything is escaped: what a model wrote is shown as text, whatever it looks like."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pvg_hf.evaluation.report.report import make_environment

FOLDER = Path(__file__).parent
_ENVIRONMENT = make_environment(FOLDER / "templates")


def render(template: str, **values: Any) -> str:
    """A template of the app, or of the report, filled in."""
    return _ENVIRONMENT.get_template(f"{template}.html.jinja").render(**values)


def notice(text: str, *, kind: str = "note") -> str:
    """
    A message in a box.

    Args:
        text (`str`):
            Its lines become paragraphs.
        kind (`str`, *optional*, defaults to `"note"`):
            `note`, or `problem` for what is wrong.
    """
    return render("notice", lines=text.splitlines(), kind=kind)


def problems(texts: Iterable[str]) -> str:
    """What is wrong, each in a box of its own; nothing where all is well."""
    return "".join(notice(text, kind="problem") for text in texts)


def heading(title: str, explanation: str) -> Markup:
    """A page's title and what it is for."""
    return Markup("<h1>{}</h1><p class='soft'>{}</p>").format(title, explanation)
