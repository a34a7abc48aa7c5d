"""`pvg recipes`, `new` and `doctor`: what a user begins with."""

import platform
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from pvg_hf.cli.sources import find_recipe, packaged_recipes
from pvg_hf.core.project import install_extra
from pvg_hf.core.versions import installed_versions
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, print_result
from pvg_hf.run.environment import PACKAGES, num_cores

TEMPLATES = Path(__file__).parent / "templates"


def recipes(words: Sequence[str]) -> int:
    """
    List the recipes that come with the package, or copy one to change it.

        pvg recipes
        pvg recipes copy quickstart my-game.yaml
    """
    parser = ScriptParser(recipes.__doc__, "pvg recipes")
    parser.add_argument("action", nargs="?", choices=["list", "copy"], default="list", help="(default: %(default)s)")
    parser.add_argument("name", nargs="?", help="of the recipe to copy")
    parser.add_argument("output", nargs="?", type=Path, help="the new file (default: NAME.yaml here)")
    options = parser.parse_args(words)
    if (options.name is None) == (options.action == "copy"):
        parser.error("`copy` needs the name of a recipe" if options.action == "copy" else "`list` takes no name")

    def work() -> str:
        if options.action == "list":
            found = packaged_recipes()
            width = max(map(len, found))
            return "\n".join(f"{name:{width}}  {_summarise(path)}" for name, path in found.items())
        path = find_recipe(options.name)
        return _write_new(options.output or Path(path.name), path.read_text(encoding="utf-8"))

    return run_command(work)


def _summarise(recipe: Path) -> str:
    """The first sentence of a recipe's comment, after the command."""
    comment: list[str] = []
    for line in recipe.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# "))
    return " ".join(comment[1:]).split(". ")[0].rstrip(".")


def new(words: Sequence[str]) -> int:
    """
    Write a module with a task, a reward or a stop rule to start from, and say how a recipe names it.

        pvg new task my_task.py
        pvg new reward
    """
    parser = ScriptParser(new.__doc__, "pvg new")
    parser.add_argument("kind", choices=["task", "reward", "stop-rule"])
    parser.add_argument("output", nargs="?", type=Path, help="the new file (default: my_KIND.py here)")
    options = parser.parse_args(words)
    name = options.kind.replace("-", "_")

    def work() -> str:
        output = options.output or Path(f"my_{name}.py")
        if output.suffix != ".py" or not output.stem.isidentifier():
            raise ValueError(f"`{output}` cannot be imported as a module: name it like `my_{name}.py`.")
        text = (TEMPLATES / f"{name}.py.txt").read_text(encoding="utf-8").replace("MODULE", output.stem)
        return _write_new(output, text)

    return run_command(work)


def _write_new(output: Path, text: str) -> str:
    with output.open("x", encoding="utf-8") as file:  # which refuses to overwrite
        file.write(text)
    return str(output)


def doctor(words: Sequence[str]) -> int:
    """
    Check this installation and machine: versions, devices, memory, the Hub and optional packages.

        pvg doctor

    The exit status is 1 if a game could not be played here.
    """
    ScriptParser(doctor.__doc__, "pvg doctor").parse_args(words)
    versions = installed_versions(PACKAGES)
    lines = [f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {num_cores()} cores"]
    lines += [f"{name} {number or 'from a source tree'}" for name, number in versions.items()]
    faults = []
    try:
        import torch
    except ImportError as err:
        faults.append(f"torch cannot be loaded: {err}")
    else:
        gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        lines += [f"GPU: {gpu.name}, {gpu.total_memory / 1e9:.0f} GB" for gpu in gpus] or [
            "GPU: none that torch can use"
        ]
        from pvg_hf.models.sources import cpu_has_bfloat16

        bfloat16 = "has bfloat16, `dtype: bfloat16` is faster" if cpu_has_bfloat16() else "emulates bfloat16, slowly"
        lines.append(f"CPU: {torch.get_num_threads()} threads; it {bfloat16}")
    import psutil

    lines.append(
        f"memory {psutil.virtual_memory().available / 1e9:.0f} GB free; disk {shutil.disk_usage('.').free / 1e9:.0f}"
        " GB free here"
    )
    lines += [
        f"{use}: {'yes' if find_spec(package) else f'no ({install_extra(extra)})'}"
        for use, package, extra in _OPTIONAL
    ]
    from huggingface_hub import get_token

    lines.append(f"Hub: {'a token is set' if get_token() else 'no token; `hf auth login` sets one, for publishing'}")
    if not packaged_recipes():
        faults.append("the recipes of the package are missing: install it again")
    print_result("\n".join([*lines, *(f"error: {fault}" for fault in faults)] or ["All is well."]))
    return int(bool(faults))


_OPTIONAL = (
    ("app", "gradio", "app"),
    ("4-bit models", "bitsandbytes", "quant"),
    ("vLLM", "vllm", "vllm"),
    ("trackers", "trackio", "track"),
)
