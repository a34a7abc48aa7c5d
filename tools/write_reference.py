"""
Write the generated parts of the documentation: the key reference in docs/recipes.md, and docs/recipe.schema.json.

    python -m tools.write_reference
    python -m tools.write_reference --check    # changes nothing; exit status 1 if a file is out of date
"""

import argparse
import sys
from pathlib import Path

from pvg_hf.config.reference import reference_files, section_reference_markdown, write_between_markers
from pvg_hf.experimental.messages.recipe import MessageRecipe

REPOSITORY = Path(__file__).parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only list the files that are out of date")
    arguments = parser.parse_args()

    messages = REPOSITORY / "docs" / "experimental" / "message-game.md"
    tables = write_between_markers(messages.read_text(encoding="utf-8"), section_reference_markdown(MessageRecipe))
    outdated = {
        path: text
        for path, text in {**reference_files(REPOSITORY), messages: tables}.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in outdated.items():
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        print(f"{'out of date' if arguments.check else 'written'}: {path.relative_to(REPOSITORY)}")
    return 1 if arguments.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
