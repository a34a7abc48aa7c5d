"""Jinja templates in a sandbox with bounded work, and prompts rendered through a tokenizer's chat template."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, TemplateError, TemplateRuntimeError, TemplateSyntaxError, meta, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from pvg_hf.core.extensions import cut_to_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, Any]  # of a chat: `role` and `content`, a text or a list of parts

MAX_CHARACTERS = 10_000_000  # of a rendered text, and of any intermediate text or list

MAX_STEPS = 200_000  # loop turns, calls and filters per rendering

MAX_SECONDS = 20.0  # per rendering, in case single steps are slow; ordinary templates take milliseconds

MAX_ARGUMENT = 10_000  # largest number passed to a filter, such as a width or a number of columns

_REFUSED_FILTERS = {
    "random": "it draws without a seed",
    "format": "it can write without bound; join texts by `~`",
    "center": "it can write without bound",
    "wordwrap": "its work is not bounded",
}

_REFUSED_METHODS = frozenset(
    [
        "center",
        "ljust",
        "rjust",
        "zfill",
        "expandtabs",
        "format",
        "format_map",
        "to_bytes",
        "translate",
        "replace",
        "join",
    ]
)

_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class _Budget:
    """Steps, characters and seconds left for a rendering."""

    def __init__(self) -> None:
        self.num_steps = MAX_STEPS
        self.num_characters = MAX_CHARACTERS
        self.deadline = time.monotonic() + MAX_SECONDS

    def spend(self) -> None:
        self.num_steps -= 1
        if self.num_steps < 0:
            raise SecurityError(f"it takes more than {MAX_STEPS:,} steps (turns of loops, calls and filters)")
        if time.monotonic() > self.deadline:
            raise SecurityError(f"it takes more than {MAX_SECONDS:g} seconds")

    def write(self, num_characters: int) -> None:
        self.num_characters -= num_characters
        if self.num_characters < 0:
            raise SecurityError(f"it writes more than {MAX_CHARACTERS:,} characters")


_BUDGET: ContextVar[_Budget] = ContextVar("budget")


def _spend() -> None:
    budget = _BUDGET.get(None)
    if budget is not None:  # there is none at compilation, when Jinja folds constants
        budget.spend()


def _check_size(size: int) -> None:
    if size > MAX_CHARACTERS:
        raise SecurityError(f"it makes a text or list of {size:,} parts; at most {MAX_CHARACTERS:,} are allowed")


def _size(value: object) -> int:
    """
    Count the characters of a text, or of all texts in a list, plus one per element.

    Raises:
        SecurityError: if there are more than `MAX_STEPS` elements. A small list can contain another one twice, which
            contains a third one twice, and so on; written out, it would be endless.
    """
    size, num_elements, left = 0, 0, [value]
    while left:
        value = left.pop()
        if isinstance(value, (list, tuple, dict)):
            num_elements += len(value)
            if num_elements > MAX_STEPS:
                raise SecurityError(f"it makes a list of more than {MAX_STEPS:,} elements")
            left += value.values() if isinstance(value, dict) else value
        size += len(value) if isinstance(value, (str, bytes, list, tuple, dict)) else 0
    return size


@pass_context
def _write(context: Context, value: Any) -> str:
    """
    Count what a template writes, including into a macro or a `set` block.

    `context` is not used, but with it Jinja calls this function for constants, too, instead of writing them itself.
    """
    _check_size(_size(value))
    text = str(value)
    budget = _BUDGET.get(None)
    if budget is not None:
        budget.write(len(text))
    return text


def _counted(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the elements that a loop iterates over; each turn costs a step."""
    for value in values:
        _spend()
        yield value


def _join(value: Iterable[Any], d: str = "", attribute: None = None) -> str:
    if attribute is not None:
        raise SecurityError("`join` takes no attribute here; use `map` before it")
    parts = list(_counted(value))
    _check_size(_size(parts) + len(str(d)) * len(parts))
    parts = [str(part) for part in parts]
    return str(d).join(parts)


def _concatenate(value: list[Any]) -> str:
    """Join the parts of `a ~ b ~ c`."""
    _check_size(sum(map(_size, value)))
    return "".join([str(part) for part in value])


