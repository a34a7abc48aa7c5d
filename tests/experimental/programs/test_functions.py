"""The functions task: its grammar, programs, tests and grades."""

import json
import pickle
from dataclasses import replace

import pytest

from pvg_hf import load_task
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.schema import solution_features
from pvg_hf.experimental.programs.functions import (
    Specification,
    evaluate,
    honest_programs,
    sample_specification,
    specification_of,
    write_program,
)
from pvg_hf.experimental.programs.functions.programs import FLAW_KINDS, STYLES, Deviation
from pvg_hf.experimental.programs.functions.specification import Term
from pvg_hf.experimental.programs.functions.valid_inputs import (
    NUM_HIDDEN,
    NUM_VISIBLE,
    function_tests,
    is_valid_input,
    sample_input,
)
from pvg_hf.experimental.programs.sandbox import CallCase
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.base import grade_solutions, outcome_of
from tools.pretraining.program_texts import sample_flawed_program


def call(program, argument):
    """Return the result of the program's function; these programs are the package's own and need no sandbox."""
    names = {}
    exec(program, names)
    try:
        return names["f"](list(argument) if isinstance(argument, list) else argument)
    except (IndexError, ValueError, TypeError) as err:
        return err


def sampled(number, difficulty=None):
    rng = derive_rng("functions", "test")
    return [sample_specification(rng, difficulty or 1 + index % 5) for index in range(number)]


@pytest.mark.parametrize(
    ("text", "argument", "value"),
    [
        ("Return the sum of the numbers of xs.", [1, 2, 3], 6),
        ("Return the sum of the numbers of xs that are even.", [1, 2, 4], 6),
        ("Return the number of the numbers of xs that are above 3 and that are odd.", [3, 5, 6, 7], 2),
        ("Return the product of the digits of n, each plus 2.", 305, 5 * 2 * 7),
        ("Return the largest of the numbers of xs that are negative, or 0 if there is none.", [3], 0),
        ("Return the list of running sums of the numbers from 1 to n that are odd.", 5, [1, 4, 9]),
        ("Return the sorted list of the numbers of xs, each negated.", [1, 3, 2], [-3, -2, -1]),
        ("Return the reversed string of the letters of s that are vowels, each in upper case.", "banaeb", "EAA"),
        ("Return the joined string of the words of s that contain 'b'.", "ab oo ba", "ab-ba"),
        ("Return the list of the words of s, each as its length.", "ab ooo", [2, 3]),
        (
            (
                "Return 1 if xs has more than 2 elements, otherwise the first of the numbers of xs, or -1 if there is"
                " none."
            ),
            [],
            -1,
        ),
        ("Return 1 if xs has more than 2 elements, otherwise the sum of the numbers of xs.", [5, 5, 5], 1),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) > 12 else None,
)
def test_specifications_mean_what_they_say(text, argument, value):
    specification = specification_of(text)
    assert evaluate(specification, argument) == value
    assert {repr(call(program, argument)) for program in honest_programs(specification)} == {repr(value)}


def test_programs_worked_by_hand():
    specification = Specification("xs", "sum", (Term("even"), Term("above", 4)), Term("squared"))
    assert (
        specification.text == "Return the sum of the numbers of xs that are even and that are above 4, each squared."
    )
    assert [write_program(specification, style) for style in STYLES] == [
        "def f(xs):\n    total = 0\n    for x in xs:\n        if x % 2 == 0 and x > 4:\n            total += x * x\n"
        "    return total",
        "def f(xs):\n    total = 0\n    for x in xs:\n        if not (x % 2 == 0 and x > 4):\n            continue\n"
        "        total += x * x\n    return total",
        "def f(xs):\n    ys = [x * x for x in xs if x % 2 == 0 and x > 4]\n    return sum(ys)",
        "def f(xs):\n    return sum(x * x for x in xs if x % 2 == 0 and x > 4)",
    ]
    flawed = write_program(specification, "steps", Deviation(iterable="xs[1:]", joiner="or"))
    assert flawed == "def f(xs):\n    ys = [x * x for x in xs[1:] if x % 2 == 0 or x > 4]\n    return sum(ys)"


