"""Chat templates that cannot write an ordinary chat, each with parts of the message about it."""

IN_PARTS = (
    "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% endif %}{% endfor %}{% endfor %}"
)

REFUSED_TEMPLATES = {
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
