"""
Layout of a published run: the names of its repositories, and where each file of the run's folder goes.

The patterns are an allow list: a file that matches none of them is neither published nor downloaded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from pvg_hf.core.disk_names import CRITIC_FOLDER, ROUND_NAME, round_index_of, round_name
from pvg_hf.core.integrity import RECIPE_FILE
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.run.layout import (
    BEST_HELPFUL,
    CALL_SUMMARY,
    ENVIRONMENT,
    JUDGEMENT,
    JUDGING,
    LABELS,
    OF_PHASE,
    PHASE_RECORD,
    RECOVERY,
    RESULT_FILES,
    STEPS,
)
from pvg_hf.scoring.auto_label import EVIDENCE, LABEL_LOG, REVIEW, SETTINGS

PUBLISHED_PLAYERS = ("prover", "verifier")

# Repositories for the base weights of adapters that are nowhere else on the Hub.
BASES = {player: f"{player}-base" for player in PUBLISHED_PLAYERS}

SOLUTIONS = "solutions"


@dataclass(frozen=True)
class RunRepos:
    """Names of a run's repositories, which begin with `run`; a `ValueError` if the Hub does not allow one."""

    namespace: str
    run: str

    def __post_init__(self):
        for repo_id in map(self.repo_id, (*PUBLISHED_PLAYERS, *BASES.values(), SOLUTIONS)):
            try:
                validate_repo_id(repo_id)
            except HFValidationError as err:
                raise ValueError(f"`{repo_id}` is not a valid repository name on the Hub: {err}") from err

    def __str__(self) -> str:
        return f"{self.namespace}/{self.run}"

    def repo_id(self, kind: str) -> str:
        """Id of a repository. `kind` is `prover`, `verifier`, `prover-base`, `verifier-base` or `solutions`."""
        return f"{self.namespace}/{self.run}-{kind}"

    def base(self, player: str) -> str:
        """Id of the model repository with the base weights of the adapters of `prover` or `verifier`."""
        return self.repo_id(BASES[player])

    @property
    def solutions(self) -> str:
        """Id of the dataset repository."""
        return self.repo_id(SOLUTIONS)

    @classmethod
    def parse(cls, text: str) -> "RunRepos":
        """Parse `NAMESPACE/RUN`; a `ValueError` if `text` has another form."""
        namespace, slash, run = text.partition("/")
        if not slash or not namespace or not run or "/" in run:
            raise ValueError(f"A run on the Hub is named `NAMESPACE/RUN`, e.g. `ana/quickstart`; got {text!r}.")
        return cls(namespace, run)


ROUND = rf"(?P<round>{ROUND_NAME})"

SIDE = "(helpful|sneaky)"

# Folder in a player's repository with the weights that each round starts from, if the player is fully fine-tuned. The
# base weights of adapters have a separate repository.
BASE_FOLDER = "base"

CARD = "README.md"

PICTURE = "accepted.png"  # in every repository with a round's results, on its card

PROMPTS = "prompts.json"  # in a prover's repository: the prompt template of each role

_MODEL_FILE = (
    r"(model(-\d{5}-of-\d{5})?\.safetensors|adapter_model\.safetensors|model\.safetensors\.index\.json"
    r"|(config|generation_config|adapter_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens"
    r"|vocab)\.json"
    r"|(chat_template|quantization|verifier_input|score_verifier|validation|calibration)\.json|chat_template\.jinja"
    r"|merges\.txt|vocab\.txt|tokenizer\.model|spiece\.model)"
)

_CHECKPOINT = rf"({BEST_HELPFUL}/|{SIDE}/({BEST_HELPFUL}/)?)?"  # a prover's checkpoints; each may hold PPO's critic

_PLACES = {
    "prover": rf"({BASE_FOLDER}/|{_CHECKPOINT}({CRITIC_FOLDER.as_posix()}/)?)",
    "verifier": rf"({BASE_FOLDER}/)?",
}

_MODELS = {player: re.compile(place + _MODEL_FILE) for player, place in _PLACES.items()}


def _any_of(*names: str) -> str:
    return f"({'|'.join(map(re.escape, names))})"