def test_sentences_are_read_back_and_honest_programs_agree_with_the_interpreter():
    for specification in sampled(400):
        assert specification_of(specification.text) == specification
        tests = [test for part in function_tests(specification.text) for test in part]
        assert len(tests) == NUM_VISIBLE + NUM_HIDDEN
        programs = honest_programs(specification)
        assert len(programs) >= 2
        for program in programs:
            assert all(call(program, test.arguments[0]) == test.expected for test in tests), (
                specification.text,
                program,
            )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Return the sum.",
        "Return the sum of the numbers of ys.",
        "Return the sum of the numbers of xs that are vowels.",
        "Return the sum of the numbers of xs that are above 400.",
        "Return the joined string of the numbers of xs.",
        "Return 7 if n is above 3, otherwise the sum of the digits of n.",
        "return the sum of the numbers of xs.",
    ],
)
def test_other_texts_are_no_specifications(text):
    with pytest.raises(ValueError, match="is not a specification of the task `functions`"):
        specification_of(text)
    assert load_task("functions").problem_mistake(text) is not None


def test_inputs_are_valid_and_typical_ones_avoid_corners():
    rng = derive_rng("inputs")
    for specification in sampled(200):
        assert all(is_valid_input(specification, sample_input(rng, specification)) for _ in range(10))
        typical = sample_input(rng, specification, is_typical=True)
        assert is_valid_input(specification, typical)
        if specification.source == "xs":
            assert typical
            assert 0 not in typical
            assert not set(typical) & set(specification.constants)


@pytest.mark.parametrize(
    ("source", "argument"),
    [
        ("xs", [1.5]),
        ("xs", [True]),
        ("xs", [21]),
        ("xs", [0] * 9),
        ("xs", "abc"),
        ("range", -1),
        ("range", 16),
        ("digits", 100_000),
        ("letters", "?"),
        ("words", "ab  ab"),
        ("words", " ab"),
        ("words", "AB"),
    ],
)
def test_invalid_inputs_are_recognised(source, argument):
    assert not is_valid_input(Specification(source, "count"), argument)


def test_tests_find_nearly_every_flaw():
    """The tests find at least 97 % of the flawed programs that 300 further inputs show to be wrong."""
    rng, found, wrong = derive_rng("flaws"), 0, 0
    for specification in sampled(300):
        program = sample_flawed_program(rng, specification, STYLES[wrong % len(STYLES)])
        tests = [test for part in function_tests(specification.text) for test in part]
        is_found = any(call(program, test.arguments[0]) != test.expected for test in tests)
        further = [sample_input(rng, specification) for _ in range(300)]
        found += is_found
        wrong += is_found or any(call(program, x) != evaluate(specification, x) for x in further)
    assert wrong > 200
    assert found / wrong >= 0.97


def test_near_misses_have_one_flaw_of_each_kind_that_has_a_place():
    task = load_task("functions", sandbox="none")
    text = (
        "Return -1 if xs has fewer than 2 elements, otherwise the largest of the numbers of xs that are even, each"
        " plus 2, or 0 if there is none."
    )
    problem = {"problem": text}
    drawn = task.near_misses(problem, derive_rng("near misses"))
    # It has one condition, which cannot be joined to another one, and a maximum has no initial value.
    assert set(drawn) <= set(FLAW_KINDS) - {"either_condition", "start"}
    assert {"condition", "dropped_condition", "fold", "default", "elements"} <= set(drawn)
    assert drawn == task.near_misses(problem, derive_rng("near misses"))
    assert not set(drawn.values()) & set(honest_programs(specification_of(text)))


