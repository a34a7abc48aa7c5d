"""What a person reads on the terminal, or later in a log file, while a game is played."""

import argparse
import logging
import os
import re
import sys
from dataclasses import fields
from typing import NoReturn

from rich.console import Console
from rich.logging import RichHandler

from pvg_hf.config import Recipe

# Said by the libraries of what this package does on purpose, or of names that the libraries use themselves.
HARMLESS = (
    r"`(is_)?gradient_checkpointing` is deprecated",
    r"(Caching|`use_cache=True`) is incompatible with gradient checkpointing",
    r"The tokenizer has new PAD/BOS/EOS tokens that differ from the model config",
    r"'pin_memory' argument is set as true but no accelerator is found",
    r"There were missing keys in the checkpoint model loaded: \['lm_head\.weight'\]\.",  # tied to the embeddings
    r"mtime may not be reliable on this filesystem",  # old checkpoints are then removed in the order of their steps
    r"It seems that you are about to commit a data file .* to a space repository",  # a Space has the run that it shows
)

_PYTHON_WARNING = re.compile(
    r".*?:\d+: (?P<text>\w+: .*?)(\n  [^\n]*)?\s*", re.DOTALL
)  # PATH:LINE: CATEGORY: TEXT, source


def is_main_process() -> bool:
    """Known before torch is loaded: a launcher numbers its processes in the environment."""
    return os.environ.get("RANK", "0") == "0"


def shows_progress(recipe: Recipe) -> bool:
    """Whether to draw progress bars: on a terminal, unless the recipe is against it. In a file they would be noise."""
    return recipe.logging.progress and sys.stderr.isatty()


def set_up_logging() -> None:
    """
    A line per phase from this package, and the warnings of everything else, on the standard error. Only the main process
    speaks; of the others one hears errors.
    """
    is_main = is_main_process()
    logging.basicConfig(level=logging.WARNING if is_main else logging.ERROR, handlers=[_make_handler()])
    logging.getLogger("pvg_hf").setLevel(logging.INFO if is_main else logging.ERROR)
    logging.captureWarnings(True)


def print_result(text: str) -> None:
    """Print to the standard output. A reader that has gone (`| head`) is no error."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it once more


def quiet_libraries() -> None:
    """
    Let the libraries speak through the same log, without their own progress bars and the warnings of `HARMLESS`, and leave
    nothing behind in the folder for temporary files.
    """
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
    transformers.logging.disable_progress_bar()  # which silences the Hub's as well
    if sys.stderr.isatty():
        huggingface_hub.utils.enable_progress_bars()  # a download may take long
    _load_trl_without_wandb()


def _load_trl_without_wandb() -> None:
    """
    TRL imports wandb if it is installed, and wandb makes two temporary folders at import, which outlive a process that is
    killed. A game reports by itself, so that its trainers need no wandb; whoever imports it later gets it.
    """
    if "wandb" in sys.modules:
        return
    sys.modules["wandb"] = None  # which Python, and so TRL, takes for a package that is not installed
    try:
        from trl import GRPOTrainer, RewardTrainer, SFTTrainer  # noqa: F401
    finally:
        del sys.modules["wandb"]


def _make_handler() -> logging.Handler:
    """Colours and wrapped lines on a terminal; in a file a line per record, however long."""
    if sys.stderr.isatty():
        console = Console(stderr=True)
        handler = RichHandler(console=console, show_path=False, show_level=False, log_time_format="%H:%M:%S")
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
    """Reads a script's arguments; its errors say how settings are written, to those who know other tools."""

    def __init__(self, description: str):
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        message = message.replace(", section.key=value", "")  # of which there may be none
        option = re.search(r"unrecognized arguments: --([\w.-]+)(=\S*)?(?: (-?[^-\s]\S*))?", message)
        key = option[1].replace("-", "_") if option else ""
        if "." in key or key in {field.name for field in fields(Recipe)}:
            value = (option[2] or "=").removeprefix("=") or option[3] or "VALUE"
            message += f". Settings of the recipe are written without dashes: {key}={value}"
        super().error(message)


class _Formatter(logging.Formatter):
    """Names the level of what is more than a remark; one of Python's warnings loses its place in the source."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        found = _PYTHON_WARNING.fullmatch(record.message) if record.name == "py.warnings" else None
        if found:
            record.message = found["text"]
        elif record.levelno >= logging.WARNING:
            record.message = f"{record.levelname.capitalize()}: {record.message}"
        return super().formatMessage(record)
