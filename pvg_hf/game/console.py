"""What a person reads on the terminal while a game is played."""

import logging
import os
import warnings

from rich.logging import RichHandler


def set_up_logging() -> None:
    """A line per phase from this package; warnings from everything else. Only the main process speaks."""
    is_main = os.environ.get("RANK", "0") == "0"
    handler = RichHandler(show_path=False, log_time_format="[%H:%M:%S]")
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger("pvg_hf").setLevel(logging.INFO if is_main else logging.ERROR)


def quiet_libraries() -> None:
    """Keep the libraries' progress bars and known, harmless warnings from drowning the phases' own lines."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import datasets
    import transformers

    datasets.disable_progress_bars()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=UserWarning, module="torch.utils.data")
