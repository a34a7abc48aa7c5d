"""Marked solutions agree with the checker's findings."""

from collections import Counter

from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.arithmetic.corpus import FINE, MARKS, VERDICTS, write_marked_texts
from pvg_hf.tasks.arithmetic.flaw import FlawKind
from pvg_hf.tasks.arithmetic.stories.grammar import parse_story
from pvg_hf.tasks.arithmetic.stories.solutions import read_conclusion
from pvg_hf.tasks.arithmetic.task import find_flaws

KIND_OF = {mark: kind for kind, mark in MARKS.items()} | {FINE: None}


def read(segments):
    """The problem, the solution without its marks, the marks by line, and the verdict."""
    (problem, _), *body, (end, _), (verdict, _) = segments
    lines, marks = [], {}
    for text, _ in body:
        if text in KIND_OF:
            marks[len(lines) - 1] = KIND_OF[text]
        elif text != "\n":
            lines.append(text)
    assert end == "</s>"
    return problem, "\n".join(lines), marks, verdict


def marked_texts(number):
    return list(write_marked_texts(derive_rng("marks"), number, range(2, 7), 0.5, "</s>"))


def test_marks_and_verdicts_agree_with_the_checker():
    seen = Counter()
    for segments in marked_texts(400):
        problem, solution, marks, verdict = read(segments)
        flaws = {flaw.step: flaw.kind for flaw in find_flaws(problem, solution)}
        assert marks == {line: flaws.get(line) for line in marks}
        assert verdict == VERDICTS[read_conclusion(solution) == parse_story(problem).answer]
        seen.update([*marks.values(), verdict])
    assert seen.keys() >= {None, *list(FlawKind)[:5], *VERDICTS.values()}


def test_the_loss_covers_marks_and_half_of_the_correct_lines():
    learned = Counter()
    for segments in marked_texts(100):
        problem, solution, _, verdict = read(segments)
        flawed = {flaw.step for flaw in find_flaws(problem, solution)}
        assert not segments[0][1]
        assert segments[-1] == (verdict, True)
        line = -1
        for text, is_learned in segments[1:-2]:
            line += text not in KIND_OF and text != "\n"
            if text in KIND_OF:
                assert is_learned
            elif text == "\n" or line in flawed:
                assert not is_learned
            else:
                learned[is_learned] += 1
    # One line in two: 0.5 +- 5 standard errors.
    share = learned[True] / learned.total()
    assert abs(share - 0.5) < 5 * 0.5 / learned.total() ** 0.5
