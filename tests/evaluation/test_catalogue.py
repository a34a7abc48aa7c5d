"""The catalogue of figures: each is defined once."""

import json
import re
from collections import Counter
from itertools import product

import pytest

from pvg_hf.evaluation.catalogue import CATALOGUE, explain, find_kind, heading_of
from pvg_hf.report.tables import ANSWERS, DIVERSITY, MAIN, ROC, SOURCES
from tools.write_reference import GROUPS


def test_every_figure_of_an_evaluation_is_in_the_catalogue(run_template):
    for path in sorted(run_template(3).glob("evaluation/*/metrics.json")):
        for key in json.loads(path.read_text()):
            kind = find_kind(key.removeprefix("round/"))
            assert kind.of in GROUPS


def test_no_heading_or_key_is_written_twice():
    for names in ([kind.key for kind in CATALOGUE], [kind.heading for kind in CATALOGUE]):
        assert [name for name, number in Counter(names).items() if number > 1] == []


def test_each_key_has_one_kind_only_unless_a_special_case_precedes_it():
    plain = [re.sub(r"\[.*\]|[{}]", "", kind.key) for kind in CATALOGUE]
    for (place, kind), key in product(enumerate(CATALOGUE), plain):
        if kind.pattern.fullmatch(key):
            assert find_kind(key) is kind or plain.index(key) < place


@pytest.mark.parametrize("key", [*MAIN, *ROC, *ANSWERS, *DIVERSITY, *SOURCES])
def test_the_figures_of_tables_are_in_the_catalogue(key):
    assert find_kind(key.format(round="round-000", role="helpful"))


@pytest.mark.parametrize(
    ("key", "heading"),
    [
        ("accuracy/sneaky", "sneaky accuracy"),
        ("base_accuracy/sneaky", "sneaky accuracy"),
        ("accuracy/best_helpful", "best helpful checkpoint"),
        ("verifier_auc", "AUC, held-out"),
        ("verifier_auc/round-000-sneaky", "AUC, held-out"),
        ("accepted_role/helpful/one_flaw", "helpful, one flaw"),
    ],
)
def test_headings_name_the_parts_of_a_key(key, heading):
    assert heading_of(key) == heading


def test_figures_of_one_kind_are_explained_together():
    assert list(explain(["test_tpr_at_0.01", "test_tpr_at_0.05"])) == ["TPR at FPR 0.01; TPR at FPR 0.05"]
    assert list(explain(["failed/helpful"], names_role=False)) == ["failed"]


@pytest.mark.parametrize("key", ["accuracy", "accuracy/helpful/more", "base_completeness"])
def test_a_figure_without_an_entry_is_an_error(key):
    with pytest.raises(ValueError, match=f"`{key}`"):
        find_kind(key)