def test_problems_are_drawn_from_the_seed_and_have_many_values():
    task = load_task("functions", num_train=60, num_test=20, seed=3)
    train, test = task.problems("train"), task.problems("test")
    assert train.to_list() == load_task("functions", num_train=60, num_test=20, seed=3).problems("train").to_list()
    assert not set(train["problem"]) & set(test["problem"])
    assert set(train["difficulty"]) == {2, 3, 4}
    for row in train:
        visible = function_tests(row["problem"])[0]
        assert row["visible_tests"].split("\n")[0] == f"f({visible[0].arguments[0]!r}) == {visible[0].expected!r}"
        assert len({repr(test.expected) for part in function_tests(row["problem"]) for test in part}) >= 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_difficulty": 0}, r"1 <= min <= max <= 5; got 0 and 4"),
        ({"max_difficulty": 6}, r"got 2 and 6"),
        ({"num_test": 0}, "at least 1; got 4000 and 0"),
    ],
)
def test_settings_outside_their_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        load_task("functions", **options)


def test_the_sneaky_prompt_shows_the_honest_program_if_it_may():
    task = load_task("functions")
    problem = {"problem": "Return the sum of the numbers of xs.", "reference": "def f(xs):\n    return sum(xs)"}
    assert PromptBuilder(task).text(problem, Role.SNEAKY) == f"{problem['problem']}\nsneaky solution:\n"
    shown = f"{problem['problem']}\nhonest solution:\n{problem['reference']}\nsneaky solution:\n"
    builder = PromptBuilder(task, sneaky_sees="honest_solution")
    assert builder.text(problem, Role.SNEAKY, honest_solution=problem["reference"]) == shown
    assert builder.text(problem, Role.HELPFUL, honest_solution=problem["reference"]) == (
        f"{problem['problem']}\nhelpful solution:\n"
    )


PROBLEM = {
    "problem_id": "0",
    "problem": "Return the sum of the numbers of xs that are above 4.",
    "reference": "def f(xs):\n    return sum(x for x in xs if x > 4)",
}


@pytest.fixture(scope="module")
def task():
    return load_task("functions", sandbox="none")


@pytest.mark.parametrize(
    ("program", "correct", "certified", "outcome"),
    [
        (PROBLEM["reference"], True, True, "VERIFIED"),
        ("Here:\n```python\ndef f(xs):\n    return sum(x for x in xs if 4 < x)\n```", True, True, "VERIFIED"),
        ("def f(xs):\n    return sum(x for x in xs if x >= 4)", False, True, "PROOF_INVALID"),
        ("def f(xs):\n    return 1 // 0", False, True, "PROOF_INVALID"),
        ("def f(xs):\n    while True:\n        pass", False, False, "UNCERTIFIED"),
        ("import os\ndef f(xs):\n    return int.from_bytes(os.urandom(8), 'big')", False, False, "UNCERTIFIED"),
        ("def f(xs):\n    return [hash(letter) for letter in 'ab']", False, False, "UNCERTIFIED"),
        (
            "calls = []\ndef f(xs):\n    calls.append(0)\n    return sum(x for x in xs if x > 4) + len(calls) // 9",
            False,
            False,
            "UNCERTIFIED",
        ),
        ("def g(xs):\n    return 0", False, None, "NO_ANSWER"),
        ("I do not know.", False, None, "NO_ANSWER"),
    ],
    ids=[
        "reference",
        "fenced",
        "boundary",
        "crash",
        "endless",
        "random",
        "hashes",
        "counts its calls",
        "other name",
        "prose",
    ],
)
def test_grades_of_programs(task, program, correct, certified, outcome):
    grade = task.grade(PROBLEM, program)
    assert (grade.correct, grade.certified, outcome_of(grade, False)) == (correct, certified, outcome)
    assert (grade.detail["failing_input"] is not None) == (certified is True and not correct)
    assert set(grade.detail) == set(task.detail_columns) <= set(solution_features(task))


