import itertools
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from datasets import Features
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.core.disk_names import round_name
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.mixture import mixture_weights
from pvg_hf.data.pairs.build import PAIR_FEATURES, build_pairs
from pvg_hf.data.pool import iterate_pool, write_pool
from pvg_hf.data.schema import SOLUTION_COLUMNS, environment_name
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.grammar import puzzle_of
from pvg_hf.tasks.arithmetic.writer import FLAW_KINDS, sample_solution
from tests.support.examples import examples
from tests.support.pool_rows import solution

FEATURES = Features(SOLUTION_COLUMNS)


@pytest.fixture
def build(tmp_path):
    def build(rows, round_index=0, **kwargs):
        write_pool(tmp_path / "pool.parquet", [rows], FEATURES)
        settings = {"seed": 0, "solutions_per_problem": 4, **kwargs}
        settings.setdefault("weights", mixture_weights("equal_per_round", round_index))
        return build_pairs(tmp_path / "pool.parquet", round_index=round_index, **settings)

    return build


def test_every_column_of_a_pair_is_filled(build):
    pairs, report = build(
        [
            solution("a", "right", 1, round_index=0, role="sneaky", correct=False),  # the label was flipped
            solution("a", "wrong", 0, round_index=1, role="helpful"),
        ],
        round_index=2,
        solutions_per_problem=2,
    )
    assert pairs.features == PAIR_FEATURES
    assert pairs.to_list() == [
        {
            "problem_id": "a",
            "problem": "Problem a?",
            "chosen": "right",
            "rejected": "wrong",
            "chosen_role": "sneaky",
            "rejected_role": "helpful",
            "chosen_round": 0,
            "rejected_round": 1,
            "environment": "round-001-helpful",
            "source": "round-001",
            "chosen_correct": False,
            "rejected_correct": False,
        }
    ]
    assert (report.num_pairs, report.num_problems, report.num_solutions) == (1, 1, 2)
    assert (report.correct, report.incorrect) == ({"round-000": 1}, {"round-001": 1})


def test_excluded_solutions_are_counted(build):
    pairs, report = build(
        [
            solution("a", "right", 1, sample=0),
            solution("a", "wrong", 0, sample=1),
            solution("a", " wrong\n", 0, sample=2),  # the same text
            solution("a", "cut", 0, sample=3, outcome="TRUNCATED"),
            solution("a", "no answer", 0, sample=4, outcome="NO_ANSWER"),
            solution("a", "no certificate", None, sample=5, outcome="UNCERTIFIED"),
            solution("a", "abstained", None, sample=6),
            solution("a", "later", 0, round_index=0, role="sneaky"),
            solution("a", "of another part", 0, sample=7, part="prover"),
            solution("b", "all right", 1),
            solution("c", "all wrong", 0),
            solution("d", "all cut", 0, outcome="TRUNCATED"),
        ]
    )
    assert [(row["chosen"], row["rejected"]) for row in pairs] == [("right", "wrong")]
    assert report.num_solutions == 11
    assert report.dropped == {"outside_mixture": 1, "failed": 4, "abstained": 1, "duplicate_text": 1}
    assert report.failed == {"TRUNCATED": 2, "NO_ANSWER": 1, "UNCERTIFIED": 1}
    assert report.without_pair == {"no_incorrect": 1, "no_correct": 1, "no_solution": 1, "one_text": 0}
    # Four problems with two slots per label; a has one of each, b a correct one, c an incorrect one.
    assert report.short == {"base/too_few_correct": 6, "base/too_few_incorrect": 6}
    assert report.unfilled == 12


def test_a_text_counts_for_every_round_that_wrote_it_and_once_within_a_round(build):
    rows = [
        solution("a", "same", 0, round_index=1, role="sneaky"),
        solution("a", "same", 0, round_index=0, role="sneaky", sample=1),
        solution("a", "same", 0, round_index=0, role="helpful"),
        solution("a", "right", 1, round_index=0, role="helpful", sample=1),
        solution("a", "right", 1, round_index=1, role="helpful"),
    ]
    pairs, report = build(rows, round_index=2, weights={0: 0.5, 1: 0.5})
    assert sorted(pairs["environment"]) == ["round-000-helpful", "round-001-sneaky"]
    assert report.correct == report.incorrect == {"round-000": 1, "round-001": 1}
    assert report.dropped["duplicate_text"] == 1
    assert report.unfilled == 0


