"""What a run's repositories are called."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

PLAYERS = ("prover", "verifier")
TAG = re.compile(r"round-\d{3,}")  # of a published round


@dataclass(frozen=True)
class RunRepos:
    """
    The three repositories of a run.

    Args:
        namespace (`str`):
            User or organisation.
        run (`str`):
            What the names begin with.

    Raises:
        ValueError: if the Hub would take no such names.
    """

    namespace: str
    run: str

    def __post_init__(self):
        for repo_id in (*map(self.player, PLAYERS), self.solutions):
            try:
                validate_repo_id(repo_id)
            except HFValidationError as err:
                raise ValueError(f"`{repo_id}` is no name that the Hub takes: {err}") from err

    def __str__(self) -> str:
        return f"{self.namespace}/{self.run}"

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Name and type of each repository; that of the solutions comes last, so that its tag says all is there."""
        yield from ((self.player(name), "model") for name in PLAYERS)
        yield self.solutions, "dataset"

    def player(self, name: str) -> str:
        """The model repository of `prover` or `verifier`."""
        return f"{self.namespace}/{self.run}-{name}"

    @property
    def solutions(self) -> str:
        """The dataset repository."""
        return f"{self.namespace}/{self.run}-solutions"

    @classmethod
    def parse(cls, text: str) -> "RunRepos":
        """
        Read `NAMESPACE/RUN`.

        Raises:
            ValueError: if it is something else.
        """
        namespace, slash, run = text.partition("/")
        if not slash or not namespace or not run or "/" in run:
            raise ValueError(f"A run on the Hub is named `NAMESPACE/RUN`, e.g. `ana/quickstart`; got {text!r}.")
        return cls(namespace, run)
