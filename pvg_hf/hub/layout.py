"""Names of a run's repositories, and which files of its folder go where. A file that no pattern names is neither published nor downloaded."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.data.schema import round_name
from pvg_hf.models.value_model import CRITIC_FOLDER

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


ROUND = r"(?P<round>round-\d{3,})"

SIDE = "(helpful|sneaky)"

# Of a player's repository: the weights that each round starts from, if the player is trained whole; those under adapters are
# in a repository of their own, and were here in earlier versions.
BASE_FOLDER = "base"

CARD = "README.md"

RECIPE = "recipe.yaml"

PROMPTS = "prompts.json"  # of a prover's repository: the template of each role

_MODEL_FILE = (
    r"(model(-\d{5}-of-\d{5})?\.safetensors|adapter_model\.safetensors|model\.safetensors\.index\.json"
    r"|(config|generation_config|adapter_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json"
    r"|(chat_template|quantization|verifier_input|score_verifier|validation|calibration)\.json|chat_template\.jinja"
    r"|merges\.txt|vocab\.txt|tokenizer\.model|spiece\.model)"
)

_CHECKPOINT = rf"(best-helpful/|{SIDE}/(best-helpful/)?)?"  # of a prover; PPO's critic lies beside each

_PLACES = {
    "prover": rf"({BASE_FOLDER}/|{_CHECKPOINT}({CRITIC_FOLDER.as_posix()}/)?)",
    "verifier": rf"({BASE_FOLDER}/)?",
}

_MODELS = {player: re.compile(place + _MODEL_FILE) for player, place in _PLACES.items()}

# The solutions' repository has the run's own paths.
_RECORDS = re.compile(
    "|".join(
        (
            r"recipe\.yaml|run\.json",
            r"models/(metrics\.jsonl|phase\.json)",
            rf"pool/(base|{ROUND})/((base|(test-)?{SIDE}|test-best-helpful|heldout-helpful)\.parquet|metrics\.jsonl|phase\.json"
            r"|labels/((labels|evidence)\.jsonl|settings\.json|review\.csv))",
        )
    )
)

_RECORDS_OF_ROUND = tuple(
    re.compile(pattern)
    for pattern in (
        rf"verifier/{ROUND}/((metrics\.jsonl|(phase|pairs|calibration)\.json)|heldout\.parquet)",
        rf"prover/{ROUND}/(metrics\.jsonl|(phase|recovery)\.json|{SIDE}/(steps\.jsonl|recovery\.json))",
        rf"evaluation/{ROUND}/(metrics\.jsonl?|(phase|answering)\.json|(problems|evaluations)\.parquet)",
    )
)

_PAIRS = re.compile(rf"pairs/{ROUND}/(train|heldout)\.parquet")

# What may differ between two publications of one round: by the package's version, by what a recipe may change, by the clock.
_DERIVED = re.compile(
    r"README\.md|recipe\.yaml|run\.json|prompts\.json|(pairs|base)/.*|(.*/)?(phase|adapter_config)\.json"
)


def is_record(path: str, round_index: int) -> bool:
    """Whether a path of a run's folder is published with the solutions of a round, or of an earlier one."""
    found = next((match for pattern in (_RECORDS, *_RECORDS_OF_ROUND) if (match := pattern.fullmatch(path))), None)
    return found is not None and _is_in(found["round"], round_index)


def is_ours(kind: str, path: str) -> bool:
    """Whether a path of a repository is one that publishing writes; others are left alone."""
    if path in (CARD, RECIPE) or (kind == "prover" and path == PROMPTS):
        return True
    if kind in PLAYERS:
        return _MODELS[kind].fullmatch(path) is not None
    if kind in BASES.values():
        return re.fullmatch(_MODEL_FILE, path) is not None
    return _PAIRS.fullmatch(path) is not None or any(p.fullmatch(path) for p in (_RECORDS, *_RECORDS_OF_ROUND))


def is_result(path: str) -> bool:
    """Whether a published file tells what was played, rather than being derived from that."""
    return _DERIVED.fullmatch(path) is None


def record_files(run_folder: Path, round_index: int) -> dict[str, Path]:
    """The files of a run that are published with the solutions of a round, by their path in the repository."""
    return {path: file for path, file in _files(run_folder) if is_record(path, round_index)}


def player_files(folder: Path, player: str) -> dict[str, Path]:
    """The files of a trained player's folder that are published, by their path in its repository."""
    return {path: file for path, file in _files(folder) if _MODELS[player].fullmatch(path)}


def base_files(folder: Path) -> dict[str, Path]:
    """The files of the weights in a folder that are published."""
    return {path: file for path, file in _files(folder) if re.fullmatch(_MODEL_FILE, path)}


def place_of_record(path: str, round_index: int) -> str | None:
    """Where a file of the solutions' repository lies in the run's folder; `None` if it is not pulled."""
    return path if is_record(path, round_index) else None


def place_of_base(player: str, path: str) -> str | None:
    """Where a file of the repository of the weights under a player's adapters lies in the run's folder; `None` if it is not pulled."""
    return f"models/{player}/{path}" if re.fullmatch(_MODEL_FILE, path) else None


def place_of_player(
    player: str, path: str, round_index: int, *, has_own_base: bool, is_separate: bool = False
) -> str | None:
    """
    Where a file of a player's repository lies in the run's folder.

    Args:
        player (`str`):
            `prover` or `verifier`.
        path (`str`):
            In the repository.
        round_index (`int`):
            That is pulled.
        has_own_base (`bool`):
            Whether the run made the player's first weights itself.
        is_separate (`bool`, defaults to `False`):
            Whether each role has a folder of its own; what lies at the root is then a copy of the helpful one.

    Returns:
        `str` or `None`: a path; `None` if the file is not pulled.
    """
    if not _MODELS[player].fullmatch(path):
        return None
    folder, _, rest = path.partition("/")
    if is_separate and folder not in (BASE_FOLDER, *GAME_ROLES):
        return None
    if folder != BASE_FOLDER:
        return f"{player}/{round_name(round_index)}/{path}"
    return f"models/{player}/{rest}" if has_own_base else None


def _is_in(name: str | None, round_index: int) -> bool:
    return name is None or int(name.removeprefix("round-")) <= round_index


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file