@pytest.mark.parametrize("pairs", ["labelled", "all"])
def test_a_text_is_not_paired_with_itself(build, pairs):
    """Its two writers' labels differ, as one of them was flipped."""
    rows = [
        solution(problem, "same", label, round_index=k, correct=True)
        for problem in ("a", "b")
        for k, label in ((-1, 1), (0, 0))
    ]
    rows.append(solution("a", "other", 0, round_index=0, sample=1))
    built, report = build(rows, round_index=1, solutions_per_problem=8, pairs=pairs)
    assert {(row["problem_id"], row["chosen"], row["rejected"]) for row in built} == {("a", "same", "other")}
    assert report.without_pair["one_text"] == 1


def written_in_the_built_in_world(num_problems=100, num_samples=8):
    """
    Pools of the base prover and of two rounds on the arithmetic task. A round wrote one text of its own, an incorrect
    one, and otherwise the texts of the base prover: a source that lost these would have nothing correct.
    """
    task = ArithmeticTask(num_train=num_problems, num_test=1)
    for row in task.problems("train"):
        puzzle, written = puzzle_of(row["problem"]), {}
        for k in (-1, 0, 1):
            rng = derive_rng("pool", row["problem_id"], k)
            for sample in range(num_samples):
                kind = FLAW_KINDS[rng.integers(len(FLAW_KINDS))] if sample % 2 else None
                text = sample_solution(rng, puzzle, kind)
                written[k, sample] = text = written[-1, sample] if k >= 0 and sample < num_samples - 1 else text
                correct = task.grade(row, text).correct
                role = "base" if k < 0 else ("helpful", "sneaky")[sample % 2]
                yield solution(row["problem_id"], text, int(correct), round_index=k, role=role, sample=sample)


def test_every_source_is_half_correct_and_half_incorrect_in_the_built_in_world(build):
    """Each of three sources fills one slot of each label, in all 100 problems of 6 slots."""
    _, report = build(written_in_the_built_in_world(), round_index=2, solutions_per_problem=6)
    names = ("base", "round-000", "round-001")
    slots = dict.fromkeys(names, 100)
    for label, found in (("correct", report.correct), ("incorrect", report.incorrect)):
        short = {name: report.short.get(f"{name}/too_few_{label}", 0) for name in names}
        assert max(short.values()) <= 10
        assert sum(found.values()) == sum(slots.values())
        for name in names:
            assert abs(found[name] - slots[name]) <= sum(short.values())
    assert report.unfilled == 0


def test_scarce_solutions_are_used_evenly(build):
    # 4 pairs from 2 correct and 3 incorrect solutions: uses 2, 2 and 2, 1, 1.
    rows = [solution("a", f"right {index}", 1, sample=index) for index in range(2)]
    rows += [solution("a", f"wrong {index}", 0, sample=2 + index) for index in range(3)]
    pairs, _ = build(rows, solutions_per_problem=8)
    assert sorted(Counter(pairs["chosen"]).values()) == [2, 2]
    assert sorted(Counter(pairs["rejected"]).values()) == [1, 1, 2]


@pytest.mark.parametrize(("num_correct", "num_incorrect"), [(2, 3), (2, 2), (4, 6), (1, 5)])
def test_no_pair_is_repeated(build, num_correct, num_incorrect):
    rows = [solution("a", f"right {index}", 1, sample=index) for index in range(num_correct)]
    rows += [solution("a", f"wrong {index}", 0, sample=10 + index) for index in range(num_incorrect)]
    pairs, _ = build(rows, solutions_per_problem=100)
    assert len(pairs) == len(set(zip(pairs["chosen"], pairs["rejected"]))) == num_correct * num_incorrect


@pytest.mark.parametrize(("correct_source", "num_references"), [("prover", 0), ("both", 2), ("dataset", 6)])
def test_correct_sides_come_from_the_configured_source(build, correct_source, num_references):
    # Two problems with 6 slots: 3 pairs each, of which `both` gives the reference one.
    rows = [
        solution(problem, f"{name} {sample}", label, sample=sample + 10 * label)
        for problem in ("a", "b")
        for name, label in (("right", 1), ("wrong", 0))
        for sample in range(5)
    ]
    pairs, report = build(rows, solutions_per_problem=6, correct_source=correct_source)
    assert len(pairs) == 6
    by_reference = [row for row in pairs if row["chosen_role"] == "reference"]
    assert len(by_reference) == num_references
    for row in by_reference:
        assert row["chosen"] == f"Reference of {row['problem_id']}."
        assert (row["chosen_round"], row["chosen_correct"], row["environment"]) == (None, True, "base")
    assert all(row["chosen"].startswith("right") for row in pairs if row["chosen_role"] != "reference")
    assert report.correct.get("reference", 0) == (2 if num_references else 0)
    assert report.correct.get("base", 0) == 6 - num_references


