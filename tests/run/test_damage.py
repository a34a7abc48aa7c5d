"""
Damage to any file of a finished phase: every reader shows what it showed before, or names a damaged file. It never
ends with a traceback, and never shows something else. The files of the run itself are written again at each start.
"""

import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pvg_hf import load_recipe
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.text_scores import ScoreDesk
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.integrity import DamagedFileError, read_digests
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.answering.answerer import Answerer
from pvg_hf.game.status import describe_status
from pvg_hf.report.page import render_page
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import load_run
from pvg_hf.run.resume import check_finished_phases, check_same_recipe
from tests.support.index_rows import problem_ids, solution_rows
from tests.support.recall_task import RecallTask

PROBLEM = RecallTask(num_train=60, num_test=4).problems("test")["problem"][0]


def flip(content: bytes, at: float) -> bytes:
    place = min(int(at * len(content)), len(content) - 1)
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def zero(content: bytes, at: float) -> bytes:
    start = int(at * len(content))
    end = min(start + 4096, len(content))
    return content[:start] + bytes(end - start) + content[end:]


DAMAGES: dict[str, Callable[[bytes, float], bytes]] = {
    "a flipped bit": flip,
    "4 kB of zeros": zero,
    "cut": lambda content, at: content[: int(at * len(content))],
    "cut after a line": lambda content, at: b"".join(content.splitlines(keepends=True)[:1]),
    "emptied": lambda content, at: b"",
}


def show_status(root: Path) -> str:
    """The output of `--status` with a copy of the recipe, since the run's own may be damaged."""
    recipe = load_recipe(root.parent / "given.yaml", [f"output_dir={root.parent}"])
    return describe_status(recipe, "script")


def start(root: Path) -> None:
    recipe, folder = load_recipe(root.parent / "given.yaml", [f"output_dir={root.parent}"]), RunFolder(root)
    check_same_recipe(folder, recipe)
    check_finished_phases(recipe, folder)


def show_report(root: Path) -> str:
    return render_page(load_run(root), {}, {})


def answer(root: Path) -> object:
    return Answerer.from_run(root, device="cpu")(PROBLEM, num_samples=2)


def show_app(root: Path) -> object:
    run = OpenRun(root)
    index, texts = run.index(), []
    for round_index in (BASE_ROUND, 0, 1):
        for is_test in (False, True):
            found = problem_ids(index, round_index, is_test=is_test)
            texts += [found, *(solution_rows(index, round_index, name, is_test=is_test) for name in found[:3])]
            texts += [scores.tolist() for scores in index.scores(round_index, is_test=is_test).values()]
    thresholds = [index.threshold(round_index) for round_index in (0, 1)]
    if index.damage:
        raise DamagedFileError(root, "\n".join(index.damage))
    return repr((texts, thresholds))


def score(root: Path) -> object:
    return ScoreDesk(OpenRun(root)).score(1, PROBLEM, "has 3\n#### 3")


READERS = {
    "start": start,
    "status": show_status,
    "report": show_report,
    "answer": answer,
    "app": show_app,
    "score": score,
}


def read(name: str, root: Path) -> str:
    """Output of a reader, or the damage that it names, without the path of the run."""
    try:
        shown = READERS[name](root)
    except ValueError as err:
        shown = f"DAMAGE: {err}"
    return re.sub(r"\s+", " ", str(shown).replace(str(root), "RUN"))


def names_damage(shown: str, file: str) -> bool:
    """Whether the output says that a file is damaged; it may name the file of digests instead."""
    folder = str(Path(file).parent)
    names = [Path(file).name, "digests.json", "state.json"]
    words = ("amage", "cannot be read", "missing", "was truncated", "not a readable", "was changed")
    return any(word in shown for word in words) and any(name in shown for name in (*names, folder) if name != ".")


