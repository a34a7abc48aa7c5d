"""Formats counts, bytes, seconds and shares for people."""


def show_count(number: float) -> str:
    """Format a count, e.g. `184640` as `185 k`."""
    return _scaled(number, ("", " k", " M", " B", " T"))


def show_bytes(number: float) -> str:
    """Format a number of bytes, e.g. `3.2e9` as `3.2 GB`."""
    return _scaled(number, (" B", " kB", " MB", " GB", " TB"))


def show_seconds(seconds: float) -> str:
    """Format a duration, e.g. `400` as `6.7 min`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{_rounded(seconds / length)} {unit}"
    return "< 1 s" if seconds < 1 else f"{seconds:.0f} s"


def show_percent(share: float) -> str:
    """Format a share, with a decimal if it is below 10 %, e.g. `0.021` as `2.1 %`."""
    return f"{_rounded(100 * share)} %"


def _scaled(number: float, units: tuple[str, ...]) -> str:
    """Write a number in the largest unit that it reaches; each unit is a thousand of the one before."""
    power = 0
    while number >= 999.5 and power + 1 < len(units):
        number, power = number / 1000, power + 1
    return _rounded(number) + units[power]


def _rounded(number: float) -> str:
    """Round to two significant figures below 10, else to a whole number."""
    return f"{number:.0f}" if number >= 9.95 or number == int(number) else f"{number:.1f}"
