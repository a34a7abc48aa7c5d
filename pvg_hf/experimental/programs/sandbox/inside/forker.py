"""The process that forks a process for each program and ends it, with everything that it started."""

import ctypes
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

from pvg_hf.experimental.programs.sandbox.inside.confinement import Filters, drop_dumpable
from pvg_hf.experimental.programs.sandbox.inside.driver import run_program

FORK, KILL = 0, 1
# FORK, a unique number and how many processes the program may have; or KILL, that number, 0
REQUEST = struct.Struct("iii")
STATUS = struct.Struct("ii")  # process id, and its wait status once it has ended, or TOO_MANY
TOO_MANY = -1  # instead of a wait status, if the program started more processes than it may

_PR_SET_CHILD_SUBREAPER = 36
_WATCH_SECONDS = 0.005  # between two counts of a program's processes
_END_SECONDS = 10.0  # for killing everything that a program started


def serve_forks(channel: socket.socket, filters: Filters) -> None:
    """
    Fork a process for each request, until the channel is closed.

    This process never reads a program, an input or an output, and neither did the one that it was forked from: the
    memory that a program inherits holds nothing of other programs.

    Args:
        channel: Connection to the relay. `FORK` comes with the descriptors of the program's socket and its stdout. The
            answers are the process id at once, and the wait status at the end. `KILL` ends the program.
        filters: Filters of system calls, of which the forked process puts one on itself.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans come here
        drop_dumpable()
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, REQUEST.size, 2)
        if not message:
            return
        kind, number, num_processes = REQUEST.unpack(message)
        if kind == KILL:  # the program had ended by itself when this was sent
            continue
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            run_program(*descriptors, filters)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.sendall(STATUS.pack(pid, 0))
        status = _wait(pid, number, channel, woken, num_processes, filters is None or num_processes > 1)
        channel.sendall(STATUS.pack(pid, status))


def _wait(pid: int, number: int, channel: socket.socket, woken: int, num_processes: int, watches: bool) -> int:
    """Wait for a program's end, or end it, and return its wait status after everything that it started has ended."""
    status = None
    watch = _WATCH_SECONDS if watches else None
    while status is None:
        ready, _, _ = select.select([channel, woken], [], [], watch)
        if woken in ready:
            os.read(woken, 512)
        if channel in ready:
            message = channel.recv(REQUEST.size)
            if not message:  # the relay has ended, and so has the game
                _end_all(pid)
                os._exit(0)
            if REQUEST.unpack(message)[:2] == (KILL, number):
                break
        if watch is not None and len(_descendants(os.getpid())) > num_processes:
            _end_all(pid)
            return TOO_MANY
        status = _reap(pid)
    return _end_all(pid, status)


def _reap(wanted: int) -> int | None:
    """Collect ended children; return the wait status of one of them, if it has ended."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == wanted:
            found = status


def _end_all(pid: int, status: int | None = None) -> int:
    """Kill a program and all its descendants; return its wait status."""
    deadline = time.monotonic() + _END_SECONDS
    while True:
        if status is None:
            _kill(pid)
            _kill(-pid)
        alive = _descendants(os.getpid())
        for other in alive:
            _kill(other)
        found = _reap(pid)
        status = found if found is not None else status
        if status is not None and not alive:
            return status
        if time.monotonic() > deadline:
            os._exit(1)  # the relay and then the parent notice, and start another worker
        time.sleep(0.0005)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """All descendants of a process that have not been collected; empty where `/proc` does not say."""
    found, left = [], [pid]
    while left:
        parent = left.pop()
        for child in _children(parent):
            found.append(child)
            left.append(child)
    return found


def _children(pid: int) -> list[int]:
    children = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                children += [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        pass
    return children
