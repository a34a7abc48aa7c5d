"""Converts a view of the Solutions page to the query of its address, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pvg_hf.app.index import LABELLED, SORTED, Query, SolutionIndex
from pvg_hf.core.roles import GAME_ROLES, Role

SIZES = (50, 200, 1000, 5000)
"""Numbers of rows on a page of the table."""

MAX_SEARCH_CHARACTERS = 200
MAX_SELECTED = 1000


@dataclass(frozen=True)
class View:
    """State of the page "Solutions": a page of the table, or a pair of solutions."""

    query: Query
    page: int = 1
    size: int = SIZES[0]
    at: int | None = None  # place of the open solution among those of the query, from 0
    opened: str | None = None  # key of a solution; by default the one at `at`
    other: str | None = None  # key of the solution beside it; by default the most convincing one of the other role
    steps: int | None = None  # round of the verifier that scores each step
    has_strip: bool = False  # whether the problem's solutions of all rounds are shown
    selected: tuple[str, ...] = ()  # keys of the rows that are selected for an export


# Names in the address. Gradio itself reads `page`, as the name of one of its pages, and fails on a number.
_NAMES = {
    "page": "table",
    "round_index": "round",
    "is_test": "part",
    "problem_id": "problem",
    "opened": "open",
    "has_strip": "strip",
    "selected": "sel",
}
_PARTS = {"test": True, "training": False}
_TRUTHS = {"yes": True, "no": False}


def write_link(view: View, **changes: Any) -> str:
    """
    Convert a view to a query string for [`read_link`]; `changes` replace fields of the view or of its query.
    """
    of_query = {name: value for name, value in changes.items() if name in {field.name for field in fields(Query)}}
    others = {name: value for name, value in changes.items() if name not in of_query}
    view = replace(view, query=replace(view.query, **of_query), **others)
    values = {name: value for name, value in vars(view.query).items() if name not in ("sort", "is_descending")}
    values |= {"sort": ("-" if view.query.is_descending else "") + view.query.sort}
    values |= {name: value for name, value in vars(view).items() if name != "query" and value != _DEFAULTS[name]}
    written = {
        _NAMES.get(name, name): _write(name, value) for name, value in values.items() if value not in (None, "")
    }
    return "?" + urlencode(written, safe=",")


_DEFAULTS = {field.name: field.default for field in fields(View)}


def _write(name: str, value: Any) -> str:
    if name == "selected":
        return ",".join(value)
    names = _PARTS if name == "is_test" else _TRUTHS
    return next((text for text, meant in names.items() if meant is value), str(value))


def read_link(values: Mapping[str, str], index: SolutionIndex) -> View:
    """
    Convert the values of an address to a view.

    Unknown values mean any. An address without any shows the mistakes of the last round's sneaky prover on test
    problems, the most convincing first.
    """
    if not values.keys() - {"sel"}:
        return replace(_first_view(index), selected=_selected(values))
    sort = values.get("sort", "-score")
    query = Query(
        round_index=_among(_number(values.get("round")), index.rounds),
        is_test=_PARTS.get(values.get("part", "")),
        role=next((role for role in GAME_ROLES if role.value == values.get("role")), None),
        correct=_TRUTHS.get(values.get("correct", "")),
        accepted=_TRUTHS.get(values.get("accepted", "")),
        fooled=_among(_number(values.get("fooled")), index.verifiers),
        flaw=_among(values.get("flaw"), index.flaws),
        difficulty=_among(values.get("difficulty"), index.difficulties),
        problem_id=values.get("problem") or None,
        label=_among(values.get("label"), LABELLED),
        search=values.get("search", "").strip()[:MAX_SEARCH_CHARACTERS],
        sort=sort.removeprefix("-") if sort.removeprefix("-") in SORTED else "score",
        is_descending=sort.startswith("-"),
    )
    return View(
        query,
        page=max(1, _number(values.get("table")) or 1),
        size=_among(_number(values.get("size")), SIZES) or SIZES[0],
        at=_number(values.get("at")),
        opened=values.get("open"),
        other=values.get("other"),
        steps=_number(values.get("steps")),
        has_strip=values.get("strip") == "yes",
        selected=_selected(values),
    )


def _first_view(index: SolutionIndex) -> View:
    last = max(index.rounds, default=None)
    every = Query(round_index=last, is_test=True)
    mistakes = replace(every, role=Role.SNEAKY, correct=False)
    return View(mistakes if index.count(mistakes) else every)


def _selected(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(key for key in values.get("sel", "").split(",") if key)[:MAX_SELECTED]


def parse_link(link: str) -> dict[str, str]:
    """Read the values of an address, `?NAME=VALUE&...`."""
    return dict(parse_qsl(link.partition("?")[2]))


def _among(value: Any, allowed: Any) -> Any:
    return value if value in allowed else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.removeprefix("-").isdecimal() and len(text) < 10 else None
