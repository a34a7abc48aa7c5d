"""Adapters on the embedding and on the output layer, which share a weight in most small models."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from pvg_hf.models.export import export_merged
from pvg_hf.models.prover_model import load_causal_lm, load_prover, merge_adapter
from pvg_hf.models.score_head import add_trained_head, draw_head
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier, load_verifier
from tests.conftest import make_tiny_llama

SCALES = {"head": None, "likelihood": 1.0}


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def base(request, tmp_path_factory, tokenizer):
    """Folder of a language model whose embedding and output layer share their weight, or do not."""
    folder = tmp_path_factory.mktemp("base")
    make_tiny_llama(tokenizer, tie_word_embeddings=request.param).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_player(base, kind: str, settings: dict):
    """A player whose adapters change the outputs."""
    torch.manual_seed(0)
    lora = LoraConfig(r=4, task_type="SEQ_CLS" if kind == "head" else "CAUSAL_LM", **settings)
    if kind == "prover":
        model = load_causal_lm(str(base))
    else:
        model = load_initial_verifier(str(base), likelihood_scale=SCALES[kind])
    if kind == "head":
        draw_head(model, seed=0)
        lora = add_trained_head(lora, model)
    model = get_peft_model(model, lora)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


@torch.no_grad()
def outputs_of(model, tokenizer) -> torch.Tensor:
    ids = torch.tensor([[3, 4, 5, tokenizer.eos_token_id, 7, 8, tokenizer.eos_token_id]])
    return model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@pytest.mark.filterwarnings("ignore:.*(tie_word_embeddings|no longer tied|save_embedding_layers|no tied modules)")
@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj", "embed_tokens"]},
        {"target_modules": ["q_proj", "embed_tokens"], "ensure_weight_tying": True},
        {"target_modules": ["q_proj", "lm_head"]},
        {"target_modules": ["embed_tokens", "lm_head"]},
        {"target_modules": ".*(v_proj|embed_tokens)"},
        {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    ],
)
@pytest.mark.parametrize("kind", ["prover", "head", "likelihood"])
def test_a_player_is_the_same_after_saving_merging_and_export(kind, settings, base, tokenizer, tmp_path):
    player, load = ("prover", load_prover) if kind == "prover" else ("verifier", load_verifier)
    model = make_player(base, kind, settings)
    expected = outputs_of(model, tokenizer)
    folder = tmp_path / "player"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if player == "verifier":
        VerifierInput("{{ problem }} {{ solution }}", tokenizer.eos_token, 64, SCALES[kind]).save(folder)
    loaded, _ = load(folder)
    torch.testing.assert_close(outputs_of(loaded, tokenizer), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(outputs_of(merge_adapter(loaded), tokenizer), expected, atol=1e-4, rtol=1e-4)
    export_merged(folder, tmp_path / "merged", player=player, dtype=torch.float32)
    merged, _ = load(tmp_path / "merged")
    torch.testing.assert_close(outputs_of(merged, tokenizer), expected, atol=1e-4, rtol=1e-4)