def check_damage(root: Path, file: str, damage: str, at: float, known: Callable[[str], str]) -> dict[str, str]:
    """
    Damage a file of a run, read the run in every way, and restore the file; returns the readers that went wrong, with
    the reason.
    """
    path, wrong = root / file, {}
    content = path.read_bytes()
    damaged = DAMAGES[damage](content, at)
    if damaged == content:
        return {}
    path.write_bytes(damaged)
    try:
        for name in READERS if _has_digest(root, path) else ("start",):
            shown = read(name, root)
            if shown != known(name) and not names_damage(shown, file):
                wrong[name] = shown
    finally:
        path.write_bytes(content)
    return wrong


def _has_digest(root: Path, path: Path) -> bool:
    """Whether a file belongs to a finished phase and must not change."""
    phase = root.joinpath(*path.relative_to(root).parts[:2])
    return path.name == "digests.json" or path.relative_to(phase).as_posix() in read_digests(phase).files


@pytest.fixture(scope="module")
def run(reference, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("damaged") / "game"
    shutil.copytree(reference.root, root)
    shutil.copy(root / "recipe.yaml", root.parent / "given.yaml")
    return root


@pytest.fixture(scope="module")
def known(run) -> Callable[[str], str]:
    """Each reader's output for the undamaged run."""
    return cache(lambda name: read(name, run))


def check_undamaged(known: Callable[[str], str]) -> None:
    shown = {name: known(name) for name in READERS}
    assert {name: text for name, text in shown.items() if text.startswith("DAMAGE")} == {}


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("recipe.yaml", "cut after a line"),
        ("recipe.yaml", "emptied"),
        ("run.json", "cut"),
        ("state.json", "cut"),
        ("events.jsonl", "cut"),
        ("metrics.jsonl", "cut"),
        ("report.html", "emptied"),
        ("pool/base/test-helpful.parquet", "a flipped bit"),
        ("pool/round-001/digests.json", "a flipped bit"),
        ("verifier/round-001/model.safetensors", "4 kB of zeros"),
        ("verifier/round-001/config.json", "emptied"),
        ("verifier/round-001/tokenizer.json", "a flipped bit"),
        ("verifier/round-001/verifier_input.json", "a flipped bit"),
        ("verifier/round-001/calibration.json", "a flipped bit"),
        ("verifier/round-001/phase.json", "cut"),
        ("verifier/round-000/metrics.jsonl", "emptied"),
        ("prover/round-001/best-helpful/model.safetensors", "cut"),
        ("evaluation/round-001/metrics.json", "a flipped bit"),
        ("evaluation/round-001/answering.json", "cut"),
        ("evaluation/round-001/problems.parquet", "4 kB of zeros"),
    ],
)
def test_a_damaged_file_is_named_or_irrelevant(file, damage, run, known):
    check_undamaged(known)
    assert check_damage(run, file, damage, 0.5, known) == {}


@pytest.mark.nightly
def test_every_file_is_damaged_in_one_way_and_read_in_all(run, known):
    check_undamaged(known)
    files = sorted(
        path.relative_to(run).as_posix()
        for path in run.rglob("*")
        if path.is_file() and path.name != ".lock" and path.stat().st_size
    )
    assert len(files) > 60
    wrong = {}
    for file in files:
        rng = derive_rng("damage", file)
        damage = str(rng.choice(list(DAMAGES)))
        found = check_damage(run, file, damage, rng.random(), known)
        wrong |= {(file, damage, reader): text for reader, text in found.items()}
    assert wrong == {}


@pytest.mark.parametrize(
    "file", ["verifier/round-001/model.safetensors", "verifier/round-000/metrics.jsonl", "recipe.yaml"]
)
@pytest.mark.parametrize("damage", DAMAGES)
def test_start_and_status_name_the_damaged_file(file, damage, run):
    path = run / file
    content = path.read_bytes()
    path.write_bytes(DAMAGES[damage](content, 0.5))
    try:
        for name in ("start", "status"):
            assert names_damage(read(name, run), file)
            assert path.name in read(name, run)
    finally:
        path.write_bytes(content)
