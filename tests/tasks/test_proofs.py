"""The proofs task: its checker's findings, and its ratings of analyses."""

from collections import Counter

import pytest

from pvg_hf import load_task
from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.arithmetic import FlawKind
from pvg_hf.tasks.proofs import OmissionKind, find_issues, grade_proof, rate_analysis, read_issues
from pvg_hf.tasks.proofs.flaw_detection import CheckedLine, check_lines
from pvg_hf.tasks.proofs.language import compare, write_analysis
from pvg_hf.tasks.proofs.stories import parse_story
from pvg_hf.tasks.proofs.writing import FLAW_KINDS, AnalysisRates, sample_lines, write_proof

PROBLEM = "Ana has 12 pens. On Monday Ana finds 5 pens. On Tuesday Ana loses 3 pens. How many pens does Ana have?"
STORY = parse_story(PROBLEM)
START, MONDAY, TUESDAY, END = "has 12", "Monday finds 5: 12 + 5 = 17", "Tuesday loses 3: 17 - 3 = 14", "#### 14"
BARE = OmissionKind.BARE_CLAIM
NO_END = OmissionKind.MISSING_CONCLUSION


@pytest.mark.parametrize(
    ("lines", "issues", "score"),
    [
        ([START, MONDAY, TUESDAY, END], [], 1.0),
        ([START, MONDAY, "Tuesday loses 3: = 14", END], [(2, BARE)], 0.5),
        ([START, "Monday finds 5: = 17", "Tuesday loses 3: = 14", END], [(1, BARE), (2, BARE)], 0.5),
        ([START, MONDAY, TUESDAY], [(3, NO_END)], 0.5),
        ([START, MONDAY, "Tuesday loses 3: = 14"], [(2, BARE), (3, NO_END)], 0.5),
        ([START, MONDAY, "Tuesday loses 3: = 15", "#### 15"], [(2, FlawKind.WRONG_SUM)], 0.0),  # a claim that is wrong
        ([START, MONDAY, "Tuesday loses 4: = 13", "#### 13"], [(2, FlawKind.WRONG_OPERAND)], 0.0),
        (
            [START, MONDAY, "Tuesday adds 3: = 20", "#### 17"],
            [(2, FlawKind.MALFORMED), (3, FlawKind.DROPPED_STEP)],
            0.0,
        ),
        ([START, MONDAY, "#### 17"], [(2, FlawKind.DROPPED_STEP)], 0.0),
        ([START, MONDAY], [(2, FlawKind.DROPPED_STEP)], 0.0),
        ([START, MONDAY, TUESDAY, "#### 15"], [(3, FlawKind.CONTRADICTED_CONCLUSION)], 0.0),
        (["Monday finds 5: = 17", TUESDAY, END], [(0, FlawKind.MALFORMED), (1, FlawKind.DROPPED_STEP)], 0.0),
        ([""], [(0, FlawKind.MALFORMED)], 0.0),
        (["= 14"], [(0, FlawKind.MALFORMED), (1, FlawKind.DROPPED_STEP)], 0.0),
        (["so it is\nclear"], [(0, FlawKind.MALFORMED), (1, FlawKind.MALFORMED)], 0.0),
    ],
)
def test_proofs_have_issues_and_scores(lines, issues, score):
    found = find_issues(STORY, "\n".join(lines))
    assert [(issue.line, issue.kind) for issue in found] == issues
    assert grade_proof(found) == score


def test_written_proofs_have_their_scores():
    rng = derive_rng("proofs")
    kinds = Counter()
    for score in [0.0, 0.5, 1.0] * 200:
        issues = find_issues(STORY, write_proof(rng, STORY, score))
        assert grade_proof(issues) == score
        kinds.update(issue.kind for issue in issues)
    assert kinds.keys() >= {*FLAW_KINDS, *OmissionKind}


FLAWED_MONDAY = "Monday finds 5: 12 + 5 = 18"
FLAWED = "\n".join([START, FLAWED_MONDAY, "Tuesday loses 3: = 15"])
TRUE = [f"{FLAWED_MONDAY} | wrong sum", "Tuesday loses 3: = 15 | bare claim", "#### | missing conclusion"]


@pytest.mark.parametrize(
    ("analysis", "quality"),
    [
        (TRUE, 1.0),
        (TRUE[:1], 1.0),  # some of them
        (["  Monday finds  5: 12 + 5 = 18 |  wrong sum "], 1.0),
        (["has 12 | ok", TRUE[0], "prose between", *TRUE[1:]], 1.0),
        ([TRUE[0], "has 12 | wrong operand"], 0.5),  # one exists
        ([f"{MONDAY} | {TRUE[0]}", "has 12 | has 12 | ok"], 1.0),  # with what the line should be
        ([f"{MONDAY} | Monday finds 5: 12 + 5 = ? 18 | wrong sum"], 1.0),
        ([f"{FLAWED_MONDAY} | {TRUE[0]}"], 1.0),  # whatever that is
        ([f"{TRUE[0]} | wrong operand"], 0.0),  # a line that is not there
        ([f"{MONDAY} | {TRUE[0]}", "has 13 | has 12 | wrong operand"], 0.5),
        ([TRUE[0], TRUE[0], "has 12 | wrong operand"], 0.5),
        (["has 12 | wrong operand"], 0.0),
        (["Monday finds 5: 12 + 5 = 18 | wrong operand"], 0.0),  # the right line, another issue
        (["Monday finds 5: 12 + 5 = 17 | wrong sum"], 0.0),  # a line that is not there
        (["Monday finds 5: 12 + 5 = 18 | rather odd"], 0.0),
        ([], 0.0),  # names none, wrongly
        (["has 12 | ok", "has 12 | has ? 12 | ok", "looks fine"], 0.0),
    ],
)
def test_qualities_of_analyses_by_hand(analysis, quality):
    assert rate_analysis("\n".join(analysis), find_issues(STORY, FLAWED)) == quality


