"""A filter of system calls (seccomp) that a program's process puts on itself."""

import ctypes
import errno
import os
import platform
import struct

# Numbers of the system calls that are refused or looked at. A call newer than the newest one here does not exist for a
# program.
_X86_64 = {
    # sockets
    "socket": 41,
    "connect": 42,
    "accept": 43,
    "accept4": 288,
    "bind": 49,
    "listen": 50,
    # other programs
    "execve": 59,
    "execveat": 322,
    # signals to and memory of other processes, and their priorities
    "kill": 62,
    "tkill": 200,
    "tgkill": 234,
    "rt_sigqueueinfo": 129,
    "rt_tgsigqueueinfo": 297,
    "pidfd_open": 434,
    "pidfd_send_signal": 424,
    "pidfd_getfd": 438,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "process_madvise": 440,
    "process_mrelease": 448,
    "kcmp": 312,
    "setpriority": 141,
    "sched_setscheduler": 144,
    "sched_setparam": 142,
    "sched_setattr": 314,
    "sched_setaffinity": 203,
    "ioprio_set": 251,
    "move_pages": 279,
    "migrate_pages": 256,
    # attributes of files, which Landlock does not cover
    "chmod": 90,
    "fchmod": 91,
    "fchmodat": 268,
    "chown": 92,
    "fchown": 93,
    "lchown": 94,
    "fchownat": 260,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "utime": 132,
    "utimes": 235,
    "utimensat": 280,
    "futimesat": 261,
    # the system
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "unshare": 272,
    "setns": 308,
    "mount_setattr": 442,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "open_tree": 428,
    "open_by_handle_at": 304,
    "name_to_handle_at": 303,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "reboot": 169,
    "swapon": 167,
    "swapoff": 168,
    "syslog": 103,
    "acct": 163,
    "quotactl": 179,
    "quotactl_fd": 443,
    "sethostname": 170,
    "setdomainname": 171,
    "settimeofday": 164,
    "clock_settime": 227,
    "adjtimex": 159,
    "clock_adjtime": 305,
    "iopl": 172,
    "ioperm": 173,
    "modify_ldt": 154,
    "fanotify_init": 300,
    "fanotify_mark": 301,
    "personality": 135,
    "vhangup": 153,
    "mbind": 237,
    "set_mempolicy": 238,
    # memory and messages shared by name
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "msgget": 68,
    "msgsnd": 69,
    "msgrcv": 70,
    "msgctl": 71,
    "semget": 64,
    "semop": 65,
    "semctl": 66,
    "semtimedop": 220,
    "mq_open": 240,
    "mq_unlink": 241,
    # memory that the limit of the address space does not count
    "memfd_create": 319,
    "memfd_secret": 447,
    # what others do with files, which Landlock does not cover
    "inotify_add_watch": 254,
    # processes
    "fork": 57,
    "vfork": 58,
    # looked at with their arguments
    "clone": 56,
    "clone3": 435,
    "fcntl": 72,
    "ioctl": 16,
    "prctl": 157,
    "prlimit64": 302,
    "socketpair": 53,
}
_AARCH64 = {
    # sockets
    "socket": 198,
    "connect": 203,
    "accept": 202,
    "accept4": 242,
    "bind": 200,
    "listen": 201,
    # other programs
    "execve": 221,
    "execveat": 281,
    # signals to and memory of other processes, and their priorities
    "kill": 129,
    "tkill": 130,
    "tgkill": 131,
    "rt_sigqueueinfo": 138,
    "rt_tgsigqueueinfo": 240,
    "pidfd_open": 434,
    "pidfd_send_signal": 424,
    "pidfd_getfd": 438,
    "ptrace": 117,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "process_madvise": 440,
    "process_mrelease": 448,
    "kcmp": 272,
    "setpriority": 140,
    "sched_setscheduler": 119,
    "sched_setparam": 118,
    "sched_setattr": 274,
    "sched_setaffinity": 122,
    "ioprio_set": 30,
    "move_pages": 239,
    "migrate_pages": 238,
    # attributes of files, which Landlock does not cover
    "fchmod": 52,
    "fchmodat": 53,
    "fchown": 55,
    "fchownat": 54,
    "setxattr": 5,
    "lsetxattr": 6,
    "fsetxattr": 7,
    "removexattr": 14,
    "lremovexattr": 15,
    "fremovexattr": 16,
    "utimensat": 88,
    # the system
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "chroot": 51,
    "unshare": 97,
    "setns": 268,
    "mount_setattr": 442,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "open_tree": 428,
    "open_by_handle_at": 265,
    "name_to_handle_at": 264,
    "bpf": 280,
    "perf_event_open": 241,
    "userfaultfd": 282,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "init_module": 105,
    "finit_module": 273,
    "delete_module": 106,
    "kexec_load": 104,
    "kexec_file_load": 294,
    "reboot": 142,
    "swapon": 224,
    "swapoff": 225,
    "syslog": 116,
    "acct": 89,
    "quotactl": 60,
    "quotactl_fd": 443,
    "sethostname": 161,
    "setdomainname": 162,
    "settimeofday": 170,
    "clock_settime": 112,
    "adjtimex": 171,
    "clock_adjtime": 266,
    "fanotify_init": 262,
    "fanotify_mark": 263,
    "personality": 92,
    "vhangup": 58,
    "mbind": 235,
    "set_mempolicy": 237,
    # memory and messages shared by name
    "shmget": 194,
    "shmat": 196,
    "shmctl": 195,
    "msgget": 186,
    "msgsnd": 189,
    "msgrcv": 188,
    "msgctl": 187,
    "semget": 190,
    "semop": 193,
    "semctl": 191,
    "semtimedop": 192,
    "mq_open": 180,
    "mq_unlink": 181,
    # memory that the limit of the address space does not count
    "memfd_create": 279,
    "memfd_secret": 447,
    # what others do with files, which Landlock does not cover
    "inotify_add_watch": 27,
    # looked at with their arguments
    "clone": 220,
    "clone3": 435,
    "fcntl": 25,
    "ioctl": 29,
    "prctl": 167,
    "prlimit64": 261,
    "socketpair": 199,
}
_NEWEST = 450
_CONDITIONAL = ("clone", "clone3", "fcntl", "ioctl", "prctl", "prlimit64", "socketpair")
_STARTING = ("fork", "vfork")
# Name of the machine, its number in the kernel's audit interface, and its system calls.
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in `struct seccomp_data`; arguments by their low halves

