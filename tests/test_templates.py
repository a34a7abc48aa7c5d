import pytest
from jinja2 import TemplateSyntaxError, UndefinedError
from jinja2.exceptions import SecurityError

from pvg_hf.templates import compile_template, outside_variables


def test_a_template_is_rendered_with_its_last_newline():
    assert compile_template("{{ a }}+{{ b }}\n").render(a=1, b=2) == "1+2\n"


def test_what_is_not_given_is_an_error():
    with pytest.raises(UndefinedError, match="'b' is undefined"):
        compile_template("{{ a }}{{ b }}").render(a=1)


def test_templates_stay_in_the_sandbox():
    with pytest.raises(SecurityError, match="__class__"):
        compile_template("{{ a.__class__.__mro__ }}").render(a="")


def test_variables_from_outside():
    assert outside_variables("{% set c = a %}{{ c }}{% for d in b %}{{ d }}{% endfor %}") == {"a", "b"}
    with pytest.raises(TemplateSyntaxError):
        outside_variables("{{ a")
