"""The proofs task: its checker's findings, and its ratings of analyses."""

from collections import Counter

import pytest

from pvg_hf import load_task
from pvg_hf.analyses.form import read_evaluation, text_before_evaluation
from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.arithmetic import FlawKind
from pvg_hf.tasks.arithmetic.stories.flawed_solutions import FLAW_KINDS
from pvg_hf.tasks.arithmetic.stories.grammar import parse_story
from pvg_hf.tasks.proofs import OmissionKind, find_issues, grade_proof, rate_analysis, read_issues
from pvg_hf.tasks.proofs.corpus import PERFECT, ProofsCorpusConfig, write_proof, write_proofs_corpus
from pvg_hf.tasks.proofs.language import true_marks, write_marks

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


FLAWED = "\n".join([START, "Monday finds 5: 12 + 5 = 18", "Tuesday loses 3: = 15"])
TRUE = ["Monday finds 5: 12 + 5 = 18 | wrong sum", "Tuesday loses 3: = 15 | bare claim", "#### | missing conclusion"]


@pytest.mark.parametrize(
    ("analysis", "quality"),
    [
        (TRUE, 1.0),
        (TRUE[:1], 1.0),  # some of them
        (["  Monday finds  5: 12 + 5 = 18 |  wrong sum "], 1.0),
        (["has 12 | ok", TRUE[0], "prose between", *TRUE[1:]], 1.0),
        ([TRUE[0], "has 12 | wrong operand"], 0.5),  # one exists
        ([TRUE[0], TRUE[0], "has 12 | wrong operand"], 0.5),
        (["has 12 | wrong operand"], 0.0),
        (["Monday finds 5: 12 + 5 = 18 | wrong operand"], 0.0),  # the right line, another issue
        (["Monday finds 5: 12 + 5 = 17 | wrong sum"], 0.0),  # a line that is not there
        (["Monday finds 5: 12 + 5 = 18 | rather odd"], 0.0),
        ([], 0.0),  # names none, wrongly
        (["has 12 | ok", "looks fine"], 0.0),
    ],
)
def test_qualities_of_analyses_by_hand(analysis, quality):
    assert rate_analysis("\n".join(analysis), find_issues(STORY, FLAWED)) == quality


def test_an_analysis_of_a_correct_proof_names_no_issue():
    sound = find_issues(STORY, "\n".join([START, MONDAY, TUESDAY, END]))
    assert rate_analysis("has 12 | ok", sound) == rate_analysis("", sound) == 1.0
    assert rate_analysis("has 12 | wrong operand", sound) == 0.0


def test_true_marks_name_every_issue():
    issues = find_issues(STORY, FLAWED)
    analysis = write_marks(true_marks(FLAWED, issues))
    assert analysis == "\n".join(["has 12 | ok", *TRUE])
    assert [f"{named.quote} | {named.mark}" for named in read_issues(analysis)] == TRUE


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


def test_the_corpus_without_errors_is_the_truth():
    config = ProofsCorpusConfig(rates=PERFECT, judge_share=0.0, prove_share=0.0)
    for row in write_proofs_corpus(derive_rng("corpus"), 200, config):
        problem, _, rest = row["prompt"].partition("\nproof:\n")
        proof = rest.removesuffix("\nevaluation:\n")
        evaluation, issues = read_evaluation(row["completion"]), find_issues(parse_story(problem), proof)
        assert evaluation.has_form
        assert evaluation.score == grade_proof(issues)
        assert evaluation.analysis == write_marks(true_marks(proof, issues))


def test_the_corpus_errs_at_its_rates():
    rows = list(write_proofs_corpus(derive_rng("corpus"), 1000, ProofsCorpusConfig(prove_share=0.0)))
    broken = sum(not read_evaluation(row["completion"]).has_form for row in rows) / 1000
    judged = sum(row["prompt"].endswith("quality:\n") for row in rows) / 1000
    assert abs(judged - 0.25) < 5 * (0.25 * 0.75 / 1000) ** 0.5
    assert abs(broken - 0.3) < 5 * (0.3 * 0.7 / 1000) ** 0.5


def test_the_corpus_proves_in_every_role_and_evaluates_its_own_proofs():
    config = ProofsCorpusConfig(rates=PERFECT, judge_share=0.0, prove_share=1.0)
    endings, scores = Counter(), Counter()
    for row in write_proofs_corpus(derive_rng("proving"), 300, config):
        problem, _, ending = row["prompt"].removesuffix("\n").rpartition("\n")
        endings[ending] += 1
        proof = text_before_evaluation(row["completion"])
        score = grade_proof(find_issues(parse_story(problem), proof))
        scores[score] += 1
        evaluation = read_evaluation(row["completion"])
        assert (evaluation.score == score) if ending.endswith("evaluation:") else (proof == row["completion"])
    assert endings.keys() == {
        "solution:",
        "helpful solution:",
        "sneaky solution:",
        "helpful solution and evaluation:",
    }
    assert scores.keys() == {0.0, 0.5, 1.0}
