"""Problems, prompts, answers and grading. This package does not import torch."""

from pvg_hf.tasks.base import Grade, Problem, Split, Task
from pvg_hf.tasks.prompts import PromptBuilder
from pvg_hf.tasks.registry import TASKS, load_task

__all__ = ["TASKS", "Grade", "Problem", "PromptBuilder", "Split", "Task", "load_task"]
