"""Formats Markdown."""

from collections.abc import Sequence


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table; the first row has the headings."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))
