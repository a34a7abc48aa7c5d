"""Views are restored from their links."""

import httpx
import pytest

from pvg_hf.app.index import Query
from pvg_hf.app.links import View, parse_link, read_link, write_link
from pvg_hf.core.roles import Role

EVERY = Query()


VIEWS = (
    View(EVERY),
    View(Query(1, is_test=True), page=3, size=200),
    View(
        Query(-1, is_test=False, role=Role.HELPFUL, correct=True, accepted=False, sort="tokens", is_descending=False)
    ),
    View(Query(0, fooled=1, difficulty="3", search="Ana & <Ben> ünd"), at=0, steps=1, has_strip=True),
    View(Query(problem_id="p&q=1"), opened="1ts5", at=7, other="1th0", selected=("1ts5", "bth0")),
)


@pytest.mark.parametrize("view", VIEWS)
def test_a_link_leads_back_to_the_view(index, view):
    assert read_link(parse_link(write_link(view)), index) == view


def test_the_server_answers_the_address_of_every_view(app):
    """Gradio reads some names in an address itself."""
    assert [httpx.get(f"{app}/{write_link(view)}").status_code for view in VIEWS] == [200] * len(VIEWS)


def test_a_link_can_change_the_view_and_its_query(index):
    view = View(Query(1, search="x"), page=2)
    read = read_link(parse_link(write_link(view, sort="round", is_descending=False, page=1)), index)
    assert read == View(Query(1, search="x", sort="round", is_descending=False))


@pytest.mark.parametrize(
    "values",
    [
        {"round": "7"},
        {"round": "1e9", "part": "?", "role": "base", "correct": "maybe", "sort": "-nothing"},
        {"difficulty": "99", "flaw": "none", "fooled": "x", "size": "7", "table": "-3"},
    ],
)
def test_unknown_values_mean_any(index, values):
    assert read_link(values, index) == View(EVERY)


@pytest.mark.parametrize("values", [{}, {"sel": "1ts0"}])
def test_an_address_that_asks_for_nothing_leads_to_the_last_provers_mistakes(index, values):
    view = read_link(values, index)
    assert view.query == Query(1, is_test=True, role=Role.SNEAKY, correct=False)
    assert view.selected == tuple(values.values())
