"""Errors that end a run because of the machine, not of the recipe."""


class DiskFullError(OSError):
    """There is no room for what a phase was about to write."""


class OutOfMemory(RuntimeError):
    """A phase does not fit in the memory of its device."""
