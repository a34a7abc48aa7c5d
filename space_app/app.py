"""Starts the app on the run that `space.json` names; `pvg space` writes that file."""

import json
import sys
from importlib import import_module
from pathlib import Path

settings = json.loads(Path(__file__).with_name("space.json").read_text(encoding="utf-8"))
sys.exit(import_module(f"{settings['app']}.__main__").main(settings["arguments"]))
