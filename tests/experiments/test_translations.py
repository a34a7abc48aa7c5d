"""Choosing between a translation and the solver's own solution in a finished translation game."""

import json

import pytest

from experiments.translations import translated_solutions, write_translations
from pvg_hf.config import load_recipe
from pvg_hf.core.roles import Role
from pvg_hf.data.pool import write_pool
from pvg_hf.data.schema import solution_features
from pvg_hf.experimental.judging.judged_round import JudgedRun
from pvg_hf.run.layout import RunFolder, pool_test_file
from pvg_hf.sampling.sampler import Sample, make_rows
from pvg_hf.tasks import load_task

OPTIONS = {"num_train": 120, "num_test": 3}


@pytest.fixture
def run(tmp_path) -> JudgedRun:
    """
    The solver answers 7. The first problem's translations keep that, the second's do not, the third's second one does.
    """
    inner = load_task("arithmetic", **OPTIONS)
    solved = tmp_path / "solved.jsonl"
    ids = [row["problem_id"] for split in ("train", "test") for row in inner.problems(split)]
    solved.write_text("".join(json.dumps({"problem_id": name, "solution": "so\n#### 7"}) + "\n" for name in ids))
    task = {"name": "experiments.translations:TranslationTask"}
    task["options"] = {"task": "arithmetic", "solutions": str(solved), **OPTIONS}
    recipe = load_recipe({"name": "game", "output_dir": str(tmp_path), "task": task})
    judged = JudgedRun(RunFolder.of(recipe), recipe)
    texts = [("seven\n#### 7", "#### 7"), ("#### 8", "no answer"), ("#### 9", "#### 7")]
    place = {"part": "test", "role": Role.HELPFUL, "round_index": 0, "prover": ""}
    batches = [
        make_rows(judged.problems.task, [problem], [[Sample(text, 3, False) for text in pair]], **place)[0]
        for problem, pair in zip(judged.problems.parts["test"].to_list(), texts, strict=True)
    ]
    path = judged.folder.pool(0) / pool_test_file(Role.HELPFUL)
    path.parent.mkdir(parents=True)
    write_pool(path, batches, solution_features(judged.problems.task))
    return judged


def test_the_first_translation_is_taken_if_it_keeps_the_answer(run, tmp_path):
    chosen = translated_solutions(run, 0)
    assert [translation.solution for translation in chosen] == ["seven\n#### 7", "so\n#### 7", "so\n#### 7"]
    assert [translation.is_translated for translation in chosen] == [True, False, False]
    write_translations(chosen, tmp_path / "translated.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "translated.jsonl").read_text().splitlines()]
    assert rows == [vars(translation) for translation in chosen]


def test_a_game_on_another_task_is_refused(tmp_path):
    recipe = load_recipe({"name": "game", "output_dir": str(tmp_path), "task": {"options": OPTIONS}})
    with pytest.raises(ValueError, match="task is `arithmetic`"):
        translated_solutions(JudgedRun(RunFolder.of(recipe), recipe), 0)
