"""
Write a picture of one problem with a helpful and a sneaky solution, as the app shows them after Reveal. That of the README:

    python -m tools.write_pair_picture runs/quickstart docs/images/pair.png --round 1 --problem 0000001

By default it shows the problem that fooled the last round's verifier most clearly. It needs Chromium (PVG_CHROMIUM, by default
/usr/bin/chromium) and the extra `dev`.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from pvg_hf.hub.locate import find_local_run

APP = Path(__file__).parents[1] / "pvg_hf" / "app"
# `solution.html.jinja` and `style.css` are the app's; the rules here replace Gradio's.
PAGE = """<!doctype html><html><head><meta charset="utf-8"><style>{{ style }}
:root { --body-text-color: #1f2937 }
body { font: 15px system-ui, sans-serif; color: #1f2937; background: #fff; margin: 0; padding: 14px 18px }
p { margin: .3rem 0 } h2 { font-size: 1.02rem; margin: .5rem 0 .1rem } .pair { gap: 1.4rem }
</style></head><body>
<h2>Problem</h2>
{{ shown.problem | preformatted }}
<div class="pair">
{% for role, solution in shown.solutions.items() %}
<div><h2>{{ role | capitalize }} solution</h2>{% include "solution.html.jinja" %}</div>
{% endfor %}
</div></body></html>"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a run, or the name of a published one")
    parser.add_argument("output", type=Path, help="PNG file to write")
    parser.add_argument("--round", type=int, dest="round_index", help="round, from 0 (default: the last one)")
    parser.add_argument("--problem", default="", help="text in the problem or its id (default: any problem)")
    arguments = parser.parse_args()

    try:
        find_local_run(arguments.run)  # refuses a wrong folder
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.app.index import Filter, Query
        from pvg_hf.app.runs import open_run
        from pvg_hf.app.showing import show_problem

        index = open_run(arguments.run).index()
        round_index = max(index.rounds, default=0) if arguments.round_index is None else arguments.round_index
        query = Query(round_index, filter=Filter.FOOLED, search=arguments.problem)
        if not index.find(query):
            query = replace(query, filter=Filter.ALL)
        if not (found := index.find(query)):
            raise ValueError(
                f"Round {round_index} has no test problem with {arguments.problem!r} in its text or id; the run has the rounds "
                f"{list(index.rounds)}."
            )
        draw(show_problem(index, query, found[0], is_revealed=True), arguments.output)
    except ValueError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    print(arguments.output)
    return 0


def draw(shown, output: Path) -> None:
    from playwright.sync_api import sync_playwright

    from pvg_hf.report.page import make_environment

    template = make_environment(APP / "templates").from_string(PAGE)
    html = template.render(shown=shown, style=Markup((APP / "style.css").read_text(encoding="utf-8")))
    with sync_playwright() as playwright:
        chromium = os.environ.get("PVG_CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 300}, device_scale_factor=1.4)
        page.set_content(html)
        page.screenshot(path=output, full_page=True)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
