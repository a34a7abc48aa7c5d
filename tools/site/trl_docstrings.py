"""
Extension of Griffe for the site's API reference: turns docstrings in TRL's format into the Google style that Griffe
reads.
"""

import re
from collections.abc import Iterator
from typing import Any

from griffe import Class, Extension, Object

REFERENCE = re.compile(r"\[`~?(?:[\w.]+\.)?(\w+)`\]")  # doc-builder's link to an object
ARGUMENT = re.compile(
    r"^( {4,})(\*{0,2}\w.*) \((.+)\):$", re.MULTILINE
)  # `name (TYPE):`, or several of one description
NEXT_ARGUMENT = re.compile(r"(?:(?<=\))|(?<=\w)), (?=\w+(?: \(|$|, \w+$))")
RETURNED = re.compile(r"(?<=Returns:\n)( +)(`.+?):", re.MULTILINE)
LOOKED_UP = ("option(", "default_of(")  # a default that a recipe's section defines
DEFAULT = re.compile(r", defaults to (.*)")


def to_google_style(text: str) -> str:
    """
    Turn a docstring in TRL's format into Google style.

    Types lose their backticks, and what the signature also says. Of arguments that are described together, all but the
    last refer to the last.
    """
    text = REFERENCE.sub(r"`\1`", text)
    text = RETURNED.sub(lambda found: f"{found[1]}{found[2].replace('`', '')}:", text)
    return ARGUMENT.sub(lambda found: "\n".join(_rewrite(found)), text)


def _rewrite(found: re.Match) -> Iterator[str]:
    *others, (name, kind) = _arguments(found)
    for other, other_kind in others:
        yield f"{found[1]}{other} ({_plain(other_kind)}): See `{name}`."
    yield f"{found[1]}{name} ({_plain(kind)}):"


def _arguments(found: re.Match) -> list[tuple[str, str]]:
    """Return the (name, type) of each argument; one without a type has that of the last."""
    parts = [part.partition(" (") for part in NEXT_ARGUMENT.split(f"{found[2]} ({found[3]})")]
    return [(name, (kind or parts[-1][2]).removesuffix(")")) for name, _, kind in parts]


def _plain(kind: str) -> str:
    kind = DEFAULT.sub("", kind.replace(", *optional*", "")).replace("`", "")
    return re.sub(r",? or |, (?![^\[]*\])", " | ", kind) if " or " in kind and "shape" not in kind else kind


def stated_defaults(text: str) -> dict[str, str]:
    """Return the defaults that the arguments of a docstring state, by name."""
    found = ((name, DEFAULT.search(kind)) for match in ARGUMENT.finditer(text) for name, kind in _arguments(match))
    return {name: default[1].strip("`") for name, default in found if default is not None}


class TrlDocstrings(Extension):
    """Rewrites the docstring of every object, and shows the defaults that it states where the code looks them up."""

    def on_class_members(self, *, cls: Class, **kwargs: Any) -> None:
        stated = stated_defaults(cls.docstring.value if cls.docstring else "")
        for name, member in cls.members.items():
            if member.is_attribute and str(member.value).startswith(LOOKED_UP):
                member.value = stated.get(name, "...")

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_google_style(obj.docstring.value)
