import pytest
from jinja2 import TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.exceptions import SecurityError

from pvg_hf.core.templates import compile_template, outside_variables, render_chat
from tests.support.chat_templates import make_chat_tokenizer


def test_a_template_is_rendered_with_its_last_newline():
    assert compile_template("{{ a }}+{{ b }}\n").render(a=1, b=2) == "1+2\n"


def test_a_missing_variable_is_an_error():
    with pytest.raises(UndefinedError, match="'b' is undefined"):
        compile_template("{{ a }}{{ b }}").render(a=1)


def test_templates_stay_in_the_sandbox():
    with pytest.raises(SecurityError, match="__class__"):
        compile_template("{{ a.__class__.__mro__ }}").render(a="")


def test_variables_that_a_template_needs_are_listed():
    assert outside_variables("{% set c = a %}{{ c }}{% for d in b %}{{ d }}{% endfor %}") == {"a", "b"}
    with pytest.raises(TemplateSyntaxError):
        outside_variables("{{ a")


def test_ordinary_templates_are_rendered_unchanged():
    text = (
        "{% for e in es %}{{ loop.index }}/{{ loop.length }} {{ e.p|trim|upper ~ '!' }}{% if not loop.last %}, {%"
        " endif %}{% endfor %} {{ es|map(attribute='p')|join('-') }} {{ a.strip()|replace('a', 'b') }} {{ 7 * 6 % 40"
        " }} {{ 'ab' * 2 }}"
    )
    rendered = compile_template(text).render(es=[{"p": " x "}, {"p": "y"}], a=" a ")
    assert rendered == "1/2 X!, 2/2 Y!  x -y b 2 abab"


UNSEEDED = [
    "{{ [1, 2]|random }}",
    "{{ range(1000)|list|random }}",
    "{{ [[1, 2]]|map('random')|list }}",
    "{{ lipsum() }}",
]


@pytest.mark.parametrize("text", UNSEEDED)
def test_templates_have_no_random_functions(text):
    with pytest.raises(TemplateError, match=r"random|lipsum"):
        compile_template(text).render()


def test_an_unseeded_function_is_an_unknown_variable():
    assert outside_variables("{{ lipsum() }}{{ range(3) }}") == {"lipsum"}


@pytest.mark.parametrize("tag", ["include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'"])
def test_a_template_that_includes_files_is_an_error(tag):
    with pytest.raises(TemplateError, match="loader"):
        compile_template(f"{{% {tag} %}}").render()


UNBOUNDED = [
    "{{ 'x' * 20000000 }}",
    "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    "{{ range(10 ** 9) }}",
    "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ " + "[" * 3000 + "]" * 3000 + " }}",
]


@pytest.mark.parametrize("text", UNBOUNDED, ids=["text", "loop", "range", "recursion", "brackets"])
def test_a_text_without_bounds_is_an_error(text):
    with pytest.raises(TemplateError):
        compile_template(text).render()


@pytest.mark.parametrize("text", ["{{ 1 / 0 }}", "{{ a + 1 }}", "{{ a.append(1) }}", "{{ [1].append(1) }}"])
def test_an_error_while_rendering_is_reported_for_the_template(text):
    with pytest.raises(TemplateError):
        compile_template(text).render(a="x")


def test_a_call_of_a_tool_gets_advice_about_its_missing_text():
    tokenizer = make_chat_tokenizer("begins with a token and strips texts", "no padding token")
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'].strip() }}{% endfor %}"
    messages = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": None, "tool_calls": []}]
    with pytest.raises(ValueError, match=r"wants a content in every message, also with calls of tools"):
        render_chat(messages, tokenizer, add_generation_prompt=False)
