"""Differences of programs as HTML."""

import re

from markupsafe import Markup

from pvg_hf.experimental.programs.shown_programs import show_difference
from pvg_hf.report.escaping import MAX_LINES

PROGRAM = "def f(xs):\n    # the sum\n    return sum(x for x in xs if x > 4)"


def plain(page: Markup) -> str:
    """Text of HTML."""
    return Markup(re.sub(r"<[^>]*>", "", str(page))).unescape()


def test_html_in_a_program_is_text():
    page = str(show_difference("x = 1", "x = '</pre><script>alert(1)</script>'"))
    assert "<script>" not in page
    assert page.count("</pre>") == 1


def test_long_programs_are_not_compared():
    assert "too long" in show_difference(PROGRAM, "x = 1\n" * (MAX_LINES + 5))


def test_characters_that_hide_others_are_shown_in_a_difference():
    page = show_difference("x = 1", "x = '\u202e'")
    assert "\u202e" not in page
    assert "U+202E" in page


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