def _replace(s: str, old: str, new: str, count: int = -1) -> str:
    text, old, new = str(s), str(old), str(new)
    _check_size(len(text) + (text.count(old) if count < 0 else count) * len(new))
    return text.replace(old, new, count)


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a filter so that each use costs a step and large arguments are refused."""

    @wraps(function)  # keeps Jinja's marks, such as those of `pass_context`
    def bounded(*args: Any, **kwargs: Any) -> Any:
        _spend()
        for value in args:
            _size(value)
        for value in (*args[1:], *kwargs.values()):
            if isinstance(value, (int, float)) and abs(value) > MAX_ARGUMENT:
                raise SecurityError(f"`{function.__name__}` is given {value:,}; at most {MAX_ARGUMENT:,} is allowed")
        return function(*args, **kwargs)

    return bounded


class _Rewriter(NodeTransformer):
    """Makes loops count their turns and `~` check its length; refuses unsupported nodes."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, _OTHER_FILES):
            name = type(node).__name__.lower().replace("fromimport", "import")
            raise TemplateSyntaxError(
                f"`{name}` is not possible: a template is a single text and cannot read files", node.lineno
            )
        return super().generic_visit(node, *args, **kwargs)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        if node.name in _REFUSED_FILTERS:
            raise TemplateSyntaxError(f"no filter `{node.name}`: {_REFUSED_FILTERS[node.name]}", node.lineno)
        return self.generic_visit(node)

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        """Turn plain text into a constant expression: Jinja would otherwise copy it uncounted."""
        self.generic_visit(node)
        node.nodes = [
            nodes.Const(child.data, lineno=child.lineno) if isinstance(child, nodes.TemplateData) else child
            for child in node.nodes
        ]
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filter(node.iter, "counted_")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "concatenate_")


def _filter(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["*", "**", "%", "+"])

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True, finalize=_write)
        del self.globals["lipsum"]  # it writes random text
        # Refused filters are removed as well, because `map` looks up a filter by name at run time.
        allowed = self.filters.keys() - _REFUSED_FILTERS.keys()
        self.filters = {name: _bounded(self.filters[name]) for name in allowed}
        self.filters |= {"join": _join, "replace": _replace, "counted_": _counted, "concatenate_": _concatenate}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        return _Rewriter().visit(tree).set_environment(self)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        is_method = isinstance(obj, (str, bytes, int, float))
        return not (is_method and attr in _REFUSED_METHODS) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Disable Jinja's own handling of `format`; `is_safe_attribute` refuses the method."""

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        _spend()
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        _spend()
        if operator == "%" and isinstance(left, (str, bytes)):
            raise SecurityError("`%` is for numbers; join texts by `~`")
        if operator == "**" and (abs(left) > MAX_ARGUMENT or abs(right) > 64):
            raise SecurityError(f"the power of {left} by {right} is too large")
        if operator == "+":
            _check_size(_size(left) + _size(right))
        if operator == "*":
            for text, number in ((left, right), (right, left)):
                if _size(text) and isinstance(number, int):
                    _check_size(_size(text) * number)
        value = super().call_binop(context, operator, left, right)
        if isinstance(value, int) and abs(value) >= 2**1024:
            raise SecurityError("a number has more than 300 digits")
        return value


_ENVIRONMENT = _Environment()


class BoundedTemplate:
    """
    A compiled template that can be rendered any number of times, with bounded work.

    Args:
        text (`str`):
            The template's source, in Jinja.

    Raises:
        TemplateSyntaxError: if the source is malformed or uses a refused feature.
    """

    def __init__(self, text: str):
        with _template_errors(TemplateSyntaxError, 1):
            self._template = _ENVIRONMENT.from_string(text)

    def render(self, *args: Any, **kwargs: Any) -> str:
        """
        Render the template with these variables, passed as Jinja takes them.

        Raises:
            TemplateError: for a missing variable, a failed operation, or more than `MAX_STEPS` steps, `MAX_SECONDS` or
                `MAX_CHARACTERS`.
        """
        token = _BUDGET.set(_Budget())
        try:
            with _template_errors(TemplateRuntimeError):
                return self._template.render(*args, **kwargs)
        finally:
            _BUDGET.reset(token)


