"""
Redraw the pictures of docs/images, except round.svg, which is drawn by hand.

    python -m tools.write_pictures                  # plays two games in build/pictures first, if they are not there
    python -m tools.write_pictures report.png       # this one only
    python -m tools.write_pictures --check          # changes nothing; exit status 1 if a picture is stale

A picture is stale if a word, a number or a style changed in the files that it is made from: docs/images/sources.json
has a digest of each. Other changes of code, such as of a docstring or a name, leave it as it is. Chromium is needed
(PVG_CHROMIUM, by default /usr/bin/chromium), and the extras `app` and `dev`.
"""

import argparse
import ast
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

REPOSITORY = Path(__file__).parents[1]
IMAGES = REPOSITORY / "docs" / "images"
SOURCES = IMAGES / "sources.json"
BY_HAND = {"round.svg"}
WIDTH = 900  # of a page; the site shows a picture at about 700 pixels
# The shortest games that fill every page.
GAMES = {"quickstart": (), "proofs": ("num_rounds=1", "verifier.max_steps=10", "prover.max_steps=2")}
ARITHMETIC = (
    "recipes/quickstart.yaml",
    *(f"pvg_hf/tasks/arithmetic/{name}.py" for name in ("grammar", "writer", "flaw")),
)
APP = ("pvg_hf/app/style.css", "pvg_hf/app/theme.py", "pvg_hf/app/app.py")


@dataclass(frozen=True)
class Picture:
    """
    A picture of the documentation.

    Args:
        make (`Callable`):
            Returns the PNG, given the folder with the games.
        sources (`tuple[str, ...]`):
            Patterns of the files whose words, numbers and styles the picture shows.
    """

    make: Callable[[Path], bytes]
    sources: tuple[str, ...]

    def digests(self) -> dict[str, str]:
        paths = sorted({path for pattern in self.sources for path in REPOSITORY.glob(pattern)})
        return {path.relative_to(REPOSITORY).as_posix(): digest_of_file(path) for path in paths}


def digest_of_file(path: Path) -> str:
    """
    Return a digest of what a reader may see of a file: of the constants of Python code, of the values of YAML, of the
    text of others.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = repr(list(_constants(ast.parse(text))))
    elif path.suffix == ".yaml":
        text = json.dumps(yaml.safe_load(text), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _constants(tree: ast.AST) -> Iterator[Any]:
    """Yield the constants of code in their order, without docstrings."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Constant):
            yield node.value
        yield from _constants(node)


def shoot_solutions(games: Path) -> bytes:
    with serving_app(games / "quickstart") as url, browsing(f"{url}/") as page:
        page.locator("a.row").first.click()
        page.locator("#card-sneaky pre").first.wait_for()
        return shoot(page)


def shoot_rounds(games: Path) -> bytes:
    with serving_app(games / "quickstart") as url, browsing(f"{url}/rounds") as page:
        page.locator("#plot-accuracy svg").first.wait_for()
        return shoot(page, height=800)


def shoot_evaluations(games: Path) -> bytes:
    """Shoot the first wrong proof in which the verifier finds real flaws only."""
    from pvg_hf.app.runs import open_run
    from pvg_hf.report.examples import has_hallucination

    rows = next(reversed(open_run(games / "proofs").evaluations().tables.values())).reset_index(drop=True)
    is_found = (rows["reference"] == 0) & (rows["predicted"] == 0) & ~rows["issues"].map(has_hallucination)
    place = is_found.idxmax()
    with serving_app(games / "proofs") as url, browsing(f"{url}/evaluations") as page:
        page.locator("#evaluation pre").first.wait_for()
        page.locator("#position input").fill(str(place + 1))
        page.keyboard.press("Tab")
        page.locator("#evaluation pre").first.get_by_text(rows["solution"][place].split("\n")[0]).wait_for()
        return shoot(page)


def shoot_score(games: Path) -> bytes:
    with serving_app(games / "quickstart") as url, browsing(f"{url}/score") as page:
        page.locator("#example").click()
        page.wait_for_function("document.querySelector('#own-solution textarea').value !== ''")
        page.locator("#score").click()
        page.locator("#scored table").wait_for()
        return shoot(page)


