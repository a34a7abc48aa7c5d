"""A prompt as a model reads it: through its chat template, where it has one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SET_HERE = ("conversation", "tokenize", "add_generation_prompt")


def render_prompt(
    text: str, tokenizer: "PreTrainedTokenizerBase", chat_template_kwargs: Mapping[str, Any] | None = None
) -> str:
    """
    A prompt as `tokenizer`'s model reads it: as the first message of a chat where it has a chat template, which sees
    `chat_template_kwargs`.

    Tokenise the result like any other text, special tokens included, as TRL's `GRPOTrainer` does with prompts that
    are strings. Many chat templates write the beginning-of-sequence token, and their tokenizers add it once more;
    so it is taken off here where the tokenizer adds it.
    """
    if tokenizer.chat_template is None:
        return text
    message = {"role": "user", "content": text}
    chat = tokenizer.apply_chat_template(
        [message], tokenize=False, add_generation_prompt=True, **(chat_template_kwargs or {})
    )
    return chat.removeprefix(tokenizer.bos_token) if adds_bos(tokenizer) else chat


def check_chat_template_kwargs(chat_template_kwargs: Mapping[str, Any]) -> None:
    """
    Raises:
        ValueError: for one that [`render_prompt`] sets itself.
    """
    for name in _SET_HERE:
        if name in chat_template_kwargs:
            raise ValueError(
                f"`chat_template_kwargs` has `{name}`, which is set for every prompt and seen by no chat template; leave it "
                "out. They are for a template's own variables, as in `{enable_thinking: false}`."
            )


def adds_bos(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a tokenizer itself puts its beginning-of-sequence token in front of every text."""
    return tokenizer.bos_token_id is not None and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