_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020080  # all namespaces
_FCNTL_OWNER = (8, 10, 15)  # F_SETOWN, F_SETSIG and F_SETOWN_EX let a descriptor send signals
_IOCTL_REFUSED = (0x8901, 0x8902, 0x5412, 0x541C)  # FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 38, 22
_SECCOMP_MODE_FILTER = 2
_SOCK_STREAM, _SOCK_TYPE = 1, 0xF

Instruction = tuple[int, int, int, int]


def build_filter(*, may_start_processes: bool) -> bytes:
    """
    Return a filter that refuses what could reach beyond a process: sockets, other programs, signals, other processes' memory,
    attributes of files, shared memory, mounts, namespaces and settings of the system.

    Args:
        may_start_processes (`bool`):
            Whether the program may start processes. Threads are allowed in any case.

    Raises:
        OSError: if the machine is of another kind than x86-64 and Arm.
    """
    machine = platform.machine()
    if machine not in _MACHINES:
        raise OSError(f"system calls cannot be filtered on {machine}")
    audit, numbers = _MACHINES[machine]
    refuse = _REFUSE | errno.EPERM
    filtered: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_GREATER, 0, 1, _NEWEST),  # also the calls of the x32 interface
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
    ]
    left_alone = (*_CONDITIONAL, *(_STARTING if may_start_processes else ()))
    for name, number in numbers.items():
        if name not in left_alone:
            filtered += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    # Without `clone3`, whose arguments a filter cannot see, the C library uses `clone`.
    filtered += [(_EQUAL, 0, 1, numbers["clone3"]), (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)]
    clone = [(_LOAD, 0, 0, _FIRST), (_ANY_BIT, 0, 1, _CLONE_NEW), (_RETURN, 0, 0, refuse)]
    if not may_start_processes:
        clone += [(_ANY_BIT, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, refuse)]
    filtered += _when(numbers["clone"], clone)
    filtered += _when(numbers["fcntl"], _refuse_values(_SECOND, _FCNTL_OWNER))
    filtered += _when(numbers["ioctl"], _refuse_values(_SECOND, _IOCTL_REFUSED))
    filtered += _when(numbers["prctl"], _refuse_values(_FIRST, (_PR_SET_PDEATHSIG,)))
    own = [(_LOAD, 0, 0, _FIRST), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, refuse)]
    filtered += _when(numbers["prlimit64"], own)
    # A pair of datagram sockets could send to the sockets of others.
    stream = [(_LOAD, 0, 0, _SECOND), (_AND, 0, 0, _SOCK_TYPE), (_EQUAL, 1, 0, _SOCK_STREAM), (_RETURN, 0, 0, refuse)]
    filtered += _when(numbers["socketpair"], stream)
    filtered.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in filtered)


def _refuse_values(offset: int, values: tuple[int, ...]) -> list[Instruction]:
    instructions: list[Instruction] = [(_LOAD, 0, 0, offset)]
    for value in values:
        instructions += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    return instructions


def _when(number: int, instructions: list[Instruction]) -> list[Instruction]:
    """Instructions for one system call, which is allowed if none of them refuses it."""
    return [(_EQUAL, 0, len(instructions) + 1, number), *instructions, (_RETURN, 0, 0, _ALLOW)]


def install_filter(program: bytes) -> None:
    """
    Filter the system calls of this process from now on.

    Raises:
        OSError: if the kernel refuses.
    """

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    described = Program(len(program) // 8, program)
    steps = (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0),
    )
    for step in steps:
        if libc.prctl(*step) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"prctl: {os.strerror(number)}")
