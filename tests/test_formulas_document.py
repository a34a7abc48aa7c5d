import doctest
import re
from pathlib import Path

import torch

DOCUMENT = Path(__file__).parents[1] / "docs" / "formulas.md"


def test_every_example_of_the_formulas_document_runs():
    blocks = re.findall(r"^```pycon\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, DOCUMENT.name, str(DOCUMENT), 0)
    assert len(test.examples) > 40
    report: list[str] = []
    try:
        results = doctest.DocTestRunner().run(test, out=report.append)
    finally:
        torch.set_printoptions(profile="default")
    assert results.failed == 0, "".join(report)