def test_a_solution_is_never_paired_with_its_own_text_as_reference(build):
    rows = [
        solution("a", "Reference of a.\n", 0, correct=True),  # the label was flipped
        solution("a", "wrong", 0, sample=1),
    ]
    pairs, report = build(rows, correct_source="dataset")
    assert pairs["rejected"][:] == ["wrong"]
    assert report.dropped["same_as_reference"] == 1


def test_the_pool_is_streamed_twice(build, monkeypatch):
    passes = []

    def counted(paths, columns):
        passes.append(columns)
        return iterate_pool(paths, columns)

    monkeypatch.setattr("pvg_hf.data.pairs.choose.iterate_pool", counted)
    monkeypatch.setattr("pvg_hf.data.pairs.build.iterate_pool", counted)
    rows = [solution("a", name, label, sample=label) for name, label in (("right", 1), ("wrong", 0), ("wronger", 0))]
    build(rows, correct_source="both")
    assert [set(columns) & {"problem", "reference", "solution"} for columns in passes] == [
        {"reference", "solution"},  # to leave out solutions that equal the reference
        {"problem", "reference", "solution"},
    ]


def check_every_solution_is_counted_once(report):
    used = {**report.correct, "reference": 0}
    counts = (report.dropped, report.unused, used, report.incorrect)
    assert sum(sum(count.values()) for count in counts) == report.num_solutions
    assert sum(report.failed.values()) == report.dropped["failed"]


@pytest.mark.parametrize(
    ("correct_source", "slots", "of_correct"),
    [
        ("prover", 4, {"not_chosen/base/correct": 8}),  # 2 of 10 have a slot
        ("both", 4, {"not_chosen/base/correct": 9}),  # the reference takes one slot
        ("both", 2, {"replaced_by_reference/base/correct": 10}),  # the only one
        ("dataset", 4, {"replaced_by_reference/base/correct": 10}),
    ],
)
def test_unused_solutions_are_counted(build, correct_source, slots, of_correct):
    rows = [
        solution("a", f"{name} {sample}", label, sample=sample + 10 * label)
        for name, label in (("right", 1), ("wrong", 0))
        for sample in range(10)
    ]
    rows += [solution("b", "right", 1, round_index=0, role="sneaky"), solution("b", "right too", 1, sample=1)]
    _, report = build(rows, round_index=1, solutions_per_problem=slots, correct_source=correct_source)
    assert report.unused == {
        **of_correct,
        "not_chosen/base/incorrect": 10 - slots // 2,
        "no_partner/base/correct": 1,
        "no_partner/round-000/correct": 1,
    }
    check_every_solution_is_counted_once(report)


def random_rows(draw):
    rounds = [(-1, "base"), (0, "helpful"), (0, "sneaky"), (1, "helpful"), (1, "sneaky")]
    return [
        solution(
            f"p{draw(st.integers(0, 3))}",
            f"text {draw(st.integers(0, 12))}{draw(st.sampled_from(['', ' ']))}",
            draw(st.sampled_from([0, 1, 1, 0, None])),
            round_index=round_index,
            role=role,
            correct=draw(st.booleans()),
            sample=sample,
            outcome=draw(st.sampled_from(["VERIFIED"] * 5 + ["NO_ANSWER"])),
        )
        for sample in range(draw(st.integers(0, 12)))
        for round_index, role in [draw(st.sampled_from(rounds))]
    ] + [solution("p9", "right", 1, sample=100), solution("p9", "wrong", 0, sample=101)]


