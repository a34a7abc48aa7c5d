"""Texts of a model on a page: no character is invisible, and no text too long."""

import re
import unicodedata

import pytest
from markupsafe import Markup

from pvg_hf.report.escaping import (
    MAX_CHARACTERS,
    MAX_LINES,
    Line,
    fold,
    reveal,
    show_preformatted,
    show_text,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("3 + 2 = 5", "3 + 2 = 5"),
        ("a\tb\r\nc", "a\tb\nc"),
        ("<b> & 'c'", "&lt;b&gt; &amp; &#39;c&#39;"),
        ("caf\u00e9 \u2212 \u4e09 \U0001f600", "caf\u00e9 \u2212 \u4e09 \U0001f600"),
        ("\u2714\ufe0f \U0001f469\u200d\U0001f680", "\u2714\ufe0f \U0001f469\u200d\U0001f680"),  # whole emojis
    ],
)
def test_visible_characters_are_unchanged(text, shown):
    assert show_text(text) == shown


@pytest.mark.parametrize(
    ("character", "code", "name"),
    [
        ("\u202e", "U+202E", "right-to-left override"),
        ("\u2066", "U+2066", "left-to-right isolate"),
        ("\u200b", "U+200B", "zero width space"),
        ("\u200d", "U+200D", "zero width joiner"),
        ("\ufe0f", "U+FE0F", "variation selector-16"),
        ("\U000e0041", "U+E0041", "tag latin capital letter a"),
        ("\u3164", "U+3164", "hangul filler"),
        ("\u2028", "U+2028", "line separator"),
        ("\x00", "U+0000", "null"),
        ("\x1b", "U+001B", "escape"),
        ("\r", "U+000D", "carriage return"),
        ("\x85", "U+0085", "control character"),
    ],
)
def test_invisible_characters_are_shown_as_code_points(character, code, name):
    assert show_text(f"1{character}2") == f'1<span class="codepoint" title="{name}">{code}</span>2'
    assert reveal(f"1{character}2") == f"1[{code}]2"


@pytest.mark.parametrize(
    "text",
    [
        "\u202e5 = 7 - 21\u202c",
        "\u2067<b>\u2069 & \u200f4\u200b2\u00ad",
        "\u05e9\u05dc\u05d5\u05e9: 12 - 5 = 7\u061c",
        "1\x1b[2K\x08\x00</pre><script>alert(1)</script>",
    ],
    ids=["reversed", "isolated", "Hebrew", "terminal"],
)
def test_a_hostile_text_stays_visible_text(text):
    """Every character can be seen, in the order in which it was written."""
    page = str(show_text(text))
    assert not any(
        unicodedata.category(one) in ("Cc", "Cf") or one in "<>" for one in re.sub(r"</?span[^>]*>", "", page)
    )
    shown = Markup(page).striptags()
    assert shown == "".join(f"U+{ord(one):04X}" if unicodedata.category(one) in ("Cc", "Cf") else one for one in text)


def test_long_texts_are_folded():
    long = "x" * 200_000
    lines, rest = fold(long)
    assert [len(line.text) for line in lines] == [MAX_CHARACTERS]
    assert [len(line.text) for line in rest] == [200_000 - MAX_CHARACTERS]
    page = show_preformatted(long)
    assert page.count("x") == 200_000
    assert f"{200_000 - MAX_CHARACTERS:,} more characters</summary>" in page
    many = "\n".join("x" * (MAX_LINES + 5))
    assert list(map(len, fold(many))) == [MAX_LINES, 5]
    assert "9 more characters" in show_preformatted(many)


def test_a_mark_in_a_folded_part_is_announced():
    lines = [*[Line("x")] * MAX_LINES, Line("3 + 2 = 6", "first flaw: wrong sum"), Line("ok", "true", is_soft=True)]
    page = show_preformatted(lines)
    assert "a marked line among them" in page
    assert '<mark>3 + 2 = 6</mark> <span class="flaw">&#9664; first flaw: wrong sum</span>' in page
    assert '<mark>ok</mark> <span class="soft">' in page


@pytest.mark.parametrize("text", ["", "3", "x" * MAX_CHARACTERS, "\n" * (MAX_LINES - 1)])
def test_short_texts_are_not_folded(text):
    assert show_preformatted(text) == f"<pre>{text}</pre>"