@contextmanager
def _template_errors(kind: type[Exception], *args: Any) -> Iterator[None]:
    """Convert a Python error that a template causes to a template error."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as err:
        raise kind(f"{type(err).__name__}: {err}", *args) from err
    except (RecursionError, MemoryError) as err:
        raise kind("it is nested too deeply, or needs too much memory", *args) from err


@lru_cache(maxsize=64)
def compile_template(text: str) -> BoundedTemplate:
    """
    Compile a template; the result is cached.

    Raises:
        TemplateSyntaxError: if `text` is malformed or uses a refused feature. Rendering raises `UndefinedError` for a
            missing variable.
    """
    return BoundedTemplate(text)


def outside_variables(text: str) -> set[str]:
    """
    Return the names of the variables that a template needs, without running it.

    Raises:
        TemplateSyntaxError: if `text` is malformed or uses a refused feature.
    """
    with _template_errors(TemplateSyntaxError, 1):
        return meta.find_undeclared_variables(_ENVIRONMENT.parse(text))


_RESERVED_ARGUMENTS = ("conversation", "tokenize", "add_generation_prompt")  # arguments that `render_prompt` sets


def render_prompt(
    text: str, tokenizer: "PreTrainedTokenizerBase", chat_template_kwargs: Mapping[str, Any] | None = None
) -> str:
    """
    Render a prompt as the model of `tokenizer` expects it.

    With a chat template, the prompt becomes the only message of a chat, and the template sees `chat_template_kwargs`.

    Tokenise the result like any other text, with special tokens, as TRL's `GRPOTrainer` does with string prompts. Many
    chat templates write the beginning-of-sequence token, and their tokenizers add it again; it is therefore removed
    here if the tokenizer adds it.

    Raises:
        ValueError: if the chat template fails or leaves out the text, see [`render_chat`].
    """
    if tokenizer.chat_template is None:
        return text
    return render_turns([{"role": "user", "content": text}], tokenizer, chat_template_kwargs)


def render_turns(
    messages: Sequence[Message],
    tokenizer: "PreTrainedTokenizerBase",
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> str:
    """
    Render a chat that the model of `tokenizer` is to continue, in the form of [`render_prompt`].

    Raises:
        ValueError: if the chat template fails, or leaves out the text of any message.
    """
    chat = render_chat(messages, tokenizer, chat_template_kwargs)
    lost = [index for index, message in enumerate(messages) if message_text(message).strip() not in chat]
    if lost:
        raise ValueError(
            f"The tokenizer's chat template leaves out message {lost[0]} of a chat of {len(messages)} messages, whose earlier ones "
            "are examples. Show none (in a recipe `task.few_shot: 0`), or save the tokenizer with a template that writes all "
            "messages (`tokenizer.chat_template`)."
        )
    return chat.removeprefix(tokenizer.bos_token) if adds_bos(tokenizer) else chat


def render_chat(
    messages: Sequence[Message],
    tokenizer: "PreTrainedTokenizerBase",
    chat_template_kwargs: Mapping[str, Any] | None = None,
    *,
    add_generation_prompt: bool = True,
) -> str:
    """
    Render a chat by the chat template of `tokenizer`.

    Raises:
        ValueError: if the template cannot be rendered, or leaves out the text of the last message or of the user's last one.
    """
    settings = {"add_generation_prompt": add_generation_prompt, **(chat_template_kwargs or {})}
    chat, failure = _try_chat(messages, tokenizer, settings)
    if failure is None:
        return chat
    system = {"role": "system", "content": "Be brief."}
    others = {
        "a system message before it": [system, *messages],
        "a content that is a list of parts, not a text": [
            {**message, "content": [{"type": "text", "text": message_text(message)}]} for message in messages
        ],
        "a content that is a text, not a list of parts": [
            {**message, "content": message_text(message)} for message in messages
        ],
    }
    wishes = (wish for wish, chat in others.items() if _try_chat(chat, tokenizer, settings)[1] is None)
    wanted = next((f" It wants {wish}." for wish in wishes), "")
    raise ValueError(
        f"In a chat that ends with a message of the {messages[-1]['role']}, the tokenizer's chat template {failure}.{wanted} "
        "Save the tokenizer with a template that writes such a chat (`tokenizer.chat_template`), or with none, for prompts that "
        "are texts."
    )


def _try_chat(
    messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase", settings: Mapping[str, Any]
) -> tuple[str, str | None]:
    """Return the rendered chat, and what is wrong with it, if anything."""
    try:
        with _template_errors(TemplateRuntimeError):
            chat = tokenizer.apply_chat_template(messages, tokenize=False, **settings)
    except TemplateError as err:
        return "", f"fails ({cut_to_line(str(err), 300)})"
    # The last message, and the last of the user. Many templates strip white space at the ends of a text.
    last = {message["role"]: message_text(message).strip() for message in messages if message["role"] == "user"}
    last[messages[-1]["role"]] = message_text(messages[-1]).strip()
    missing = [role for role, text in last.items() if text not in chat]
    return chat, f"leaves out the text of the {missing[-1]}" if missing else None


def message_text(message: Message) -> str:
    """Return the text of a chat's message: its content is a text, a list of parts, or nothing, as in calls of tools."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def check_chat_template_kwargs(chat_template_kwargs: Mapping[str, Any]) -> None:
    """
    Check the variables given to a chat template.

    Raises:
        ValueError: for a name that [`render_prompt`] sets itself.
    """
    for name in _RESERVED_ARGUMENTS:
        if name in chat_template_kwargs:
            raise ValueError(
                f"`chat_template_kwargs` has `{name}`, which is set for every prompt and not visible to chat templates; "
                "remove it. The mapping is for a template's own variables, as in `{enable_thinking: false}`."
            )


def adds_bos(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a tokenizer prepends its beginning-of-sequence token to every text."""
    return tokenizer.bos_token_id is not None and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
