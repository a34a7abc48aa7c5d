"""
The catalogue of figures, each written once, for the tables of the report, the app and the cards, and for the docs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class FigureKind:
    """
    A figure of a round, or several that differ in a part of their keys only.

    `key` is that in `metrics.json` after `round/`. A name in braces stands for any part without `/`; what is in
    brackets may be missing, e.g. `verifier_auc[/{environment}]`. `heading` has the same names in braces, `of` says
    whom it is about (`prover`, `heldout`, ...), and `meaning` has no full stop. `higher_is_better` is `None` if
    neither is better, `digits` counts those after the point, and `has_base` says whether the base prover has the
    figure too, under `base_` and the key.
    """

    key: str
    heading: str
    of: str
    meaning: str
    higher_is_better: bool | None = None
    digits: int = 3
    has_base: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the keys of this kind, with a group for each name in braces."""
        text = re.escape(self.key).replace(r"\[", "(?:").replace(r"\]", ")?")
        for name in dict.fromkeys(re.findall(r"\{(\w+)\}", self.key)):
            mark = rf"\{{{name}\}}"  # at the first place it matches anything, afterwards the same
            text = text.replace(mark, f"(?P<{name}>[^/]+)", 1).replace(mark, f"(?P={name})")
        return re.compile(f"(?:base_)?{text}" if self.has_base else text)

    def heading_of(self, key: str, *, names_role: bool = True) -> str:
        """Return the heading of a key of this kind, without the role in a table whose rows are roles."""
        match = self.pattern.fullmatch(key)
        assert match is not None
        parts = {name: (text or "").replace("_", " ") for name, text in match.groupdict().items()}
        if not names_role:
            parts["role"] = ""
        return self.heading.format_map(parts).strip()


