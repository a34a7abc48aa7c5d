"""Requests by plain HTTP: allowed to an anonymous visitor, or to the owner only."""

import time
from types import SimpleNamespace

import pytest
from starlette.requests import HTTPConnection

import pvg_hf.experimental.study.page
from pvg_hf.experimental.study.access import NEW_PARTICIPANTS_PER_HOUR, Newcomers, Owner, address_of
from tests.support.app_visitor import Visitor

SHEET = "participant,item,judgment\nann,none,correct\n"


@pytest.fixture(scope="module")
def study(study_for_module, arithmetic_run, tmp_path_factory) -> SimpleNamespace:
    folder, owner = tmp_path_factory.mktemp("studies") / "study", Owner()
    url, _ = study_for_module(arithmetic_run, folder=folder, num_solutions=4, owner=owner)
    return SimpleNamespace(url=url, folder=folder, owner=owner)


def upload(visitor: Visitor):
    return visitor.http.post("/gradio_api/upload", files={"files": ("sheets.csv", SHEET, "text/csv")})


@pytest.mark.parametrize("cookie", [None, "", "wrong"])
def test_an_anonymous_visitor_cannot_reach_the_owners_files(study, cookie):
    visitor = Visitor(study.url, cookies={study.owner.cookie: cookie} if cookie is not None else None)
    visitor.http.get("/owner", params={"token": cookie or ""})
    for event, values in {
        visitor.event("draw-sheets"): [50],
        visitor.event("show-results"): [],
        visitor.event("filled-sheets", "upload"): [{"path": __file__, "meta": {"_type": "gradio.FileData"}}],
    }.items():
        reply = visitor.call(event, *values)
        assert not reply["success"]
    load = visitor.event("study-results", "load")
    values = dict(zip(visitor.outputs(load), visitor.call(load)["output"]["data"]))
    assert values[visitor.component("study-results")] == ""
    assert upload(visitor).status_code == 403
    assert not study.folder.exists()


def test_the_owner_draws_sheets_and_uploads_them(study):
    visitor = Visitor(study.url)
    answer = visitor.http.get(study.owner.link(study.url))
    assert answer.status_code == 200
    assert "token" not in str(answer.url)
    reply = visitor.call(visitor.event("draw-sheets"), 2)
    assert reply["success"]
    assert len((study.folder / "sheets.jsonl").read_text().splitlines()) == 2
    assert visitor.call(visitor.event("show-results"))["success"]
    (path,) = upload(visitor).raise_for_status().json()
    reply = visitor.call(
        visitor.event("filled-sheets", "upload"), {"path": path, "meta": {"_type": "gradio.FileData"}}
    )
    assert "ann" in reply["output"]["data"][0]  # who has no sheet


def test_large_requests_are_refused(study):
    visitor = Visitor(study.url)
    visitor.http.get(study.owner.link(study.url))
    large = {"data": ["x" * 2_000_000], "fn_index": 0, "session_hash": "large"}
    assert visitor.http.post("/gradio_api/queue/join", json=large).status_code == 413
    parts = iter([b"{", b"}"])  # sent in chunks, without a length
    assert visitor.http.post("/gradio_api/queue/join", content=parts).status_code == 411
    files = {"files": ("sheets.csv", "x" * 10_500_000, "text/csv")}
    assert visitor.http.post("/gradio_api/upload", files=files).status_code == 413


def begin(visitor: Visitor, participant: str) -> str:
    """The study's page for a participant who asks for a solution."""
    event = visitor.event("study-go")
    values = dict(zip(visitor.outputs(event), visitor.call(event, participant)["output"]["data"]))
    return values[visitor.component("study-panel")]


