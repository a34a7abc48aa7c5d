"""
Reads people's rows as problems with solutions, labelled or as pairs, whatever the shape of their dataset is.

A row is a solution (`problem`, `solution`, and `correct` if known) or a pair (`prompt`, `chosen`, `rejected`).
Columns are named by paths (`response.body.choices.0.message.content`); `*` stands for every item of a list. A side is
a text, a chat, or a list of these. Rows of SHP, Math-Shepherd and TRL's stepwise data are converted first.
"""

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any

from pvg_hf.core.data_files import PlacedRow, Row
from pvg_hf.core.extensions import show_value
from pvg_hf.core.templates import message_text
from pvg_hf.data.split import normalized_text

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

Chat = list[Mapping[str, Any]]  # messages with `role` and `content`
Text = str | Chat

COLUMNS = ("problem", "solution", "correct", "problem_id", "prompt", "chosen", "rejected")

NAME_CORRECT = "Name the column with it: `--column correct=NAME`."

_INDEX = re.compile(r"-?\d+")
_FLAGS = {"true": 1, "1": 1, "1.0": 1, "false": 0, "0": 0, "0.0": 0, "": None}
_LAST_TURN = "\n\nAssistant:"  # of a dialogue of HH-RLHF
_STEP_END = "ки"  # of Math-Shepherd


@dataclass(frozen=True)
class Example:
    """
    A problem with some of its solutions, from one row.

    Args:
        problem: `None` for a pair of whole texts.
        solutions: Each with whether it is correct, if known; of a pair, the chosen and the rejected ones.
        problem_id: `None` if the row has none.
    """

    place: str
    row: Row
    problem: Text | None
    solutions: list[tuple[Text, bool | None]]
    problem_id: str | None
    is_pair: bool


Pair = tuple[Example, Text, Text]  # where it comes from, the chosen and the rejected solution


def find_value(place: str, row: Row, column: str) -> Any:
    """Return the value of a column, or at a path. Raises `ValueError` if there is none."""
    try:
        return row[column] if column in row else _follow(row, column.split("."))
    except LookupError as err:
        raise ValueError(f"{place}: there is no column `{column}`; {err}.") from None


def has_column(row: Row, column: str) -> bool:
    """Whether a row has a column, or the one in which a path starts."""
    return column in row or column.partition(".")[0] in row


def _follow(value: Any, steps: Sequence[str]) -> Any:
    for place, step in enumerate(steps):
        if step == "*" and isinstance(value, list):
            return [_follow(item, steps[place + 1 :]) for item in value]
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            before = f"`{'.'.join(steps[:place])}`" if place else "the row"
            found = f"has {[*value][:50]}" if isinstance(value, Mapping) else f"is {show_value(value, 80)}"
            raise LookupError(f"{before} {found}")
    return value


def text_of(place: str, row: Row, column: str) -> str:
    """Return the text in a column of a row. Raises `ValueError` if it is missing or no text."""
    value = find_value(place, row, column)
    if not isinstance(value, str):
        raise ValueError(f"{place}: `{column}` must be a text, but it is {show_value(value, 80)}.")
    return value


def texts_of(place: str, row: Row, column: str) -> list[Text]:
    """Return the text or chat in a column, or the list of these."""
    value = find_value(place, row, column)
    items = [value] if isinstance(value, str) or is_chat(value) else value
    if not isinstance(items, list) or not items or not all(isinstance(one, str) or is_chat(one) for one in items):
        raise ValueError(
            f"{place}: `{column}` must be a text, a chat or a list of these, but it is {show_value(value, 80)}."
        )
    return items


def id_of(place: str, row: Row, column: str) -> str | None:
    """Return the id in a column: a text, or a whole number as a text. Null, NaN and an empty text are no id."""
    value = find_value(place, row, column)
    if value is None or value != value or value == "":
        return None
    # A data frame turns whole numbers into floats if one of them is missing.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{place}: `{column}` must be a text or a whole number, but it is {show_value(value, 80)}.")
    return str(value)


def number_of(place: str, column: str, value: Any) -> float | None:
    """Read a number, which may be written as a text; `None` for null, NaN and an empty text."""
    if value is None or value != value or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{place}: `{column}` must be a finite number or null; got {show_value(value, 80)}.")
    return number


def flag_of(place: str, column: str, value: Any) -> int | None:
    """Read a value that means yes or no as 1 or 0, also written as a text; `None` for null, NaN and an empty text."""
    if value is None or value != value:
        return None
    flag = _FLAGS.get(value.strip().lower(), value) if isinstance(value, str) else value
    if flag is not None and flag not in (0, 1):
        raise ValueError(f"{place}: `{column}` must be true or false, 1 or 0, or null; got {show_value(value, 80)}.")
    return None if flag is None else int(flag)


