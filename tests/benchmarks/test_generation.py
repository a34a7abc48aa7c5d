"""`benchmarks/generation.py` on a few rows: every engine writes the lengths that it is asked for."""

import pyarrow
import pyarrow.parquet
import pytest

from benchmarks.generation import Engine, all_engines, draw_lengths, measure, read_options

SMALL = ["--toy", "--prompts", "3", "--solutions", "2", "--rows-at-once", "4", "--new-tokens", "12", "--repeats", "1"]
# Compilation takes most of a minute, and continuous batching starts slowly on a CPU.
QUICK = ("StaticSampler, not compiled", "loop", "generate, dynamic cache")


@pytest.mark.parametrize("lengths", [[], ["--lengths", "lognormal"]], ids=["equal", "own"])
def test_engines_write_solutions_of_the_lengths_they_are_given(lengths):
    engines = {name: engine for name, engine in all_engines().items() if name in QUICK}
    lines = []
    found = measure(read_options([*SMALL, *lengths]), engines, lines.append)
    assert len(engines) == len(QUICK)
    assert not [record for record in found["results"] if "error" in record]
    assert [record["adapter"] for record in found["results"] if record["engine"] == "loop"] == [
        "none",
        "merged",
        "not merged",
    ]
    assert found["results"][0]["ratio"] == 1
    assert all(record["tokens_a_second"] > 0 for record in found["results"])
    assert len(lines) == len(found["results"])


def test_an_engine_that_fails_is_recorded_and_the_others_run():
    engines = {"broken": Engine(lambda model, tokenizer, work: [0] * len(work.prompts)), "loop": all_engines()["loop"]}
    broken, *others = measure(read_options(SMALL), engines, print)["results"]
    assert "0 tokens instead of 12" in broken["error"]
    assert len(others) == 3
    assert all(record["seconds"] > 0 and record["ratio"] is None for record in others)


def test_lengths_come_from_a_pool_or_from_a_distribution(tmp_path):
    file = tmp_path / "pool.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"num_tokens": [3, 500, 7, 11]}), file)
    assert sorted(draw_lengths(str(file), 8, 360, seed=0)) == [3, 3, 7, 7, 11, 11, 360, 360]
    drawn = draw_lengths("lognormal", 2001, 10_000, seed=0)
    # The logarithm of the median of 2,001 draws has a standard error of 1.25 * .6 / sqrt(2001) = .017.
    assert sorted(drawn)[1000] == pytest.approx(274, rel=0.07)
    assert draw_lengths(None, 2, 200, seed=0) == [200, 200]
