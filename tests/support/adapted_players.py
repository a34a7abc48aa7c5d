"""Players with adapters that change the outputs."""

from pathlib import Path

import torch
from peft import PeftModel, get_peft_model

from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.models.prover_model import load_causal_lm, lora_for_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.sources import name_base
from pvg_hf.models.verifier_model import load_classifier, lora_for_verifier

IDS = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14]])


def make_prover(base: Path, quantization: str = "none", *, seed: int = 0) -> PeftModel:
    """An adapter on the language model in `base`."""
    return _disturb(
        get_peft_model(load_causal_lm(str(base), quantization=quantization), lora_for_prover(LoraConfig(r=4))), seed
    )


def make_verifier(base: Path, quantization: str = "none", *, seed: int = 1) -> PeftModel:
    """An adapter and a head on the language model in `base`."""
    classifier = load_classifier(str(base), quantization=quantization)
    model = _disturb(get_peft_model(classifier, lora_for_verifier(LoraConfig(r=4), classifier)), seed)
    draw_head(model, seed)
    return model


def _disturb(model: PeftModel, seed: int) -> PeftModel:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1, generator=generator)
    return model.eval()


def save_player(model: PeftModel, tokenizer, folder: Path, player: str) -> None:
    """Save a player as a phase of the game does."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    name_base(model, folder, player=player, run=folder)


@torch.no_grad()
def logits_of(model) -> torch.Tensor:
    """Logits for two rows of token ids."""
    return model.eval()(input_ids=IDS).logits
