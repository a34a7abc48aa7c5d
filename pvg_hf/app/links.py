"""Converts a view of the Solutions page to a link, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, urlencode

from pvg_hf.app.index import Filter, Query, SolutionIndex
from pvg_hf.core.roles import GAME_ROLES, Role


@dataclass(frozen=True)
class View:
    """A view of the page: the query, the problem, and the sample index of each role's solution."""

    query: Query
    problem_id: str | None = None
    chosen: Mapping[Role, int | None] = field(default_factory=dict)


def write_link(view: View) -> str:
    """Convert a view to a query string for [`read_link`]."""
    query = view.query
    values = {
        "round": query.round_index,
        "part": "test" if query.is_test else "training",
        "show": query.filter.value,
        "difficulty": query.difficulty,
        "search": query.search or None,
        "problem": view.problem_id,
        **{role.value: view.chosen.get(role) for role in GAME_ROLES},
    }
    return "?" + urlencode({name: value for name, value in values.items() if value is not None})


def read_link(values: Mapping[str, str], index: SolutionIndex) -> View:
    """
    Convert a link's values to a view.

    Missing and unknown values are replaced by defaults; the default round is the last one. A link without a filter,
    problem or search shows the problems that fooled the round's verifier, if any.
    """
    rounds = index.rounds
    named = _number(values.get("round"))
    round_index = named if named in rounds else rounds[-1]
    is_test = values.get("part") != "training" or not index.has_part(round_index, is_test=False)
    asked, difficulty = values.get("show"), values.get("difficulty")
    query = Query(
        round_index=round_index,
        is_test=is_test,
        filter=Filter(asked) if asked in set(Filter) else Filter.ALL,
        difficulty=difficulty if difficulty in index.difficulties else None,
        search=values.get("search", "")[:200],
    )
    if not values.keys() & {"show", "problem", "search", "difficulty"}:
        fooled = replace(query, filter=Filter.FOOLED)
        query = fooled if index.find(fooled) else query
    chosen = {role: _number(values.get(role.value)) for role in GAME_ROLES}
    return View(query, values.get("problem"), chosen)


def parse_link(link: str) -> dict[str, str]:
    return dict(parse_qsl(link.removeprefix("?")))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.removeprefix("-").isdecimal() and len(text) < 10 else None