def is_chat(value: Any) -> bool:
    """Whether a value is a list of messages, each with a role and a content: a text, a list of parts, or null."""
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(value: Any) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("role"), str):
        return False
    content = value.get("content", 0)
    return (
        content is None
        or isinstance(content, str)
        or (isinstance(content, list) and all(isinstance(part, Mapping) for part in content))
    )


def as_text(value: Text) -> str:
    """Return a text; of a chat that of its only message, or else every message after its role."""
    if isinstance(value, str):
        return value
    if len(value) == 1:
        return message_text(value[0])
    return "\n\n".join(f"{message['role']}: {message_text(message)}" for message in value)


def as_chat(value: Text, role: str) -> Chat:
    """Return a chat; a text becomes its only message."""
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def read_examples(rows: Iterable[PlacedRow], names: Mapping[str, str]) -> Iterator[Example]:
    """
    Read rows as examples.

    Args:
        names: The source's columns, or paths, by ours (`COLUMNS`), where they differ. `correct` may be a number with a
            bound, as in `helpfulness>=3`.
    Raises `ValueError` for a row that is neither a solution nor a pair, with its place and column.
    """
    for place, raw in rows:
        row = raw if {"solution", "chosen"} & names.keys() else _convert(place, raw)
        theirs = {name: names.get(name, name) for name in COLUMNS}
        has_pair = all(has_column(row, theirs[side]) for side in ("chosen", "rejected"))
        is_pair = "chosen" in names or ("solution" not in names and "solution" not in row and has_pair)
        if not is_pair:
            _check_column(place, row, "solution", names)
        sides = ("chosen", "rejected") if is_pair else ("solution",)
        texts = [texts_of(place, row, theirs[side]) for side in sides]
        prompt = _read_prompt(place, row, names, is_optional=is_pair)
        problem, found = split_prompt(place, prompt, [text for side in texts for text in side])
        if is_pair:
            flags: list[bool | None] = [*[True] * len(texts[0]), *[False] * len(texts[1])]
        else:
            flags = _read_correct(place, row, theirs["correct"], len(found), is_needed="correct" in names)
        has_id = "problem_id" in names or "problem_id" in row
        yield Example(
            place,
            row,
            problem,
            list(zip(found, flags, strict=True)),
            id_of(place, row, theirs["problem_id"]) if has_id else None,
            is_pair,
        )


def _check_column(place: str, row: Row, name: str, names: Mapping[str, str]) -> None:
    if name not in names and name not in row:
        raise ValueError(
            f"{place}: there is no column `{name}`; the row has {[*row][:50]}. Name the one that is meant: `--column"
            f" {name}=NAME`."
        )


def _read_prompt(place: str, row: Row, names: Mapping[str, str], *, is_optional: bool) -> Text | None:
    mapped = names.get("problem", names.get("prompt"))
    column = mapped or next((name for name in ("problem", "prompt") if name in row), None)
    if column is None:
        if not is_optional:
            _check_column(place, row, "problem", names)
        return None
    if is_optional and find_value(place, row, column) is None:
        return None
    prompts = texts_of(place, row, column)
    if len(prompts) > 1:
        raise ValueError(f"{place}: `{column}` must be one text or chat, but it is a list of {len(prompts)}.")
    return prompts[0]


def _read_correct(place: str, row: Row, column: str, num_solutions: int, *, is_needed: bool) -> list[bool | None]:
    if not is_needed and column not in row:
        return [None] * num_solutions
    name, _, bound = column.partition(">=")
    value = find_value(place, row, name)
    values = value if isinstance(value, list) else [value] * num_solutions
    if len(values) != num_solutions:
        raise ValueError(f"{place}: `{name}` has {len(values)} values for {num_solutions} solutions.")
    if not bound:
        flags = [flag_of(place, name, one) for one in values]
        return [None if flag is None else bool(flag) for flag in flags]
    numbers, least = [number_of(place, name, one) for one in values], number_of("`--column`", column, bound)
    return [None if number is None or least is None else number >= least for number in numbers]


def split_prompt(place: str, prompt: Text | None, sides: Sequence[Text]) -> tuple[Text | None, list[Text]]:
    """
    Return the problem of some sides, and the sides without it: chats often begin with the problem, too.

    Without a prompt the problem is what all chats have in common before their last messages or, for dialogues of
    HH-RLHF, before their last turns; else there is none.
    """
    chats = [side for side in sides if not isinstance(side, str)]
    if not chats:
        return (prompt, list(sides)) if prompt is not None else _split_dialogues([as_text(side) for side in sides])
    if isinstance(prompt, list):
        shared = prompt if all(side[: len(prompt)] == prompt for side in chats) else []
    else:
        columns = takewhile(lambda messages: all(one == messages[0] for one in messages), zip(*chats, strict=False))
        shared = [messages[0] for messages in columns][: min(map(len, chats)) - 1]
        asked = {normalized_text(message_text(message)) for message in shared}
        if prompt is not None and normalized_text(prompt) not in asked:
            if any(side[0]["role"] != "assistant" for side in chats):
                raise ValueError(
                    f"{place}: the prompt {show_value(prompt, 80)} is not among the messages with which the chats of"
                    " the row begin. Drop the column, or begin the chats with the assistant's message."
                )
            shared = []
    rest: list[Text] = [side if isinstance(side, str) else side[len(shared) :] for side in sides]
    return (prompt if prompt is not None and not shared else shared or None), rest


