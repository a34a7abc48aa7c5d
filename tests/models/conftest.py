"""A model of the Hub in the local cache."""

from pathlib import Path

import pytest
from huggingface_hub import constants

from pvg_hf.models.prover_model import load_causal_lm


@pytest.fixture
def hub_model(tmp_path, tiny_prover, tokenizer, monkeypatch) -> str:
    """`org/base` in the Hub's cache; the norms' weights are 1 on its `main` and 2 at its revision `v1`."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    for revision, weight in (("main", 1), ("v1", 2)):
        commit = str(weight) * 40
        cache_model(tmp_path / "hub" / "models--org--base", tiny_prover, tokenizer, revision, commit, weight)
    return "org/base"


def cache_model(repository: Path, source: Path, tokenizer, revision: str, commit: str, weight: float) -> None:
    model = load_causal_lm(str(source))
    model.model.norm.weight.data.fill_(weight)
    model.save_pretrained(repository / "snapshots" / commit)
    tokenizer.save_pretrained(repository / "snapshots" / commit)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / revision).write_text(commit)
