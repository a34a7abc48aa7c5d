"""Cells are finished after their references, in one process or in several."""

import logging
from functools import partial

import pytest

from pvg_hf.experimental.sweep.cells import Cell
from pvg_hf.experimental.sweep.workers import finish_cells, load_executor, log_ends
from tests.support.cell_work import touch

REFERENCES = [Cell(seed, 0.0, "none") for seed in (0, 1, 2)]
OTHERS = [Cell(seed, 0.2, name) for seed in (0, 1, 2) for name in ("forward", "none")]


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_cell_ends_and_those_without_a_reference_have_its_error(num_workers, tmp_path):
    ended = dict(finish_cells([*REFERENCES, *OTHERS], set(), partial(touch, tmp_path), num_workers=num_workers))
    assert ended.keys() == {*REFERENCES, *OTHERS}
    assert {path.name for path in tmp_path.iterdir()} == {cell.name for cell in ended if cell.seed != 2}
    assert {cell.seed: str(error) for cell, error in ended.items() if error} == {2: "nothing to learn from"}
    assert sum(error is not None for error in ended.values()) == 3


def test_a_reference_that_was_finished_before_is_enough(tmp_path):
    (tmp_path / REFERENCES[0].name).touch()
    ended = finish_cells(OTHERS[:1], {REFERENCES[0]}, partial(touch, tmp_path), num_workers=1)
    assert list(ended) == [(OTHERS[0], None)]


def test_each_end_is_logged_with_its_outcome(caplog):
    ended = [(REFERENCES[0], None), (REFERENCES[1], ValueError("nothing to learn from"))]
    with caplog.at_level(logging.INFO, logger="pvg_hf"):
        assert list(log_ends(ended, 2, lambda cell: f"{cell.seed} is well")) == ended
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("1/2 seed 0, level 0, none: 0 is well; about ")
    assert second.startswith("2/2 seed 1, level 0, none: no result: nothing to learn from; about < 1 s left")


def test_an_error_that_is_not_a_cells_own_ends_the_sweep(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(finish_cells(REFERENCES[:1], set(), partial(touch, tmp_path / "missing"), num_workers=1))


def test_an_executor_is_loaded_by_name():
    with load_executor("tests.support.cell_work:one_thread") as executor:
        ended = dict(finish_cells(REFERENCES[:2], set(), str, num_workers=5, executor=executor))
    assert ended == dict.fromkeys(REFERENCES[:2])
    with pytest.raises(ValueError, match=r"`tests\.support\.cell_work:no_executor` returns a int"):
        load_executor("tests.support.cell_work:no_executor")
