"""No model, tokenizer or dataset runs code of its repository."""

import ast
import json
import shutil
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path

import pytest

from pvg_hf.models.prover_model import load_causal_lm, load_prover
from pvg_hf.models.sources import load_tokenizer
from pvg_hf.models.value_model import load_value_model
from pvg_hf.models.verifier_model import load_classifier

REPOSITORY = Path(__file__).parents[2]
FILES = [
    path for folder in ("pvg_hf", "experiments", "tools", "space_app") for path in (REPOSITORY / folder).rglob("*.py")
]
LOADERS = ("from_pretrained", "from_config")
RUN_CODE = ("pipeline", "hub.load", "evaluate.load")  # of transformers, torch and evaluate


def find_unsafe(source: str) -> list[str]:
    """Calls that may run code of a repository: without `trust_remote_code`, or by a loader that has no such switch."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = {keyword.arg or ast.unparse(keyword.value) for keyword in node.keywords}
        of_library = name.startswith("Auto") and name.rpartition(".")[2] in LOADERS
        if of_library and not given & {"trust_remote_code", "SAFELY"}:
            found.append(ast.unparse(node))
        if name in RUN_CODE or name.endswith(tuple(f".{one}" for one in RUN_CODE)):
            found.append(ast.unparse(node))
        if name == "torch.load" and "weights_only" not in given:
            found.append(ast.unparse(node))
        switched_on = [one.arg for one in node.keywords if ast.unparse(one.value) == "True"]
        if {"trust_remote_code", "allow_all_kernels", "use_kernels"} & {*switched_on}:
            found.append(ast.unparse(node))
    return found


def test_every_call_that_loads_a_model_or_tokenizer_switches_code_off():
    unsafe = {str(path.relative_to(REPOSITORY)): find_unsafe(path.read_text(encoding="utf-8")) for path in FILES}
    assert {path: calls for path, calls in unsafe.items() if calls} == {}
    assert len(FILES) > 400


@pytest.mark.parametrize(
    "source",
    [
        "AutoTokenizer.from_pretrained(source)",
        "AutoModel.from_config(config)",
        "AutoConfig.from_pretrained(source, trust_remote_code=True)",
        "transformers.pipeline('text-generation')",
        "torch.hub.load('eve/x', 'model')",
        "torch.load(file)",
    ],
)
def test_a_call_that_may_run_code_is_found(source):
    assert find_unsafe(source) == [ast.unparse(ast.parse(source))]


@pytest.mark.parametrize("load", [load_tokenizer, load_causal_lm, load_classifier, load_value_model, load_prover])
def test_code_in_a_folder_of_weights_is_not_run(load, tiny_prover, tmp_path):
    folder, mark = tmp_path / "model", tmp_path / "imported"
    shutil.copytree(tiny_prover, folder)
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    names = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification")
    for file, found in (
        ("config.json", dict.fromkeys(names, "evil.Evil")),
        ("tokenizer_config.json", {"AutoTokenizer": ["evil.Evil"] * 2}),
    ):
        values = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**values, "auto_map": found}))
    with suppress(ValueError):  # what transformers does without the code is its own affair
        load(str(folder))
    assert not mark.exists()


def test_datasets_is_too_new_for_scripts():
    """Version 4 removed loading scripts, so that `load_dataset` needs no switch."""
    setup = ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    (required,) = [line for line in setup["options"]["install_requires"].split() if line.startswith("datasets>=")]
    assert int(required.removeprefix("datasets>=").split(".")[0]) >= 4
