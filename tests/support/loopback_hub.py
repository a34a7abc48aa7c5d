"""
A Hub in memory that the real client talks to over HTTP: repositories, commits, large files, tags. Weights and Parquet
files are kept as large files, which are served by another origin than the rest, as on the real one.

What it does not have: permissions beyond one token, Xet, checks of cards, builds of Spaces.
"""

import asyncio
import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import uvicorn

from tests.support.stored_repos import Blob, Repo, git_oid

TOKEN = "hf_loopback_token_that_must_not_be_seen"
OWNER = "ana"
TYPES = {"models": "model", "datasets": "dataset", "spaces": "space"}
LARGE = re.compile(r".*\.(safetensors|parquet|bin|model)")
Json = dict[str, Any] | list[Any]


@dataclass
class Fault:
    """
    Something that goes wrong with a request.

    Args:
        pattern (`str`):
            Of `METHOD PATH`.
        status (`int`, *optional*), headers (`dict[str, str]`):
            The answer.
        count (`int`):
            How many requests it meets.
        skip (`int`):
            How many it lets pass before.
        is_after (`bool`):
            Whether the request is carried out before it is answered so.
        drops (`bool`):
            Whether the connection breaks while the body is being sent.
        change (`Callable`, *optional*):
            Of a download's body: another body, of which the announced length is sent or less.
        act (`Callable`, *optional*):
            Done before the request is carried out.
    """

    pattern: str
    status: int | None = None
    count: int = 1
    skip: int = 0
    is_after: bool = False
    drops: bool = False
    change: Callable[[bytes], bytes] | None = None
    act: Callable[[], None] | None = None
    headers: dict[str, str] = field(default_factory=dict)


