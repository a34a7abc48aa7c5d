"""Jobs run after those that they need, in one process or in several; failures lose nothing else."""

import logging
import os
import pickle
import signal
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from pvg_hf.run.jobs import Job, JobsFailedError, load_executor, run_jobs
from tests.support.job_work import one_thread

CLEAN = [f"seed {seed}, clean" for seed in (0, 1, 2)]
NOISY = [f"seed {seed}, noisy" for seed in (0, 1, 2)]


def touch(folder: Path, name: str, needs: tuple[str, ...]) -> str:
    """Write a file, which must be later than those of the needed jobs; the clean job of seed 2 fails."""
    if name == CLEAN[2]:
        raise ValueError("nothing to learn from")
    assert all((folder / need).exists() for need in needs)
    (folder / name).touch()
    return f"{name[:6]} is well"


def make_job(folder: Path, name: str, *needs: str) -> Job:
    return Job(name, partial(touch, folder, name, needs), (folder / name).exists, needs)


def make_jobs(folder: Path) -> list[Job]:
    """Noisy jobs come first, so that the order is that of the needs."""
    return [make_job(folder, noisy, clean) for noisy, clean in zip(NOISY, CLEAN)] + [
        make_job(folder, clean) for clean in CLEAN
    ]


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.game)])
def test_every_job_ends_and_those_without_what_they_need_have_its_error(num_workers, tmp_path):
    with pytest.raises(JobsFailedError) as caught:
        run_jobs(make_jobs(tmp_path), num_workers=num_workers)
    assert {name: str(error) for name, error in caught.value.failed.items()} == dict.fromkeys(
        (CLEAN[2], NOISY[2]), "nothing to learn from"
    )
    assert {path.name for path in tmp_path.iterdir()} == {*CLEAN[:2], *NOISY[:2]}


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)], ids=["first needed first", "last first"])
def test_all_jobs_of_a_chain_whose_first_fails_have_its_error(order, tmp_path):
    chain = [
        make_job(tmp_path, CLEAN[2]),
        *(make_job(tmp_path, name, need) for name, need in zip(NOISY, [CLEAN[2], *NOISY])),
    ]
    with pytest.raises(JobsFailedError) as caught:
        run_jobs([*(chain[place] for place in order), make_job(tmp_path, CLEAN[0])])
    errors = {name: str(error) for name, error in caught.value.failed.items()}
    assert errors == dict.fromkeys((CLEAN[2], *NOISY), "nothing to learn from")
    assert [path.name for path in tmp_path.iterdir()] == [CLEAN[0]]


def test_a_job_that_is_done_is_skipped_and_is_enough_for_others(tmp_path):
    (tmp_path / CLEAN[2]).touch()  # it would fail
    run_jobs(make_jobs(tmp_path), one_thread())
    assert {path.name for path in tmp_path.iterdir()} == {*CLEAN, *NOISY}


def test_each_end_is_logged_with_its_outcome(caplog, tmp_path):
    jobs = [make_job(tmp_path, CLEAN[0]), make_job(tmp_path, CLEAN[2])]
    with caplog.at_level(logging.INFO, logger="pvg_hf"), pytest.raises(JobsFailedError):
        run_jobs(jobs)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("1/2 seed 0, clean: seed 0 is well; about ")
    assert second.startswith("2/2 seed 2, clean: no result: nothing to learn from; about < 1 s left")


def test_an_error_that_is_not_a_jobs_own_ends_the_command(tmp_path):
    with pytest.raises(FileNotFoundError):
        run_jobs([make_job(tmp_path / "missing", CLEAN[0])])


@pytest.mark.game
def test_a_killed_worker_names_its_job_and_results_are_kept(tmp_path):
    killed = Job("killed", partial(_kill_worker, tmp_path / CLEAN[0]), lambda: False)
    with pytest.raises(JobsFailedError, match=r"(?s)killed: a worker was killed.*--workers"):
        run_jobs([make_job(tmp_path, CLEAN[0]), killed], num_workers=2)
    assert (tmp_path / CLEAN[0]).exists()


class _BreaksAtOnce(ThreadPoolExecutor):
    """Takes one job, and is broken when it gets the next."""

    def submit(self, fn, /, *args, **kwargs):
        if self._work_queue.qsize() or self._threads:
            raise BrokenExecutor("a process in the pool was terminated")
        return super().submit(fn, *args, **kwargs)


def test_a_pool_that_breaks_between_two_jobs_names_both(tmp_path):
    jobs = [Job(name, lambda: None, lambda: False) for name in ("first", "second")]
    with pytest.raises(JobsFailedError, match=r"second.*: a worker was killed"):
        run_jobs(jobs, _BreaksAtOnce(1))


def _kill_worker(first: Path) -> None:
    while not first.exists():
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_error_that_jobs_share_is_shown_once_and_can_be_sent_by_a_worker():
    shared, other = ValueError("nothing to learn from"), ValueError("out of reach")
    error = pickle.loads(pickle.dumps(JobsFailedError({"a": shared, "b": shared, "c": other}, 9)))
    assert str(error).splitlines()[:3] == [
        "3 of 9 jobs have no result:",
        "- a; b: nothing to learn from",
        "- c: out of reach",
    ]


def test_an_executor_is_loaded_by_name():
    with load_executor("tests.support.job_work:one_thread") as executor:
        assert executor.submit(str, 1).result() == "1"
    with pytest.raises(ValueError, match=r"`tests\.support\.job_work:no_executor` returns a int"):
        load_executor("tests.support.job_work:no_executor")
