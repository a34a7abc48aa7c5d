import contextlib
import os
import time

import pytest

from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.core.stopwatch import OTHER, UNKNOWN, WRITING, count_tokens, spending
from pvg_hf.run.phase_record import PhaseRecord, read_record, recording


def leave(folder, *, seconds: float, running_since: float | None, written: tuple[float, ...] = ()) -> None:
    """Write a phase's folder as an earlier start left it, with files of these times."""
    record = {
        "num_processes": 1,
        "seconds": seconds,
        "split": {OTHER: {"seconds": seconds}},
        "running_since": running_since,
    }
    write_json(folder / "phase.json", record)
    os.utime(folder / "phase.json", (running_since or 0.0,) * 2)
    for moment in written:
        (folder / str(moment)).touch()
        os.utime(folder / str(moment), (moment, moment))


@pytest.mark.parametrize(
    ("seconds", "running_since", "written", "earlier"),
    [
        (300.0, None, (5000.0,), 300.0),  # it came to an end, after 300 s
        (300.0, 1000.0, (1040.0, 1600.0), 900.0),  # killed: 300 s, and 600 s until it wrote something last
        (0.0, 1000.0, (), 0.0),  # killed before anything was written
        (300.0, 1000.0, (900.0,), 300.0),  # killed before anything new was written
    ],
)
def test_time_of_earlier_starts_is_counted(seconds, running_since, written, earlier, tmp_path):
    leave(tmp_path, seconds=seconds, running_since=running_since, written=written)
    with recording(tmp_path, 1, is_main=True) as record:
        assert record.seconds == earlier
    assert record.seconds > earlier
    assert read_record(tmp_path).seconds == record.seconds


def test_record_is_kept_of_a_phase_that_failed(tmp_path):
    with pytest.raises(KeyError), recording(tmp_path, 2, is_main=True):
        raise KeyError
    record = read_record(tmp_path)
    assert (record.num_processes, record.running_since, record.summary) == (2, None, "")
    assert record.seconds > 0


def test_start_is_noted_for_the_case_of_a_kill(tmp_path):
    with recording(tmp_path, 1, is_main=True):
        assert read_json(tmp_path / "phase.json")["running_since"] > 1.7e9  # seconds of this century


def test_summary_is_written_at_the_end(tmp_path):
    with recording(tmp_path, 1, is_main=True) as record:
        record.summary = "three solutions"
    written = read_record(tmp_path)
    assert written == PhaseRecord(1, record.seconds, None, "three solutions", ended=record.ended, split=record.split)
    assert record.ended > 1.7e9  # seconds of this century


def test_splits_of_all_starts_add_up(tmp_path):
    for seconds in (0.01, 0.02):
        with contextlib.suppress(KeyError), recording(tmp_path, 1, is_main=True, peak_flops=1e12) as record:
            with spending(WRITING):
                count_tokens(5, 2.0)
                time.sleep(seconds)
            raise KeyError
    split = read_record(tmp_path).split
    assert (split[WRITING].tokens, split[WRITING].flops, record.peak_flops) == (10, 20.0, 1e12)
    assert 0.03 <= split[WRITING].seconds < record.seconds
    assert record.seconds == pytest.approx(sum(spent.seconds for spent in split.values()))


def test_time_of_a_killed_start_is_of_no_known_kind(tmp_path):
    leave(tmp_path, seconds=300.0, running_since=1000.0, written=(1600.0,))
    with recording(tmp_path, 1, is_main=True) as record:
        pass
    assert set(record.split) == {OTHER, UNKNOWN}
    assert record.split[UNKNOWN].seconds == 600.0


def test_other_processes_write_nothing(tmp_path):
    with recording(tmp_path, 2, is_main=False):
        pass
    assert read_record(tmp_path) is None
