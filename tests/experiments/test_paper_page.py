"""A run beside the paper's figures."""

from dataclasses import replace

import pytest

from experiments.paper_page import describe_trend, paper_figures, write_paper_page
from pvg_hf.core.figure import Figure
from pvg_hf.run.judgements import Judgement, judgement_folder
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import load_run

LOW, HIGH, WIDE = Figure(0.2, 0.1, 0.3, 50), Figure(0.8, 0.7, 0.9, 50), Figure(0.5, 0.1, 0.9, 50)


@pytest.mark.parametrize(
    ("figures", "rises", "beginning"),
    [
        ({0: LOW, 1: HIGH}, True, "The paper's trend is there: it rises"),
        ({0: LOW, 1: HIGH}, False, "The trend is opposite to the paper's: it rises"),
        ({0: HIGH, 1: WIDE, 2: LOW}, False, "The paper's trend is there: it falls"),
        ({0: LOW, 1: WIDE}, True, "No clear trend"),
        ({0: LOW}, True, "The trend needs at least two rounds"),
        # All attackers of the last round reached the cap: the mean has no spread.
        ({0: LOW, 1: Figure(1.0, None, None, 3)}, True, "Without intervals the trend cannot be judged: from 0.20"),
        ({}, True, "Not measured"),
        ({0: HIGH, 1: LOW}, None, "It falls from 0.80"),
        ({0: LOW, 1: WIDE}, None, "No clear trend"),
    ],
)
def test_trends(figures, rises, beginning):
    assert describe_trend(figures, rises=rises).startswith(beginning)


def test_the_page_has_every_figure_of_the_paper(make_run):
    run = make_run(2)
    for index, figure in enumerate((HIGH, LOW)):
        folder = judgement_folder(RunFolder(run), "role_separability", index)
        folder.mkdir(parents=True)
        Judgement("role_separability", index, "Title", {}, {"transformer/all": figure}, {}, 1.0).write(folder)
        folder = judgement_folder(RunFolder(run), "attacks", index)
        folder.mkdir(parents=True)
        steps = {"src/median_steps": Figure(100.0 + 200 * index, 90.0 + 200 * index, 110.0 + 200 * index, 3)}
        steps["src/found"] = Figure((3 - index) / 3, None, None, 3)
        Judgement("attacks", index, "Title", {}, steps, {}, 1.0).write(folder)
    page = write_paper_page(run).read_text(encoding="utf-8")
    figures = paper_figures(load_run(run))
    assert [figure.number for figure in figures] == ["5", "6a", "6b", "7a", "8a", "8b", "S3"]
    assert all(f'id="figure-{figure.number}"' in page for figure in figures)
    assert figures[1].trend.startswith("The paper's trend is there: it rises from 100.00")
    assert figures[1].trend.endswith("Attackers that found an exploit: round 0: 3 of 3, round 1: 2 of 3.")
    assert figures[-1].trend.startswith("The paper's trend is there: it falls")
    assert figures[-2].trend == "Not measured in this run."
    assert "no values are known as numbers" in figures[3].source  # of the paper's fig. 7a
    assert page.count("<img") == 7
    assert "<script" not in page


@pytest.mark.parametrize(("eligible", "size"), [((50, 30, 4), 64), ((9, 8, 4), 256)])
def test_best_of_n_is_shown_at_the_largest_n_with_enough_problems_or_else_with_any(make_run, eligible, size):
    run = load_run(make_run(2))
    figures = {str(n): Figure(0.5, 0.4, 0.6, number) for n, number in zip((4, 64, 256), eligible)}
    drawn = [Judgement("best_of_n", index, "", {}, figures, {}, 0.0) for index in (0, 1)]
    (figure,) = [figure for figure in paper_figures(replace(run, judgements=drawn)) if figure.number == "6b"]
    assert figure.image.title == f"Balanced best-of-n at n = {size}"


def test_attackers_by_standardised_src_are_shown_where_there_are_no_others(make_run):
    path = make_run(1)
    folder = judgement_folder(RunFolder(path), "attacks", 0)
    folder.mkdir(parents=True)
    figures = {"standardized_src/found": HIGH, "standardized_src/median_steps": Figure(40.0, None, None, 1)}
    Judgement("attacks", 0, "Title", {}, figures, {}, 1.0).write(folder)
    shown = next(figure for figure in paper_figures(load_run(path)) if figure.number == "6a")
    assert "The trend needs at least two rounds." in shown.trend
    assert "Attackers that found an exploit: round 0" in shown.trend


def test_no_trend_is_called_the_papers_where_it_has_none(make_run):
    """
    The paper reports that roles stay separable with CGC, and a range of helpful accuracies for no round in particular.
    """
    path = make_run(2)
    for index, figure in enumerate((HIGH, LOW)):
        folder = judgement_folder(RunFolder(path), "role_separability", index)
        folder.mkdir(parents=True)
        Judgement("role_separability", index, "Title", {}, {"transformer/all": figure}, {}, 1.0).write(folder)
    run = load_run(path)
    cgc = replace(run, recipe=replace(run.recipe, prover=replace(run.recipe.prover, reward="cgc")))
    by_number = {figure.number: figure for figure in paper_figures(cgc)}
    assert by_number["S3"].trend.startswith("It falls from 0.80")
    for rounds in zip(run.evaluated, (LOW, HIGH)):
        rounds[0].figures["accuracy/helpful"] = rounds[1]
    by_number = {figure.number: figure for figure in paper_figures(run)}
    assert by_number["8a"].trend.startswith("It rises from 0.20")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([40, 55], "40 in round 0, 55 in round 1. The last round takes more than the first, in one training each."),
        ([40, None], "40 in round 0, over 60 in round 1. The last round takes more than the first"),
        ([None, 40], "over 60 in round 0, 40 in round 1. The last round takes no more than the first"),
        ([40], "parity: 40 in round 0. "),
    ],
)
def test_steps_until_parity_are_said_to_grow_or_not(make_run, steps, expected):
    run = load_run(make_run(len(steps)))
    rounds = [
        replace(
            data,
            figures={
                "parity_step": Figure(value, None, None, 60),
                "late_change/helpful": Figure(-0.125, None, None, 9),
            },
        )
        for data, value in zip(run.evaluated, steps, strict=True)
    ]
    shown = next(figure for figure in paper_figures(replace(run, rounds=rounds)) if figure.number == "5")
    assert expected in shown.trend
    assert "changes (round 0: -0.12" in shown.trend