def test_an_analysis_of_a_correct_proof_names_no_issue():
    sound = find_issues(STORY, "\n".join([START, MONDAY, TUESDAY, END]))
    assert rate_analysis("has 12 | ok", sound) == rate_analysis("", sound) == 1.0
    assert rate_analysis("has 12 | wrong operand", sound) == 0.0


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([START, MONDAY, TUESDAY, END], [START, MONDAY, TUESDAY, END]),
        (
            ["has 13", "Monday finds 5: 13 + 5 = 18"],
            [START, "Monday finds 5: 13 + 5 = 18", "Tuesday loses 3: 18 - 3 = 15"],
        ),
        ([START, "Monday loses 5: 12 - 5 = 7", END], [START, MONDAY, "Tuesday loses 3: 7 - 3 = 4"]),
        (
            [START, "Monday finds 5: = 18", "Tuesday loses 3: = 15"],
            [START, MONDAY, "Tuesday loses 3: 18 - 3 = 15", "#### 15"],
        ),
        ([START, TUESDAY, END], [START, MONDAY, END]),
        ([START, MONDAY, "and so on", TUESDAY], [START, MONDAY, TUESDAY, TUESDAY, END]),
        (["so it is", MONDAY, TUESDAY, END], [START, MONDAY, TUESDAY, END]),
    ],
    ids=["sound", "wrong start", "wrong operation", "bare", "dropped", "malformed", "malformed start"],
)
def test_what_each_line_should_be_given_those_before(lines, expected):
    assert [line.expected for line in check_lines(STORY, "\n".join(lines))] == expected


def test_a_true_analysis_states_what_each_line_should_be_and_names_every_issue():
    analysis = write_analysis(check_lines(STORY, FLAWED))
    assert analysis.split("\n") == [
        "has 12 | has 12 | ok",
        f"{MONDAY} | Monday finds 5: 12 + 5 = ? 18 | wrong sum",
        "Tuesday loses 3: 18 - 3 = 15 | Tuesday loses 3: ? = 15 | bare claim",
        "#### 15 | #### ? | missing conclusion",
    ]
    assert [f"{named.quote} | {named.mark}" for named in read_issues(analysis)] == TRUE


def test_named_issues_are_lines_of_the_analysis_so_that_a_page_can_mark_them():
    task = load_task("proofs")
    true = write_analysis(check_lines(STORY, FLAWED))
    analysis = true.replace("| has 12 | ok", "|  has ? 12 | wrong operand")
    verdicts = task.named_issues(PROBLEM, FLAWED, analysis)
    assert verdicts[0] == ("has 12 | has ? 12 | wrong operand", False)
    assert verdicts[1:] == [(line, True) for line in true.split("\n")[1:]]


@pytest.mark.parametrize(
    ("quote", "compared"),
    [
        (MONDAY, MONDAY),
        ("Monday finds 6: 12 + 6 = 18", "Monday finds ? 6: 12 + 6 = 18"),
        ("Tuesday loses 3: 12 - 3 = 9", "? Tuesday loses 3: 12 - 3 = 9"),
        ("Monday finds 5: 12 + 5", "Monday finds 5: 12 + 5 ?"),
        (f"{MONDAY} pens", f"{MONDAY} ? pens"),
    ],
    ids=["equal", "amount", "other line", "shorter", "longer"],
)
def test_a_quote_flags_the_first_word_that_differs(quote, compared):
    assert compare(CheckedLine(MONDAY, quote, None)) == compared


def test_errors_misstate_the_line_and_are_consistent_with_it():
    rng, lines = derive_rng("errors"), check_lines(STORY, FLAWED)
    start, monday = lines[:2]
    wrong = {}
    for line, rates in ((start, AnalysisRates(hallucinated=1.0)), (monday, AnalysisRates(missed=1.0))):
        wrong[line] = [sample_lines(rng, [line], rates)[0] for _ in range(50)]
    assert all(line.kind is FlawKind.WRONG_OPERAND and line.quote == START for line in wrong[start])
    assert START not in {line.expected for line in wrong[start]}
    assert set(wrong[monday]) == {CheckedLine(FLAWED_MONDAY, FLAWED_MONDAY, None)}


def test_the_task_rates_proofs_and_analyses():
    task = load_task("proofs", num_train=150, num_test=20)
    proofs, analyses = task.rated_proofs("train", proofs_per_problem=2), task.rated_analyses("test")
    assert proofs.to_list() == load_task("proofs", num_train=150).rated_proofs("train", proofs_per_problem=2).to_list()
    assert len(proofs) == 300
    assert min(Counter(proofs["score"]).values()) > 100 - 5 * (300 * 2 / 9) ** 0.5  # a third each, 5 standard errors
    for row in proofs.select(range(60)):
        grade = task.grade({**row, "reference": task_reference(row)}, row["proof"])
        assert grade.detail["proof_score"] == row["score"]
        assert grade.correct == (row["score"] == 1)
    qualities = task.rate_analyses(analyses["problem"], analyses["proof"], analyses["analysis"])
    assert qualities == list(analyses["score"])
    verdicts = task.judge_issues(PROBLEM, FLAWED, "\n".join([TRUE[0], "has 12 | wrong operand"]))
    assert [is_real for _, is_real in verdicts] == [True, False]


def task_reference(row) -> str:
    return f"#### {parse_story(row['problem']).answer}"
