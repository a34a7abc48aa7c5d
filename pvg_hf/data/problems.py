"""The problems of a game, split into parts, with the task and the prompts of its roles."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from datasets import Dataset

from pvg_hf.config import Recipe
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.roles import Role
from pvg_hf.data.split import normalized_text, split_problems
from pvg_hf.tasks import PromptBuilder, Task, load_task
from pvg_hf.tasks.base import read_problems


@dataclass(frozen=True)
class GameProblems:
    """
    The task of a game, its problems in parts, and the prompts of its roles.

    Args:
        parts: The problems by part: `verifier`, `verifier_heldout`, `prover`, `prover_heldout`, `test`.
        honest: Solutions by problem that a sneaky prompt shows in place of the reference.
    """

    task: Task
    parts: dict[str, Dataset]
    prompts: PromptBuilder
    honest: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, recipe: Recipe) -> "GameProblems":
        """
        Load a recipe's task and split its problems.

        Raises `ValueError` if the task's files, its options or the split are invalid, or if an example in the prompts
            is one of the problems.
        """
        task = load_recipe_task(recipe)
        split = recipe.split
        parts = split_problems(
            _limit(read_problems(task, "train"), split.max_train),
            _limit(read_problems(task, "test"), split.max_test),
            seed=recipe.seed,
            verifier_share=split.verifier_share,
            heldout_share=split.heldout_share,
            test_share=split.test_share,
            stratify_by=split.stratify_by,
        )
        prompts = recipe_prompts(recipe, task)
        _check_shown_examples(prompts, parts)
        return cls(task, parts, prompts)

    def for_round(self, recipe: Recipe) -> "GameProblems":
        """
        Return the same problems with a round's prompts. Raises `ValueError` if they cannot show what it asks for.
        """
        return replace(self, prompts=recipe_prompts(recipe, self.task))

    def showing(self, honest: Mapping[str, str]) -> "GameProblems":
        """
        Return the same problems, with sneaky prompts that show these solutions, by problem, instead of references.
        """
        return replace(self, honest=honest)

    def sample(self, part: str, number: int) -> list[dict[str, Any]]:
        """Return at most `number` problems of a part, evenly spread over it."""
        problems = self.parts[part]
        places = np.linspace(0, len(problems) - 1, min(number, len(problems))).astype(int)
        return problems.select(places).to_list()

    def prompt(self, problem: dict[str, Any], role: Role, tokenizer) -> str:
        """
        Render the prover's prompt. A sneaky prompt that shows an honest solution shows that in `honest`, or the
        reference.
        """
        honest = self.honest.get(problem["problem_id"], problem["reference"])
        return self.prompts.render(problem, role, tokenizer, honest_solution=honest)


def load_recipe_task(recipe: Recipe) -> Task:
    """Make a recipe's task. Raises `ValueError` as [`load_task`], and `UntrustedCodeError` as [`admit_recipe`]."""
    admit_recipe(recipe, "task")
    options = dict(recipe.task.options)
    if recipe.task.answer_format != "strict":  # not passed otherwise, because a custom task need not have this option
        options["answer_format"] = recipe.task.answer_format
    if recipe.task.path is not None:
        options["path"] = recipe.task.path
    return load_task(recipe.task.name, **options)


def recipe_prompts(recipe: Recipe, task: Task) -> PromptBuilder:
    return PromptBuilder(
        task,
        overrides=recipe.task.prompts,
        sneaky_sees=recipe.task.sneaky_sees,
        few_shot=recipe.task.few_shot,
        chat_template_kwargs=recipe.prover.chat_template_kwargs,
    )


def _check_shown_examples(prompts: PromptBuilder, parts: dict[str, Dataset]) -> None:
    examples = [normalized_text(example["problem"]) for example in prompts.examples]
    for name, problems in parts.items():
        for problem_id, text in zip(problems["problem_id"][:], problems["problem"][:]):
            if normalized_text(text) in examples:
                raise ValueError(
                    f"The problem `{problem_id}` of the part `{name}` is also an example that the prompts show with"
                    f" its solution: {text[:80]!r}. Drop one of the two from the task, or show fewer with"
                    " `task.few_shot`."
                )


def _limit(problems: Dataset | None, number: int | None) -> Dataset | None:
    return problems if problems is None or number is None else problems.take(number)
