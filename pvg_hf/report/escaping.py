"""Renders text that a model wrote as safe HTML: escaped, with invisible characters shown, and folded if it is long."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

MAX_CHARACTERS = 6_000

MAX_LINES = 200
"""Lines that are shown before the rest of a text is folded."""

_KEPT = "\t\n"

_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters and marks that leave no trace

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

_NAMES = {"\x00": "null", "\x08": "backspace", "\x1b": "escape", "\r": "carriage return", "\x7f": "delete"}

# An emoji of several code points stays whole: a joiner or selector behind a symbol changes its look alone.
_EMOJI = re.compile(
    r"(?<=[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])"
    r"(\ufe0f|\ufe0e|\u200d(?=[\u2600-\u27bf\U0001f300-\U0001faff]))"
)


def show_text(text: str) -> Markup:
    """Convert a text to HTML in which characters that are invisible or reorder others are shown as code points."""
    # Windows line breaks are ordinary text; a lone carriage return is shown as a code point.
    text = text.replace("\r\n", "\n")
    hidden = set(_hidden_places(text))
    parts = (_codepoint(one) if place in hidden else escape(one) for place, one in enumerate(text))
    return Markup("").join(parts) if hidden else escape(text)


def reveal(text: str) -> str:
    """Plain-text variant of [`show_text`], for files and form fields: hidden characters become e.g. `[U+202E]`."""
    hidden = set(_hidden_places(text))
    return "".join(f"[{_code(one)}]" if place in hidden else one for place, one in enumerate(text))


def _hidden_places(text: str) -> Iterator[int]:
    kept = {match.start() for match in _EMOJI.finditer(text)}
    return (place for place, one in enumerate(text) if _is_hidden(one) and place not in kept)


def _codepoint(character: str) -> Markup:
    name = _NAMES.get(character) or unicodedata.name(character, "control character").lower()
    return Markup('<span class="codepoint" title="{}">{}</span>').format(name, _code(character))


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _is_hidden(character: str) -> bool:
    if character in _KEPT:
        return False
    is_selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return is_selector or character in _FILLERS or unicodedata.category(character) in _INVISIBLE


@dataclass(frozen=True)
class Line:
    """
    A line as written, with a note at its end that highlights it; less strongly if it `is_soft`, no flaw.

    `spans` are places of words that are marked, and `so_far` is shown before the line.
    """

    text: str
    note: str | None = None
    is_soft: bool = False
    spans: tuple[tuple[int, int], ...] = ()
    so_far: str = ""


def fold(text: str | Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Split a text, or its lines, after `MAX_CHARACTERS` characters or `MAX_LINES` lines; a longer line is cut."""
    lines = [Line(line) for line in text.split("\n")] if isinstance(text, str) else list(text)
    num_left = MAX_CHARACTERS
    for place, line in enumerate(lines):
        if place == MAX_LINES:
            return lines[:place], lines[place:]
        if len(line.text) > num_left:
            head, rest = Line(line.text[:num_left]), Line(line.text[num_left:], line.note, line.is_soft)
            return [*lines[:place], head], [rest, *lines[place + 1 :]]
        num_left -= len(line.text) + 1  # the line break also counts
    return lines, []


def show_preformatted(text: str | Sequence[Line]) -> Markup:
    """Render a text, or its lines, as `<pre>`; the part that [`fold`] hides can be opened below."""
    lines, rest = fold(text)
    shown = Markup("<pre>{}</pre>").format(_show_lines(lines))
    if rest:
        num_hidden = sum(len(line.text) + 1 for line in rest) - 1
        note = ", a marked line among them" if any(line.note for line in rest) else ""
        shown += Markup(
            '<details class="rest"><summary>{:,} more characters{}</summary><pre>{}</pre></details>'
        ).format(num_hidden, note, _show_lines(rest))
    return shown


def _show_lines(lines: Sequence[Line]) -> Markup:
    return Markup("\n").join(
        _show_words(line)
        if line.note is None
        else Markup('<mark>{}</mark> <span class="{}">&#9664; {}</span>').format(
            _show_words(line), "soft" if line.is_soft else "flaw", line.note
        )
        for line in lines
    )


def _show_words(line: Line) -> Markup:
    # In an attribute, so that it is not copied with the text.
    shown = Markup('<span class="so-far" data-score="{}"></span>').format(line.so_far) if line.so_far else Markup("")
    end = 0
    for start, stop in line.spans:
        shown += show_text(line.text[end:start]) + Markup("<u>{}</u>").format(show_text(line.text[start:stop]))
        end = stop
    return shown + show_text(line.text[end:])
