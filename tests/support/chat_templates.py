"""Chat templates like those of published models, and templates that cannot write an ordinary chat."""

from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from pvg_hf.models.from_config import train_tokenizer

TURNS = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

WRITTEN_TEMPLATES = {
    "a system message by default": (  # Qwen2.5, SmolLM2
        "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe helpful.<|im_end|>\n{% endif %}" + TURNS
    ),
    "begins with a token and strips texts": (  # Llama 3
        "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>\n\n{{ message['content'] | trim"
        " }}<|eot|>{% endfor %}{% if add_generation_prompt %}<|assistant|>\n\n{% endif %}"
    ),
    "no generation prompt": (  # Llama 2, Mistral
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}[INST] {{ message['content'] }}"
        " [/INST]{% else %} {{ message['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
    ),
    "other roles, and no system message": (  # Gemma
        "{% for message in messages %}{% if message['role'] == 'system' %}{{ raise_exception('no system') }}{% endif"
        " %}<turn>{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n{{ message['content'] | trim"
        " }}<end>\n{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}"
    ),
}
"""Templates that write every ordinary chat."""

SPECIAL_TOKENS = {
    "no padding token": {"pad_token": None},  # Llama 3
    "padding with the end token": {"pad_token": "<eos>", "padding_side": "left"},  # SmolLM2
}


def make_chat_tokenizer(template: str, padding: str) -> PreTrainedTokenizerFast:
    """
    A tokenizer of bytes with one of `WRITTEN_TEMPLATES` and one of `SPECIAL_TOKENS`; it adds a begin token if chats
    have one.
    """
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=train_tokenizer(["How many pens?"], 300).backend_tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        **SPECIAL_TOKENS[padding],
    )
    tokenizer.chat_template = WRITTEN_TEMPLATES[template]
    if "bos_token" in tokenizer.chat_template:
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            "<bos> $A", special_tokens=[("<bos>", tokenizer.bos_token_id)]
        )
    return tokenizer


LAST_TURN_ONLY = "{{ messages[-1]['content'] }}"
"""Writes a prompt, but none with examples."""

IN_PARTS = (
    "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text']"
    " }}{% endif %}{% endfor %}{% endfor %}"
)

REFUSED_TEMPLATES = {
    "drops the first line": (
        "{% for message in messages %}{{ message['content'].split('\n', 1)[-1] }}{% endfor %}",
        ["leaves out the text of the user"],
    ),
    "nothing": ("", ["leaves out the text of the user"]),
    "only roles": (
        "{% for message in messages %}<{{ message['role'] }}>{% endfor %}",
        ["leaves out the text of the user"],
    ),
    "after the first": (
        "{% for message in messages[1:] %}{{ message['content'] }}{% endfor %}",
        ["wants a system message"],
    ),
    "demands a system message": (
        "{% if messages[0]['role'] != 'system' %}{{ raise_exception('say the system first') }}{% endif %}"
        "{{ messages[1]['content'] }}",
        ["fails (say the system first)", "wants a system message"],
    ),
    "reads parts": (IN_PARTS, ["wants a content that is a list of parts"]),
    "malformed": ("{% for message in messages %}{{ message['content'] }}", ["fails"]),
    "no such field": ("{{ messages[0]['content']['text'] + 1 }}", ["fails"]),
}
"""Each with parts of the message about it."""
