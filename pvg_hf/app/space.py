"""Publishes the app as a Space: writes its files into one folder, uploads them, and updates them after each round."""

import logging
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from huggingface_hub import HfApi, SpaceCard, SpaceCardData

from pvg_hf.app.header import describe_recipe
from pvg_hf.app.index import pool_files
from pvg_hf.config.sections import HubConfig
from pvg_hf.config.trust import write_origin
from pvg_hf.core.files import write_json
from pvg_hf.core.hub_access import HubError
from pvg_hf.core.integrity import DIGESTS, check_file
from pvg_hf.core.markdown import hub_link
from pvg_hf.core.shipped import PACKAGE, shipped_folder
from pvg_hf.game.context import GameCallback, PhaseContext
from pvg_hf.game.publish import run_on_main_process
from pvg_hf.hub.layout import PUBLISHED_PLAYERS, RunRepos
from pvg_hf.hub.local_paths import ADAPTER_CONFIG, published_base, published_judgement, published_recipe
from pvg_hf.hub.locate import find_local_run
from pvg_hf.hub.pull import published_commit
from pvg_hf.hub.repository import Repository
from pvg_hf.run.judgements import judgement_folders
from pvg_hf.run.layout import EVENTS, JUDGEMENT, RunFolder
from pvg_hf.run.phase_record import seal_copy
from pvg_hf.run.resume import read_played_recipe

logger = logging.getLogger(__name__)

# File types that the app reads. Formats based on pickle are left out, because they can run code.
_READ = {".json", ".jsonl", ".yaml", ".parquet", ".safetensors", ".jinja", ".model", ".txt"}

APP = "pvg_hf.app"

_SECTION = "<!-- section -->\n"  # separates the parts of the README


def build_space(run: str | Path, output: Path, options: tuple[str, ...] = (), *, app: str = APP) -> Path:
    """
    Write the files of a Space into a folder.

    They are those of `space_app/`, with what the run is in the README, `space.json` with the run and the options, a
    copy of the package, and the files of a local run that the app reads. A published run is downloaded when the Space
    starts.

    Args:
        output: An empty or new folder, which is also returned.
        options: Further arguments of the app.
        app: Package of the app; another one is `pvg_hf.experimental.study`.

    Raises `ValueError` if `output` is not empty, `run` is neither a run's folder nor such a name, or its recipe cannot
    be read.
    """
    if output.exists() and any(output.iterdir()):
        raise ValueError(f"{output} is not empty. Name an empty or a new folder.")
    folder, place = find_local_run(run), str(run)
    output.mkdir(parents=True, exist_ok=True)
    if folder is not None:
        place = f"runs/{folder.root.resolve().name}"
        _copy_run(folder, output / place)
        # The Space's visitors did not play the run themselves.
        write_origin(output / place, folder.root.resolve().name)
    caches = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(shipped_folder("space_app"), output, ignore=caches, dirs_exist_ok=True)
    shutil.copytree(PACKAGE, output / "pvg_hf", ignore=caches)
    glossary = output / "pvg_hf" / "glossary" / "glossary.md"
    glossary.parent.mkdir(exist_ok=True)
    shutil.copyfile(shipped_folder("glossary") / glossary.name, glossary)
    write_json(output / "space.json", {"app": app, "arguments": [place, *options]})
    _write_readme(output / "README.md", place, folder, output / place, is_study=app != APP)
    return output


def _write_readme(path: Path, place: str, folder: RunFolder | None, copied: Path, *, is_study: bool) -> None:
    """Complete the README of `space_app/` by the run's name, its recipe, and the repositories of a published run."""
    card = SpaceCard(path.read_text(encoding="utf-8"))
    assert isinstance(card.data, SpaceCardData)
    published = [] if folder is None else [event["run"] for event in folder.find_events("published")]
    repos = RunRepos.parse(place) if folder is None else RunRepos.parse(published[-1]) if published else None
    name, facts = place.rpartition("/")[2], ""
    if folder is not None:
        facts = f" Played with {', '.join(describe_recipe(RunFolder(copied).read_recipe()))}."
    links = ""
    if repos is not None:
        models = [repos.repo_id(player) for player in PUBLISHED_PLAYERS]
        card.data.models, card.data.datasets = models, [repos.solutions]
        links = f" Published: {', '.join(map(hub_link, models))}, {hub_link(repos.solutions, 'datasets')}."
    card.data.title = f"{name}: {'a study of its solutions' if is_study else 'a prover-verifier game'}"
    if not is_study:
        card.data.pop("hf_oauth")  # nobody logs in
    begin, of_app, of_study = card.text.split(_SECTION)
    card.text = f"{begin.rstrip()}\n\nThe run `{name}`.{facts}{links}\n{of_study if is_study else of_app}"
    path.write_text(str(card), encoding="utf-8")


