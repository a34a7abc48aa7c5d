"""
Files of a run that hold JSON or YAML of another shape than a game writes, as a pulled run may: whatever reads them
names the file, or works.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from pvg_hf.app.header import show_header, show_verdict
from pvg_hf.app.rounds_page import figures_frame, show_rounds
from pvg_hf.app.runs import OpenRun
from pvg_hf.config.load import load_kept_recipe
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import DIGESTS, DamagedFileError
from pvg_hf.core.seeding import derive_rng
from pvg_hf.game.status import describe_status, status_figures
from pvg_hf.hub.cards.player import player_card
from pvg_hf.hub.layout import RunRepos
from pvg_hf.hub.publication import open_publication
from pvg_hf.report.page import render_page
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import load_run
from pvg_hf.run.resume import write_derived

WHOLE = ("[]", "{}", "null", "1", '"x"', "")
OTHER: tuple[Any, ...] = ("x", 1, 1.5, None, [], {}, True)
KINDS = (
    *("recipe.yaml", "run.json", "state.json", "events.jsonl", "metrics.jsonl", "verifier/round-001/phase.json"),
    *("verifier/round-001/digests.json", "verifier/round-001/calibration.json", "verifier/round-001/config.json"),
    *("verifier/round-001/verifier_input.json", "verifier/round-001/tokenizer_config.json"),
    *("prover/round-001/false-positives.json", "prover/round-001/metrics.jsonl"),
    *("evaluation/round-001/metrics.json", "evaluation/round-001/answering.json"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory, reference) -> Path:
    """A finished run with digests of no file, as one that was sealed after its files were changed."""
    root = Path(shutil.copytree(reference.root, tmp_path_factory.mktemp("shapes") / "game"))
    for file in root.rglob(DIGESTS):
        write_json(file, {**json.loads(file.read_text()), "files": {}})
    return root


def status(root: Path) -> None:
    recipe = load_kept_recipe(root / "recipe.yaml", [f"output_dir={root.parent}"])
    describe_status(recipe, "-m pvg_hf play game")
    json.dumps(status_figures(recipe))


def report(root: Path) -> None:
    render_page(load_run(root), {}, {})


def app(root: Path) -> None:
    opened = OpenRun(root)
    show_header(opened)
    show_verdict(opened)
    show_rounds(opened.data())
    figures_frame(opened.data())
    opened.notes()


def cards(root: Path) -> None:
    publication = open_publication(root, 1, RunRepos("ana", "game"))
    for player in ("prover", "verifier"):
        player_card(publication, player)
        publication.results(player)


def start(root: Path) -> None:
    write_derived(load_kept_recipe(root / "recipe.yaml"), RunFolder(root))


READERS: tuple[Callable[[Path], None], ...] = (status, report, app, cards, start)


def changed(text: str, suffix: str, name: str, number: int) -> Iterator[str]:
    """The whole replaced by values of other types, and `number` texts with one value of another type."""
    rng = derive_rng("shapes", name)
    yield from rng.permutation(WHOLE)[: number or None]
    for _ in range(number or 8):
        lines = text.splitlines() if suffix == ".jsonl" else [text]
        place = rng.integers(len(lines))
        values = (yaml.safe_load if suffix == ".yaml" else json.loads)(lines[place])
        holder, key = [values], 0
        while isinstance(holder[key], dict | list) and holder[key] and (holder is not values or rng.random() < 0.8):
            holder = holder[key]
            key = list(holder)[rng.integers(len(holder))] if isinstance(holder, dict) else rng.integers(len(holder))
        holder[key] = OTHER[rng.integers(len(OTHER))]
        lines[place] = yaml.safe_dump(values, sort_keys=False) if suffix == ".yaml" else json.dumps(values)
        yield "\n".join(lines) + "\n"


@pytest.mark.parametrize("number", [1, pytest.param(0, marks=pytest.mark.nightly)], ids=["a few", "many"])
@pytest.mark.parametrize("name", KINDS)
def test_another_shape_is_named_or_makes_no_difference(name, number, run):
    path = run / name
    derived = {run / file: (run / file).read_bytes() for file in ("events.jsonl", "state.json", "metrics.jsonl")}
    before = path.read_bytes()
    for text in changed(before.decode(), path.suffix, name, number):
        for read in READERS:
            path.write_text(text)
            with suppress(DamagedFileError):
                read(run)
            for file, content in derived.items():  # a start writes them
                file.write_bytes(content)
    path.write_bytes(before)
