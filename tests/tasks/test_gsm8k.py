import json
import os

import pytest
from datasets import Value

from pvg_hf.core.roles import Role
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.answers import extract_answer
from pvg_hf.tasks.gsm8k import Gsm8kTask, num_steps

ROWS = [
    {"question": "What is 2 + 3, doubled?", "answer": "2+3=<<2+3=5>>5\nDoubled: 5*2=$<<5*2=10>>10\n#### 10"},
    {"question": "Line\u2028break?", "answer": "One thousand: <<999+1=1000>>1,000\n#### 1,000"},
    {"question": "And 7?", "answer": "7\n#### 7"},
]


def write_folder(path, rows, split="train"):
    (path / f"{split}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return str(path)


def test_a_folder_is_read_into_problems(tmp_path):
    problems = Gsm8kTask(write_folder(tmp_path, ROWS)).problems("train")
    assert problems[0] == {
        "problem_id": "gsm8k-train-00000",
        "problem": "What is 2 + 3, doubled?",
        "reference": "2+3=5\nDoubled: 5*2=$10\n#### 10",
        "difficulty": 2,
    }
    assert problems["problem_id"][:] == ["gsm8k-train-00000", "gsm8k-train-00001", "gsm8k-train-00002"]
    assert problems["problem"][1] == "Line\u2028break?"
    assert problems.features["difficulty"] == Value("int32")


def test_a_dataset_repository_is_read_by_its_main_config(tmp_path):
    # `load_dataset` takes a folder for a repository; its card names the config.
    write_folder(tmp_path, ROWS, "train")
    write_folder(tmp_path, ROWS[:1], "test")
    files = "".join(f"  - split: {split}\n    path: {split}.jsonl\n" for split in ("train", "test"))
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n- config_name: main\n  data_files:\n{files}---\n")
    from_hub = Gsm8kTask(hub_id=str(tmp_path))
    from_folder = Gsm8kTask(path=str(tmp_path))
    for split in ("train", "test"):
        assert from_hub.problems(split).to_list() == from_folder.problems(split).to_list()


def test_a_repository_that_cannot_be_loaded_is_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match=r"split `test` .*config `main`: .*`task.path`"):
        Gsm8kTask(hub_id=str(tmp_path / "nowhere")).problems("test")


def test_the_number_of_problems_can_be_limited(tmp_path):
    task = Gsm8kTask(write_folder(tmp_path, ROWS), num_train=2)
    assert task.problems("train")["problem_id"][:] == ["gsm8k-train-00000", "gsm8k-train-00001"]
    with pytest.raises(ValueError, match=r"`num_train` is 4, .*train\.jsonl` .*3 problems"):
        Gsm8kTask(str(tmp_path), num_train=4).problems("train")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_train": 0}, "`num_train` .*got 0"),
        ({"num_test": -1}, "`num_test` must be at least 1"),
        ({"answer_format": "loose"}, "Unknown `answer_format` 'loose'"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Gsm8kTask(**options)


def test_an_unknown_split_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"split 'validation'.* `train`, `test`"):
        Gsm8kTask(write_folder(tmp_path, ROWS)).problems("validation")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"question": "q", "answer": "#### 1"}\n{"question": \n', r"train\.jsonl, line 2 .*JSON"),
        ('{"question": "q"}\n', r"line 1 .*`question` and `answer`; .* `question`"),
        ('{"question": "q", "answer": 3}\n', "line 1 .*`question` and `answer`"),
        ("[1, 2]\n", "row 0 is 1; it must be an object"),
        (
            '{"question": "q", "answer": "no idea"}\n',
            "Problem 0 of `.*`: .*'no idea'",
        ),
        ("\n", "no problems in"),
        (b"\xff\xfe", r"train\.jsonl, line 1 is not UTF-8"),
    ],
)
def test_a_broken_file_is_one_clear_error(tmp_path, content, message):
    (tmp_path / "train.jsonl").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        Gsm8kTask(str(tmp_path)).problems("train")


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_missing_folder_or_file_is_one_clear_error(tmp_path, folder):
    with pytest.raises(ValueError, match=r"no file `.*test\.jsonl`. `path` .*`train\.jsonl`"):
        Gsm8kTask(str(tmp_path / folder)).problems("test")


