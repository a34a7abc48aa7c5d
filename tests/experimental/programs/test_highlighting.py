"""Programs as HTML."""

import re

import pytest
from markupsafe import Markup

from pvg_hf.experimental.programs.highlighting import highlight_lines, show_difference, show_program
from pvg_hf.report.escaping import MAX_LINES

PROGRAM = "def f(xs):\n    # the sum\n    return sum(x for x in xs if x > 4)"


def plain(page: Markup) -> str:
    """Text of HTML."""
    return Markup(re.sub(r"<[^>]*>", "", str(page))).unescape()


@pytest.mark.parametrize(
    "text",
    [
        PROGRAM,
        "",
        "\n\n  \n",
        "x = 1\r\ny = 2",
        "def f(x:\n  return '",
        "'''a\n\nb'''\n",
        "This is not <b>Python</b> & no `code`",
        "\tx\x00",
    ],
    ids=["program", "empty", "blank", "Windows", "broken", "text over lines", "prose", "control characters"],
)
def test_no_character_is_lost(text):
    shown = plain(Markup("\n").join(highlight_lines(text)))
    assert shown == text.replace("\r\n", "\n").replace("\x00", "U+0000")


def test_kinds_of_tokens_have_classes():
    page = str(show_program(PROGRAM))
    for part in (
        '<span class="kw">def</span>',
        '<span class="fun">f</span>',
        '<span class="com"># the sum</span>',
        '<span class="bui">sum</span>',
        '<span class="num">4</span>',
    ):
        assert part in page
    assert page.startswith('<pre class="program">')


def test_html_in_a_program_is_text():
    page = str(show_program("x = '</pre><script>alert(1)</script>'"))
    assert "<script>" not in page
    assert page.count("</pre>") == 1


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b"])
def test_characters_that_hide_or_reorder_others_are_shown(hidden):
    page = show_program(f"x = 1\ny = '{hidden}'")
    assert hidden not in page
    assert f"U+{ord(hidden):04X}" in page
    assert '<span class="num">1</span>' in page  # the other line is highlighted


def test_a_long_program_is_folded():
    page = show_program("x = 1\n" * (MAX_LINES + 5))
    assert '<details class="rest">' in page
    assert "too long" in show_difference(PROGRAM, "x = 1\n" * (MAX_LINES + 5))


def test_the_difference_of_two_programs():
    assert plain(show_difference(PROGRAM, PROGRAM.replace("> 4", ">= 4"))).split("\n") == [
        "  def f(xs):",
        "      # the sum",
        "-     return sum(x for x in xs if x > 4)",
        "+     return sum(x for x in xs if x >= 4)",
    ]


def test_spaces_at_the_ends_of_lines_are_no_difference():
    assert "the same" in show_difference("a = 1\nb = 2", "a = 1  \nb = 2\r\n".strip("\r\n"))


def test_equal_lines_far_from_a_difference_are_left_out():
    first = [f"x{number} = 0" for number in range(40)]
    second = list(first)
    second[0] = second[39] = "y = 1"
    shown = plain(show_difference("\n".join(first), "\n".join(second)))
    assert shown.count("y = 1") == 2
    assert "x20 = 0" not in shown
    assert "\N{VERTICAL ELLIPSIS}" in shown
