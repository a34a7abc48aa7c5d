"""Backends that isolate programs: each starts a worker in its own way and declares what it guarantees."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_IMAGE = "python:3.11-slim"
_PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Backend:
    """
    A way to isolate programs.

    Args:
        command: Function `(arguments, environment) -> command` that gives the command of a worker from the arguments
            and the environment of its Python.
        lacking: Why it cannot be tried on this machine, such as a program that is not installed.
        isolates: Whether it isolates programs, whose system calls are then filtered, and `auto` may take it.
        keeps_environment: Whether the command is run with the environment variables of this process.
    """

    name: str
    guarantee: str
    command: Callable[[Sequence[str], Mapping[str, str]], list[str]]
    lacking: str | None = None
    isolates: bool = True
    keeps_environment: bool = False

    @property
    def isolation(self) -> str:
        return f"{self.name}: {self.guarantee}"


def _python() -> str:
    """This Python without its virtual environment: programs only have the standard library."""
    return os.path.realpath(sys.executable)


def _bubblewrap(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    command = ["bwrap", "--unshare-all", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]
    command += ["--ro-bind", "/usr", "/usr"]
    for path in map(Path, ("/lib", "/lib64", "/bin")):
        if path.is_symlink():
            command += ["--symlink", os.readlink(path), str(path)]
        elif path.exists():
            command += ["--ro-bind", str(path), str(path)]
    prefix = Path(os.path.realpath(sys.base_prefix))
    if not prefix.is_relative_to("/usr"):
        command += ["--ro-bind", str(prefix), str(prefix)]
    library = Path(sysconfig.get_path("stdlib"))
    hidden = [folder for folder in (library / name for name in _PACKAGES) if folder.is_dir()]
    for folder in hidden:
        command += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev"]
    command += ["--tmpfs", "/tmp", "--remount-ro", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    return [*command, "--", _python(), *arguments]


def _engine() -> str | None:
    """Docker, if its service is running here or `DOCKER_HOST` names one; podman, which needs none, otherwise."""
    docker, podman = shutil.which("docker"), shutil.which("podman")
    if docker is not None and ("DOCKER_HOST" in os.environ or Path("/var/run/docker.sock").exists()):
        return docker
    return podman or docker


def _container(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    engine = _engine() or "docker"
    command = [engine, "run", "--interactive", "--rm", "--network", "none", "--cap-drop", "ALL"]
    command += ["--read-only", "--ipc", "none"]  # `none` leaves out the writable /dev/shm
    if Path(engine).name == "podman":
        command += ["--read-only-tmpfs=false"]  # its /tmp would be writable
    command += [
        "--security-opt",
        "no-new-privileges",
        "--pids-limit",
        "256",
        "--user",
        "65534:65534",
        "--workdir",
        "/",
    ]
    for name, value in environment.items():
        if name != "PATH":
            command += ["--env", f"{name}={value}"]
    return [*command, _IMAGE, "python3", *arguments]


def is_weak(name: object) -> bool:
    """Whether the sandbox of a name does not isolate programs, or is unknown."""
    return name != "auto" and not any(
        backend.isolates and backend.name == name for backend in make_backends().values()
    )


def make_backends() -> dict[str, Backend]:
    """Return all backends by name, from the strongest to the weakest."""
    no_bwrap = (
        None
        if shutil.which("bwrap")
        else "`bwrap` is not installed; install bubblewrap (Debian: `apt-get install bubblewrap`)"
    )
    backends = (
        Backend(
            "bubblewrap",
            "own namespaces (processes, network, users, mounts) and filtered system calls. Programs can write no file,"
            " read only /usr and the standard library, reach no network, start no other program, and neither see nor"
            " signal processes outside.",
            _bubblewrap,
            no_bwrap if sys.platform == "linux" else "it needs Linux",
        ),
        Backend(
            "container",
            f"a container of docker or podman ({_IMAGE}) without network, capabilities or writable files, as the user"
            " nobody, and filtered system calls.",
            _container,
            (
                None
                if _engine()
                else (
                    "neither `docker` nor `podman` is installed; install one of them (Debian: `apt-get install"
                    " podman`)"
                )
            ),
            keeps_environment=True,  # the engine's own settings; programs see those of the worker only
        ),
        Backend(
            "none",
            "no isolation. Programs run with your rights: they can read and write your files and use the network."
            " Time, memory, output and open files are limited, and their processes are killed.",
            lambda arguments, environment: [_python(), *arguments],
            isolates=False,
        ),
    )
    return {backend.name: backend for backend in backends}