def _split_dialogues(texts: list[str]) -> tuple[str | None, list[Text]]:
    """Split dialogues of HH-RLHF after the assistant's last turn up to which they are alike."""
    turn = len(texts[0])
    while (turn := texts[0].rfind(_LAST_TURN, 0, turn)) >= 0:
        problem = texts[0][: turn + len(_LAST_TURN)]
        if all(text.startswith(problem) for text in texts):
            return problem, [text.removeprefix(problem) for text in texts]
    return None, [*texts]


def _convert(place: str, row: Row) -> Row:
    """Convert a row of a known dataset to our columns."""
    if {"history", "human_ref_A", "human_ref_B", "labels"} <= row.keys():  # SHP
        first, second = text_of(place, row, "human_ref_A"), text_of(place, row, "human_ref_B")
        chosen, rejected = (first, second) if flag_of(place, "labels", row["labels"]) else (second, first)
        return {"prompt": row["history"], "chosen": chosen, "rejected": rejected}
    if {"input", "label"} <= row.keys() and _STEP_END in str(row["input"]):  # Math-Shepherd
        problem, step, rest = text_of(place, row, "input").partition("Step 1:")
        marks = text_of(place, row, "label").strip()
        return {
            "problem": problem.strip(),
            "solution": (step + rest).replace(f" {_STEP_END}", "").replace(_STEP_END, "").strip(),
            "correct": marks.endswith("+"),
        }
    if {"prompt", "completions", "labels"} <= row.keys():  # TRL's stepwise supervision
        steps, labels = map(as_text, texts_of(place, row, "completions")), row["labels"]
        if not isinstance(labels, list) or not labels:
            raise ValueError(f"{place}: `labels` must be a list, but it is {show_value(labels, 80)}.")
        return {"problem": row["prompt"], "solution": "\n".join(steps), "correct": labels[-1]}
    return row


def identify(examples: Sequence[Example]) -> list[str]:
    """
    Return an id for each example: its own, or that of another one with the same text, or else the text, up to white
    space.

    Raises `ValueError` for an id with two texts; the message names both rows.
    """
    seen: dict[str, tuple[str, str]] = {}
    by_text: dict[str, str] = {}
    texts = [normalized_text(_problem_text(example)) for example in examples]
    for example, text in zip(examples, texts, strict=True):
        if example.problem_id is not None:
            place, other = seen.setdefault(example.problem_id, (example.place, text))
            if text != other:
                raise ValueError(
                    f"The problem id `{example.problem_id}` has two texts: {show_value(other, 80)} ({place}) and"
                    f" {show_value(text, 80)} ({example.place}). Correct the ids, or map another column: `--column"
                    " problem_id=NAME`."
                )
            by_text.setdefault(text, example.problem_id)
    return [
        example.problem_id if example.problem_id is not None else by_text.get(text, text)
        for example, text in zip(examples, texts, strict=True)
    ]


def _problem_text(example: Example) -> str:
    if example.problem is None:
        raise ValueError(
            f"{example.place}: the pair has no `prompt`, and its sides do not begin alike. Name the column with the"
            " problem: `--column prompt=NAME`."
        )
    return as_text(example.problem)


def solutions_frame(source: str, examples: Sequence[Example], *, needs_correct: bool) -> "pd.DataFrame":
    """
    Return solutions as a table; those of a pair are correct if chosen.

    Returns: `problem`, `solution`, `problem_id`, `sample_index` among a problem's solutions and, if known,
    `correct`.
    Raises `ValueError` if there is no solution, or it is unknown whether one is correct though it is needed or known
    for others.
    """
    import pandas as pd

    rows = [
        {
            "problem": _problem_text(example),
            "solution": _solution_text(example, solution),
            "correct": correct,
            "problem_id": problem_id,
            "place": example.place,
        }
        for example, problem_id in zip(examples, identify(examples), strict=True)
        for solution, correct in example.solutions
    ]
    if not rows:
        raise ValueError(f"`{source}` has no solution.")
    table = pd.DataFrame(rows)
    unknown = table["correct"].isna()
    if (needs_correct and unknown.any()) or 0 < unknown.sum() < len(table):
        which = table["place"][unknown].iloc[0]
        raise ValueError(
            f"{which}: `correct` must be 0 or 1, but it is missing"
            f"{'' if needs_correct else ', though other rows have it'}. {NAME_CORRECT}"
        )
    table = table.drop(columns=["place", "correct"] if unknown.any() else ["place"])
    return table.assign(sample_index=table.groupby("problem_id").cumcount())


