"""Renders Python programs with highlighted syntax, and the difference between two of them, as safe HTML."""

from difflib import SequenceMatcher

from markupsafe import Markup, escape
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from pvg_hf.report.escaping import MAX_CHARACTERS, MAX_LINES, show_preformatted, show_text

NUM_CONTEXT = 6  # equal lines that are shown around a difference

# Style class of the first kind that contains a token's.
_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Keyword, "kw"),
    (Operator.Word, "kw"),
    (String, "str"),
    (Number, "num"),
    (Comment, "com"),
    (Name.Builtin, "bui"),
    (Name.Function, "fun"),
    (Name.Class, "fun"),
)


def show_program(program: str) -> Markup:
    """
    Render a program as `<pre>` with highlighted syntax.

    Nothing is hidden: invisible characters are shown as in [`~pvg_hf.report.escaping.show_text`]. A long program is
    folded and not highlighted.
    """
    if _is_long(program):
        return show_preformatted(program)
    return Markup('<pre class="program">{}</pre>').format(Markup("\n").join(highlight_lines(program)))


def show_difference(honest: str, program: str) -> Markup:
    """
    Render the lines in which a program differs from an honest one.

    Lines of the honest program alone begin with `-`, those of the other one with `+`; equal lines around them begin with a
    space, and equal lines further away are left out. Spaces at the ends of lines are ignored.

    Args:
        honest (`str`), program (`str`):
            The two programs. If one is long, a note is returned instead.
    """
    if _is_long(honest) or _is_long(program):
        return Markup('<p class="soft">The programs are too long to be compared line by line.</p>')
    first, second = ([line.rstrip() for line in _lines(text)] for text in (honest, program))
    shown, others = highlight_lines("\n".join(first)), highlight_lines("\n".join(second))
    groups = list(SequenceMatcher(None, first, second, autojunk=False).get_grouped_opcodes(NUM_CONTEXT))
    if not groups:
        return Markup('<p class="soft">The programs are the same.</p>')
    parts = []
    for group in groups:
        lines = []
        for tag, start, end, other_start, other_end in group:
            if tag == "equal":
                lines += [Markup("  {}").format(line) for line in shown[start:end]]
                continue
            lines += [Markup("<del>- {}</del>").format(line) for line in shown[start:end]]
            lines += [Markup("<ins>+ {}</ins>").format(line) for line in others[other_start:other_end]]
        parts.append(Markup("\n").join(lines))
    return Markup('<pre class="program">{}</pre>').format(Markup("\n  \N{VERTICAL ELLIPSIS}\n").join(parts))


def highlight_lines(program: str) -> list[Markup]:
    """Return the lines of a program as HTML with highlighted syntax; a text that is not Python is shown all the same."""
    lines: list[Markup] = [Markup("")]
    # Not `get_tokens`, which would replace and remove line breaks.
    for _, kind, text in PythonLexer().get_tokens_unprocessed("\n".join(_lines(program))):
        name = next((name for group, name in _CLASSES if kind in group), None)
        for place, part in enumerate(text.split("\n")):
            if place:
                lines.append(Markup(""))
            if part:
                lines[-1] += escape(part) if name is None else Markup('<span class="{}">{}</span>').format(name, part)
    # Characters that could hide or reorder others are shown as such, which needs the line as a whole.
    return [
        shown if line.isascii() and line.isprintable() else show_text(line)
        for shown, line in zip(lines, _lines(program), strict=True)
    ]


def _lines(program: str) -> list[str]:
    return program.replace("\r\n", "\n").split("\n")


def _is_long(program: str) -> bool:
    return len(program) > MAX_CHARACTERS or program.count("\n") >= MAX_LINES
