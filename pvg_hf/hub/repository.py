"""A repository on the Hub: reads its tags and files, and updates them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TypedDict, TypeVar

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, RepoFile, get_token
from huggingface_hub.utils.sha import git_hash, sha_fileobj

from pvg_hf.core.hub_access import NO_ACCESS_TOKEN, HubError, ask_hub

Result = TypeVar("Result")

Source = Path | bytes

Tree = dict[str, RepoFile]

_RECIPE_REMEDY = (
    "the recipe wants it private (`hub.private`). Make it private on the Hub, set `hub.private: false`, or give the "
    "run another `hub.run_name`."
)

_WANTED_PRIVATE = {
    "model": _RECIPE_REMEDY,
    "dataset": _RECIPE_REMEDY,
    "space": (
        "this Space is to be private. Make it private on the Hub, ask for a public one (`hub.private: false` in the"
        " recipe, `--public` of `pvg space`), or take another name."
    ),
}


class _Place(TypedDict):
    repo_id: str
    repo_type: str


@dataclass(frozen=True)
class Repository:
    """A repository on the Hub. `repo_type` is `model`, `dataset` or `space`; the client finds the token by itself."""

    api: HfApi
    repo_id: str
    repo_type: str

    @property
    def _place(self) -> _Place:
        return {"repo_id": self.repo_id, "repo_type": self.repo_type}

    def ensure(self, *, is_private: bool) -> str:
        """
        Create the repository if it does not exist, and return its URL.

        Raises:
            HubError: if no token is set, or the Hub refuses.
            ValueError: if it is public but should be private.
        """
        if get_token() is None:
            raise HubError(f"{self.repo_id} cannot be made or written: {NO_ACCESS_TOKEN}.")
        sdk = "gradio" if self.repo_type == "space" else None
        create = self.api.create_repo
        url = self._run("is made", lambda: create(**self._place, private=is_private, space_sdk=sdk, exist_ok=True))
        if is_private and not self.is_private():
            wanted = _WANTED_PRIVATE[self.repo_type]
            raise ValueError(f"The repository {self.repo_id} is public, and {wanted}")
        return str(url)

    def is_private(self) -> bool:
        return bool(self._run("is read", lambda: self.api.repo_info(**self._place)).private)

    def tags(self) -> dict[str, str]:
        """Commit of each tag, by name."""
        refs = self._run("is read", lambda: self.api.list_repo_refs(**self._place))
        return {tag.name: tag.target_commit for tag in refs.tags}

    def tree(self, revision: str) -> Tree:
        """Files of a revision, by path."""

        return self._run(f"is listed at {revision}", lambda: self._list(revision))

    def upload(self, files: Mapping[str, Source], is_ours: Callable[[str], bool], message: str) -> str:
        """
        Update `main` to `files`, by path, in one commit, and return it; the current one if nothing changed.

        Unchanged files are not sent again. `is_ours` says whether a path that is not in `files` is removed.
        """

        def commit() -> str:
            head = self.api.repo_info(**self._place, revision="main").sha
            assert head is not None  # only a request for some properties leaves it out
            tree = self._list(head)
            changed = [path for path, source in files.items() if not is_same(source, tree.get(path))]
            gone = [path for path in tree if path not in files and is_ours(path)]
            if not changed and not gone:
                return head
            operations: list[CommitOperationAdd | CommitOperationDelete]
            operations = [CommitOperationAdd(path, files[path]) for path in changed]
            operations += [CommitOperationDelete(path) for path in gone]
            # If somebody else has committed in the meantime, the Hub refuses `parent_commit`, and the retry compares
            # again.
            return self.api.create_commit(
                **self._place, operations=operations, commit_message=message, parent_commit=head
            ).oid

        return self._run("is written", commit)

    def set_tag(self, name: str, commit: str) -> None:
        """Tag a commit. An existing tag of this name stays, even if it is on another commit."""

        create = self.api.create_tag
        self._run(f"is tagged {name}", lambda: create(**self._place, tag=name, revision=commit, exist_ok=True))

    def remove_tag(self, name: str) -> None:
        self._run(f"loses its tag {name}", lambda: self.api.delete_tag(**self._place, tag=name))

    def _list(self, revision: str) -> Tree:
        entries = self.api.list_repo_tree(**self._place, revision=revision, recursive=True)
        return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}

    def _run(self, what: str, action: Callable[[], Result]) -> Result:
        return ask_hub(f"{self.repo_id} {what}", action)


def is_same(source: Source, remote: RepoFile | None) -> bool:
    """Whether a file on the Hub has the same bytes as `source`."""
    if remote is None or remote.size != _size(source):  # cheap, and decides most cases without hashing
        return False
    # The Hub identifies large files by SHA-256, and all others by Git's blob hash.
    if remote.lfs is not None:
        return remote.lfs.sha256 == _sha256(source)
    return remote.blob_id == git_hash(source if isinstance(source, bytes) else source.read_bytes())


def _size(source: Source) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def _sha256(source: Source) -> str:
    if isinstance(source, bytes):
        return sha_fileobj(BytesIO(source)).hex()
    return _sha256_of_file(source, source.stat().st_mtime_ns)


@lru_cache(maxsize=4096)
def _sha256_of_file(path: Path, mtime_ns: int) -> str:
    # Cached, because weights are large and are compared before and after an upload.
    with path.open("rb") as file:
        return sha_fileobj(file).hex()
