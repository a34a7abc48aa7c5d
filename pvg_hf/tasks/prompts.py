"""Builds the prompt for a problem and a role from the task's Jinja templates."""

from collections.abc import Iterator, Mapping, Sequence
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
    split_instructions,
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

    The text of a template up to the last blank line before its first variable is the role's instructions. They are
    written once: as the system message of a chat, or as the beginning of a text. The rest is the turn of a problem:
    the user's message in a chat. Few-shot examples are earlier turns, each with its solution, in every role: an
    instruct model without them often writes no answer that can be read. The sneaky role is shown each example's
    `wrong_solution`, and no example without one.

    A template sees `problem` (the text), `problem_id`, the task's own columns, and `reference_answer` and
    `honest_solution`, which are `None` unless the role is sneaky and `sneaky_sees` says so. In an example's turn they
    are those of the example. A template never sees `reference`.

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
        known = ["problem", "problem_id", *self.task.columns, *_HINTS]
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
        Build the prompt as a text, before any chat template: the instructions, a blank line, and the turns with the
        task's `example_separator` after each solution.

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
        instructions, examples, turn = self._parts(problem, role, honest_solution)
        shown = "".join(f"{asked}{solution}{self.task.example_separator}" for asked, solution in examples)
        return f"{instructions}\n\n{shown}{turn}" if instructions else shown + turn

    def messages(self, problem: Problem, role: Role | str, honest_solution: str | None = None) -> list[Message]:
        """
        Build the prompt as a chat, from the arguments of [`~PromptBuilder.text`]: the instructions as a message of the
        system, each example as one of the user and the assistant's answer to it, and the problem's turn.
        """
        instructions, examples, turn = self._parts(problem, role, honest_solution)
        turns = [("system", instructions)] if instructions else []
        for asked, solution in examples:
            turns += [("user", asked), ("assistant", solution)]
        return [{"role": sender, "content": text} for sender, text in (*turns, ("user", turn))]

    def _parts(
        self, problem: Problem, name: Role | str, honest_solution: str | None
    ) -> tuple[str, list[tuple[str, str]], str]:
        """Return the instructions, the turn and the solution of each example, and the turn of the problem."""
        role = _role(name)
        if role not in self.templates:
            known = ", ".join(f"`{name}`" for name in self.templates)
            raise ValueError(f"Task `{self.task.name}` has no prompt template for role `{role}`; it has {known}.")
        instructions, template = split_instructions(self.templates[role])
        examples = []
        for example, solution in shown_examples(self.examples, role):
            shown = {**problem, **example, "reference": example["solution"]}
            examples.append((self._fill(template, shown, role, example["solution"]), solution))
        return instructions, examples, self._fill(template, problem, role, honest_solution)

    def _fill(self, template: str, problem: Problem, role: Role, honest_solution: str | None) -> str:
        variables = {name: problem[name] for name in ("problem_id", *self.task.columns) if name in problem}
        hints = self._hints(problem, role, honest_solution)
        try:
            # Compiled here (with a cache) rather than stored, so that `datasets` can pickle the builder.
            return compile_template(template).render(variables, problem=problem["problem"], **hints)
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


def shown_examples(examples: Sequence[Mapping[str, str]], role: Role) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yield the examples that a role is shown, each with the solution to show: in the sneaky role its wrong one."""
    key = "wrong_solution" if role is Role.SNEAKY else "solution"
    for example in examples:
        if key in example:
            yield example, example[key]


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