@examples(60)
@given(
    rows=st.composite(random_rows)(),
    slots=st.integers(2, 9),
    correct_source=st.sampled_from(["prover", "dataset", "both"]),
    data=st.data(),
)
def test_pairs_satisfy_their_invariants(rows, slots, correct_source, data):
    arguments = {
        "seed": 1,
        "round_index": 2,
        "weights": mixture_weights("equal_per_round", 2),
        "solutions_per_problem": slots,
        "correct_source": correct_source,
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "a.parquet", Path(folder) / "b.parquet"]
        write_pool(paths[0], [rows], FEATURES)
        pairs, report = build_pairs(paths[0], **arguments)

        shuffled = data.draw(st.permutations(rows))
        cut = data.draw(st.integers(0, len(rows)))
        for path, part in zip(paths, (shuffled[:cut], shuffled[cut:])):
            write_pool(path, [part], FEATURES)
        again, report_again = build_pairs(paths, **arguments)
    assert again.to_list() == pairs.to_list()
    assert report_again == report
    check_every_solution_is_counted_once(report)

    known = {(row["problem_id"], row["solution"], row["round_index"], row["role"], row["label"]) for row in rows}
    for row in pairs:
        problem = row["problem_id"]
        assert row["problem"] == f"Problem {problem}?"
        assert row["chosen"].strip() != row["rejected"].strip()
        assert (problem, row["rejected"], row["rejected_round"], row["rejected_role"], 0) in known
        if row["chosen_role"] == "reference":
            assert correct_source != "prover"
            assert row["chosen"] == f"Reference of {problem}."
        else:
            assert correct_source != "dataset"
            assert (problem, row["chosen"], row["chosen_round"], row["chosen_role"], 1) in known
        assert row["environment"] == environment_name(row["rejected_round"], row["rejected_role"])
        assert row["source"] == round_name(row["rejected_round"])
    sides = [(f"{side}_{name}" for name in ("round", "role")) for side in ("chosen", "rejected")]
    writers = ["problem_id", "chosen", "rejected", *itertools.chain(*sides)]
    assert len({tuple(row[name] for name in writers) for row in pairs}) == len(pairs) == report.num_pairs
    labels = {(row["problem_id"], row["solution"].strip()): set() for row in rows}
    for row in rows:
        labels[row["problem_id"], row["solution"].strip()].add(row["label"])
    for problem, count in Counter(pairs["problem_id"]).items():
        assert count <= slots // 2
        if any({0, 1} <= found for (of, _), found in labels.items() if of == problem):
            continue  # a pair of a text with itself may have been left out
        for side in ("chosen", "rejected"):
            uses = Counter((row[side], row[f"{side}_round"]) for row in pairs if row["problem_id"] == problem).values()
            assert max(uses) - min(uses) <= 1


def test_pairs_are_shuffled_by_seed_and_round(build):
    rows = [
        solution(f"p{problem:02d}", name, label, sample=label)
        for problem in range(30)
        for name, label in (("right", 1), ("wrong", 0))
    ]
    orders = [
        build(rows, round_index, seed=seed, weights={-1: 1.0})[0]["problem_id"][:]
        for seed, round_index in ((0, 0), (1, 0), (0, 1), (0, 0))
    ]
    assert orders[0] == orders[3] != sorted(orders[0])
    assert len({tuple(order) for order in orders}) == 3
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(orders[0]))}


def test_refuses_a_pool_without_a_pair_and_says_why(build):
    rows = [
        solution("a", "right", 1),
        solution("b", "cut", 0, outcome="TRUNCATED"),
        solution("c", "nothing", 0, outcome="NO_ANSWER"),
        solution("c", "nothing at all", 0, outcome="NO_ANSWER", sample=1),
    ]
    with pytest.raises(ValueError, match=r"1 .*no incorrect.*2 .*no solution.*3 .*\(NO_ANSWER 2, TRUNCATED 1\)"):
        build(rows)
    with pytest.raises(ValueError, match="no solution to"):
        build([])
    with pytest.raises(ValueError, match="no solution to"):
        build(rows, parts=("verifier_heldout",))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"solutions_per_problem": 1}, "`solutions_per_problem` must be at least 2.*got 1"),
        ({"correct_source": "teacher"}, "`correct_source` is `teacher`"),
        ({"parts": "verifier"}, "must be a sequence of some of"),
        ({"parts": ()}, r"got \(\)"),
        ({"parts": ("train",)}, r"got \('train',\)"),
        ({"weights": {-1: 0.0}}, "a weight above 0"),
    ],
)
def test_refuses_settings_out_of_range(build, kwargs, message):
    with pytest.raises(ValueError, match=message):
        build([solution("a", "right", 1), solution("a", "wrong", 0, sample=1)], **kwargs)
