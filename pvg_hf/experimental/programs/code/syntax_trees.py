"""Parses Python texts into syntax trees, in any thread."""

import ast
import threading
import warnings

_LOCK = threading.Lock()


def parse_python(text: str) -> ast.Module:
    """
    Parse a text, which several threads may do at the same time.

    Up to Python 3.12.1, `ast.parse` counts the depth of its recursion in one place for all threads, and raises `SystemError` if
    another thread parses before it has ended (python/cpython#106905). Changes of the warnings' filters hold for all threads, too.

    Args:
        text (`str`):
            Any text.

    Raises:
        SyntaxError: if the text is not valid Python.
        ValueError: if it contains a null character.
        RecursionError: if its expressions are nested too deeply.
        MemoryError: the same, on some versions of Python.
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # e.g. about an invalid escape sequence
        # `compile` as well as `ast.parse`, since it also refuses `return` outside of a function.
        compile(text, "<program>", "exec", dont_inherit=True)
        return ast.parse(text)
