"""`benchmarks/code_figures.py` on modules counted by hand."""

import ast

from benchmarks.code_figures import count_importers, measure, read_sources

SOURCES = {
    "pvg_hf.lower": '"""One."""\n\n\ndef half(x: float) -> float:\n    """Half of x."""\n    return x / 2  # exact\n',
    "pvg_hf.middle": (
        "from pvg_hf.lower import half\n\n\ndef run(context: 'PhaseContext | None'):\n    return half(1)\n"
    ),
    "pvg_hf.upper": (
        'from pvg_hf import lower, middle\n\nNAME = "pvg_hf.middle:run"\n\n\ndef go():\n    lower, middle\n'
    ),
}


def test_figures_of_three_modules():
    figures = measure(SOURCES)
    assert figures["files in `pvg_hf/`"] == "3"
    assert figures["lines"] == str(6 + 5 + 7)
    # `def` and `return` of the first two, and of the last the constant, `def` and its line
    assert figures["lines of code (no docstrings, comments, imports or blank lines)"] == "7"
    assert figures["modules with one importer"] == "1"
    assert figures["signatures with `PhaseContext`"] == "1"
    assert figures["comments per 100 lines of code"] == "14.3"  # one in seven lines


def test_importers_are_other_modules():
    trees = {module: ast.parse(text) for module, text in SOURCES.items()}
    assert count_importers(trees) == {"pvg_hf.lower": 2, "pvg_hf.middle": 1}


def test_the_working_tree_is_read():
    assert {"pvg_hf", "pvg_hf.losses", "pvg_hf.tasks.base"} <= read_sources().keys()
