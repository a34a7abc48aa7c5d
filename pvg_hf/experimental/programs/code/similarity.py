"""Similarity of programs, from 0 to 1, whatever their names, comments and layout."""

import io
import keyword
import tokenize
from collections.abc import Iterable
from functools import lru_cache

# Of Python 3.11, without what the module `site` adds: later versions have more, and the similarity must not depend on
# the version.
_NAMES = """
    ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError
    BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError
    ConnectionResetError DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError Exception
    ExceptionGroup False FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError
    ImportError ImportWarning IndentationError IndexError InterruptedError IsADirectoryError KeyError
    KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError None NotADirectoryError NotImplemented
    NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError ProcessLookupError
    RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration StopIteration
    SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError True TypeError UnboundLocalError
    UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning ValueError
    Warning ZeroDivisionError abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr
    classmethod compile complex delattr dict dir divmod enumerate eval exec filter float format frozenset getattr
    globals hasattr hash hex id input int isinstance issubclass iter len list locals map max memoryview min next
    object oct open ord pow print property range repr reversed round set setattr slice sorted staticmethod str sum
    super tuple type vars zip
"""
_BUILTINS = frozenset(_NAMES.split())
_IGNORED = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER, tokenize.ENCODING})
_MARKS = {tokenize.NEWLINE: "<newline>", tokenize.INDENT: "<indent>", tokenize.DEDENT: "<dedent>"}
# Since Python 3.12 an f-string is several tokens, and before that one; so is a template string since 3.14.
_OPENING = frozenset(vars(tokenize).get(name, -1) for name in ("FSTRING_START", "TSTRING_START"))
_CLOSING = frozenset(vars(tokenize).get(name, -1) for name in ("FSTRING_END", "TSTRING_END"))


def program_similarity(program: str, others: Iterable[str]) -> float:
    """
    Return the similarity of a program to the nearest of some others.

    Programs are compared as sequences of tokens. Comments and layout are left out, and names are replaced by their
    order of first occurrence, except keywords, built-in functions and attributes. The similarity is 2 m / (a + b) for
    sequences of lengths a and b with a longest common subsequence of length m.

    Returns:
        `float`: in [0, 1]; 1 for the same program up to names, comments and layout, 0 if a text is not Python or there
        is nothing to compare with. It is the same under every version of Python and every hash seed, as long as the
        version knows the program's syntax.
    """
    own = program_tokens(program)
    if own is None:
        return 0.0
    known = [tokens for other in others if (tokens := program_tokens(other)) is not None]
    return max((_compare(own, other) for other in known), default=0.0)


def same_program(first: str, second: str) -> bool:
    """Whether two programs are the same up to names, comments and layout."""
    tokens = program_tokens(first)
    return tokens is not None and tokens == program_tokens(second)


def _compare(first: tuple[str, ...], second: tuple[str, ...]) -> float:
    if not first and not second:
        return 1.0
    # Longest common subsequence by Hyyro 2004: bit i of `row` is 0 where it grows at the i-th token of `first`.
    places: dict[str, int] = {}
    for index, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << index
    whole = row = (1 << len(first)) - 1
    for token in second:
        matches = row & places.get(token, 0)
        row = (row + matches) | (row - matches)
    common, length = (~row & whole).bit_count(), len(first) + len(second)
    return 1 - (length - 2 * common) / length


@lru_cache(maxsize=20_000)
def program_tokens(program: str) -> tuple[str, ...] | None:
    """Return the tokens of a program with normalised names; `None` if it is not Python."""
    names: dict[str, str] = {}
    tokens: list[str] = []
    depth, opened, lines = 0, (0, 0), program.splitlines(keepends=True)
    try:
        for token in tokenize.generate_tokens(io.StringIO(program).readline):
            if token.type in _OPENING:
                opened = opened if depth else token.start
                depth += 1
            elif token.type in _CLOSING:
                depth -= 1
                if depth == 0:
                    tokens.append(_between(lines, opened, token.end))
            elif depth == 0 and token.type not in _IGNORED:
                is_attribute = bool(tokens) and tokens[-1] == "."
                tokens.append(_spell(token, names, is_attribute=is_attribute))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return None
    while tokens and tokens[-1] in _MARKS.values():  # whether the text ends with a line break
        tokens.pop()
    return tuple(tokens)


def _spell(token: tokenize.TokenInfo, names: dict[str, str], *, is_attribute: bool) -> str:
    if token.type in _MARKS:
        return _MARKS[token.type]
    text = token.string
    if token.type != tokenize.NAME or is_attribute or keyword.iskeyword(text) or text in _BUILTINS:
        return text
    return names.setdefault(text, f"<name {len(names)}>")


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Text of a program between two positions (line from 1, column from 0)."""
    (first, left), (last, right) = start, end
    if first == last:
        return lines[first - 1][left:right]
    return "".join([lines[first - 1][left:], *lines[first : last - 1], lines[last - 1][:right]])
