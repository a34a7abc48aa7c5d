"""The loopback Hub's storage: repositories, their commits as whole trees, and files, some of them large."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass(frozen=True)
class Blob:
    content: bytes
    is_large: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_large else git_oid(self.content)

    def describe(self, path: str) -> dict[str, Any]:
        entry = {"type": "file", "path": path, "size": len(self.content), "oid": git_oid(self.content)}
        if self.is_large:
            pointer = (
                f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(self.content)}\n"
            )
            entry["oid"] = git_oid(pointer.encode())
            entry["lfs"] = {"oid": self.sha256, "size": len(self.content), "pointerSize": len(pointer)}
        return entry


@dataclass
class Repo:
    """Commits are kept as whole trees; `log` has those of `main`, the newest last."""

    is_private: bool
    commits: dict[str, dict[str, Blob]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, Blob]) -> str:
        history = json.dumps([self.log, sorted((path, blob.etag) for path, blob in files.items())])
        sha = hashlib.sha1(history.encode()).hexdigest()
        self.commits[sha] = files
        self.log.append(sha)
        return sha

    def find(self, revision: str) -> str | None:
        known = {"main": self.log[-1], **self.tags}
        return known.get(revision, revision if revision in self.commits else None)

    def files(self, revision: str = "main") -> dict[str, bytes]:
        """Contents by path, without the file that a new repository has."""
        tree = self.commits[self.find(revision)]
        return {path: blob.content for path, blob in tree.items() if path != ".gitattributes"}
