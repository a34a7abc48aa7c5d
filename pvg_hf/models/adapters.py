"""Adapters, as a recipe's section `lora` describes them."""

from peft import LoraConfig as PeftLoraConfig

from pvg_hf.config.sections import LoraConfig


def lora_settings(
    config: LoraConfig, task_type: str, *, revision: str | None, head: list[str] | None = None
) -> PeftLoraConfig:
    """
    PEFT's settings for the section `lora` of a player.

    Args:
        config ([`~pvg_hf.config.sections.LoraConfig`]):
            The section.
        task_type (`str`):
            What the base is, in PEFT's words: `CAUSAL_LM` or `SEQ_CLS`.
        revision (`str`, *optional*):
            Hub revision of the base, which is saved with the adapters.
        head (`list[str]`, *optional*):
            Names of modules that get no adapter and are trained and saved whole.
    """
    return PeftLoraConfig(
        revision=revision,
        r=config.r,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=config.target_modules,
        exclude_modules=head,
        modules_to_save=head,
        task_type=task_type,
    )
