from pathlib import Path

import pytest
import torch

from pvg_hf.models.sources import is_adapter, load_tokenizer, resolve_dtype, resolve_model


@pytest.mark.parametrize("model", ["organisation/model", "runs/game/prover"])
def test_a_hub_id_or_folder_stays(model):
    assert resolve_model(model, "prover") == model


@pytest.mark.parametrize("player", ["prover", "verifier"])
def test_arithmetic_is_the_packaged_model(player):
    import pvg_hf

    assert (
        Path(resolve_model("arithmetic", player)) == Path(pvg_hf.__file__).parent / "assets" / f"arithmetic-{player}"
    )


def test_dtypes():
    assert resolve_dtype("float32") is torch.float32
    assert resolve_dtype("bfloat16") is torch.bfloat16


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a CUDA device")
def test_without_a_gpu_weights_are_float32():
    assert resolve_dtype("auto") is torch.float32


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
