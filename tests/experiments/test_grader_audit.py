"""The audit of graders: its certificates, and the planted defects that it must find."""

import os
import re
from fractions import Fraction

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from experiments.grader_audit import (
    TRANSFORMS,
    AuditVerdict,
    Stated,
    Transform,
    audit_figures,
    audit_grader,
    family_table,
    finding_table,
    tabulate_trials,
)
from pvg_hf import load_task
from pvg_hf.tasks import Grade, Task


def transform(family: str, name: str) -> Transform:
    (found,) = [t for t in TRANSFORMS if (t.family, t.name) == (family, name)]
    return found


class Additions(Task):
    """Two sums, with a grader that subclasses replace."""

    name = "additions"

    def problems(self, split):
        rows = [("7 + 11", 18), ("1000 + 234", 1234)]
        return Dataset.from_list(
            [{"problem_id": text, "problem": text, "reference": f"{text} = {a}\n#### {a}"} for text, a in rows]
        )

    def grade(self, problem, solution):
        _, is_marked, answer = solution.rpartition("####")
        answer = answer.strip() if is_marked and answer.strip() else None
        return Grade(answer, answer is not None and self.is_right(answer, problem["reference"].rpartition("#### ")[2]))

    def is_right(self, answer: str, expected: str) -> bool:
        return answer == expected


class Contains(Additions):
    def is_right(self, answer, expected):
        return expected in answer


class RelativeTolerance(Additions):
    def is_right(self, answer, expected):
        try:
            return abs(float(answer) - float(expected)) <= 1e-4 * float(expected)
        except ValueError:
            return False


def violations(task: Task) -> set[tuple[str, str]]:
    return {(t.transform.family, t.transform.name) for t in audit_grader(task) if t.is_violation}


@pytest.mark.parametrize(
    ("family", "name", "text"),
    [
        ("whitespace", "CRLF line ends", "has 1234\r\n#### 1234\r\n"),
        ("punctuation", "bold", "has 1234\n#### **1234**"),
        ("notation", "thousands commas", "has 1234\n#### 1,234"),
        ("notation", "scientific", "has 1234\n#### 1.234e3"),
        ("LaTeX", "braced thousands", "has 1234\n#### 1{,}234"),
        ("marks", "box", "has 1234\nThe answer is \\boxed{1234}."),
        ("other number", "digits swapped", "has 1234\n#### 1243"),
        ("several answers", "or", "has 1234\n#### 1234 or 1235"),
        ("forged marks", "another mark after", "has 1234\n#### 1234\n#### 1235"),
        ("master keys", "'Solution:' alone", "Solution:"),
    ],
)
def test_a_transform_writes_this_text(family, name, text):
    assert transform(family, name).write(Stated("has 1234\n", 1234)) == text


@given(st.integers(-(10**12), 10**12))
def test_another_number_is_another_number(answer):
    plain = re.compile(r"-?[\d.]+(e-?\d+)?(/\d+)?")
    for made in TRANSFORMS:
        if made.family in ("other number", "large numbers", "notation") and (text := made.write(Stated("", answer))):
            written = text.removeprefix("#### ")
            if plain.fullmatch(written):
                assert (Fraction(written) == answer) == made.keeps, made.name


def test_names_are_unique_within_a_family():
    assert len({(t.family, t.name) for t in TRANSFORMS}) == len(TRANSFORMS)


def test_a_grader_that_looks_for_the_number_anywhere_accepts_several_answers():
    found = {name for family, name in violations(Contains()) if family == "several answers"}
    assert {"list", "list reversed", "or", "range", "enumeration", "false equation"} <= found
    assert ("other number", "plus one") not in violations(Contains())


def test_a_relative_tolerance_accepts_an_answer_off_by_one_from_ten_thousand_on():
    found = {name for family, name in violations(RelativeTolerance()) if family == "large numbers"}
    assert {f"{change} at 1e{m}" for change in ("plus one", "minus one") for m in (4, 6, 9, 12)} <= found
    assert ("other number", "plus one") not in violations(RelativeTolerance())


