"""Jinja templates in a sandbox, and prompts rendered through a tokenizer's chat template."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateRuntimeError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pvg_hf.core.extensions import cut_to_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, Any]  # of a chat: `role` and `content`, a text or a list of parts

MAX_CHARACTERS = 10_000_000  # of a rendered text


class _Template(Template):
    def render(self, *args: Any, **kwargs: Any) -> str:
        """
        Render the template; a `TemplateError` also for a failed operation, or a text of more than `MAX_CHARACTERS`.
        """
        parts, size = [], 0
        with _template_errors(TemplateRuntimeError):
            for part in self.generate(*args, **kwargs):
                parts.append(part)
                size += len(part)
                if size > MAX_CHARACTERS:
                    raise TemplateRuntimeError(f"it writes more than {MAX_CHARACTERS:,} characters")
        return "".join(parts)


class _Environment(ImmutableSandboxedEnvironment):
    template_class = _Template

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        del self.globals["lipsum"], self.filters["random"]  # they draw without a seed


_ENVIRONMENT = _Environment()


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
def compile_template(text: str) -> Template:
    """Compile a template, or raise `TemplateSyntaxError`. Rendering raises `UndefinedError` for a missing variable."""
    with _template_errors(TemplateSyntaxError, 1):
        return _ENVIRONMENT.from_string(text)


def outside_variables(text: str) -> set[str]:
    """Return the names of the variables that a template needs, without running it, or raise `TemplateSyntaxError`."""
    with _template_errors(TemplateSyntaxError, 1):
        return meta.find_undeclared_variables(_ENVIRONMENT.parse(text))


_TAG = re.compile(r"\{[{%#]")


def split_instructions(text: str) -> tuple[str, str]:
    """
    Split a template at the last blank line before its first variable: the instructions, and what each problem fills.

    The instructions are empty if there is no such line.
    """
    first = _TAG.search(text)
    instructions, _, start = text[: first.start() if first else 0].rpartition("\n\n")
    return instructions, start + text[first.start() if first else 0 :]


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

    Raises `ValueError` if the chat template fails or leaves out the text, see [`render_chat`].
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

    If the chat template has no system role, a first message of the system becomes the head of the user's first one.

    Raises `ValueError` if the chat template fails, or leaves out the text of any message.
    """
    if messages[0]["role"] == "system" and not _has_system_role(tokenizer, chat_template_kwargs or {}):
        system, first, *others = messages
        content = f"{message_text(system)}\n\n{message_text(first)}"
        messages = [{"role": "user", "content": content}, *others]
    chat = render_chat(messages, tokenizer, chat_template_kwargs)
    lost = [index for index, message in enumerate(messages) if message_text(message).strip() not in chat]
    if lost:
        raise ValueError(
            f"The tokenizer's chat template leaves out message {lost[0]} of a chat of {len(messages)} messages, whose"
            " earlier ones are examples. Show none (in a recipe `task.few_shot: 0`), or save the tokenizer with a"
            " template that writes all messages (`tokenizer.chat_template`)."
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

    Raises `ValueError` if the template cannot be rendered, or leaves out the text of the last message or of the user's
    last one.
    """
    settings = {"add_generation_prompt": add_generation_prompt, **(chat_template_kwargs or {})}
    chat, failure = _try_chat(messages, tokenizer, settings)
    if failure is None:
        return chat
    system = {"role": "system", "content": "Be brief."}
    others: dict[str, Sequence[Message]] = {
        "a system message before it": [system, *messages],
        "a content that is a list of parts, not a text": [
            {**message, "content": [{"type": "text", "text": message_text(message)}]} for message in messages
        ],
        "a content that is a text, not a list of parts": [
            {**message, "content": message_text(message)} if isinstance(message.get("content"), list) else message
            for message in messages
        ],
        "a content in every message, also with calls of tools, where it is null": [
            {**message, "content": message.get("content") or ""} for message in messages
        ],
    }
    wishes = (wish for wish, chat in others.items() if _try_chat(chat, tokenizer, settings)[1] is None)
    wanted = next((f" It wants {wish}." for wish in wishes), "")
    raise ValueError(
        f"In a chat that ends with a message of the {messages[-1]['role']}, the tokenizer's chat template"
        f" {failure}.{wanted} Save the tokenizer with a template that writes such a chat (`tokenizer.chat_template`),"
        " or with none, for prompts that are texts."
    )


def _try_chat(
    messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase", settings: Mapping[str, Any]
) -> tuple[str, str | None]:
    """Return the rendered chat, and what is wrong with it, if anything."""
    try:
        with _template_errors(TemplateRuntimeError):
            apply: Any = tokenizer.apply_chat_template  # transformers declares other messages and results
            chat: str = apply(messages, tokenize=False, **settings)
    except TemplateError as err:
        return "", f"fails ({cut_to_line(str(err), 300)})"
    # The last message, and the last of the user. Many templates strip white space at the ends of a text.
    last = {message["role"]: message_text(message).strip() for message in messages if message["role"] == "user"}
    last[messages[-1]["role"]] = message_text(messages[-1]).strip()
    missing = [role for role, text in last.items() if text not in chat]
    return chat, f"leaves out the text of the {missing[-1]}" if missing else None


def _has_system_role(tokenizer: "PreTrainedTokenizerBase", settings: Mapping[str, Any]) -> bool:
    """Whether the chat template of `tokenizer` writes a system message; some fail at it, and some leave it out."""
    system, user = ({"role": role, "content": f"From the {role}."} for role in ("system", "user"))
    chat, failure = _try_chat([system, user], tokenizer, {"add_generation_prompt": True, **settings})
    return failure is None and system["content"] in chat


def message_text(message: Message) -> str:
    """
    Return the text of a chat's message: its content is a text, a list of parts, or nothing, as in calls of tools.
    """
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def check_chat_template_kwargs(chat_template_kwargs: Mapping[str, Any]) -> None:
    """Check the variables given to a chat template; a `ValueError` for a name that [`render_prompt`] sets itself."""
    for name in _RESERVED_ARGUMENTS:
        if name in chat_template_kwargs:
            raise ValueError(
                f"`chat_template_kwargs` has `{name}`, which is set for every prompt and not visible to chat"
                " templates; remove it. The mapping is for a template's own variables, as in `{enable_thinking:"
                " false}`."
            )


def adds_bos(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a tokenizer prepends its beginning-of-sequence token to every text."""
    return tokenizer.bos_token_id is not None and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
