"""Finds a run by its folder or by its name on the Hub."""

import logging
import re
from pathlib import Path

from huggingface_hub import constants

from pvg_hf.core.hub_access import HubError
from pvg_hf.run.layout import RunFolder

logger = logging.getLogger(__name__)

PUBLISHED_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def is_published_name(source: str | Path) -> bool:
    """
    Whether `source` names a published run (`NAMESPACE/RUN`) rather than a path in `runs` or in an existing folder.
    """
    parent = Path(source).parent
    is_path = parent == Path("runs") or parent.is_dir()  # `runs` is where games are played, and a new clone has none
    return PUBLISHED_NAME.fullmatch(str(source)) is not None and not is_path


def find_local_run(source: str | Path) -> RunFolder | None:
    """
    The folder of a local run; `None` for the name of a published run. A `ValueError` if it is neither, or damaged.
    """
    if is_published_name(source) and not Path(source).exists():
        return None
    try:
        folder = RunFolder.find(Path(source))
    except ValueError as err:
        raise ValueError(f"{err} A published run is named `org/run`.") from err
    folder.read_recipe()
    return folder


def kept_folder(root: Path, *, cache: Path | None = None) -> Path:
    """
    Folder for files that belong to a run as a whole and not to one of its published rounds.

    It is the `root` that [`locate_run`] returned for the same `cache`, or, for a downloaded run, the parent folder of
    all its downloaded rounds.
    """
    places = (cache or Path(constants.HF_HOME)) / "pvg_hf"
    return places / root.relative_to(places).parts[0] if root.is_relative_to(places) and root != places else root


def locate_run(source: str | Path, *, with_provers: bool = True, cache: Path | None = None) -> Path:
    """
    Find a run's folder, or download the last published round of `NAMESPACE/RUN` once.

    The round is kept in the cache of the Hugging Face libraries, or in `cache`. A run downloaded without provers is
    cached separately. If the Hub cannot be reached, the last download is returned, with a warning. A folder may not
    exist if `source` is a path.

    Raises:
        HubError: if the Hub cannot be reached or refuses, and nothing was downloaded before.
        ValueError: if no such run is published.
    """
    folder = Path(source)
    if folder.exists() or not is_published_name(source):
        return folder
    from pvg_hf.hub.pull import published_commit, pull_round  # late: a folder is found without them, and thus at once

    whole = (cache or Path(constants.HF_HOME)) / "pvg_hf" / str(source).replace("/", "--")
    places = [whole] if with_provers else [whole, whole / "without-provers"]
    try:
        commit = published_commit(str(source))
    except HubError as err:
        found = [file for place in places for file in place.glob("*/*/recipe.yaml")]
        kept = max(found, key=lambda file: file.stat().st_mtime, default=None)
        if kept is None:
            raise
        logger.warning("%s Using the last download of %s; a later round may have been published.", err, source)
        return kept.parent
    kept = next((file for place in places for file in (place / commit).glob("*/recipe.yaml")), None)
    if kept is not None:
        return kept.parent
    return pull_round(str(source), output_dir=places[-1] / commit, with_provers=with_provers)