def _solution_text(example: Example, solution: Text) -> str:
    text = as_text(solution)
    if not isinstance(solution, str) and not text.strip():
        raise ValueError(f"{example.place}: a chat's last message has no text, as in a call of a tool.")
    return text


def find_pairs(source: str, examples: Sequence[Example]) -> list[Pair]:
    """
    Return the pairs of each row with a pair, and of the labelled solutions to each problem. Every solution is in a
    pair, and those of the rarer kind are in several.

    Raises `ValueError` if there is none, or a solution is not labelled.
    """
    ids = iter(identify([example for example in examples if not example.is_pair]))
    groups: dict[str | int, list[tuple[Example, Text, bool]]] = {}
    for number, example in enumerate(examples):
        group = groups.setdefault(number if example.is_pair else next(ids), [])
        for solution, correct in example.solutions:
            if correct is None:
                raise ValueError(f"{example.place}: `correct` must be 0 or 1, but it is missing. {NAME_CORRECT}")
            group.append((example, solution, correct))
    by_group = [list(_pair(group)) for group in groups.values()]
    pairs = list(chain.from_iterable(by_group))
    if not pairs:
        raise ValueError(f"No problem of {source} has a correct and an incorrect solution, as a pair needs.")
    message = "%s: %d pairs, from %d of %d problems; the others lack correct or incorrect solutions"
    logger.info(message, source, len(pairs), sum(map(bool, by_group)), len(by_group))
    if whole := sum(example.problem is None for example, *_ in pairs):
        logger.warning(
            "%s: %d pairs have no `prompt`, and their sides do not begin alike: each side is read as a whole text."
            " Name the column with the problem, if there is one: `--column prompt=NAME`.",
            source,
            whole,
        )
    return pairs


def _pair(group: Sequence[tuple[Example, Text, bool]]) -> Iterator[Pair]:
    right, wrong = ([solution for _, solution, correct in group if correct is kind] for kind in (True, False))
    if right and wrong:
        for place in range(max(len(right), len(wrong))):
            yield group[0][0], right[place % len(right)], wrong[place % len(wrong)]


@dataclass(frozen=True)
class PairForm:
    """
    Form of a trainer's pairs.

    Args:
        is_chat: Whether sides are chats; otherwise texts.
        line_break: What stands between a problem and a solution that are texts.
    """

    is_chat: bool
    line_break: str

    @classmethod
    def of(cls, pairs: Sequence[Pair], *, writes_chats: Callable[[], bool]) -> "PairForm":
        """
        Choose the form of some pairs: chats if there are any and `writes_chats` (asked only then), and a line break if
        a solution would otherwise follow its problem without white space.
        """
        has_chats = any(isinstance(text, list) for example, *sides in pairs for text in (example.problem, *sides))
        ends = [(as_text(example.problem or "")[-1:], side) for example, *sides in pairs for side in sides]
        joins = all(not end or end.isspace() or as_text(side)[:1].isspace() for end, side in ends)
        return cls(has_chats and writes_chats(), "" if joins else "\n")

    @property
    def template(self) -> str:
        """How a problem and a solution become the text of a side."""
        return "{{ problem }}" + self.line_break + "{{ solution }}"

    def write(self, pairs: Sequence[Pair], kept: Sequence[str]) -> list[dict[str, Any]]:
        """
        Return the rows of a dataset of pairs: `prompt`, `chosen`, `rejected`, and those columns of `kept` that the
        first pair has.
        """
        names = [name for name in kept if name in pairs[0][0].row]
        return [
            {
                **self._write_sides(*pair),
                **{name: _finite(pair[0].place, name, find_value(pair[0].place, pair[0].row, name)) for name in names},
            }
            for pair in pairs
        ]

    def _write_sides(self, example: Example, chosen: Text, rejected: Text) -> dict[str, Text]:
        sides = {"chosen": chosen, "rejected": rejected}
        if self.is_chat:
            asked = [] if example.problem is None else as_chat(example.problem, "user")
            return {side: [*asked, *as_chat(text, "assistant")] for side, text in sides.items()}
        texts = {side: _solution_text(example, text) for side, text in sides.items()}
        return {"prompt": as_text(example.problem or "") + self.line_break, **texts}


def _finite(place: str, column: str, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place}: `{column}` must be finite; got {value}.")
    return value
