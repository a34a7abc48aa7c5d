import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from datasets import Features, Value

from pvg_hf.data.pairs.spill import spill_dataset

FEATURES = Features({"text": Value("string")})


def batches(num_batches):
    for index in range(num_batches):
        yield pa.RecordBatch.from_pydict({"text": [f"text {index}"] * 100}, schema=FEATURES.arrow_schema)


@pytest.mark.parametrize("num_batches", [0, 1, 50])
def test_memory_and_disk_hold_the_same(num_batches):
    in_memory = spill_dataset(batches(num_batches), FEATURES.arrow_schema)
    spooled = spill_dataset(batches(num_batches), FEATURES.arrow_schema, max_bytes=500)
    assert in_memory.cache_files == []
    assert len(spooled.cache_files) == (num_batches > 0)
    assert in_memory.features == spooled.features == FEATURES
    assert in_memory.to_list() == spooled.to_list()
    assert len(spooled) == 100 * num_batches


def test_the_file_is_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spooled = spill_dataset(batches(5), FEATURES.arrow_schema, max_bytes=500)
    assert Path(spooled.cache_files[0]["filename"]).is_relative_to(tmp_path)


def test_folders_of_killed_processes_are_removed_and_those_in_use_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = (
        "import os, signal, sys; sys.path[:0] = [os.environ['TESTS']]; from test_spill import"
        " *\nprint(spill_dataset(batches(5), FEATURES.arrow_schema, max_bytes=500).cache_files[0]['filename'],"
        " flush=True)\nsys.stdin.readline(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "TESTS": str(Path(__file__).parent)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as process:
        theirs = Path(process.stdout.readline().strip())
        assert theirs.is_relative_to(tmp_path)
        mine = spill_dataset(batches(5), FEATURES.arrow_schema, max_bytes=500)
        assert theirs.exists()  # its process lives
        process.communicate("go\n")
    assert theirs.exists()
    other = spill_dataset(batches(3), FEATURES.arrow_schema, max_bytes=500)
    assert not theirs.parent.exists()
    kept = {Path(dataset.cache_files[0]["filename"]).parent for dataset in (mine, other)}
    assert set(tmp_path.iterdir()) == kept


def test_different_contents_have_different_fingerprints():
    first, again, other = (spill_dataset(batches(num), FEATURES.arrow_schema) for num in (2, 2, 3))
    assert first._fingerprint == again._fingerprint != other._fingerprint