def shoot_study(games: Path) -> bytes:
    from tempfile import TemporaryDirectory

    from pvg_hf.app.runs import open_run
    from pvg_hf.experimental.study.app import StudySettings, make_study_app

    with TemporaryDirectory() as folder:
        settings = StudySettings(folder=Path(folder))
        run = open_run(games / "quickstart")
        with serving(lambda stack: make_study_app(run, settings, stack), settings.gate) as url, browsing(url) as page:
            page.locator("#study-go").click()
            page.locator("#judge-6").wait_for()
            return shoot(page)


def shoot_report(games: Path) -> bytes:
    from pvg_hf.report.page import write_report

    # As wide as the first plot.
    with browsing(write_report(games / "quickstart").resolve().as_uri(), width=1000) as page:
        return shoot(page, height=1100)


def draw_pools(games: Path) -> bytes:
    from pvg_hf.core.disk_names import BASE_ROUND
    from pvg_hf.experimental.sweep.seeds import mean_over_seeds
    from pvg_hf.report.plots.pool_matrix import draw_pool_map

    def round_of(name: str) -> int:
        return BASE_ROUND if name == "base" else int(name.removeprefix("round-"))

    runs = _figures("arithmetic-pools.json")
    cells = {
        tuple(map(round_of, key.split("/"))): mean_over_seeds([run["accepted"][key] for run in runs])
        for key in runs[0]["accepted"]
    }
    canvas = draw_pool_map(cells)
    canvas.axes[0].set_title("Share of sneaky mistakes accepted: dark is bad. Framed: trained against this verifier")
    return _png(canvas)


def draw_noise_levels(games: Path) -> bytes:
    import pandas as pd

    from pvg_hf.experimental.sweep.level_plots import plot_sweep

    rows = [
        {name: cell[name] for name in ("seed", "level", "correction")}
        | {name: figure["value"] for name, figure in cell["figures"].items()}
        for cell in _figures("sweep-small.json")["cells"]
    ]
    canvas = next(plot_sweep("epsilon", pd.DataFrame(rows))).canvas
    canvas.legends[0].set_title("correction for noise")
    return _png(canvas)


def _figures(name: str) -> Any:
    return json.loads((REPOSITORY / "experiments" / "figures" / name).read_text(encoding="utf-8"))


def _png(canvas: Any) -> bytes:
    from pvg_hf.report.plots.style import Plot

    return Plot("", "", "", canvas).to_png()


PICTURES = {
    "app-solutions.png": Picture(
        shoot_solutions,
        (
            *ARITHMETIC,
            *APP,
            "pvg_hf/app/solutions_page.py",
            "pvg_hf/app/histogram.py",
            *(f"pvg_hf/app/templates/{name}.html.jinja" for name in ("table", "filters", "pair", "solution")),
        ),
    ),
    "app-rounds.png": Picture(
        shoot_rounds,
        (
            "recipes/quickstart.yaml",
            *APP,
            "pvg_hf/app/rounds_page.py",
            "pvg_hf/app/plots.py",
            "pvg_hf/app/templates/rounds*.jinja",
        ),
    ),
    "app-evaluations.png": Picture(
        shoot_evaluations,
        (
            *(f"pvg_hf/tasks/proofs/{name}.py" for name in ("language", "stories", "writing")),
            *APP,
            "pvg_hf/app/evaluations_page.py",
            "pvg_hf/app/templates/evaluation*.jinja",
        ),
    ),
    "app-score.png": Picture(
        shoot_score, (*ARITHMETIC, *APP, "pvg_hf/app/score_page.py", "pvg_hf/app/templates/score*.jinja")
    ),
    "app-study.png": Picture(
        shoot_study,
        (
            *ARITHMETIC,
            *APP,
            "pvg_hf/experimental/study/page.py",
            "pvg_hf/experimental/study/templates/study_item.html.jinja",
        ),
    ),
    "report.png": Picture(
        shoot_report,
        (*ARITHMETIC, "pvg_hf/report/*.jinja", "pvg_hf/report/statements.py"),
    ),
    "dynamics-pools.png": Picture(
        draw_pools,
        (
            "experiments/figures/arithmetic-pools.json",
            "pvg_hf/report/plots/pool_matrix.py",
            "pvg_hf/report/plots/style.py",
        ),
    ),
    "label-noise-levels.png": Picture(
        draw_noise_levels,
        (
            "experiments/figures/sweep-small.json",
            "pvg_hf/experimental/sweep/level_plots.py",
            "pvg_hf/report/plots/style.py",
        ),
    ),
}


