"""Work after the results only warns if it fails."""

import pytest

from pvg_hf.core.afterwards import only_warning


def test_any_error_is_a_warning_with_its_traceback(caplog):
    with only_warning("The card of M could not be written"):
        raise AttributeError("a defect")
    assert "The card of M could not be written (AttributeError: a defect)." in caplog.text
    assert "Traceback" in caplog.text


def test_a_stop_is_not_an_error():
    with pytest.raises(KeyboardInterrupt), only_warning("The card could not be written"):
        raise KeyboardInterrupt
