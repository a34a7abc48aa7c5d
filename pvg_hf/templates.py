"""Jinja templates, which may come from a stranger's recipe: the sandbox keeps them from Python's internals."""

from functools import lru_cache

from jinja2 import StrictUndefined, Template, meta
from jinja2.sandbox import SandboxedEnvironment

_ENVIRONMENT = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


@lru_cache(maxsize=64)
def compile_template(text: str) -> Template:
    """
    Raises:
        TemplateSyntaxError: if `text` is broken; rendering raises `UndefinedError` for a variable that is not given.
    """
    return _ENVIRONMENT.from_string(text)


def outside_variables(text: str) -> set[str]:
    """
    The variables that a template takes from outside, without running it.

    Raises:
        TemplateSyntaxError: if `text` is broken.
    """
    return meta.find_undeclared_variables(_ENVIRONMENT.parse(text))
