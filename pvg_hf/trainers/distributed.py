"""Training on several processes after an evaluation."""

from transformers import Trainer


def forget_evaluation_mode(trainer: Trainer) -> None:
    """
    Let `trainer.train()` distribute its model although `trainer.evaluate()` ran before it. An evaluation marks the
    model as prepared without wrapping it for training, and accelerate wraps no model twice: every process would then
    train a model of its own, without a word. To be called before training; a model that is wrapped stays as it is.

    Args:
        trainer ([`~transformers.Trainer`]):
            Under plain data parallelism, or on one process; DeepSpeed and FSDP wrap in evaluation as well.
    """
    accelerator, model = trainer.accelerator, trainer.model
    if accelerator.num_processes == 1 or trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return
    if trainer.model_wrapped is model and model in accelerator._models:
        accelerator._models.remove(model)
        model._is_accelerate_prepared = False
