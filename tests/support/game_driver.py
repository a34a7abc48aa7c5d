"""
Plays a recipe in a separate process that can end itself at an exact moment: an audit event of Python
(PEP 578) such as the opening of a file or a renaming, so that no test depends on how fast the machine is.

It is run with `ORDER` among its globals, or by a launcher as `game_driver.py ORDER.json`.
"""

import json
import os
import re
import resource
import runpy
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

ORDER: dict = globals().get("ORDER", {})


def main(order: dict) -> None:
    if "log" in order:
        redirect_output(Path(order["log"]))
    if "launcher" in order:
        shard_on_cpu(Path(order["launcher"]))
    if "signal" in order and int(os.environ.get("RANK", "0")) == order.get("rank", 0):
        number = getattr(signal, order["signal"])
        target = {"launcher": os.getppid(), "group": -os.getpgrp(), "self": os.getpid()}[order.get("to", "self")]
        at_moment(order["moment"], lambda: send(number, target, stalls=order.get("stalls", False)))
    if "move" in order:
        at_moment(order["moment"], lambda: os.rename(*order["move"]))
    if "max_file_size" in order:
        limits = (order["max_file_size"], resource.RLIM_INFINITY)
        at_moment(order["moment"], lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits))
    if "arguments" in order:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the command takes all cores that it may
        run_command(order["arguments"], order.get("script"))
    if "attacked" in order:
        attack(order)
        return
    from pvg_hf import load_recipe, play

    try:
        for part in order.get("parts", [order]):
            play(load_recipe(part["recipe"]), phase=part.get("phase"), round_index=part.get("round_index"))
    finally:  # room for the log
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def shard_on_cpu(launcher: Path) -> None:
    """
    Play under an FSDP configuration of accelerate, as its launcher hands it on. accelerate 1.15 takes FSDP up on
    accelerators only; what it does with it then works on a CPU too, where torch shards by gloo.
    """
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    settings = load_config_from_file(str(launcher)).fsdp_config
    os.environ["ACCELERATE_USE_FSDP"] = "true"
    os.environ |= {name.upper(): str(value) for name, value in settings.items()}
    as_it_is = AcceleratorState.__init__

    def with_fsdp(self, *args, fsdp_plugin=None, **kwargs) -> None:
        as_it_is(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = with_fsdp


def redirect_output(log: Path) -> None:
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def send(number: int, target: int, *, stalls: bool) -> None:
    """Send a signal; with `stalls`, never return, like work that does not ask whether it should stop."""
    os.kill(target, number)
    while stalls:
        time.sleep(0.1)


def at_moment(moment: dict, act: Callable[[], None]) -> None:
    """
    Act just before the audit event of the name `event` whose arguments match `pattern`, the `count`-th of them; or at
    the call of a function whose file and name match, as for `{"event": "call", "pattern": "losses.py:bradley_terry"}`.
    """
    num_left = moment.get("count", 1)
    if moment["event"] == "call":

        def watch_calls(frame, event: str, argument) -> None:
            nonlocal num_left
            code = frame.f_code
            if event == "call" and f"{code.co_filename}:{code.co_qualname}".endswith(moment["pattern"]):
                num_left -= 1
                if num_left == 0:
                    sys.setprofile(None)
                    act()

        sys.setprofile(watch_calls)
        return

    def watch(name: str, arguments: tuple) -> None:
        nonlocal num_left
        if num_left > 0 and name == moment["event"] and re.search(moment["pattern"], repr(arguments)):
            num_left -= 1
            if num_left == 0:
                act()

    sys.addaudithook(watch)


def attack(order: dict) -> None:
    """Train attackers against the first verifier of a run."""
    from pvg_hf.config.sections import AttackSettings
    from pvg_hf.experimental.attacks.fresh_attacker import run_attacks
    from pvg_hf.experimental.judging.judged_round import JudgedRun
    from pvg_hf.experimental.judging.trained_attacks import attacked_verifier

    verifier = attacked_verifier(JudgedRun.open(Path(order["attacked"])).round(0))
    run_attacks([verifier], AttackSettings(**order["settings"]), Path(order["root"]), num_workers=1)


def run_command(words: list[str], script: str | None) -> None:
    """Run a `pvg` command, or a script with these arguments."""
    sys.argv = [script or "pvg", *words]
    if script is not None:
        runpy.run_path(script, run_name="__main__")
        return
    from pvg_hf.cli.main import main as run

    sys.exit(run(words))


if __name__ == "__main__":
    main(ORDER or json.loads(Path(sys.argv[1]).read_text()))