# fmt: off
CATALOGUE = (
    FigureKind("accuracy/best_helpful", "best helpful checkpoint", of="prover", higher_is_better=True,
        meaning="share of the kept helpful checkpoint's solutions that are correct"),
    FigureKind("accuracy/{role}", "{role} accuracy", of="prover", has_base=True,
        meaning="share of all solutions that are correct, by the last checkpoint of the prover"),
    FigureKind("accuracy_change/best_helpful", "best helpful checkpoint, against the base",
        of="prover", higher_is_better=True,
        meaning="accuracy of the kept helpful checkpoint less the base prover's in the helpful role, paired by "
        "problem"),
    FigureKind("accuracy_change/{role}", "{role} accuracy, against the base", of="prover",
        meaning="accuracy less the base prover's in the same role, paired by problem"),
    FigureKind("valid_sneaky", "sneaky valid mistakes", of="prover", higher_is_better=True, has_base=True,
        meaning="share of all sneaky solutions that are incorrect and did not fail, which is the aim of the role; "
        "failed "
        "ones (cut, without an answer, uncertified) mislead nobody"),
    FigureKind("valid_sneaky_change", "sneaky valid mistakes, against the base", of="prover", higher_is_better=True,
        meaning="share of valid mistakes less the base prover's, paired by problem"),
    FigureKind("failed/{role}", "{role} failed", of="prover", higher_is_better=False, has_base=True,
        meaning="share of solutions that were cut at the maximum length, have no answer or are uncertified"),
    FigureKind("answered/{role}", "{role} answered", of="prover", higher_is_better=True, has_base=True,
        meaning="share of solutions with a final answer"),
    FigureKind("truncated/{role}", "{role} truncated", of="prover", higher_is_better=False, has_base=True,
        meaning="share of solutions that were cut at the maximum length"),
    FigureKind("accuracy_strict/{role}", "{role} strict accuracy", of="prover", has_base=True,
        meaning="accuracy by the answer after a mark such as ####"),
    FigureKind("accuracy_lenient/{role}", "{role} lenient accuracy", of="prover", has_base=True,
        meaning="accuracy by the answer after a mark, or else by the last number"),
    FigureKind("score/{cell}", "score of {cell}", of="prover", digits=2, has_base=True,
        meaning="mean score of the solutions of a role and correctness that did not fail"),
    FigureKind("score_change/sneaky_incorrect", "score of sneaky mistakes, against the base's", of="prover",
        meaning="mean score of valid sneaky mistakes less that of the base prover's, by the same verifier"),
    FigureKind("distinct/{role}", "{role} distinct texts", of="prover", higher_is_better=True, has_base=True,
        meaning="share of a problem's solutions with distinct texts; comparable only between equal numbers of "
        "solutions"),
    FigureKind("duplicates/{role}", "{role} duplicates per problem",
        of="prover", higher_is_better=False, digits=2, has_base=True,
        meaning="solutions of a problem that repeat another one's text; n counts problems"),
    FigureKind("distinct_correct/{role}", "{role} correct texts per problem",
        of="prover", higher_is_better=True, digits=2, has_base=True,
        meaning="distinct correct texts of a problem that has one; n counts problems"),
    FigureKind("num_tokens/{role}", "{role} tokens per solution", of="prover", digits=1, has_base=True,
        meaning="mean length in the prover's tokens"),
    FigureKind("step_validity/{role}", "{role} valid steps", of="prover", has_base=True,
        meaning="mean share of a solution's steps in which the task's checker finds no flaw"),
    FigureKind("flawed_correct/{role}", "{role} flawed though correct",
        of="prover", higher_is_better=False, has_base=True,
        meaning="share of the solutions with the right answer in which the checker finds a flaw"),
    FigureKind("implicit_share/{role}", "{role} implicit share", of="prover", higher_is_better=False, has_base=True,
        meaning="mean share of what the steps rest on that a solution leaves to the reader to work out"),
    FigureKind("new_texts/{cell}", "new texts, {cell}", of="prover", higher_is_better=True,
        meaning="share of the distinct texts that the round's prover wrote for the verifier's problems and no earlier "
        "prover wrote for the same problem; verifiers learn nothing new from the others"),
    FigureKind("parity_step", "parity at step", of="training", digits=0,
        meaning="first step of the sneaky role's training at which its incorrect solutions scored as high as helpful "
        "correct ones, in smoothed means and within the margin stopping.score_parity_threshold, with confidence "
        "stopping.parity_confidence; no value if this was not reached within n steps"),
    FigureKind("parity_gap", "gap to parity", of="training", digits=2,
        meaning="mean score of helpful correct minus that of sneaky incorrect solutions at the end of the sneaky "
        "role's "
        "training, smoothed"),
    FigureKind("late_change/{role}", "{role} accuracy, late change", of="training",
        meaning="mean accuracy of the role's training solutions over the last fifth of its steps less that over the "
        "middle fifth; n counts the steps of a fifth"),
    FigureKind("completeness", "completeness, own threshold", of="decisions", higher_is_better=True,
        meaning="share of helpful correct solutions accepted at the verifier's own threshold, which 95 % of the "
        "correct held-out solutions reach"),
    FigureKind("soundness", "soundness, own threshold", of="decisions",
        meaning="share of sneaky mistakes rejected at the verifier's own threshold. A verifier that rejects more of "
        "everything has a higher soundness: read it with the completeness, and compare verifiers at 95 % "
        "completeness"),
    FigureKind("exploit_rate", "exploit rate, own threshold", of="decisions",
        meaning="1 less the soundness, at the verifier's own threshold"),
    FigureKind("score_gap", "score gap", of="decisions", higher_is_better=True, digits=2,
        meaning="mean score of helpful correct minus that of sneaky incorrect solutions; n counts problems"),
    FigureKind("threshold", "own threshold", of="decisions",
        meaning="lowest score that the verifier accepts: 95 % of the correct held-out solutions reach it; n counts "
        "held-out solutions"),
    FigureKind("test_pair_accuracy/base", "pair accuracy, base prover", of="decisions", higher_is_better=True,
        meaning="share of such pairs of the base prover's test solutions that are ordered rightly"),
    FigureKind("test_pair_accuracy", "pair accuracy, this prover", of="decisions", higher_is_better=True,
        meaning="share of pairs of a correct and an incorrect test solution to one problem, whatever their roles, in "
        "which the correct one scores higher, of the prover that was trained against this verifier; chance .5"),
    FigureKind("best_of_n/{n}", "best of {n}", of="decisions", higher_is_better=True,
        meaning="balanced best-of-n: share of problems in which the highest-scoring of n/2 correct and n/2 incorrect "
        "helpful solutions is correct; chance .5, below it the verifier prefers convincing mistakes. Only "
        "problems with so many of both kinds count"),
    FigureKind("best_of_n_predicted/{n}", "best of {n}, predicted", of="decisions", higher_is_better=True,
        meaning="balanced best-of-n as predicted from the ROC curve of all helpful solutions as if all problems were "
        "alike (Dorner et al. 2025)"),
    FigureKind("test_auc", "AUC, this prover", of="decisions", higher_is_better=True,
        meaning="area under the ROC curve on all test solutions of the verifier's own prover; chance .5"),
    FigureKind("test_partial_auc", "partial AUC, FPR up to .1", of="decisions", higher_is_better=True,
        meaning="mean true positive rate (TPR: share of correct solutions accepted) over false positive rates (FPR: "
        "of "
        "incorrect ones) up to .1; chance .05"),
    FigureKind("test_tpr_at_{fpr}", "TPR at FPR {fpr}", of="decisions", higher_is_better=True,
        meaning="share of correct solutions accepted at the threshold where this share of the incorrect ones is"),
    FigureKind("test_g_mean", "g-mean", of="decisions", higher_is_better=True,
        meaning="geometric mean of the TPR and of the share of incorrect solutions rejected, at the verifier's "
        "own threshold"),
    FigureKind("test_monitor_partial_auc", "monitor: partial AUC", of="decisions", higher_is_better=True,
        meaning="the verifier as a monitor that flags the least convincing solutions: mean recall (share of sneaky "
        "mistakes flagged) over false positive rates (share of helpful correct solutions flagged) up to .1; "
        "chance .05"),
    FigureKind("test_monitor_recall_at_{fpr}", "monitor: recall at FPR {fpr}", of="decisions", higher_is_better=True,
        meaning="share of sneaky mistakes flagged where this share of the helpful correct solutions is"),
    FigureKind("answers/first", "the first solution", of="answers", higher_is_better=True,
        meaning="share of problems whose first solution is correct: the prover alone"),
    FigureKind("answers/majority", "the most frequent answer", of="answers", higher_is_better=True,
        meaning="share in which it is correct: a vote among the same solutions, without a verifier; ties are broken "
        "at "
        "random"),
    FigureKind("answers/weighted", "the vote weighted by score", of="answers", higher_is_better=True,
        meaning="a vote in which a solution counts by its probability of being correct, given its score"),
    FigureKind("answers/best", "the verifier's choice", of="answers", higher_is_better=True,
        meaning="share in which the highest-scoring solution with an answer is correct"),
    FigureKind("answers/gain", "choice less first", of="answers", higher_is_better=True,
        meaning="share of correct choices less that of correct first solutions, paired by problem"),
    FigureKind("answers/coverage_{p}", "answered at {p}", of="answers", higher_is_better=True,
        meaning="share of problems whose choice is correct with at least this probability, by Platt scaling of its "
        "score,"
        " fitted on the other half of the problems"),
    FigureKind("answers/accuracy_{p}", "correct of these, at {p}", of="answers", higher_is_better=True,
        meaning="share of the problems answered at this probability whose choice is correct"),
    FigureKind("verifier_mixture_pair_accuracy", "pair accuracy, own mixture", of="heldout", higher_is_better=True,
        meaning="pair accuracy on pairs that are built as those of the training are, from the held-out problems"),
    FigureKind("verifier_pair_accuracy[/{environment}]", "pair accuracy, held-out",
        of="heldout", higher_is_better=True,
        meaning="share of pairs of a correct and an incorrect solution to one held-out problem in which the correct "
        "one "
        "scores higher. The problems are those of the verifier's part that no verifier was trained on, the "
        "solutions those of the base prover and all earlier provers"),
    FigureKind("verifier_auc[/{environment}]", "AUC, held-out", of="heldout", higher_is_better=True,
        meaning="share of such pairs over any two held-out problems (area under the ROC curve); chance .5"),
    FigureKind("verifier_accuracy[/{environment}]", "accuracy, held-out", of="heldout", higher_is_better=True,
        meaning="share of held-out solutions judged rightly: as correct above the score with the highest Youden J, "
        "which each half of the problems takes from the other"),
    FigureKind("verifier_tpr[/{environment}]", "true positive rate, held-out", of="heldout", higher_is_better=True,
        meaning="share of correct held-out solutions judged correct, in the same way"),
    FigureKind("verifier_fpr[/{environment}]", "false positive rate, held-out", of="heldout", higher_is_better=False,
        meaning="share of incorrect held-out solutions judged correct, in the same way"),
    FigureKind("verifier_youden_j[/{environment}]", "Youden J, held-out", of="heldout", higher_is_better=True,
        meaning="true less false positive rate on held-out solutions; n counts problems"),
    FigureKind("verifier_calibration_error[/{environment}]", "calibration error", of="heldout", higher_is_better=False,
        meaning="mean distance of sigmoid(score) from the share correct, in ten bins. Sampling error adds to it in "
        "every "
        "resample, so that its interval may lie above the value"),
    FigureKind("author_separability", "authors told apart, held-out", of="heldout", higher_is_better=False,
        meaning="AUC of a classifier that tells reference solutions from the provers' by their letters alone. Unless "
        "it "
        "is near .5, pair accuracy is no evidence of checking"),
    FigureKind("pools/accepted/{round}/{round}", "own prover's mistakes accepted at 95 % completeness", of="pools",
        higher_is_better=False,
        meaning="share of its own prover's sneaky mistakes that a verifier accepts at the threshold where it accepts "
        "95 % of "
        "that prover's helpful correct solutions; n counts sneaky mistakes"),
    FigureKind("pools/accepted/{verifier}/{pool}", "sneaky mistakes accepted at 95 % completeness",
        of="pools", higher_is_better=False,
        meaning="share of a prover's sneaky mistakes that a verifier accepts at the threshold where it accepts 95 % "
        "of "
        "that prover's helpful correct solutions, so that all verifiers are equally complete; n counts sneaky "
        "mistakes"),
    FigureKind("pools/accepted_change/{verifier}/{pool}", "sneaky mistakes accepted, against the pool's own verifier",
        of="pools", higher_is_better=False,
        meaning="share accepted less that of the verifier which the prover was trained against (for the base prover, "
        "verifier 0), on the same solutions; n counts problems"),
    FigureKind("pools/auc/{verifier}/{pool}", "AUC, every prover", of="pools", higher_is_better=True,
        meaning="area under the ROC curve on all test solutions of the prover that did not fail, whatever their "
        "roles"),
    FigureKind("pools/pair_accuracy/{verifier}/{pool}", "pair accuracy, every prover",
        of="pools", higher_is_better=True,
        meaning="share of pairs of a correct and an incorrect solution of the prover to one problem that are ordered "
        "rightly"),
    FigureKind("accepted_role/{role}/{kind}", "{role}, {kind}", of="acceptance",
        meaning="share accepted of the test solutions that earlier rounds' provers wrote in a role and that did not "
        "fail,"
        " by the number of flaws that the task's checker marks, or by correctness if it marks none. A verifier "
        "that checks accepts equal shares of one kind in both roles, and fewer solutions with more flaws; "
        "different shares mean that it recognises the role, or that one role's mistakes are easier to see"),
    FigureKind("accepted_flaw/{kind}", "accepted with the first flaw {kind}", of="acceptance", higher_is_better=False,
        meaning="share accepted of the sneaky mistakes whose first flaw is of this kind; for tasks with the column "
        "first_flaw_kind"),
    FigureKind("accepted_form/{side}/{form}", "{side}, {form}", of="acceptance",
        meaning="share accepted of the helpful correct or sneaky incorrect solutions that leave none (explicit), less "
        "than half (partly) or more (implicit) of their steps to the reader; for tasks with the column "
        "implicit_share"),
    FigureKind("evaluations/format_rate", "form kept", of="evaluations", higher_is_better=True,
        meaning="share of the evaluations of test proofs, one each, that have the required form"),
    FigureKind("evaluations/accuracy", "score right", of="evaluations", higher_is_better=True,
        meaning="share with the true score; an unreadable score counts as wrong"),
    FigureKind("evaluations/false_positive_rate", "flawed proofs that got a 1",
        of="evaluations", higher_is_better=False,
        meaning="share of the proofs with the true score 0 that were given a 1"),
    FigureKind("evaluations/hallucinated", "named issues that do not exist", of="evaluations", higher_is_better=False,
        meaning="share of the named issues that the proof does not have; known if the task can check issues"),
    FigureKind("evaluations/confusion/{true}_as_{predicted}", "{true} predicted as {predicted}", of="evaluations",
        meaning="share of the proofs with one true score that were given another, or no readable one"),
    FigureKind("labels/coverage", "new proofs labelled", of="evaluations", higher_is_better=True,
        meaning="share of the round's proofs of the verifier's problems that got an automatic label (scaled "
        "verification)"),
    FigureKind("labels/precision", "labels right", of="evaluations", higher_is_better=True,
        meaning="share of the automatic labels that agree with the task's own scores"),
)
"""All figures of a round, the special cases of a pattern before it."""
# fmt: on


def find_kind(key: str) -> FigureKind:
    """Return the catalogue's entry of a key after `round/`; a `ValueError` if it has none."""
    found = next((kind for kind in CATALOGUE if kind.pattern.fullmatch(key)), None)
    if found is None:
        raise ValueError(f"The catalogue of figures has no entry for `{key}`.")
    return found


def heading_of(key: str) -> str:
    """Return the heading of a figure by its key after `round/`."""
    return find_kind(key).heading_of(key)


def explain(keys: Iterable[str], *, names_role: bool = True) -> dict[str, str]:
    """Return the meanings of figures by their headings; those of one kind together."""
    headings: dict[FigureKind, list[str]] = {}
    for key in keys:
        kind = find_kind(key)
        headings.setdefault(kind, []).append(kind.heading_of(key, names_role=names_role))
    return {"; ".join(dict.fromkeys(found)): f"{kind.meaning}." for kind, found in headings.items()}
