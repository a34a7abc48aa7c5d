import subprocess
import sys

import pytest

from pvg_hf.tasks import TASKS, Task, load_task

OWN_TASK = """
from pvg_hf.tasks import Grade, Task

class Echo(Task):
    name = "echo"
    prompts = {}

    def __init__(self, word, **options):
        self.word, self.options = word, options

    def problems(self, split):
        raise NotImplementedError

    def grade(self, problem, solution):
        return Grade(solution, solution == self.word)

not_a_task = 3
"""


WITHOUT_ANSWERS = {"apps", "functions", "mbpp"}  # their solutions are programs


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "my_echo_task.py").write_text(OWN_TASK)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_echo_task", None)


@pytest.mark.parametrize("name", TASKS)
def test_every_registered_task_loads_under_its_own_name(name):
    options = {} if name in WITHOUT_ANSWERS else {"answer_format": "lenient"}
    task = load_task(name, **options)
    assert isinstance(task, Task)
    assert task.name == name
    assert name in WITHOUT_ANSWERS or task.answer_format == "lenient"


@pytest.mark.usefixtures("own_module")
def test_a_custom_task_takes_its_options():
    task = load_task("my_echo_task:Echo", word="yes", volume=3)
    assert task.grade({}, "yes").correct
    assert task.options == {"volume": 3}


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "arithmetics",
            {},
            "Unknown task `arithmetics`. Did you mean `arithmetic`?.*package.module:Name",
        ),
        (
            "zebra",
            {},
            (
                "Unknown task `zebra`. Known are `arithmetic`, `gsm8k`, `proofs`, `apps`, `functions`, `mbpp`. .*"
                " `package.module:Name`"
            ),
        ),
        (
            "arithmetic",
            {"num_trains": 3},
            "Unknown option `num_trains` of task `arithmetic`. Did you mean `num_train`?",
        ),
        ("gsm8k", {"zebra": 3}, "Unknown option `zebra` of task `gsm8k`. Known are `path`, `hub_id`, `answer_format`"),
        ("arithmetic", {"num_test": 0}, "`num_train` and `num_test` must be at least 1; got 4000 and 0"),
        ("my_echo_task:Echo", {}, "Task `my_echo_task:Echo` needs the option `word`"),
        ("my_echo_task:not_a_task", {}, "must be a subclass of `pvg_hf.tasks.Task`, and it is of type `int`.$"),
        ("os:environ", {}, "and it is of type `_Environ`.$"),  # its values may be secrets
        ("my_echo_task:Ech", {}, "has no `Ech`. Did you mean `Echo`?"),
    ],
)
def test_mistakes_in_names_and_options_are_named(name, options, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        load_task(name, **options)


def test_tasks_import_neither_torch_nor_transformers():
    code = (
        "import sys; from pvg_hf.tasks import load_task; load_task('arithmetic'); load_task('gsm8k'); "
        "sys.exit(bool({'torch', 'transformers', 'sympy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("num_train", "on", "a whole number"),
        ("num_train", [[1]], "a whole number"),
        ("num_train", {"a": 1}, "a whole number"),
        ("num_test", True, "a whole number; got True"),
        ("num_train", 10**12, "at most 10,000,000"),
        ("num_train", None, "a whole number"),
        ("distractor_rate", "half", "a number"),
        ("answer_format", 3, "text"),
    ],
)
def test_an_option_of_another_type_is_one_line(option, value, said):
    with pytest.raises(ValueError, match=f"option `{option}` of task `arithmetic` .*{said}"):
        load_task("arithmetic", **{option: value})


def test_a_whole_number_is_a_number_and_null_may_be_allowed(tmp_path):
    assert load_task("arithmetic", distractor_rate=1).distractor_rate == 1
    load_task("gsm8k", path=str(tmp_path), num_train=None)


def test_an_option_may_have_any_name():
    with pytest.raises(ValueError, match="Unknown option `name` of task `arithmetic`"):
        load_task("arithmetic", **{"name": "proofs"})