def test_no_verdict_is_counted_apart_from_rejected():
    class Unread(Additions):
        def grade(self, problem, solution):
            grade = super().grade(problem, solution)
            return Grade(None, False) if "," in (grade.answer or "") else grade

    of = {"thousands commas": "no verdict", "decimal zero": "rejected"}
    for task, due in ((Unread(), of), (Additions(), dict.fromkeys(of, "rejected"))):
        table = tabulate_trials(audit_grader(task))
        right = table[(table["family"] == "notation") & (table["due"] == "accepted")]
        assert right.groupby("transform")["verdict"].unique().str[0].loc[list(due)].to_dict() == due
    trials = [t for t in audit_grader(Unread()) if t.transform.name == "thousands commas" and t.was_correct]
    assert [(t.due, t.verdict, t.is_violation) for t in trials] == [
        (AuditVerdict.ACCEPTED, AuditVerdict.NO_VERDICT, False)
    ]


def test_figures_count_problems_not_texts():
    table = tabulate_trials(audit_grader(Additions()))
    figures = audit_figures(table, ["family", "due"])["punctuation", "accepted"]
    # Eleven transforms of two problems, which agree throughout: as much as two trials, whose Wilson interval begins at
    # 2 / (2 + 1.96^2) = .342.
    assert (figures["rejected"].value, figures["rejected"].n) == (1.0, 22)
    assert figures["rejected"].low == pytest.approx(2 / (2 + 1.959964**2), abs=1e-4)
    assert "| punctuation | accepted | 11 | 2 | 22 | 0 (at most 0.6576) | 1.0000 (0.3424 - 1.0000) |" in family_table(
        table
    )


def test_a_task_without_a_readable_reference_is_refused():
    class Words(Additions):
        def problems(self, split):
            return Dataset.from_list([{"problem_id": "a", "problem": "?", "reference": "yes"}])

    with pytest.raises(ValueError, match="No reference of the task `additions`"):
        list(audit_grader(Words()))


def test_a_grader_whose_verdict_does_not_depend_on_the_reference_is_not_asked_about_large_numbers():
    class OwnAnswers(Additions):
        def grade(self, problem, solution):
            expected = str(eval(problem["problem"]))
            return super().grade({**problem, "reference": f"#### {expected}"}, solution)

    assert {t.transform.family for t in audit_grader(OwnAnswers())} == {t.family for t in TRANSFORMS} - {
        "large numbers"
    }


def test_a_number_in_the_place_of_a_fraction_is_drawn_by_seed():
    class Halves(Additions):
        def problems(self, split):
            return Dataset.from_list([{"problem_id": "a", "problem": "?", "reference": "it is\n#### 0.5"}])

    plain = transform("whitespace", "newlines after")
    right, wrong = audit_grader(Halves(), transforms=[plain])
    assert re.fullmatch(r"it is\n#### [1-9]\d[1-8]\n\n", right.text)
    assert int(wrong.text.split()[-1]) == int(right.text.split()[-1]) + 1
    assert [trial.text for trial in audit_grader(Halves(), transforms=[plain])] == [right.text, wrong.text]
    assert [trial.text for trial in audit_grader(Halves(), transforms=[plain], seed=1)] != [right.text, wrong.text]


@pytest.mark.parametrize("name", ["arithmetic", "experiments.decimal_chain_sum:DecimalChainSumTask"])
def test_the_built_in_graders_give_the_certified_verdicts(name):
    table = tabulate_trials(audit_grader(load_task(name, num_train=1, num_test=3)))
    assert not table["is_violation"].any(), finding_table(table)
    assert set(table.loc[table["due"] == "accepted", "verdict"]) == {"accepted"}
    assert finding_table(table) == ""


@pytest.mark.skipif("PVG_GSM8K_DIR" not in os.environ, reason="needs PVG_GSM8K_DIR")
def test_the_gsm8k_grader_gives_the_certified_verdicts():
    task = load_task("gsm8k", path=os.environ["PVG_GSM8K_DIR"], num_test=5)
    table = tabulate_trials(audit_grader(task))
    assert not table["is_violation"].any(), finding_table(table)
    assert set(table.loc[table["due"] == "accepted", "verdict"]) == {"accepted"}
