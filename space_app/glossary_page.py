"""Glossary: the words, symbols and abbreviations that the other pages use."""

import re

import gradio as gr

from space_app.render import FOLDER

_IN_A_CLONE = FOLDER.parent / "docs" / "glossary.md"
_IN_A_SPACE = FOLDER / "glossary.md"  # `build_space` copies it
_LINK_TO_A_PAGE = re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)")


def build_glossary_page(app: gr.Blocks) -> None:
    """Put the page into `app`, within whose context this is called. Links to other pages of the documentation become text."""
    file = _IN_A_SPACE if _IN_A_SPACE.exists() else _IN_A_CLONE
    gr.Markdown(_LINK_TO_A_PAGE.sub(r"\1", file.read_text(encoding="utf-8")), elem_id="glossary")
