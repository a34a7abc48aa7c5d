"""Access control: recognises the owner of a study, and limits new participants from one address."""

import hashlib
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import parse_qs, urlencode

import gradio as gr
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response

from pvg_hf.app.access import Gate

OWNER_PAGE = "owner"

NEW_PARTICIPANTS_PER_HOUR = 60
"""Limit for one address: enough for a class that shares it, too few for a program that invents participants."""

_ROLES = ("admin", "write")  # roles in an organisation that count as owners of its Spaces


def is_space() -> bool:
    return "SPACE_ID" in os.environ


@dataclass(frozen=True)
class Owner:
    """
    The owner of the app.

    A visitor is the owner after opening the link with the token, which is then kept in a cookie. On a Space with
    `hf_oauth`, the Space's author, and members of its organisation with write access, are also owners after login.

    Args:
        token: The secret token; random by default.
        account: Author of the Space; `None` if there is no login.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    account: str | None = None

    @classmethod
    def from_environment(cls) -> "Owner":
        """Create the owner for this process. On a Space, the environment names its author."""
        has_login = is_space() and "OAUTH_CLIENT_ID" in os.environ
        return cls(account=os.environ["SPACE_ID"].partition("/")[0] if has_login else None)

    @property
    def cookie(self) -> str:
        """Name of the cookie; it differs between two apps on one machine."""
        return f"pvg-owner-{hashlib.sha256(self.token.encode()).hexdigest()[:8]}"

    def link(self, url: str) -> str:
        """Address that makes the visitor who opens it the owner."""
        return f"{url.rstrip('/')}/{OWNER_PAGE}?{urlencode({'token': self.token})}"

    def has_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())

    def sent(self, connection: HTTPConnection) -> bool:
        """Whether a request comes from the owner."""
        return self.has_token(connection.cookies.get(self.cookie, "")) or self._has_logged_in(
            connection.scope.get("session", {})
        )

    def check(self, request: gr.Request) -> None:
        """Refuse an event that does not come from the owner. Raises `gr.Error` if it does not."""
        if not self.sent(request.request):
            raise gr.Error(self.advice, duration=None, print_exception=False)

    @property
    def advice(self) -> str:
        """Message for visitors who are not the owner."""
        if self.account is None:
            return "This part is the owner's: open the link that the app printed when it started."
        return f"This part is the owner's: log in as {self.account}, or open the link in the Space's log."

    def _has_logged_in(self, session: Mapping[str, Any]) -> bool:
        login = session.get("oauth_info")
        if self.account is None or login is None or (login.get("expires_at") or 0) < time.time():
            return False
        user = login["userinfo"]
        organisations = [org["preferred_username"] for org in user.get("orgs") or () if org.get("roleInOrg") in _ROLES]
        return self.account in (user["preferred_username"], *organisations)


class StudyGate(Gate):
    """
    Turns the owner's link into a cookie, and refuses uploads by others.

    Args:
        owner: The owner, who may upload filled-in sheets.
    """

    def __init__(self, app: Callable, owner: Owner):
        super().__init__(app)
        self._owner = owner

    def refuse_upload(self, connection: HTTPConnection) -> str | None:
        return None if self._owner.sent(connection) else self._owner.advice

    def answer(self, connection: HTTPConnection) -> Response | None:
        if connection.scope["path"].rstrip("/").endswith(f"/{OWNER_PAGE}"):
            tokens = parse_qs(connection.url.query).get("token", [""])
            return self._admit() if self._owner.has_token(tokens[0]) else None
        return super().answer(connection)

    def _admit(self) -> RedirectResponse:
        # Redirect without the token, so that it is not visible in the address bar.
        response = RedirectResponse(OWNER_PAGE, status_code=303)
        response.set_cookie(self._owner.cookie, self._owner.token, httponly=True, samesite="lax")
        return response


class Newcomers:
    """
    Limits the number of new participants per address and hour.

    Args:
        limit: Maximum number of new participants from one address within an hour.
    """

    def __init__(self, limit: int = NEW_PARTICIPANTS_PER_HOUR, clock: Callable[[], float] = time.monotonic):
        self._limit, self._clock = limit, clock
        self._came: dict[str, deque[float]] = {}

    def admit(self, address: str) -> None:
        """Count a new participant. Raises `ValueError` if the address has reached the limit."""
        now = self._clock()
        for times in self._came.values():
            while times and times[0] <= now - 3600:
                times.popleft()
        self._came = {place: times for place, times in self._came.items() if times}
        times = self._came.setdefault(address, deque())
        if len(times) >= self._limit:
            raise ValueError(
                f"More than {self._limit} new participants came from your network's address within an hour. Please try"
                " again later."
            )
        times.append(now)


def address_of(request: gr.Request) -> str:
    """
    Address of a visitor, for [`Newcomers`]; the /64 network for IPv6.

    On a Space, the last entry of `X-Forwarded-For` is from the proxy. Earlier entries can be forged by the visitor.
    """
    text = request.request.client.host
    if is_space():
        text = request.request.headers.get("x-forwarded-for", text).rpartition(",")[2].strip()
    try:
        address = ip_address(text)
    except ValueError:
        return text
    return str(address) if address.version == 4 else str(ip_network((address, 64), strict=False))
