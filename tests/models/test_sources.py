import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file

from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.models import sources
from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.models.sources import (
    check_weight_files,
    is_adapter,
    load_tokenizer,
    name_base,
    read_adapter,
    resolve_dtype,
    resolve_model,
)


@pytest.mark.parametrize("model", ["organisation/model", "runs/game/prover"])
def test_a_hub_id_or_folder_is_kept(model):
    assert resolve_model(model, "prover") == model


@pytest.mark.parametrize("player", ["prover", "verifier"])
def test_arithmetic_is_the_packaged_model(player):
    import pvg_hf

    assert (
        Path(resolve_model("arithmetic", player)) == Path(pvg_hf.__file__).parent / "assets" / f"arithmetic-{player}"
    )


@pytest.mark.parametrize("is_precise", [True, False])
def test_dtypes_of_weights_that_are_trained_or_score(is_precise):
    assert resolve_dtype("float32", is_precise=is_precise) is torch.float32
    assert resolve_dtype("bfloat16", is_precise=is_precise) is torch.bfloat16
    assert resolve_dtype("auto", is_precise=True) is torch.float32


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a CUDA device")
def test_without_a_gpu_weights_are_float32():
    assert resolve_dtype("auto", is_precise=False) is torch.float32


def test_a_tokenizer_without_a_padding_token_pads_with_its_end_token(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "whole")
    assert load_tokenizer(tmp_path / "whole").pad_token == "<pad>"
    bare = load_tokenizer(tmp_path / "whole")
    bare.pad_token = None
    bare.save_pretrained(tmp_path / "bare")
    assert load_tokenizer(tmp_path / "bare").pad_token == "</s>"


def test_an_adapter_is_known_by_its_file(tiny_prover, tmp_path):
    (tmp_path / "adapter_config.json").touch()
    assert is_adapter(tmp_path)
    assert not is_adapter(tiny_prover)
    assert not is_adapter("organisation/model")


def save_adapter(base: str, folder: Path):
    """Save a new adapter on the weights in `base`."""
    model = get_peft_model(load_causal_lm(base), LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    model.save_pretrained(folder)
    return model


def named_base(folder: Path) -> str:
    return json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]


@pytest.mark.parametrize("is_relative", [True, False])
def test_adapters_find_their_base_in_a_run_that_was_moved(is_relative, tiny_prover, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Path("runs/game") if is_relative else tmp_path / "runs" / "game"
    shutil.copytree(tiny_prover, run / "models" / "prover")
    partial = run / "prover" / ".round-000.partial"
    model = save_adapter(str(run / "models" / "prover"), partial)
    model.save_pretrained(partial / "best-helpful")
    name_base(model, partial, player="prover", run=run)
    assert named_base(partial) == "../../models/prover"
    assert named_base(partial / "best-helpful") == "../../../models/prover"

    partial.rename(run / "prover" / "round-000")
    shutil.move(run, tmp_path / "elsewhere")
    monkeypatch.chdir("/")
    adapter = tmp_path / "elsewhere" / "prover" / "round-000"
    for folder in (adapter, adapter / "best-helpful"):
        base = Path(read_adapter(folder, "prover").base_model_name_or_path)
        assert base.samefile(tmp_path / "elsewhere" / "models" / "prover")

    config = read_adapter(adapter, "prover")
    again = PeftModel.from_pretrained(load_causal_lm(config.base_model_name_or_path), adapter, config=config)
    again.save_pretrained(adapter / "again")
    name_base(again, adapter / "again", player="prover", run=tmp_path / "elsewhere")
    assert named_base(adapter / "again") == "../../../models/prover"


def test_adapter_on_a_packaged_player_finds_it_in_another_installation(tiny_prover, tmp_path, monkeypatch):
    def install(place: str) -> Path:
        monkeypatch.setattr(sources, "files", lambda package: tmp_path / place / package)
        return tmp_path / place / "pvg_hf" / "assets" / "arithmetic-prover"

    shutil.copytree(tiny_prover, install("here"))
    model = save_adapter(resolve_model("arithmetic", "prover"), tmp_path / "adapter")
    name_base(model, tmp_path / "adapter", player="prover", run=tmp_path / "run")
    assert named_base(tmp_path / "adapter") == "arithmetic"

    shutil.move(tmp_path / "here", tmp_path / "there")
    there = install("there")
    assert read_adapter(tmp_path / "adapter", "prover").base_model_name_or_path == str(there)


def test_base_outside_the_run_keeps_its_name(tiny_prover, tmp_path, monkeypatch):
    """The name is kept as given: programs that know nothing of a run load the adapter by it."""
    monkeypatch.chdir(tiny_prover.parent)
    model = save_adapter(tiny_prover.name, tmp_path / "run" / "prover")
    name_base(model, tmp_path / "run" / "prover", player="prover", run=tmp_path / "run")
    assert named_base(tmp_path / "run" / "prover") == tiny_prover.name
    assert read_adapter(tmp_path / "run" / "prover", "prover").base_model_name_or_path == tiny_prover.name


def test_model_without_adapters_is_left_as_it_was_saved(tiny_prover, tmp_path):
    """This holds even if the folder has adapters of another model."""
    save_adapter(str(tiny_prover), tmp_path)
    name_base(load_causal_lm(str(tiny_prover)), tmp_path, player="prover", run=tiny_prover.parent)
    assert named_base(tmp_path) == str(tiny_prover)


@pytest.mark.parametrize("base", ["../../models/prover", "/runs/game/models/prover"])
def test_a_missing_base_is_named(base, tmp_path):
    LoraConfig(base_model_name_or_path=base).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=rf"adapter in `{tmp_path}` .*base `{base}`"):
        read_adapter(tmp_path, "prover")


def test_a_model_without_a_tokenizer_is_named(tmp_path, tiny_prover):
    folder = shutil.copytree(tiny_prover, tmp_path / "bare", ignore=shutil.ignore_patterns("tokenizer*"))
    with pytest.raises(ValueError, match=f"{folder} has no tokenizer"):
        load_tokenizer(folder)


def test_weights_that_were_cut_short_are_named(tmp_path):
    weights = tmp_path / "model.safetensors"
    save_file({"weight": torch.arange(64.0)}, weights)
    check_weight_files(tmp_path)
    os.truncate(weights, 100)
    with pytest.raises(DamagedFileError, match=r"model\.safetensors is damaged.* copy"):
        check_weight_files(tmp_path)
