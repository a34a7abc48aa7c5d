"""Executors that are named in tests, and what is none."""

from concurrent.futures import ThreadPoolExecutor


def one_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


def no_executor() -> int:
    return 1
