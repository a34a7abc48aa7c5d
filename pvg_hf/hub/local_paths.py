"""
Removes paths of the publisher's machine from published files: the recipe, and the base models that adapters name.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.config.load import dump_recipe, load_recipe
from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.core.integrity import read_mapping
from pvg_hf.models.sources import PACKAGED
from pvg_hf.run.judgements import Judgement

ADAPTER_CONFIG = "adapter_config.json"
_ROOTED = re.compile(r"(?:.*=)?(?:[/~].+|\.\.?(?:[/\\].*)?)")  # also as the value of an argument, `--data=/home/ana`
_FOLDER_KEYS = ("model", "import_from", "annotations")  # whose value may be a folder's name without a separator
_MODEL_SETTINGS = ("judge", "discriminator")  # settings of evaluations that may be the folder of a model
_TEXTS = ("prompts", "template", "evaluate_prompt", "judge_prompt")


def published_recipe(recipe: Recipe) -> bytes:
    """Serialize a recipe without local paths (`NOT_PUBLISHED` instead) and with the default `output_dir`."""
    values = {**_hide(recipe.to_dict()), "output_dir": Recipe().output_dir}
    return dump_recipe(load_recipe(values)).encode()


def published_judgement(file: Path) -> bytes:
    """Rewrite the file of a [`~pvg_hf.run.judgements.Judgement`], so that its settings name no local folder."""
    values = read_mapping(file, Judgement)
    hidden = {
        key: NOT_PUBLISHED
        for key in _MODEL_SETTINGS
        if isinstance(value := values["settings"].get(key), str) and is_local_path(value, "model")
    }
    if not hidden:
        return file.read_bytes()
    return (json.dumps({**values, "settings": values["settings"] | hidden}, indent=2) + "\n").encode()


def is_local_path(text: str, key: str = "") -> bool:
    """Whether a recipe's value names a local file or folder, not a module, a Hub id or a built-in model."""
    if text in PACKAGED or "\n" in text or not 0 < len(text) < 4096:
        return False
    if _ROOTED.fullmatch(text) or PureWindowsPath(text).drive:
        return True
    if key == "path":
        return True
    if key in _FOLDER_KEYS:  # a Hub id has at most one separator
        return text.count("/") > 1 or Path(text).exists()
    return "/" in text and Path(text).exists()


@dataclass(frozen=True)
class _AdapterConfig:
    base_model_name_or_path: str


def published_base(file: Path, base: str | None, revision: str) -> bytes:
    """
    Rewrite an adapter's configuration (PEFT's JSON), so that it names a base model that readers can load.

    `base` is the repository of the adapter's base weights, if they are published with it, and `revision` their tag.
    """
    values = read_mapping(file, _AdapterConfig)
    if base is not None:
        return _dump(values | {"base_model_name_or_path": base, "revision": revision})
    name = values["base_model_name_or_path"]
    is_inside_the_run = name.startswith("..")
    if is_inside_the_run or not is_local_path(name, "model"):
        return file.read_bytes()
    return _dump(values | {"base_model_name_or_path": NOT_PUBLISHED})


def restore_base(file: Path, published: str, name: str, revision: str | None) -> None:
    """
    Undo [`published_base`] in a downloaded configuration; it is left alone if it does not name the repository
    `published`.

    `name` and `revision` are those of the base weights within the run.
    """
    values = read_mapping(file, _AdapterConfig)
    if values["base_model_name_or_path"] == published:
        file.write_bytes(_dump(values | {"base_model_name_or_path": name, "revision": revision}))


def _dump(values: dict[str, Any]) -> bytes:
    # PEFT's own format, so that publishing and restoring a configuration gives back the same bytes.
    return json.dumps(values, indent=2, sort_keys=True).encode()


def _hide(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: part if name in _TEXTS else _hide(part, str(name)) for name, part in value.items()}
    if isinstance(value, list):
        return [_hide(part) for part in value]
    return NOT_PUBLISHED if isinstance(value, str) and is_local_path(value, key) else value
