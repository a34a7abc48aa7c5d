"""Address of the project, and the commands that install it."""

PROJECT_URL = "https://example.org/pvg_hf"
"""Address of the repository: a placeholder, as there is no public one yet. `make reference` writes it wherever else it
is shown."""

CARD_VALUES = {"pvg_hf": f"[pvg_hf]({PROJECT_URL})", "install": f"pip install git+{PROJECT_URL}"}
"""Values that the template of every card gets: a link to the project, and the command that installs it."""


def install_extra(extra: str) -> str:
    """Return, for messages, how a clone's extra `extra` is installed; no index has the package."""
    return f"`pip install -c constraints.txt -e '.[{extra}]'` in a clone"
