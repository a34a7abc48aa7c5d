"""Versions of installed packages."""

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version


def installed_versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Versions of packages by name; `None` for a package that is imported from a source tree and not installed."""
    return {package: _installed_version(package) for package in packages}


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def show_versions(versions: Mapping[str, str | None]) -> str:
    """Format versions in one line, for a card or a report."""
    return ", ".join(f"{package} {number or 'from a source tree'}" for package, number in versions.items())
