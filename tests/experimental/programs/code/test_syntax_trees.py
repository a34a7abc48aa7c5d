"""Syntax trees of Python texts, from one thread and from several."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pvg_hf.experimental.programs.code.syntax_trees import parse_python

TESTS = "inputs = [" + ", ".join(f"[({number}, 1), [{number}, 'a']]" for number in range(300)) + "]"


class SleepsWhenCollected:
    """An object in a cycle, whose finalizer lets other threads continue."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        time.sleep(1e-5)


@pytest.fixture
def frequent_collection():
    """A collector that also runs within a call of `ast.parse`, so that threads take turns there."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100)
    yield
    gc.set_threshold(*thresholds)


def test_several_threads_parse_at_the_same_time(frequent_collection):
    """Up to Python 3.12.1 this raises without the lock."""

    def parse(_):
        lengths = set()
        for _ in range(40):
            _ = [SleepsWhenCollected() for _ in range(4)]
            lengths.add(len(parse_python(TESTS).body[0].value.elts))
        return lengths

    with ThreadPoolExecutor(4) as executor:
        assert set().union(*executor.map(parse, range(4))) == {300}


@pytest.mark.parametrize("text", ["x = (", "return 1", "x\0"])
def test_what_is_not_python_is_an_error(text):
    with pytest.raises((SyntaxError, ValueError)):
        parse_python(text)
