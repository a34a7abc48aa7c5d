"""
Confines the process of a program before it runs: limits, and a filter of system calls by the C library libseccomp.
"""

import ctypes
import errno
import math
import resource
import sys
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _SIGKILL = 1, 4, 9
_LIBRARY = "libseccomp.so.2"
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000  # SCMP_ACT_ALLOW, and SCMP_ACT_ERRNO with a number of `errno` added
_NOT_EQUAL, _MASKED_EQUAL = 1, 7  # SCMP_CMP_NE, SCMP_CMP_MASKED_EQ

# Refused whatever the arguments.
_REFUSED = """
    socket connect accept accept4 bind listen
    execve execveat
    kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal pidfd_getfd
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp move_pages migrate_pages
    setpriority sched_setscheduler sched_setparam sched_setattr sched_setaffinity ioprio_set
    chmod fchmod fchmodat chown fchown lchown fchownat utime utimes utimensat futimesat
    setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
    mount umount2 pivot_root chroot unshare setns mount_setattr move_mount fsopen fsconfig fsmount fspick open_tree
    open_by_handle_at name_to_handle_at bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    add_key request_key keyctl init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff
    syslog acct quotactl quotactl_fd sethostname setdomainname settimeofday clock_settime adjtimex clock_adjtime
    iopl ioperm modify_ldt fanotify_init fanotify_mark inotify_add_watch personality vhangup mbind set_mempolicy
    shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semctl semtimedop mq_open mq_unlink
    memfd_create memfd_secret
"""
_STARTING = ("fork", "vfork")
# Calls of kernels newer than this list do not exist for a program. From 548 on, x86 has others.
_NEWER = range(451, 548)

_CLONE_THREAD = 0x00010000
_CLONE_NEW = [1 << bit for bit in (7, 17, 25, 26, 27, 28, 29, 30)]  # one for each kind of namespace
# Calls with an argument (counted from 0) that may not have one of some values.
_VALUES = {
    "fcntl": (1, (8, 10, 15)),  # F_SETOWN, F_SETSIG and F_SETOWN_EX let a descriptor send signals
    "ioctl": (1, (0x8901, 0x8902, 0x5412, 0x541C)),  # FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX
    "prctl": (0, (1,)),  # PR_SET_PDEATHSIG
}
_LOW = 0xFFFFFFFF  # the kernel takes the low half of these arguments


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


class SyscallFilter:
    """
    A filter that refuses what could reach beyond a process: sockets, other programs, signals, other processes' memory,
    attributes of files, shared memory and memory that no limit counts, mounts, namespaces and settings of the system.

    Args:
        may_start_processes: Whether the program may start processes. Threads are allowed in any case.
    Raises `OSError` if libseccomp is not installed (with the name of the package) or refuses a rule.
    """

    def __init__(self, *, may_start_processes: bool):
        try:
            self._library = ctypes.CDLL(_LIBRARY)
        except OSError as err:
            raise OSError(
                f"{err}. The sandbox filters system calls by this library: install libseccomp (Debian: `apt-get"
                " install libseccomp2`; Fedora: `dnf install libseccomp`)"
            ) from None
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._filter = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(_ALLOW)))
        for name in (*_REFUSED.split(), *(() if may_start_processes else _STARTING)):
            self._refuse(name)
        # A filter cannot see the arguments of `clone3`. Without it, the C library uses `clone`.
        for call in ("clone3", *_NEWER):
            self._refuse(call, error=errno.ENOSYS)
        for flag in _CLONE_NEW:
            self._refuse("clone", _Comparison(0, _MASKED_EQUAL, flag, flag))
        if not may_start_processes:
            self._refuse("clone", _Comparison(0, _MASKED_EQUAL, _CLONE_THREAD, 0))
        for name, (argument, values) in _VALUES.items():
            for value in values:
                self._refuse(name, _Comparison(argument, _MASKED_EQUAL, _LOW, value))
        self._refuse("prlimit64", _Comparison(0, _NOT_EQUAL, 0))  # limits of another process
        # A pair of datagram sockets could send to the sockets of others.
        for kind in (0, *range(2, 16)):  # all but SOCK_STREAM
            self._refuse("socketpair", _Comparison(1, _MASKED_EQUAL, 0xF, kind))

    def _refuse(self, call: str | int, *comparisons: _Comparison, error: int = errno.EPERM) -> None:
        number = call if isinstance(call, int) else self._library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:  # not a call of this processor
            return
        array = (_Comparison * len(comparisons))(*comparisons)
        action = ctypes.c_uint32(_REFUSE | error)
        self._check(self._library.seccomp_rule_add_array(self._filter, action, number, len(comparisons), array))

    def install(self) -> None:
        """Filter the system calls of this process from now on. Raises `OSError` if the kernel refuses."""
        self._check(self._library.seccomp_load(self._filter))

    def _check(self, result: int) -> None:
        if result != 0:
            raise OSError(-result, "libseccomp cannot filter system calls")


Filters = tuple[SyscallFilter, SyscallFilter] | None
"""Filters of system calls, for programs that may start no process and for others; `None` without isolation."""


def drop_dumpable() -> None:
    """Keep other processes of the same user from reading the memory of this one and those forked from it."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def confine(filters: Filters, limits: dict[str, Any]) -> None:
    """
    Set the limits of this process (the fields of [`pvg_hf.experimental.programs.sandbox.Limits`]) and confine it.

    Raises `OSError` if the kernel refuses a step. No program runs then.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, limits["num_open_files"])
    # The relay watches the time of a case. This is what remains if the relay cannot.
    _limit(resource.RLIMIT_CPU, math.ceil(limits["processor_seconds"] * limits["num_cases"]) + 5)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        # Elsewhere the address space is counted in another way.
        _limit(resource.RLIMIT_AS, limits["memory_mb"] << 20)
    if filters is not None:
        filters[limits["num_processes"] > 1].install()


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
