"""One of two processes of `test_publish.py`; `RANK`, `PORT` and `FOLDER` are among its globals."""

import os
import time
from pathlib import Path

import torch.distributed
from accelerate import PartialState

from pvg_hf.game import publish as publishing

RANK, PORT, FOLDER = (globals()[name] for name in ("RANK", "PORT", "FOLDER"))


def work() -> None:
    time.sleep(0.3)
    Path(FOLDER, f"worked-{RANK}").touch()


os.environ.update(RANK=str(RANK), LOCAL_RANK=str(RANK), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(PORT))
publishing.SECONDS_BETWEEN_SIGNS = 0.05
publishing.run_on_main_process(PartialState(cpu=True), work)
Path(FOLDER, f"went-on-{RANK}").write_text(" ".join(path.name for path in Path(FOLDER).glob("worked-*")))
torch.distributed.destroy_process_group()