@contextmanager
def serving_app(run: Path) -> Iterator[str]:
    from starlette.middleware import Middleware

    from pvg_hf.app.access import Gate
    from pvg_hf.app.app import make_app
    from pvg_hf.app.runs import open_run

    with serving(lambda stack: make_app(open_run(run), stack), Middleware(Gate)) as url:
        yield url


@contextmanager
def serving(make: Callable[[ExitStack], Any], gate: Any) -> Iterator[str]:
    """Serve an app on this machine, and yield its address."""
    from pvg_hf.app.app import launch

    with ExitStack() as stack:
        app = make(stack)
        stack.callback(app.close, verbose=False)
        yield launch(app, gate, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)[1].rstrip("/")


@contextmanager
def browsing(url: str, width: int = WIDTH) -> Iterator[Any]:
    """Open a page in Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = os.environ.get("PVG_CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 500}, device_scale_factor=2)
        page.set_default_timeout(60_000)
        page.goto(url)
        yield page
        browser.close()


def shoot(page: Any, height: int | None = None) -> bytes:
    """Return the page as PNG, or its first `height` pixels; the time lets what has just appeared settle."""
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(1500)
    clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}
    png = page.screenshot(full_page=True) if height is None else page.screenshot(full_page=True, clip=clip)
    smaller = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(smaller, format="PNG", optimize=True)
    return smaller.getvalue()


def play_games(games: Path) -> None:
    """Play, or resume, the games that the pictures show; a finished one is left as it is."""
    from pvg_hf.cli.sources import find_recipe
    from pvg_hf.config import load_recipe
    from pvg_hf.game.play import play

    for name, overrides in GAMES.items():
        play(load_recipe(find_recipe(name), [f"output_dir={games}", *overrides]))


def list_stale(recorded: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a message for each picture that is stale, is shown nowhere, or that nothing here makes."""
    pages = [*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md"]
    shown = {name for page in pages for name in re.findall(r"images/([\w.-]+)", page.read_text(encoding="utf-8"))}
    for name, picture in PICTURES.items():
        old, new = recorded.get(name, {}), picture.digests()
        if changed := sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path)):
            yield f"{name} is stale: {', '.join(changed)} changed since. Run `make pictures` and look at it."
    yield from (f"{name} is shown on no page" for name in sorted(PICTURES.keys() - shown))
    yield from (f"{name}: nothing makes this picture" for name in sorted(shown - PICTURES.keys() - BY_HAND))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="pictures to make (default: all)")
    parser.add_argument("--check", action="store_true", help="only list the pictures that are stale")
    parser.add_argument("--games", type=Path, default=REPOSITORY / "build" / "pictures", help="folder of the games")
    arguments = parser.parse_args()
    recorded = json.loads(SOURCES.read_text(encoding="utf-8")) if SOURCES.exists() else {}
    if arguments.check:
        messages = list(list_stale(recorded))
        print("\n".join(messages), end="\n" * bool(messages))
        return bool(messages)

    if unknown := set(arguments.names) - PICTURES.keys():
        parser.error(f"There is no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}.")
    chosen = {name: PICTURES[name] for name in arguments.names or PICTURES}
    play_games(arguments.games)
    for name, picture in chosen.items():
        (IMAGES / name).write_bytes(picture.make(arguments.games))
        recorded[name] = picture.digests()
        SOURCES.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(IMAGES / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
