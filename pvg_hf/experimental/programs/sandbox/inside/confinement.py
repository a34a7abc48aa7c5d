"""Rights that a program's process gives up before the program runs."""

import ctypes
import math
import os
import resource
import struct
import sys
from dataclasses import dataclass
from typing import Any

from pvg_hf.experimental.programs.sandbox.inside.syscall_filter import build_filter, install_filter

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _SIGKILL = 1, 4, 9
_LEAST_LANDLOCK = 3  # the first version that covers cutting files
_CAPABILITIES_VERSION = 0x20080522


@dataclass(frozen=True)
class Confinement:
    """
    What a program's process gives up before the program runs.

    Args:
        ruleset (`int`, *optional*):
            Descriptor of a Landlock ruleset.
        filters (`tuple[bytes, bytes]`, *optional*):
            Filters of system calls, for programs that may start no process and for others.
        user (`int`, *optional*):
            User and group that the process changes to.
    """

    ruleset: int | None = None
    filters: tuple[bytes, bytes] | None = None
    user: int | None = None


def prepare_confinement(settings: dict[str, Any]) -> Confinement:
    """
    Make what the processes of programs are confined by, once for all of them.

    Args:
        settings (`dict[str, Any]`):
            `is_filtered`; `readable`: paths that programs can read under Landlock, or `None` without it; and `user` in place
            of root, or `None` for the worker's own.

    Raises:
        OSError: if the kernel does not have what is asked for.
    """
    filters = None
    if settings["is_filtered"]:
        filters = (build_filter(may_start_processes=False), build_filter(may_start_processes=True))
    ruleset = None if settings["readable"] is None else _make_ruleset(settings["readable"])
    return Confinement(ruleset, filters, settings["user"] if os.geteuid() == 0 else None)


def _make_ruleset(readable: list[str]) -> int:
    import landlockpy  # only a worker with Landlock is sent its source

    version = landlockpy.abi_version()
    if version < _LEAST_LANDLOCK:
        raise OSError(f"this kernel has Landlock {version or 'in no version'}; version {_LEAST_LANDLOCK} is needed")
    scope = landlockpy.Scope.ABSTRACT_UNIX_SOCKET | landlockpy.Scope.SIGNAL
    rules = landlockpy.Ruleset(scoped=scope)
    read = landlockpy.AccessFS.READ_FILE | landlockpy.AccessFS.READ_DIR
    for path in readable:
        if os.path.isdir(path):
            rules.allow_path(path, read)
        elif os.path.exists(path):
            rules.allow_path(path, landlockpy.AccessFS.READ_FILE)
    rules.allow_path(os.devnull, landlockpy.AccessFS.READ_FILE | landlockpy.AccessFS.WRITE_FILE)
    ruleset = os.dup(rules.fileno())
    rules.close()
    return ruleset


def drop_dumpable() -> None:
    """Keep other processes of the same user from reading the memory of this one and those forked from it."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def confine(confinement: Confinement, limits: dict[str, Any]) -> None:
    """
    Set the limits of this process (the fields of [`pvg_hf.experimental.programs.sandbox.program_limits.Limits`]) and confine it.

    Raises:
        OSError: if the kernel refuses a step. No program runs then.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, limits["num_open_files"])
    # The relay watches the time of a case. This is what remains if the relay cannot.
    _limit(resource.RLIMIT_CPU, math.ceil(limits["processor_seconds"] * limits["num_cases"]) + 5)
    if confinement.user is not None:
        os.setgroups([])
        os.setresgid(*[confinement.user] * 3)
        os.setresuid(*[confinement.user] * 3)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)  # a change of user would clear it
        # Elsewhere the address space is counted in another way.
        _limit(resource.RLIMIT_AS, limits["memory_mb"] << 20)
    if confinement.filters is not None:
        _drop_capabilities()
    if confinement.ruleset is not None:
        from landlockpy import (
            _syscall,  # its `Ruleset` enforces only where it was made, and this is a fork of that process
        )

        _syscall.set_no_new_privs()
        _syscall.restrict_self(confinement.ruleset)
        os.close(confinement.ruleset)
    if confinement.filters is not None:
        install_filter(confinement.filters[limits["num_processes"] > 1])


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _drop_capabilities() -> None:
    """Give up what a process of root can do beyond others."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(struct.pack("Ii", _CAPABILITIES_VERSION, 0), bytes(24)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")
