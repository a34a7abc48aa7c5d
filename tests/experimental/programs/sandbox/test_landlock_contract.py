"""Undocumented functions of `landlockpy` that the sandbox uses."""

import inspect
import os
import sys

import pytest

landlockpy = pytest.importorskip("landlockpy")


def test_the_calls_that_confine_a_forked_process_exist():
    """[`pvg_hf.experimental.programs.sandbox.inside.confinement.confine`] calls them in a fork of the process that made the ruleset."""
    assert not inspect.signature(landlockpy._syscall.set_no_new_privs).parameters
    first, *others = inspect.signature(landlockpy._syscall.restrict_self).parameters.values()
    assert first.name == "ruleset_fd"
    assert all(parameter.default is not parameter.empty for parameter in others)


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")
def test_they_confine_a_fork_by_a_copy_of_the_descriptor():
    if not landlockpy.abi_version():
        pytest.skip("this kernel has no Landlock")
    rules = landlockpy.Ruleset()
    ruleset = os.dup(rules.fileno())
    rules.close()
    pid = os.fork()
    if pid == 0:
        try:
            landlockpy._syscall.set_no_new_privs()
            landlockpy._syscall.restrict_self(ruleset)
            os.listdir("/")
        except PermissionError:
            os._exit(7)
        finally:
            os._exit(1)
    os.close(ruleset)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
