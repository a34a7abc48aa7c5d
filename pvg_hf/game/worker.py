"""The start of a process that plays games for another. Light: what it says is set up before the libraries are loaded."""

import logging
import multiprocessing
import os
import signal
import threading

from pvg_hf.game.console import quiet_libraries, set_up_logging


def begin_worker(num_threads: int) -> None:
    """
    Speak of warnings alone, leave Ctrl-C to the process that started this one, and end with it.

    Args:
        num_threads (`int`):
            For torch.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a game listens for it by itself while it is played
    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_up_logging()
    logging.getLogger("pvg_hf").setLevel(logging.WARNING)  # phases of several games at once would be told pell-mell
    quiet_libraries()
    import torch

    torch.set_num_threads(num_threads)


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
