"""
Hooks of MkDocs for the site of the documentation: the address of the repository, the menu, and links to files outside
docs/.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

from pvg_hf.core.project import PROJECT_URL

SECTIONS = ("tutorial", "how-to", "reference", "explanation", "results", "development")
LINK = re.compile(r"\]\((?P<up>(?:\.\./)+)(?P<path>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """
    Make the menu from the folders, so that no page can be left out: a section's `index.md` first, the others by name.
    """
    docs = Path(config.docs_dir)
    config.repo_url, config.repo_name = PROJECT_URL, "Source"
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")  # anchors as on GitHub
    config.nav = [{"Home": "index.md"}]
    for section in SECTIONS:
        pages = sorted((docs / section).glob("*.md"), key=lambda page: (page.stem != "index", page.stem))
        if pages:
            config.nav.append({section.capitalize(): [page.relative_to(docs).as_posix() for page in pages]})
    return config


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files outside docs/, such as a recipe, to the repository."""
    docs, folder = Path(config.docs_dir).resolve(), Path(page.file.abs_src_path).parent

    def lead(found: re.Match) -> str:
        target = (folder / (found["up"] + found["path"])).resolve()
        if target.is_relative_to(docs):
            return found[0]
        path = target.relative_to(docs.parent).as_posix()
        return f"]({PROJECT_URL}/blob/main/{path}{found['anchor'] or ''})"

    return LINK.sub(lead, text)
