"""The page "Glossary": words, symbols and abbreviations of the other pages."""

import re

import gradio as gr

from pvg_hf.app.render import FOLDER

_IN_A_CLONE = FOLDER.parents[1] / "docs" / "glossary.md"
_IN_A_SPACE = FOLDER / "glossary.md"  # `build_space` copies it
_LINK_TO_A_PAGE = re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)")


def build_glossary_page(app: gr.Blocks) -> None:
    """Build the page. It must be called within the context of `app`. Links to other pages of the documentation become text."""
    file = _IN_A_SPACE if _IN_A_SPACE.exists() else _IN_A_CLONE
    gr.Markdown(_LINK_TO_A_PAGE.sub(r"\1", file.read_text(encoding="utf-8")), elem_id="glossary")
