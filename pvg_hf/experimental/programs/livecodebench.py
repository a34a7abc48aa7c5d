"""LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): problems of programming contests, with the dates of the contests."""

import base64
import json
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from datasets import Value

from pvg_hf.experimental.programs.code.dataset_rows import Row, read_files
from pvg_hf.experimental.programs.code.dataset_task import COMMON_IMPORTS, DatasetProgramTask, ReadProblem
from pvg_hf.experimental.programs.sandbox import CallCase, Case, Comparison, Limits, StdinCase
from pvg_hf.tasks.base import Split

LIMITS = Limits(wall_seconds=6.0, processor_seconds=6.0, memory_mb=1024, output_bytes=1 << 22, timeouts_in_a_row=2)
RULES = Comparison(float_tolerance=1e-6)

_DIFFICULTIES = {"easy": 1, "medium": 2, "hard": 3}
_FIELDS = ("question_id", "question_content", "public_test_cases", "private_test_cases", "metadata")

# The private tests are a compressed pickle of a JSON text. A pickle can run any code, so it is read in the sandbox.
_UNPICKLE = "import base64, pickle\ndef unpickle(text):\n    return pickle.loads(base64.b64decode(text))\n"
_UNPICKLE_LIMITS = Limits(wall_seconds=60.0, processor_seconds=60.0, memory_mb=4096, output_bytes=1 << 28)
_MAX_UNPACKED = 1 << 28  # bytes of one problem's tests


class LiveCodeBenchTask(DatasetProgramTask):
    """
    The LiveCodeBench task: contest problems by programs that read stdin, or by a method of a class `Solution`.

    Visible are the public tests, hidden are the private ones, which are unpickled in the sandbox. The dataset has no solutions.
    Without `references`, its problems serve for evaluation: a program is correct if it passes all tests, but no wrong program has
    a certificate, which takes a second witness besides the expected output.

    Args:
        path (`str`, *optional*):
            A folder with `test*.jsonl` or `test*.parquet`. By default the dataset comes from the Hub.
        hub_id (`str`, defaults to `"lighteval/code_generation_lite"`):
            The dataset on the Hub. Its only split, `test`, has the training problems; a recipe's `split.test_share` splits test
            problems off.
        release (`str`, defaults to `"release_v6"`):
            The dataset's config.
        references (`str`, *optional*):
            A JSON Lines file with solutions: objects with `question_id` and `code`, one or more for a problem. Problems without
            one that passes their tests are left out.
        num_train (`int`, *optional*):
            Use only the first problems that are not left out, at least 1; all by default.
        max_hidden_tests (`int`, *optional*, defaults to 20):
            Use only so many hidden tests of a problem, the first ones.
        sandbox (`str`, defaults to `"auto"`):
            Backend of the sandbox; see [`~pvg_hf.experimental.programs.sandbox.open_sandbox`].
        num_workers (`int`, *optional*):
            Programs that run at the same time; see [`~pvg_hf.experimental.programs.code.ProgramTask`].
        prover_inputs (`bool`, defaults to `False`):
            Whether provers may propose an input on which their program fails; see [`~pvg_hf.experimental.programs.code.ProgramTask`].

    Raises:
        ValueError: for a number below 1.
    """

    name = "livecodebench"
    columns: ClassVar = {"difficulty": Value("int32"), "contest_date": Value("string")}
    prelude: ClassVar = COMMON_IMPORTS
    references_are_correct: ClassVar = False  # an empty text without `references`

    def __init__(
        self,
        path: str | None = None,
        hub_id: str = "lighteval/code_generation_lite",
        release: str = "release_v6",
        references: str | None = None,
        num_train: int | None = None,
        max_hidden_tests: int | None = 20,
        sandbox: str = "auto",
        num_workers: int | None = None,
        prover_inputs: bool = False,
    ):
        super().__init__(path, hub_id, num_train, None, max_hidden_tests, sandbox, LIMITS, num_workers, prover_inputs)
        self.release, self.references = release, references

    @property
    def needs_references(self) -> bool:
        return self.references is not None

    @property
    def hub_config(self) -> str:
        return self.release

    def stored_split(self, split: Split) -> str | None:
        return "test" if split == "train" else None

    @cached_property
    def _solutions(self) -> dict[str, list[str]]:
        """Solutions of the file `references`, by problem."""
        found: dict[str, list[str]] = {}
        for row in () if self.references is None else read_files([Path(self.references)]):
            if not all(isinstance(row.get(name), str) for name in ("question_id", "code")):
                raise ValueError(
                    f"`{self.references}` needs the texts `question_id` and `code` in every line; one has {list(row)}."
                )
            found.setdefault(row["question_id"], []).append(row["code"].replace("\r\n", "\n"))
        return found

    def row_settings(self, row: Row) -> list[Any]:
        return [self.needs_references, self._solutions.get(self.row_name(row), [])]

    def row_name(self, row: Row) -> str:
        missing = [name for name in _FIELDS if name not in row]
        if missing:
            raise ValueError(f"A row of `livecodebench` lacks {missing}; it has {list(row)}.")
        return str(row["question_id"])

    def problem_text(self, row: Row) -> str:
        starter = (row.get("starter_code") or "").strip()
        ending = f"Begin with:\n{starter}" if starter else "The program reads stdin and writes to stdout."
        return f"{row['question_content'].strip()}\n\n{ending}"

    def read_row(self, row: Row) -> ReadProblem | str:
        private = self._private_text(row["private_test_cases"])
        try:
            function = json.loads(row["metadata"] or "{}").get("func_name")
            visible, hidden = (
                tuple(_read_cases(json.loads(text or "[]"), function)) for text in (row["public_test_cases"], private)
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return "tests in an unknown form"
        return ReadProblem(
            difficulty=_DIFFICULTIES.get(row.get("difficulty"), 0),
            visible=visible,
            hidden=hidden,
            solutions=tuple(self._solutions.get(self.row_name(row), ())),
            function=None if function is None else f"Solution.{function}",
            columns={"contest_date": str(row.get("contest_date") or "")[:10]},
        )

    def _private_text(self, stored: str) -> str:
        """Return private tests as a JSON text; what is neither that nor a compressed pickle of it is returned as it is."""
        pickled = _decompress(stored)
        if pickled is None:
            return stored
        case = CallCase("unpickle", (base64.b64encode(pickled).decode(),))
        (result,) = self.run_cases(_UNPICKLE, [case], _UNPICKLE_LIMITS)
        text = None if result.output is None else json.loads(result.output)
        return text if isinstance(text, str) else stored


def _decompress(stored: str) -> bytes | None:
    """Return what a text of base64 and zlib holds, up to a limit; `None` if it is no such text or holds more."""
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(base64.b64decode(stored, validate=True), _MAX_UNPACKED)
    except (ValueError, zlib.error):  # ValueError: not base64
        return None
    return None if unpacker.unconsumed_tail or not unpacker.eof else unpacked


def _read_cases(tests: list[dict[str, Any]], function: str | None) -> Iterator[Case]:
    """
    Read tests with `input`, `output` and `testtype`.

    Raises:
        ValueError: if a test has another form; KeyError and TypeError if it lacks a field.
    """
    for test in tests:
        if test["testtype"] == "stdin":
            yield StdinCase(test["input"], test["output"], RULES)
        elif test["testtype"] == "functional" and function is not None:
            arguments = tuple(json.loads(line) for line in test["input"].split("\n") if line.strip())
            yield CallCase(f"Solution.{function}", arguments, json.loads(test["output"]), RULES)
        else:
            raise ValueError(f"a test of the type {test['testtype']!r}")
