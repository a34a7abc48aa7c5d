"""Training texts of the proofs world: their scores, error rates and roles."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from pvg_hf.analyses.form import read_evaluation, text_before_evaluation
from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.arithmetic.grammar import MAX_NUMBER
from pvg_hf.tasks.proofs import OmissionKind, find_issues, grade_proof
from pvg_hf.tasks.proofs.flaw_detection import check_lines
from pvg_hf.tasks.proofs.language import write_analysis
from pvg_hf.tasks.proofs.stories import parse_story
from pvg_hf.tasks.proofs.writing import FLAW_KINDS, PERFECT
from tools.pretraining.proof_texts import PRACTICE, ProofsCorpusConfig, write_faulty_proof, write_proofs_corpus

STORY = parse_story(
    "Ana has 12 pens. On Monday Ana finds 5 pens. On Tuesday Ana loses 3 pens. How many pens does Ana have?"
)


def test_faulty_proofs_have_flaws_of_every_kind_in_numbers_that_have_a_token():
    rng, kinds = derive_rng("faulty"), Counter()
    for _ in range(300):
        for line in check_lines(STORY, write_faulty_proof(rng, STORY, 0.3)):
            kinds[line.kind] += 1
            assert all(int(number) <= MAX_NUMBER for number in re.findall(r"\d+", line.expected + line.quote))
    assert kinds.keys() == {None, *FLAW_KINDS, *OmissionKind}
    share = 1 - kinds[None] / kinds.total()
    assert 0.3 < share < 0.45  # .3 for flaws, .15 for omissions, which overlap and may remove a flaw


@pytest.mark.parametrize("corpus", [ProofsCorpusConfig(rates=PERFECT), PRACTICE], ids=["default", "practice"])
def test_the_corpus_without_errors_is_the_truth(corpus):
    config = replace(corpus, judge_share=0.0, prove_share=0.0)
    for row in write_proofs_corpus(derive_rng("corpus"), 200, config):
        problem, _, rest = row["prompt"].partition("\nproof:\n")
        proof = rest.removesuffix("\nevaluation:\n")
        evaluation, lines = read_evaluation(row["completion"]), check_lines(parse_story(problem), proof)
        assert evaluation.has_form
        assert evaluation.score == grade_proof(find_issues(parse_story(problem), proof))
        assert evaluation.analysis == write_analysis(lines)


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
