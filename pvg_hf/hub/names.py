"""What a run's repositories are called."""

import re
from dataclasses import dataclass

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

PLAYERS = ("prover", "verifier")
BASES = {player: f"{player}-base" for player in PLAYERS}  # of weights under adapters that are nowhere else on the Hub
SOLUTIONS = "solutions"
TAG = re.compile(r"round-\d{3,}")  # of a published round


@dataclass(frozen=True)
class RunRepos:
    """
    The repositories of a run: those of its two players and of the solutions, and of the weights under adapters.

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
        for repo_id in map(self.repo_id, (*PLAYERS, *BASES.values(), SOLUTIONS)):
            try:
                validate_repo_id(repo_id)
            except HFValidationError as err:
                raise ValueError(f"`{repo_id}` is no name that the Hub takes: {err}") from err

    def __str__(self) -> str:
        return f"{self.namespace}/{self.run}"

    def repo_id(self, kind: str) -> str:
        """The repository of `prover`, `verifier`, `prover-base`, `verifier-base` or `solutions`."""
        return f"{self.namespace}/{self.run}-{kind}"

    def player(self, name: str) -> str:
        """The model repository of `prover` or `verifier`."""
        return self.repo_id(name)

    def base(self, player: str) -> str:
        """The model repository of the weights under the adapters of `prover` or `verifier`."""
        return self.repo_id(BASES[player])

    @property
    def solutions(self) -> str:
        """The dataset repository."""
        return self.repo_id(SOLUTIONS)

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
