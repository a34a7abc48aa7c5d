"""Weights that a folder has only as a pickle are not loaded."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pvg_hf.models.adapters import load_adapter_weights
from pvg_hf.models.prover_model import load_causal_lm, load_prover
from pvg_hf.models.value_model import load_value_model
from pvg_hf.models.verifier_model import load_classifier, load_verifier
from tests.support.adapted_players import make_prover, make_verifier


def pickle_weights(folder: Path, safe: str, pickled: str) -> Path:
    torch.save(load_file(folder / safe), folder / pickled)
    (folder / safe).unlink()
    return folder


@pytest.mark.parametrize("load", [load_prover, load_causal_lm, load_verifier, load_classifier, load_value_model])
def test_pickled_weights_in_a_folder_are_refused(load, tiny_prover, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_prover, folder)
    pickle_weights(folder, "model.safetensors", "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"safetensors .*pytorch_model\.bin"):
        load(str(folder))


@pytest.mark.parametrize("load", [load_causal_lm, load_classifier, load_value_model])
def test_pickled_weights_from_the_hub_are_refused(load, hub_model, tmp_path):
    (snapshot,) = (tmp_path / "hub").glob("*/snapshots/" + "1" * 40)
    pickle_weights(snapshot, "model.safetensors", "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        load(hub_model)


@pytest.mark.parametrize(("make", "load"), [(make_prover, load_prover), (make_verifier, load_verifier)])
def test_a_pickled_adapter_is_refused(make, load, wider_prover, tokenizer, tmp_path):
    model = make(wider_prover)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pickle_weights(tmp_path, "adapter_model.safetensors", "adapter_model.bin")
    with pytest.raises(ValueError, match=r"\(adapter_model\.safetensors\).* adapter_model\.bin"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"\(adapter_model\.safetensors\).* adapter_model\.bin"):
        load_adapter_weights(model, tmp_path)