def push_space(
    run: str | Path,
    space: str,
    options: tuple[str, ...] = (),
    *,
    app: str = APP,
    is_private: bool = True,
    warn: Callable[[str], object] | None = None,
) -> str:
    """
    Create or update the Space `NAMESPACE/NAME` with the app on a run (see [`build_space`]), and return its URL.

    Unchanged files are not sent again. If the run is private, a warning says that the Space needs a token to download
    it.

    Args:
        is_private: Whether a new Space is private. If so, an existing Space must not be public.
        warn: Called with [`describe_public_space`] if the Space may be public, after all checks and before the upload.

    Raises:
        HubError: if the Hub cannot be reached or refuses.
        ValueError: in the same cases as [`build_space`], if no round of the named run is published, or if the Space is
            public but should be private.
    """
    api = HfApi(library_name="pvg_hf")
    if find_local_run(run) is None:
        _check_published(str(run), api)
    repository = Repository(api, space, "space")
    with tempfile.TemporaryDirectory() as workspace:
        folder = build_space(run, Path(workspace), options, app=app)
        if warn is not None and not is_private:
            warn(describe_public_space(run, is_study=app != APP))
        url = repository.ensure(is_private=is_private)
        files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        repository.upload(files, _is_ours, "The app on a run")
    return url


def describe_public_space(run: str | Path, *, is_study: bool) -> str:
    """Warning about what visitors of a public Space, of the study or of the app, can see and do."""
    if is_study:
        lines = [
            "Warning: a public Space. Everybody can take part in the study, each under any number of names.",
            (
                "Only the Space's author, or members of its organisation who may write, see results and handle sheets:"
                " they log in."
            ),
        ]
    else:
        lines = [
            "Warning: a public Space. Everybody can read every solution, label, score and figure of the run, and have"
            " texts scored at your Space's cost."
        ]
    if not RunFolder(Path(run)).recipe.is_file():
        lines.append(
            f"The Space fetches {run} when it starts. If that run is private, the Space needs a secret HF_TOKEN"
            " (Settings, Variables and secrets) that may read it, and what the app shows of the run is public from"
            " then on."
        )
    return "\n".join(lines)


def _check_published(run: str, api: HfApi) -> None:
    published_commit(run)
    if Repository(api, RunRepos.parse(run).solutions, "dataset").is_private():
        logger.warning(
            "The run %s is private: the Space opens it only with a secret HF_TOKEN that may read it (Settings,"
            " Variables and secrets).",
            run,
        )


def _is_ours(path: str) -> bool:
    """Whether [`build_space`] manages a path of a Space; such files are deleted when they are no longer written."""
    return path.partition("/")[0] in ("runs", "space_app", "pvg_hf")


def _copy_run(folder: RunFolder, target: Path) -> None:
    """
    Copy the files that the app reads, without local paths, provers or a study's answers; of the events, only ends of
    phases and alerts, except those on publishing.
    """
    target.mkdir(parents=True, exist_ok=True)
    files = [folder.environment, folder.metrics]
    files += [file.path for file in pool_files(folder)]
    folders = [place for kind in ("evaluation", "verifier") for place in folder.rounds(kind).values()]
    for place in (*folders, folder.models / "verifier"):
        files += [path for path in place.glob("*") if path.suffix in _READ and path.name != EVENTS]
    files += [place / JUDGEMENT for place in judgement_folders(folder)]
    for path in files:
        if path.is_file() and path.name != DIGESTS:
            check_file(path)
            copy = target / path.relative_to(folder.root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            if path.name == ADAPTER_CONFIG:
                copy.write_bytes(published_base(path, None, ""))
            elif path.name == JUDGEMENT:
                copy.write_bytes(published_judgement(path))
    (target / folder.recipe.name).write_bytes(published_recipe(read_played_recipe(folder)))
    copied = RunFolder(target)
    events = [*folder.find_events("phase_finished"), *folder.find_events("alert")]
    for event in sorted(events, key=lambda event: event.get("time", 0.0)):
        if event.get("kind") != "hub":
            copied.log_event(**event)
    seal_copy(copied)


class SpaceCallback(GameCallback):
    """
    Updates the Space `NAMESPACE/RUN-app` after each evaluated round.

    It is private if the run's repositories are. A failure raises an alert, and the next round tries again.
    """

    def on_phase_end(self, context: PhaseContext) -> None:
        if context.phase.name == "evaluate":
            run_on_main_process(
                context.processes, partial(self._push, context.folder, context.recipe.hub, context.alert)
            )

    def _push(self, folder: RunFolder, hub: HubConfig, alert: Callable[[str, str], None]) -> None:
        published = folder.find_events("published")
        if not published:
            return  # publishing failed, and its own alert has been raised
        space = f"{published[-1]['run']}-app"
        try:
            url = push_space(folder.root, space, is_private=hub.private)
        except (HubError, ValueError, OSError) as err:
            alert("hub", f"The Space {space} could not be updated: {err}")
            return
        logger.info("Space: %s", url)
