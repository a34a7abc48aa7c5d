"""The report's tables and plots fit the page, on a screen and on paper."""

import pytest

pytestmark = pytest.mark.nightly

CUT = """[...document.querySelectorAll('.scroll, .scroll > *')]
    .filter((element) => element.scrollWidth > element.clientWidth + 1
        || element.getBoundingClientRect().right > innerWidth + 1)
    .map((element) => `${element.tagName} ${element.scrollWidth} in ${element.clientWidth}`)"""
A4_WIDTH = 718  # pixels, with the 10 mm margins that browsers print with


@pytest.fixture
def report(open_page, arithmetic_run):
    return open_page((arithmetic_run / "report.html").as_uri(), width=1280)


def test_no_table_or_plot_is_cut_on_a_screen(report):
    assert report.locator(".scroll table").count() > 5
    assert report.evaluate(CUT) == []


def test_no_table_or_plot_is_cut_on_paper(report):
    report.emulate_media(media="print")
    report.set_viewport_size({"width": A4_WIDTH, "height": 1000})
    assert report.evaluate(CUT) == []


def test_a_table_that_is_too_wide_is_noticed(report):
    report.evaluate("document.querySelector('.scroll table').style.width = '1300px'")
    assert report.evaluate(CUT) != []
