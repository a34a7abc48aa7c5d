"""What several processes need beyond what a trainer does for them."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.distributed.fsdp import FSDPModule
from transformers import Trainer
from trl.models import unwrap_model_for_generation


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


@contextmanager
def whole_weights(trainer: Trainer) -> Iterator[None]:
    """
    All weights of a trainer's model on every process, so that each generates by itself, in as many forward passes as its
    own solutions take. Sharded weights (FSDP2, ZeRO-3) are gathered once and let go of at the end; without sharding
    nothing happens. Every process must enter.

    Args:
        trainer ([`~transformers.Trainer`]):
            In training, so that its model is sharded where it is to be.
    """
    if trainer.is_deepspeed_enabled:
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator):
            yield
        return
    shards = [module for module in trainer.model.modules() if isinstance(module, FSDPModule)]
    for shard in shards:
        shard.set_reshard_after_forward(False, recurse=False)
        shard.unshard()
    try:
        yield
    finally:
        for shard in shards:
            shard.set_reshard_after_forward(shard is not trainer.model, recurse=False)  # torch's own default
            shard.reshard()
