"""Builds the prompt for a problem and a role from the task's Jinja templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from pvg_hf.config.fields import check_option
from pvg_hf.config.sections import SneakySees, TaskConfig
from pvg_hf.core.roles import Role
from pvg_hf.core.templates import (
    Message,
    check_chat_template_kwargs,
    compile_template,
    outside_variables,
    render_turns,
)
from pvg_hf.tasks.base import Problem, Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_DEFAULTS = TaskConfig()
_HINTS = ("reference_answer", "honest_solution")


@dataclass(frozen=True)
class PromptBuilder:
    """
    Builds the prompt for a problem and a role.

    A template sees `problem` (the text), `problem_id`, the task's own columns, `examples` (dicts of `problem` and
    `solution`), and `reference_answer` and `honest_solution`, which are `None` unless the role is sneaky and
    `sneaky_sees` says so. It never sees `reference`.

    For a model with a chat template, the examples are earlier turns of the chat, in every role: an instruct model that
    reads them in one text tends to solve them first, and without them it often writes no answer that can be read. See
    [`~PromptBuilder.messages`].

    Args:
        task ([`Task`]):
            The task that provides templates and examples.
        overrides (`Mapping[Role, str]` or `Mapping[str, str]`, *optional*):
            Templates that replace the task's, per role.
        sneaky_sees (`str`, defaults to `"nothing"`):
            What the sneaky role is shown: `"nothing"`, `"reference_answer"` (Kim & Lee 2026) or `"honest_solution"`.
        few_shot (`int`, *optional*):
            Number of examples, counted from the first; the task's `default_few_shot` by default.
        chat_template_kwargs (`Mapping[str, Any]`, *optional*):
            Variables that [`~PromptBuilder.render`] passes to the model's chat template, e.g. `{"enable_thinking":
            False}`.

    Raises:
        ValueError: for an unknown role or `sneaky_sees`; for more examples than the task has; for a template that is
            malformed, uses an unknown variable, or (for the sneaky role) lacks the variable that `sneaky_sees`
            requires; and for `chat_template_kwargs` that are set for every prompt.
    """

    task: Task
    overrides: Mapping[Role, str] | Mapping[str, str] = field(default_factory=dict)
    sneaky_sees: SneakySees = _DEFAULTS.sneaky_sees
    few_shot: int | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    templates: Mapping[Role, str] = field(init=False, repr=False)

    def __post_init__(self):
        check_option(TaskConfig, "sneaky_sees", self.sneaky_sees)
        num_examples = len(self.task.few_shot_examples)
        if self.few_shot is not None and not 0 <= self.few_shot <= num_examples:
            raise ValueError(
                f"`few_shot` must lie in [0, {num_examples}], the number of examples of task `{self.task.name}`; got "
                f"{self.few_shot}."
            )
        check_chat_template_kwargs(self.chat_template_kwargs)
        templates = {**self.task.prompts, **{_role(key): text for key, text in self.overrides.items()}}
        object.__setattr__(self, "templates", templates)
        for role, template in templates.items():
            self._check_template(role, template)

    def _check_template(self, role: Role, template: str) -> None:
        used = _variables(template, role)
        known = ["problem", "problem_id", *self.task.columns, "examples", *_HINTS]
        unknown = sorted(used.difference(known))
        if unknown:
            raise ValueError(
                f"The prompt template of role `{role}` uses the unknown variable `{unknown[0]}`; known are "
                f"{', '.join(f'`{name}`' for name in known)}."
            )
        if role is Role.SNEAKY and self.sneaky_sees in _HINTS and self.sneaky_sees not in used:
            raise ValueError(
                f"`sneaky_sees` is `{self.sneaky_sees}`, but the prompt template of role `sneaky` does not use the "
                f"variable `{self.sneaky_sees}`. Set one that does in `prompts`."
            )

    @property
    def examples(self) -> tuple[dict[str, str], ...]:
        """The task's examples that the prompts show."""
        number = self.task.default_few_shot if self.few_shot is None else self.few_shot
        return self.task.few_shot_examples[:number]

    def text(self, problem: Problem, role: Role | str, honest_solution: str | None = None) -> str:
        """
        Build the prompt as a text, before any chat template.

        Args:
            problem (`Mapping`):
                A row of the task's problems; additional columns are ignored.
            role (`Role`):
                The role in which the solution is to be written.
            honest_solution (`str`, *optional*):
                A correct solution, for `sneaky_sees="honest_solution"`; unused otherwise.

        Raises:
            ValueError: if the role has no template, a required honest solution is missing, or the template
                cannot be rendered.
        """
        return self._fill(problem, role, self._hints(problem, _role(role), honest_solution), self.examples)

    def messages(self, problem: Problem, role: Role | str, honest_solution: str | None = None) -> list[Message]:
        """
        Build the prompt as a chat, from the arguments of [`~PromptBuilder.text`].

        In every role, each example is a message of the user and the assistant's answer to it: the role's template
        filled with the example's values, and the example's `solution`. The last message asks for the problem in the
        same way. In a chat the template itself sees no `examples`.
        """
        turns = []
        for example in self.examples:
            asked = self._fill({**problem, **example}, role, dict.fromkeys(_HINTS), ())
            turns += [{"role": "user", "content": asked}, {"role": "assistant", "content": example["solution"]}]
        hints = self._hints(problem, _role(role), honest_solution)
        return [*turns, {"role": "user", "content": self._fill(problem, role, hints, ())}]

    def _fill(
        self,
        problem: Problem,
        role: Role | str,
        hints: Mapping[str, str | None],
        examples: Sequence[Mapping[str, str]],
    ) -> str:
        role = _role(role)
        if role not in self.templates:
            known = ", ".join(f"`{name}`" for name in self.templates)
            raise ValueError(f"Task `{self.task.name}` has no prompt template for role `{role}`; it has {known}.")
        variables = {name: problem[name] for name in ("problem_id", *self.task.columns) if name in problem}
        try:
            # Compiled here (with a cache) rather than stored, so that `datasets` can pickle the builder.
            template = compile_template(self.templates[role])
            return template.render(variables, problem=problem["problem"], examples=examples, **hints)
        except TemplateError as err:
            raise ValueError(f"The prompt template of role `{role}` cannot be rendered: {err.message}.") from err

    def _hints(self, problem: Problem, role: Role, honest_solution: str | None) -> dict[str, str | None]:
        hints: dict[str, str | None] = dict.fromkeys(_HINTS)
        if role is not Role.SNEAKY or self.sneaky_sees == "nothing":
            return hints
        if self.sneaky_sees == "reference_answer":
            return hints | {"reference_answer": self.task.reference_answer(problem["reference"])}
        if honest_solution is None:
            raise ValueError("`sneaky_sees` is `honest_solution`, but no `honest_solution` was given for this prompt.")
        return hints | {"honest_solution": honest_solution}

    def render(
        self,
        problem: Problem,
        role: Role | str,
        tokenizer: "PreTrainedTokenizerBase",
        honest_solution: str | None = None,
    ) -> str:
        """
        Build the prompt as the model of `tokenizer` expects it: its [`~PromptBuilder.messages`] in the model's chat
        template, or its [`~PromptBuilder.text`] if there is none.

        Raises:
            ValueError: as [`~PromptBuilder.text`] does, or if the chat template does not write the messages.
        """
        if tokenizer.chat_template is None:
            return self.text(problem, role, honest_solution)
        return render_turns(self.messages(problem, role, honest_solution), tokenizer, self.chat_template_kwargs)


def _role(name: Role | str) -> Role:
    try:
        return Role(name)
    except ValueError as err:
        raise ValueError(f"Unknown role `{name}`; allowed: {', '.join(f'`{role}`' for role in Role)}.") from err


def _variables(template: str, role: Role) -> set[str]:
    try:
        return outside_variables(template)
    except TemplateError as err:
        raise ValueError(f"The prompt template of role `{role}` is malformed: {err.message}.") from err