def test_a_near_miss_passes_the_visible_tests_and_has_a_certificate(task):
    grade = task.grade(PROBLEM, "def f(xs):\n    return sum(x for x in xs if x >= 4)")
    assert grade.test_pass_rate == grade.detail["visible_pass_rate"] == 1.0  # no typical input has a 4
    assert 0 < grade.detail["hidden_pass_rate"] < 1
    assert grade.detail["num_wrong"] > 0 == grade.detail["num_crashed"] == grade.detail["num_timed_out"]
    (argument,) = json.loads(grade.detail["failing_input"])
    assert 4 in argument
    assert is_valid_input(specification_of(PROBLEM["problem"]), argument)
    assert int(grade.detail["expected_output"]) == sum(x for x in argument if x > 4)
    assert int(grade.detail["program_output"]) == sum(x for x in argument if x >= 4)
    assert 0.9 < grade.detail["similarity"] < 1


def test_a_program_that_passes_only_with_some_seeds_is_neither_correct_nor_certified(task):
    honest = PROBLEM["reference"].partition("return ")[2]
    (result,) = task.sandbox.run("def f():\n    return hash('a')", [CallCase("f", ())])
    grade = task.grade(PROBLEM, f"def f(xs):\n    return {honest} if hash('a') == {result.output} else 0")
    assert (grade.correct, grade.certified, outcome_of(grade, False)) == (False, False, "UNCERTIFIED")
    assert grade.detail["visible_pass_rate"] == grade.detail["hidden_pass_rate"] == 1.0


def test_a_sandbox_that_fails_is_no_verdict(monkeypatch):
    """Its only worker is lost, and no other one starts."""
    monkeypatch.setattr("pvg_hf.experimental.programs.sandbox.session.START_AGAIN_SECONDS", 0.0)
    task = load_task("functions", sandbox="none", num_workers=1)
    sandbox = task.sandbox
    sandbox.backend = replace(sandbox.backend, command=lambda arguments, environment: ["/no/such/program"])
    (worker,) = sandbox._idle[0]
    worker._process.kill()
    worker._process.wait()
    grade = task.grade(PROBLEM, PROBLEM["reference"])
    assert (grade.correct, grade.certified, grade.abstains, grade.label) == (False, False, True, None)
    assert outcome_of(grade, False) == "UNCERTIFIED"
    assert grade.detail["num_host_failed"] == NUM_VISIBLE + NUM_HIDDEN
    assert grade.test_pass_rate is grade.detail["hidden_pass_rate"] is None


def test_programs_are_graded_by_several_workers_at_once():
    programs = [f"def f(xs):\n    return sum(x for x in xs if x >= {least})" for least in range(3, 9)]
    asked = [(PROBLEM, program) for program in programs]
    one, several = (load_task("functions", sandbox="none", num_workers=number) for number in (1, 3))
    grades = grade_solutions(several, asked)
    assert grades == grade_solutions(one, asked)
    assert [grade.correct for grade in grades] == [False, False, True, False, False, False]
    assert several.grades_at_once == 3
    assert len(several.sandbox._idle[0]) > 1


def test_a_number_of_workers_below_one_is_refused():
    with pytest.raises(ValueError, match=r"`num_workers` must be at least 1.* got 0"):
        load_task("functions", num_workers=0)
    assert 1 <= load_task("functions").grades_at_once <= 8


def test_programs_are_equal_answers_up_to_names(task):
    other = "def f(numbers):\n    return sum(y for y in numbers if y > 4)"
    assert task.answers_equal(PROBLEM["reference"], other)
    assert not task.answers_equal(PROBLEM["reference"], other.replace("4", "5"))
    assert not task.answers_equal(None, None)
    assert task.read_answer(f"```\n{other}\n```") == other


def test_a_copy_of_a_task_opens_a_sandbox_of_its_own(task):
    task.grade(PROBLEM, PROBLEM["reference"])
    copy = pickle.loads(pickle.dumps(task))
    assert copy.grade(PROBLEM, PROBLEM["reference"]) == task.grade(PROBLEM, PROBLEM["reference"])
