"""Terminal and log output of a game: logging, progress bars, and the scripts' argument parser."""

import argparse
import inspect
import logging
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, NoReturn

from rich.console import Console
from rich.logging import RichHandler

from pvg_hf.config import Recipe
from pvg_hf.config.sections import LoggingConfig

# Warnings of libraries about things that pvg_hf does on purpose, or about names that the libraries themselves use.
HARMLESS = (
    r"`(is_)?gradient_checkpointing` is deprecated",
    r"(Caching|`use_cache=True`) is incompatible with gradient checkpointing",
    r"The tokenizer has new PAD/BOS/EOS tokens that differ from the model config",
    r"'pin_memory' argument is set as true but no accelerator is found",
    r"There were missing keys in the checkpoint model loaded: \['lm_head\.weight'\]\.",  # tied to the embeddings
    r"mtime may not be reliable on this filesystem",  # old checkpoints are then removed in the order of their steps
    r"It seems that you are about to commit a data file .* to a space repository",  # a Space has the run that it shows
)

_SETTING = re.compile(r"[A-Za-z_]\w*(\.\w+)*=.*", re.DOTALL)  # `section.key=value` on a command line

# PATH:LINE: CATEGORY: TEXT, source.
_PYTHON_WARNING = re.compile(r".*?:\d+: (?P<text>\w+: .*?)(\n  [^\n]*)?\s*", re.DOTALL)


def is_main_process() -> bool:
    # The launcher's variable is known before torch is imported.
    return os.environ.get("RANK", "0") == "0"


def shows_progress(config: LoggingConfig) -> bool:
    """Whether to draw progress bars: only on a terminal, and only if the recipe allows it."""
    return config.progress and sys.stderr.isatty()


def set_up_logging() -> None:
    """
    Log this package's messages and all libraries' warnings to standard error; processes other than the main one log
    errors.
    """
    is_main = is_main_process()
    logging.basicConfig(level=logging.WARNING if is_main else logging.ERROR, handlers=[_make_handler()])
    logging.getLogger("pvg_hf").setLevel(logging.INFO if is_main else logging.ERROR)
    logging.captureWarnings(True)


def print_result(text: str) -> None:
    """Print to standard output. A closed pipe (`| head`) is not an error."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes standard output again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def quiet_libraries() -> None:
    """Route the libraries' messages to the same log, without their progress bars and the warnings in `HARMLESS`."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import datasets
    import huggingface_hub.utils
    import transformers

    for library in (datasets, huggingface_hub, transformers):
        library_logger = logging.getLogger(library.__name__)
        library_logger.handlers.clear()
        library_logger.propagate = True
    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()  # this also disables the Hub's bars
    if sys.stderr.isatty():
        huggingface_hub.utils.enable_progress_bars()  # a download may take long
    _load_trl_without_wandb()


def _load_trl_without_wandb() -> None:
    """
    Import TRL's trainers without wandb.

    TRL imports wandb if it is installed, and wandb then makes two temporary folders that outlive a killed process. A
    game's trainers do not need wandb, because the game reports by itself. A later import of wandb works as usual.
    """
    if "wandb" in sys.modules:
        return
    # Makes Python, and so TRL, treat it as not installed.
    sys.modules["wandb"] = None  # type: ignore[assignment]  # Python allows this; its stub does not
    try:
        from trl import GRPOTrainer, RewardTrainer, SFTTrainer  # noqa: F401
    finally:
        del sys.modules["wandb"]


def _make_handler() -> logging.Handler:
    """Handler with colours and wrapped lines on a terminal, and with one line per record in a file."""
    if sys.stderr.isatty():
        console = Console(stderr=True)
        handler: logging.Handler = RichHandler(
            console=console, show_path=False, show_level=False, log_time_format="%H:%M:%S"
        )
        handler.setFormatter(_Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter("%(asctime)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    handler.addFilter(_is_worth_reading)
    return handler


def _is_worth_reading(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    return not any(re.search(pattern, message) for pattern in HARMLESS)


class ScriptParser(argparse.ArgumentParser):
    """Argument parser that reads settings of a recipe in any place, and whose errors explain how they are written."""

    def __init__(self, description: str | None, prog: str | None = None):
        super().__init__(
            prog=prog,
            description=inspect.cleandoc(description or ""),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def parse_intermixed_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """
        Parse options and positional arguments in any order.

        If the script has the argument `overrides`, settings `section.key=value` may also follow an option with several
        values, such as `--seeds 0 1 prover.beta=0`, which would otherwise take them for its own.
        """
        words = sys.argv[1:] if args is None else list(args)
        if not any(action.dest == "overrides" for action in self._actions):
            return super().parse_intermixed_args(words, namespace)
        # An option with one value takes the next word, whatever it looks like: `--column problem=question`.
        takes_one = {name for action in self._actions if action.nargs is None for name in action.option_strings}
        is_setting = [
            _SETTING.fullmatch(word) is not None and before not in takes_one
            for before, word in zip(["", *words], words, strict=False)
        ]
        settings = [word for word, is_one in zip(words, is_setting, strict=True) if is_one]
        others = [word for word, is_one in zip(words, is_setting, strict=True) if not is_one]
        parsed = super().parse_intermixed_args(others, namespace)
        parsed.overrides = [*parsed.overrides, *settings]
        return parsed

    def error(self, message: str) -> NoReturn:
        message = message.replace(", section.key=value", "")  # overrides are optional
        option = re.search(r"unrecognized arguments: --([\w.-]+)(=\S*)?(?: (-?[^-\s]\S*))?", message)
        key = option[1].replace("-", "_") if option else ""
        if option and ("." in key or key in {field.name for field in fields(Recipe)}):
            value = (option[2] or "=").removeprefix("=") or option[3] or "VALUE"
            message += f". Settings of the recipe are written without dashes: {key}={value}"
        super().error(message)


class _Formatter(logging.Formatter):
    """Formatter that names the level of warnings and errors, and removes the source line from Python's warnings."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        found = _PYTHON_WARNING.fullmatch(record.message) if record.name == "py.warnings" else None
        if found:
            record.message = found["text"]
        elif record.levelno >= logging.WARNING:
            record.message = f"{record.levelname.capitalize()}: {record.message}"
        return super().formatMessage(record)
