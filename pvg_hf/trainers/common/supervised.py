"""Supervised fine-tuning of a language model on prompts and completions."""

from dataclasses import dataclass

from accelerate.logging import get_logger
from datasets import Dataset
from torch.optim import Optimizer
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

from pvg_hf.models.sources import has_bfloat16
from pvg_hf.trainers.common.step_checks import FiniteLossCallback

logger = get_logger(__name__)


@dataclass(frozen=True)
class FineTuning:
    """
    Settings of a supervised fine-tuning.

    Args:
        batch_size: Rows per step and process.
        learning_rate: Peak of the cosine schedule, reached after a twentieth of the steps.
        max_length: Maximum tokens of prompt and completion; longer rows are truncated at the end. Rows whose prompt
            leaves no room for a completion are left out, with a warning that counts them.
        keeps_order: Whether to train in the order of the rows, instead of grouping rows of similar length at random.
        save_steps: Steps between two checkpoints in `output_dir`, from the last of which a stopped training resumes;
            none are saved by default.
    """

    max_steps: int
    batch_size: int
    learning_rate: float
    max_length: int
    seed: int
    output_dir: str
    use_cpu: bool
    show_progress: bool = True
    keeps_order: bool = False
    save_steps: int | None = None


def fine_tune(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Dataset,
    settings: FineTuning,
    callbacks: list[TrainerCallback] | None = None,
    optimizer: Optimizer | None = None,
) -> list[dict[str, float]]:
    """
    Fine-tune `model` in place; the arguments and errors are those of [`make_fine_tuning`].

    Raises `FloatingPointError` if the loss or the gradient of a step is not finite.
    """
    trainer = make_fine_tuning(model, tokenizer, rows, settings, callbacks, optimizer)
    trainer.remove_callback(PrinterCallback)  # without a progress bar, it would print a line per step
    trainer.train(resume_from_checkpoint=get_last_checkpoint(settings.output_dir) if settings.save_steps else None)
    return trainer.state.log_history


class _FineTuningTrainer(SFTTrainer):
    """Writes no model card: its checkpoints are only resumed from."""

    def create_model_card(self, *args, **kwargs) -> None:
        pass


def make_fine_tuning(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Dataset,
    settings: FineTuning,
    callbacks: list[TrainerCallback] | None = None,
    optimizer: Optimizer | None = None,
) -> SFTTrainer:
    """
    Make the trainer that fine-tunes `model` in place; the loss includes the completion's tokens and the end token.

    Args:
        optimizer: Optimiser of the model's parameters; AdamW at the settings' learning rate by default.
    Raises `ValueError` if no prompt leaves room for a completion.
    """
    trainer = _FineTuningTrainer(
        model,
        args=SFTConfig(
            output_dir=settings.output_dir,
            max_steps=settings.max_steps,
            per_device_train_batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=max(1, settings.max_steps // 20),
            max_length=settings.max_length,
            # The prompt is given, not learned.
            completion_only_loss=True,
            train_sampling_strategy="sequential" if settings.keeps_order else "group_by_length",
            seed=settings.seed,
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="steps" if settings.save_steps else "no",
            save_steps=settings.save_steps or settings.max_steps,
            save_total_limit=1,
            report_to="none",
            use_cpu=settings.use_cpu,
            bf16=not settings.use_cpu and has_bfloat16(),
            activation_checkpointing=not settings.use_cpu,
            dataloader_pin_memory=not settings.use_cpu,
            disable_tqdm=not settings.show_progress,
        ),
        train_dataset=rows,
        processing_class=tokenizer,
        callbacks=[FiniteLossCallback(), *(callbacks or ())],
        optimizers=(optimizer, None),
    )
    assert isinstance(trainer.train_dataset, Dataset)
    _report_dropped(len(rows), len(trainer.train_dataset), settings.max_length)
    return trainer


def _report_dropped(num_rows: int, num_kept: int, max_length: int) -> None:
    dropped = (
        f"{num_rows - num_kept} of {num_rows} prompts have `max_length` = {max_length} tokens or more (of the section"
        " `warmup` in a recipe)"
    )
    if not num_kept:
        raise ValueError(f"{dropped}, so that nothing of a solution would be learned; raise it.")
    if num_kept < num_rows:
        logger.warning("%s; they are left out.", dropped)