class HttpError(Exception):
    def __init__(self, status: int, code: str = "", message: str = ""):
        self.status = status
        self.headers = {"X-Error-Code": code, "X-Error-Message": message}


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def as_json(value: Json, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


class LoopbackHub:
    """An ASGI application; `repos` has what was published, by type and name."""

    def __init__(self):
        self.repos: dict[tuple[str, str], Repo] = {}
        self.large: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.tokens = {TOKEN}
        self.token_rights: dict[str, Any] = {"role": "write"}
        self.port = 0

    def reset(self) -> None:
        for kept in (self.repos, self.large, self.faults, self.requests):
            kept.clear()
        self.tokens = {TOKEN}
        self.token_rights = {"role": "write"}

    def repo(self, name: str) -> Repo:
        """Return a repository by its name without the owner."""
        return next(repo for (_, repo_id), repo in self.repos.items() if repo_id.endswith(f"/{name}"))

    def state(self) -> dict[str, Any]:
        """Everything promised after a publication: the files of each tag and of `main`."""
        return {
            repo_id: {revision: repo.files(revision) for revision in ("main", *sorted(repo.tags))}
            for (_, repo_id), repo in self.repos.items()
        }

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        method, path = scope["method"], scope["raw_path"].decode()
        self.requests.append(f"{method} {path}")
        fault = self._fault(f"{method} {path}")
        if fault and fault.drops:
            await receive()
            receive.__self__.transport.abort()  # uvicorn's connection
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        query = scope["query_string"].decode()
        answer = self._answer(fault, method, path, query, headers, body)
        await self._send(answer, fault, method, send)

    def _fault(self, request: str) -> Fault | None:
        for fault in self.faults:
            if fault.count > 0 and re.search(fault.pattern, request):
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.count -= 1
                return fault
        return None

    def _answer(self, fault, method, path, query, headers, body) -> Answer:
        if fault and fault.act:
            fault.act()
        if fault and fault.status and not fault.is_after:
            return Answer(fault.status, b"{}", dict(fault.headers))
        try:
            answer = self._route(method, path, query, headers, body)
        except HttpError as err:
            answer = Answer(err.status, json.dumps({"error": err.headers["X-Error-Message"]}).encode(), err.headers)
        return Answer(fault.status, b"{}", dict(fault.headers)) if fault and fault.status else answer

    async def _send(self, answer: Answer, fault: Fault | None, method: str, send) -> None:
        length = answer.headers.pop("Content-Length", str(len(answer.body)))
        body = fault.change(answer.body) if fault and fault.change else answer.body
        headers = {**answer.headers, "Content-Length": length}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items() if value]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        if method == "HEAD":
            body = b""
        is_short = method != "HEAD" and len(body) < int(length)
        await send({"type": "http.response.body", "body": body, "more_body": is_short})
        if is_short:
            await asyncio.sleep(0.05)
            send.__self__.transport.abort()

    def _route(self, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> Answer:
        if match := re.fullmatch(r"/blobs/([0-9a-f]{64})", path):
            return self._blob(method, match[1], headers, body)
        self._authorise(headers)
        if path == "/api/whoami-v2":
            token = {"displayName": "loopback", **self.token_rights}
            return as_json({"name": OWNER, "type": "user", "orgs": [], "auth": {"accessToken": token}})
        if path == "/api/validate-yaml":
            return as_json({"errors": [], "warnings": []})
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if match := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            return self._batch(json.loads(body))
        if match := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._resolve(self._find(match[1] or "models", match[2]), unquote(match[3]), unquote(match[4]))
        if match := re.fullmatch(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)(/.*)?", path):
            repo = self._find(match[1], match[2])
            return self._api(method, match[2], repo, match[3] or "", query, body)
        raise HttpError(404, "EntryNotFound", f"no route {path}")

    def _authorise(self, headers: dict[str, str]) -> None:
        """Check the token, as every repository is private."""
        if headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            raise HttpError(401, message="Invalid credentials in Authorization header")

    def _find(self, kind: str, repo_id: str) -> Repo:
        repo = self.repos.get((TYPES[kind], repo_id))
        if repo is None:
            raise HttpError(404, "RepoNotFound", "Repository not found")
        return repo

    def _create(self, order: dict[str, Any]) -> Answer:
        repo_id = f"{order['organization'] or OWNER}/{order['name']}"
        kind = order.get("type", "model")
        prefix = {"model": "", "dataset": "datasets/", "space": "spaces/"}[kind]
        url = f"http://127.0.0.1:{self.port}/{prefix}{repo_id}"
        if (kind, repo_id) in self.repos:
            return as_json({"url": url, "error": "You already created this repo"}, 409)
        repo = Repo(is_private=order.get("visibility") == "private")
        repo.commit({".gitattributes": Blob(b"*.safetensors filter=lfs\n", False)})
        self.repos[kind, repo_id] = repo
        return as_json({"url": url})

    def _api(self, method: str, repo_id: str, repo: Repo, rest: str, query: str, body: bytes) -> Answer:
        name, _, argument = rest.strip("/").partition("/")
        if method == "GET" and name in ("", "revision"):
            return as_json(self._info(repo_id, repo, unquote(argument) or "main"))
        if method == "GET" and name == "refs":
            return as_json(self._refs(repo))
        if method == "GET" and name == "tree":
            return self._tree(repo, argument, is_recursive="recursive=True" in query or "recursive=true" in query)
        if name == "preupload":
            files = json.loads(body)["files"]
            return as_json({"files": [self._upload_mode(file["path"]) for file in files]})
        if name == "paths-info":
            return self._paths_info(repo, unquote(argument), body)
        if name == "commit":
            return self._commit(repo, [json.loads(line) for line in body.splitlines()])
        if name == "tag":
            return self._tag(method, repo, unquote(argument), body)
        raise HttpError(404, "EntryNotFound", f"no route {method} {rest}")

    def _info(self, repo_id: str, repo: Repo, revision: str) -> Json:
        sha = self._sha(repo, revision)
        siblings = [{"rfilename": path} for path in repo.commits[sha]]
        return {"id": repo_id, "sha": sha, "private": repo.is_private, "siblings": siblings, "tags": []}

    def _sha(self, repo: Repo, revision: str) -> str:
        sha = repo.find(revision)
        if sha is None:
            raise HttpError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return sha

    def _refs(self, repo: Repo) -> Json:
        tags = [{"name": n, "ref": f"refs/tags/{n}", "targetCommit": sha} for n, sha in repo.tags.items()]
        branch = {"name": "main", "ref": "refs/heads/main", "targetCommit": repo.log[-1]}
        return {"branches": [branch], "converts": [], "tags": tags}

    def _tree(self, repo: Repo, argument: str, *, is_recursive: bool) -> Answer:
        revision, _, folder = argument.partition("/")
        tree = repo.commits[self._sha(repo, unquote(revision))]
        prefix = f"{unquote(folder).rstrip('/')}/" if folder else ""
        inside = {path: blob for path, blob in tree.items() if path.startswith(prefix)}
        if prefix and not inside:
            raise HttpError(404, "EntryNotFound", f"{folder} does not exist")
        files = [b.describe(p) for p, b in inside.items() if is_recursive or "/" not in p.removeprefix(prefix)]
        folders = {
            prefix + "/".join(parts[:depth])
            for parts in (path.removeprefix(prefix).split("/") for path in inside)
            for depth in range(1, len(parts))
            if is_recursive or depth == 1
        }
        return as_json([*files, *({"type": "directory", "path": p, "oid": git_oid(p.encode())} for p in folders)])

    def _upload_mode(self, path: str) -> Json:
        return {"path": path, "uploadMode": "lfs" if LARGE.fullmatch(path) else "regular", "shouldIgnore": False}

    def _paths_info(self, repo: Repo, revision: str, body: bytes) -> Answer:
        tree = repo.commits[self._sha(repo, revision)]
        wanted = [unquote(pair.partition("=")[2].replace("+", " ")) for pair in body.decode().split("&")]
        found = [tree[path].describe(path) for path in wanted if path in tree]
        folders = [p for p in wanted if p not in tree and any(path.startswith(f"{p}/") for path in tree)]
        return as_json([*found, *({"type": "directory", "path": p, "oid": git_oid(p.encode())} for p in folders)])

    def _commit(self, repo: Repo, lines: list[dict[str, Any]]) -> Answer:
        header, *operations = lines
        parent = header["value"].get("parentCommit")
        if parent is not None and parent != repo.log[-1]:
            raise HttpError(412, message="A commit has happened since. Please refresh and try again.")
        files = dict(repo.commits[repo.log[-1]])
        for operation in operations:
            kind, value = operation["key"], operation["value"]
            if kind == "file":
                files[value["path"]] = Blob(base64.b64decode(value["content"]), False)
            elif kind == "lfsFile":
                if value["oid"] not in self.large:
                    raise HttpError(400, message=f"{value['path']} was not uploaded")
                files[value["path"]] = Blob(self.large[value["oid"]], True)
            elif kind == "deletedFile":
                del files[value["path"]]
            else:
                raise HttpError(400, message=f"unknown operation {kind}")
        sha = repo.commit(files)
        return as_json({"commitOid": sha, "commitUrl": f"http://127.0.0.1:{self.port}/x/y/commit/{sha}"})

    def _tag(self, method: str, repo: Repo, argument: str, body: bytes) -> Answer:
        if method == "DELETE":
            if argument not in repo.tags:
                raise HttpError(404, "RevisionNotFound", f"no tag {argument}")
            del repo.tags[argument]
            return Answer()
        name = json.loads(body)["tag"]
        if name in repo.tags:
            raise HttpError(409, message="Tag reference exists already")
        repo.tags[name] = self._sha(repo, argument)
        return Answer()

    def _batch(self, order: dict[str, Any]) -> Answer:
        objects = []
        for wanted in order["objects"]:
            href = f"http://localhost:{self.port}/blobs/{wanted['oid']}"
            actions = {} if wanted["oid"] in self.large else {"actions": {"upload": {"href": href, "header": {}}}}
            objects.append({"oid": wanted["oid"], "size": wanted["size"], **actions})
        return as_json({"transfer": "basic", "objects": objects})

    def _blob(self, method: str, sha256: str, headers: dict[str, str], body: bytes) -> Answer:
        if method == "PUT":
            if hashlib.sha256(body).hexdigest() != sha256:
                raise HttpError(400, message="checksum")
            self.large[sha256] = body
            return Answer()
        return self._serve(self.large[sha256], headers)

    def _serve(self, content: bytes, headers: dict[str, str]) -> Answer:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        if not match:
            return Answer(200, content)
        start, end = int(match[1]), int(match[2] or len(content) - 1)
        return Answer(206, content[start : end + 1], {"Content-Range": f"bytes {start}-{end}/{len(content)}"})

    def _resolve(self, repo: Repo, revision: str, path: str) -> Answer:
        sha = self._sha(repo, revision)
        blob = repo.commits[sha].get(path)
        common = {"X-Repo-Commit": sha}
        if blob is None:
            err = HttpError(404, "EntryNotFound", f"{path} does not exist")
            err.headers |= common
            raise err
        if not blob.is_large:
            return Answer(200, blob.content, {**common, "ETag": f'"{blob.etag}"'})
        linked = {"X-Linked-Etag": f'"{blob.etag}"', "X-Linked-Size": str(len(blob.content))}
        location = {"Location": f"http://localhost:{self.port}/blobs/{blob.sha256}"}
        return Answer(302, b"", {**common, **linked, **location})


@contextmanager
def serving(hub: LoopbackHub) -> Iterator[str]:
    """Serve in a thread; gives the address."""
    server = uvicorn.Server(uvicorn.Config(hub, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the loopback Hub did not start"
        threading.Event().wait(0.01)
    hub.port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{hub.port}"
    finally:
        server.should_exit = True
        thread.join(timeout=100)
