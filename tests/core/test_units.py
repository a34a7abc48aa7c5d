"""Quantities as people read them."""

import pytest

from pvg_hf.core.units import show_bytes, show_count, show_percent, show_seconds


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (show_count(184640), "185 k"),
        (show_count(999), "999"),
        (show_count(999.7), "1.0 k"),
        (show_count(1_540_000_000), "1.5 B"),
        (show_bytes(5e6), "5 MB"),
        (show_bytes(3.24e9), "3.2 GB"),
        (show_percent(0.0214), "2.1 %"),
        (show_percent(0.27), "27 %"),
        (show_seconds(0.2), "< 1 s"),
        (show_seconds(97.4), "97 s"),
        (show_seconds(400), "6.7 min"),
        (show_seconds(3 * 3600), "3 h"),
        (show_seconds(50 * 3600), "2.1 d"),
    ],
)
def test_amounts_are_written_with_their_unit(shown, text):
    assert shown == text
