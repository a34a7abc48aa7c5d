"""The report of a run: one self-contained HTML file, and its plots."""

from pvg_hf.report.page import write_report

__all__ = ["write_report"]
