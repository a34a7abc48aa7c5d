"""Formats Markdown."""

from collections.abc import Sequence

from huggingface_hub import constants


def hub_url(repo_id: str, kind: str = "") -> str:
    """Return the address of a repository on the Hub in use (`HF_ENDPOINT`); `kind` is `datasets` for a dataset."""
    return "/".join(filter(None, (constants.ENDPOINT, kind, repo_id)))


def hub_link(repo_id: str, kind: str = "") -> str:
    """Return a link to [`hub_url`]."""
    return f"[{repo_id}]({hub_url(repo_id, kind)})"


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table; the first row has the headings."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))