def test_participants_are_limited_by_address_and_in_all(serve_study, arithmetic_run, tmp_path, monkeypatch):
    monkeypatch.setattr(pvg_hf.experimental.study.page, "Newcomers", lambda: Newcomers(limit=3))
    owner = Owner()
    url, _ = serve_study(arithmetic_run, folder=tmp_path / "study", num_solutions=4, max_participants=5, owner=owner)
    visitor = Visitor(url)
    shown = [begin(visitor, f"p{number}") for number in range(4)]
    assert ["countdown" in panel for panel in shown] == [True, True, True, False]
    assert "More than 3 new participants" in shown[3]
    assert "countdown" in begin(visitor, "p0")  # who is known already
    visitor.http.get(owner.link(url))
    event = visitor.event("draw-sheets")
    for number, is_drawn in ((3, False), (2, True)):
        values = dict(zip(visitor.outputs(event), visitor.call(event, number)["output"]["data"]))
        assert ("has 2 free places" in values[visitor.component("sheets-drawn")]) != is_drawn
    assert len((tmp_path / "study" / "sheets.jsonl").read_text().splitlines()) == 5


def test_newcomers_of_the_last_hour_are_counted():
    now = [0.0]
    newcomers = Newcomers(clock=lambda: now[0])
    for _ in range(NEW_PARTICIPANTS_PER_HOUR):
        newcomers.admit("10.0.0.1")
    newcomers.admit("10.0.0.2")
    with pytest.raises(ValueError, match="More than 60"):
        newcomers.admit("10.0.0.1")
    now[0] = 3601
    newcomers.admit("10.0.0.1")


@pytest.mark.parametrize(
    ("host", "forwarded", "on_space", "address"),
    [
        ("10.0.0.1", None, False, "10.0.0.1"),
        ("10.0.0.1", "10.0.0.9", False, "10.0.0.1"),  # anybody can write the header
        ("10.0.0.1", "invented, 10.0.0.9", True, "10.0.0.9"),
        ("2001:db8:1:2:3:4:5:6", None, False, "2001:db8:1:2::/64"),
        ("testclient", None, False, "testclient"),
    ],
)
def test_the_address_of_a_visitor(host, forwarded, on_space, address, monkeypatch):
    if on_space:
        monkeypatch.setenv("SPACE_ID", "org/app")
    headers = {} if forwarded is None else {"x-forwarded-for": forwarded}
    request = SimpleNamespace(client=SimpleNamespace(host=host), headers=headers)
    assert address_of(SimpleNamespace(request=request)) == address


def connection(login: dict | None) -> HTTPConnection:
    return HTTPConnection({"type": "http", "headers": [], "session": {} if login is None else {"oauth_info": login}})


@pytest.mark.parametrize(
    ("user", "seconds", "is_owner"),
    [
        ({"preferred_username": "lab"}, 60, True),
        ({"preferred_username": "lab"}, -60, False),  # the login is over
        ({"preferred_username": "ana", "orgs": [{"preferred_username": "lab", "roleInOrg": "write"}]}, 60, True),
        ({"preferred_username": "ana", "orgs": [{"preferred_username": "lab", "roleInOrg": "read"}]}, 60, False),
        ({"preferred_username": "ana", "orgs": [{"preferred_username": "other", "roleInOrg": "admin"}]}, 60, False),
        ({"preferred_username": "ana"}, 60, False),
    ],
)
def test_the_logged_in_user_of_a_space_is_identified(user, seconds, is_owner):
    login = {"userinfo": user, "expires_at": time.time() + seconds}
    assert Owner(account="lab").sent(connection(login)) == is_owner
    assert not Owner().sent(connection(login))  # an app that is on no Space has no login


def test_a_space_with_oauth_names_its_author(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "lab/app")
    assert Owner.from_environment().account is None  # made without `hf_oauth`
    monkeypatch.setenv("OAUTH_CLIENT_ID", "id")
    assert Owner.from_environment().account == "lab"


def test_tokens_are_drawn_and_not_shown():
    assert Owner().token != Owner().token
    owner = Owner("secret")
    assert "secret" not in repr(owner)
    assert "secret" not in owner.cookie
    assert owner.has_token("secret")
    assert not owner.has_token("Secret")
    assert not owner.has_token("")