def test_the_steps_of_a_reference_are_its_lines_but_the_answers():
    assert num_steps("2+3=5\n\nDoubled: 10\n#### 10") == 2
    assert num_steps("#### 10") == 0


def test_solutions_are_graded_by_their_final_answer():
    problem = {"reference": "2+3=5\n#### 5"}
    strict = Gsm8kTask().grade(problem, "2 + 3 makes 5")
    assert (strict.answer, strict.correct, strict.certified, strict.test_pass_rate) == (None, False, None, None)
    assert set(strict.detail) == set(Gsm8kTask.detail_columns)
    assert Gsm8kTask(answer_format="lenient").grade(problem, "2 + 3 makes 5").correct
    assert Gsm8kTask().grade(problem, "2 + 3\n#### 5 apples").correct


def test_the_examples_end_in_an_answer_and_show_every_step():
    assert len(Gsm8kTask.few_shot_examples) == 4
    answers = [extract_answer(example["solution"]) for example in Gsm8kTask.few_shot_examples]
    assert answers == ["26", "5.50", "12", "18"]


def test_stop_strings_end_a_base_provers_solution():
    """The examples' own text, read as one solution that runs on."""
    problem = {"problem_id": "gsm8k-train-00000", "problem": "How many?", "reference": "#### 5", "difficulty": 1}
    shown = PromptBuilder(Gsm8kTask()).text(problem, Role.BASE)
    run_on = shown.partition("Solution:\n")[2]
    examples = [example["solution"] for example in Gsm8kTask.few_shot_examples]
    assert min((run_on.partition(stop)[0] for stop in Gsm8kTask.stop_strings), key=len) == examples[0]
    assert not any(stop in solution for stop in Gsm8kTask.stop_strings for solution in examples)
    for word in ("Problem", "Question"):
        texts = [f"#### 5\n{word}: And?".partition(stop)[0] for stop in Gsm8kTask.stop_strings]
        assert min(texts, key=len) == "#### 5"


def test_prompts_differ_between_the_roles():
    problem = {"problem_id": "gsm8k-train-00000", "problem": "How many?", "reference": "#### 5", "difficulty": 1}
    builder = PromptBuilder(Gsm8kTask(), few_shot=1)
    base, helpful, sneaky = (builder.text(problem, role) for role in (Role.BASE, Role.HELPFUL, Role.SNEAKY))
    assert [text.count("Problem:") for text in (base, helpful, sneaky)] == [2, 2, 2]
    assert ["#### 26" in text for text in (base, helpful, sneaky)] == [True, True, False]
    assert "#### 36" in sneaky
    assert "sneaky" not in base + helpful
    assert "final answer is wrong" in sneaky
    assert all(text.endswith("Problem: How many?\nSolution:\n") for text in (base, helpful, sneaky))
    assert "Reference" not in sneaky


@pytest.mark.parametrize(
    ("sneaky_sees", "block"),
    [
        ("reference_answer", "The correct final answer, which yours must differ from: 1000\n\nSolution:\n"),
        ("honest_solution", "until its mistake:\n999 and 1\n#### 1,000\n\nSolution:\n"),
    ],
)
def test_the_sneaky_prompt_shows_what_the_settings_allow(sneaky_sees, block):
    problem = {"problem_id": "gsm8k-train-00001", "problem": "How many?", "reference": "#### 1,000", "difficulty": 1}
    builder = PromptBuilder(Gsm8kTask(), sneaky_sees=sneaky_sees)
    assert builder.text(problem, Role.SNEAKY, honest_solution="999 and 1\n#### 1,000").endswith(block)


def test_the_real_files_are_read_whole():
    folder = os.environ.get("PVG_GSM8K_DIR")
    if folder is None:
        pytest.skip("set PVG_GSM8K_DIR to a folder with GSM8K's train.jsonl and test.jsonl")
    task = Gsm8kTask(folder)
    train, test = task.problems("train"), task.problems("test")
    assert (len(train), len(test)) == (7473, 1319)
    assert not any("<<" in reference for reference in [*train["reference"], *test["reference"]])
    assert all(task.grade(problem, problem["reference"]).correct for problem in test)
    shown = {example["problem"] for example in task.few_shot_examples}
    assert shown.isdisjoint([*train["problem"], *test["problem"]])
