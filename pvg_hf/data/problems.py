"""The task of a game with its problems shared out, and the prompts of its roles."""

from dataclasses import dataclass
from typing import Any

from datasets import Dataset

from pvg_hf.config import Recipe
from pvg_hf.core.roles import Role
from pvg_hf.data.split import normalized_text, split_problems
from pvg_hf.tasks import PromptBuilder, Task, load_task
from pvg_hf.tasks.base import read_problems


@dataclass(frozen=True)
class GameProblems:
    """
    Args:
        task ([`Task`]):
            The task.
        parts (`dict[str, Dataset]`):
            Its problems: `verifier`, `verifier_heldout`, `prover`, `prover_heldout`, `test`.
        prompts ([`PromptBuilder`]):
            Prompts per (problem, role).
    """

    task: Task
    parts: dict[str, Dataset]
    prompts: PromptBuilder

    @classmethod
    def load(cls, recipe: Recipe) -> "GameProblems":
        """
        Raises:
            ValueError: if the task's files, its options or the split are not in order, or an example that the prompts
                show is one of the problems.
        """
        task = load_recipe_task(recipe)
        split = recipe.split
        parts = split_problems(
            _first(read_problems(task, "train"), split.max_train),
            _first(read_problems(task, "test"), split.max_test),
            seed=recipe.seed,
            verifier_share=split.verifier_share,
            heldout_share=split.heldout_share,
            test_share=split.test_share,
            stratify_by=split.stratify_by,
        )
        prompts = recipe_prompts(recipe, task)
        _refuse_shown_problems(prompts, parts)
        return cls(task, parts, prompts)

    def prompt(self, problem: dict[str, Any], role: Role, tokenizer) -> str:
        """The prompt as the prover reads it. Where the sneaky role is shown an honest solution, it is the reference."""
        text = self.prompts.text(problem, role, honest_solution=problem["reference"])
        return self.prompts.render(text, tokenizer)


def load_recipe_task(recipe: Recipe) -> Task:
    """The recipe's task."""
    options = dict(recipe.task.options)
    if recipe.task.answer_format != "strict":  # the default; a user's own task need not know of any other
        options["answer_format"] = recipe.task.answer_format
    if recipe.task.path is not None:
        options["path"] = recipe.task.path
    return load_task(recipe.task.name, **options)


def recipe_prompts(recipe: Recipe, task: Task) -> PromptBuilder:
    """The prompts of the recipe's roles."""
    return PromptBuilder(
        task,
        overrides=recipe.task.prompts,
        sneaky_sees=recipe.task.sneaky_sees,
        few_shot=recipe.task.few_shot,
        chat_template_kwargs=recipe.prover.chat_template_kwargs,
    )


def _refuse_shown_problems(prompts: PromptBuilder, parts: dict[str, Dataset]) -> None:
    examples = [normalized_text(example["problem"]) for example in prompts.examples]
    for name, problems in parts.items():
        for problem_id, text in zip(problems["problem_id"], problems["problem"]):
            if normalized_text(text) in examples:
                raise ValueError(
                    f"An example that the prompts show with its solution is the problem `{problem_id}` of the part "
                    f"`{name}`: {text[:80]!r}. Drop one of the two from the task, or show fewer with `task.few_shot`."
                )


def _first(problems: Dataset | None, number: int | None) -> Dataset | None:
    if problems is None or number is None:
        return problems
    return problems.select(range(min(number, len(problems))))