# The solutions repository uses the same paths as the run's folder.
_FOLDERS = {"models": "models", "pool": f"pool/(base|{ROUND})"}
_RECORDS = tuple(
    re.compile(pattern)
    for pattern in (
        _any_of(RECIPE_FILE, ENVIRONMENT),
        *(
            f"{_FOLDERS.get(kind, f'{kind}/{ROUND}')}/{_any_of(*OF_PHASE, *files)}"
            for kind, files in RESULT_FILES.items()
        ),
        rf"{_FOLDERS['pool']}/{LABELS}/{_any_of(LABEL_LOG, EVIDENCE, SETTINGS, REVIEW)}",
        rf"prover/{ROUND}/{SIDE}/{_any_of(STEPS, RECOVERY)}",
        rf"{JUDGING}/\w+/{ROUND}/({_any_of(PHASE_RECORD, JUDGEMENT)}|\w+\.parquet)",
    )
)

_PAIRS = re.compile(rf"pairs/{ROUND}/(train|heldout)\.parquet")

# Files that may differ between two publications of one round: they depend on the package version, on recipe keys that
# may be changed during a run, or on the time (as the calls of a checker with a real clock, and evaluations that follow
# the round).
_DERIVED = re.compile(
    f"{_any_of(CARD, PICTURE, RECIPE_FILE, ENVIRONMENT, PROMPTS)}|(pairs|base|{JUDGING})/.*"
    f"|(.*/)?{_any_of(PHASE_RECORD, CALL_SUMMARY, 'adapter_config.json')}"
)


def is_record(path: str, round_index: int) -> bool:
    """
    Whether a path of a run's folder is published with the solutions of `round_index`, given it is of that round or
    earlier.
    """
    found = next((match for pattern in _RECORDS if (match := pattern.fullmatch(path))), None)
    if found is None:
        return False
    index = round_index_of(found.groupdict().get("round") or "")
    return index is None or index <= round_index


def is_ours(kind: str, path: str) -> bool:
    """Whether publishing manages a path of a repository; all other files in it are left alone."""
    if path in (CARD, PICTURE, RECIPE_FILE) or (kind == "prover" and path == PROMPTS):
        return True
    if kind in PUBLISHED_PLAYERS:
        return _MODELS[kind].fullmatch(path) is not None
    if kind in BASES.values():
        return re.fullmatch(_MODEL_FILE, path) is not None
    return _PAIRS.fullmatch(path) is not None or any(p.fullmatch(path) for p in _RECORDS)


def is_result(path: str) -> bool:
    """Whether a published file is a result of the game, rather than derived from results."""
    return _DERIVED.fullmatch(path) is None


def record_files(run_folder: Path, round_index: int) -> dict[str, Path]:
    """Files of a run that are published with the solutions of a round, by path in the repository."""
    return {path: file for path, file in _files(run_folder) if is_record(path, round_index)}


def player_files(folder: Path, player: str) -> dict[str, Path]:
    """Files of a trained player's folder that are published, by path in its repository."""
    return {path: file for path, file in _files(folder) if _MODELS[player].fullmatch(path)}


def base_files(folder: Path) -> dict[str, Path]:
    """Files of base weights in a folder that are published, by path in the repository."""
    return {path: file for path, file in _files(folder) if re.fullmatch(_MODEL_FILE, path)}


def place_of_base(player: str, path: str) -> str | None:
    """Path in the run's folder of a file of a player's base repository; `None` if it is not pulled."""
    return f"models/{player}/{path}" if re.fullmatch(_MODEL_FILE, path) else None


def place_of_player(
    player: str, path: str, round_index: int, *, has_own_base: bool, is_separate: bool = False
) -> str | None:
    """
    Path in the run's folder of a file of a player's repository, at a round; `None` if it is not pulled.

    `has_own_base` says whether the run made the player's first weights itself, `is_separate` whether each role has a
    separate folder. The files at the root are then a copy of the helpful role's.
    """
    if not _MODELS[player].fullmatch(path):
        return None
    folder, _, rest = path.partition("/")
    if is_separate and folder not in (BASE_FOLDER, *GAME_ROLES):
        return None
    if folder != BASE_FOLDER:
        return f"{player}/{round_name(round_index)}/{path}"
    return f"models/{player}/{rest}" if has_own_base else None


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file
