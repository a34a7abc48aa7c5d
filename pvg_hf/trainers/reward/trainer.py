"""A reward trainer for verifiers with label noise."""

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import torch
from accelerate.logging import get_logger
from accelerate.utils import gather_object
from datasets import Dataset, IterableDataset
from peft import PeftConfig, PeftModel
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import EvalLoopOutput, TrainOutput
from trl import RewardTrainer, is_conversational
from trl.trainer.utils import create_model_from_path

from pvg_hf.core.stopwatch import count_tokens
from pvg_hf.core.templates import render_chat
from pvg_hf.models.likelihood import scores_by_likelihood
from pvg_hf.models.score_head import (
    add_trained_head,
    check_classifier,
    check_classifier_source,
    empty_classifier,
    is_head_trained,
    keep_head_precise,
    return_raw_scores,
    subtract_logits,
)
from pvg_hf.models.token_flops import flops_per_token
from pvg_hf.models.verifier_input import VerifierInput, ends_texts_with
from pvg_hf.models.vocabulary import describe_lost
from pvg_hf.trainers.common.distributed import forget_evaluation_mode, lift_adapter
from pvg_hf.trainers.common.model_card import ModelCardMixin
from pvg_hf.trainers.common.options import parsed_dict
from pvg_hf.trainers.common.step_checks import LastStepMixin
from pvg_hf.trainers.reward.columns import (
    BATCH_KEYS,
    PAIR_COLUMNS,
    PairCollator,
    add_row_index,
    add_token_ids,
    check_columns,
    check_environments,
    column_names,
    drop_huge_pairs,
    infer_verifier_input,
    pair_texts,
    read_sides,
)
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.invariance import (
    BalancedSampler,
    Invariance,
    ResetMomentsCallback,
    check_batch,
    gather_strict_pairs,
)
from pvg_hf.trainers.reward.loss import centring, clean_labels, injected_labels, order_by_label, pair_loss
from pvg_hf.trainers.reward.metrics import ScoredPair, pair_metrics, scored_pairs, unique_pairs
from pvg_hf.trainers.reward.micro_batches import loss_of_part, mark_step, sort_steps

logger = get_logger(__name__)


class NoisyRewardTrainer(LastStepMixin, ModelCardMixin, RewardTrainer):
    """
    Trains a verifier, a sequence classifier with one logit, on pairs of solutions (Kirchner et al. 2024). It can
    inject label noise and correct the loss for it.

    At label level, the labels of both solutions flip independently. A pair with two flipped labels is reversed, and
    one with a single flip is a tie, which Bradley-Terry ignores. This does not produce the ties of a real noisy pool,
    i.e. two correct or two incorrect solutions that are labelled as a pair; for those, flip the labels of the pool
    before pairs are made. The order of the pairs in the dataset is assumed to be the truth.

    Evaluation neither injects nor corrects noise. It counts every pair once, whatever the number of processes, and
    adds `eval_clean_accuracy` (accuracy with respect to the truth, over pairs that are not truly tied) and, for each
    value of the column `source`, `eval_accuracy/SOURCE`, `eval_clean_accuracy/SOURCE`, `eval_num_pairs/SOURCE`.
    Training adds `flipped`, the share of flipped labels, and `tied`, the share of pairs that become ties; and with
    `invariance` the metrics of [`~pvg_hf.trainers.reward.invariance.Invariance.objective`].

    A loss is the mean over the pairs of a step and process (without ties), and these means are averaged. With
    `gradient_accumulation_steps`, the pairs of a step are sorted by length before they are divided into micro-batches,
    and the loss is that of one large batch.

    Args:
        model (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            Hub id, folder, or a classifier with one logit, or with two, which become their difference (that of correct
            solutions minus the other). A language model of [`~pvg_hf.models.likelihood.score_by_likelihood`] takes
            token ids of [`VerifierInput.encode`] with its `likelihood_scale`, and needs `verifier_input`.
        args ([`NoisyRewardConfig`], *optional*):
            The trainer's arguments.
        train_dataset ([`~datasets.Dataset`] or [`~datasets.IterableDataset`]):
            Any dataset for [`~trl.RewardTrainer`]: with `chosen` and `rejected`, or with `chosen_ids` and
            `rejected_ids` including the end token. Further columns that are used: `source` (text), `chosen_correct`
            and `rejected_correct` (truth), `margin` (with the plain Bradley-Terry loss only), `chosen_key` and
            `rejected_key` (int of 63 bits: identifies a solution for drawing its noise; a hash of its tokens by
            default), `chosen_label` and `rejected_label` (0 or 1, if a pair's labels are not (1, 0); for training),
            the column of environments, and `row_index` (int, unique: identifies a pair in evaluation; its position by
            default).
        eval_dataset ([`~datasets.Dataset`], [`~datasets.IterableDataset`] or `dict`, *optional*):
            Dataset with the same columns. One dataset with the column `source` is cheaper than a dict.
        peft_config ([`~peft.PeftConfig`], *optional*):
            An adapter to train; the classifier's head is trained and saved with it.
        verifier_input ([`~pvg_hf.models.verifier_input.VerifierInput`], *optional*):
            Input format that produced the token ids in `train_dataset`, if it has token ids. For texts it is inferred.
        kwargs:
            Further arguments of [`~trl.RewardTrainer`].

    Attributes:
        verifier_input (`VerifierInput` or `None`):
            Input format that `save_model` and every checkpoint store as `verifier_input.json`, for
            [`VerifierScorer.from_pretrained`]. The tokenizer in the same folder appends the end token itself. `None`
            for token ids without a `verifier_input`, and for chats with several turns.
        num_filtered_pairs (`dict[str, int]`):
            Number of pairs of each dataset (`"train"`, `"eval"`, or the key of a dict) that were skipped because they
            exceed `max_length`. In streams they are skipped but not counted.

    Raises:
        ValueError: for a head with other logits, a dataset in which all pairs exceed `max_length`, or columns
            that contradict the settings; in training, for scores of another shape.
        FloatingPointError: if a loss is not finite.

    Example:

    ```python
    from datasets import load_dataset
    from pvg_hf import NoisyRewardConfig, NoisyRewardTrainer

    dataset = load_dataset("trl-lib/ultrafeedback_binarized")
    trainer = NoisyRewardTrainer(
        "Qwen/Qwen3-0.6B",
        args=NoisyRewardConfig("verifier"),
        train_dataset=dataset["train"],
        eval_dataset=dataset["test"],
    )
    trainer.train()
    ```
    """

    args: NoisyRewardConfig
    train_dataset: Any  # no stream with invariance, see `check_environments`
    invariance: Invariance | None  # `None` if no invariance is requested
    _name = "NoisyReward"
    player = "verifier"
    card_settings = (
        *("loss", "correction", "flip_rate", "rho0", "rho1", "noise_rho0", "noise_rho1", "invariance", "center"),
        *("learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size", "max_length", "seed"),
    )

    def __init__(
        self,
        model: str | PreTrainedModel | PeftModel,
        args: NoisyRewardConfig | None = None,
        *,
        peft_config: PeftConfig | None = None,
        verifier_input: VerifierInput | None = None,
        **kwargs,
    ):
        self.verifier_input = verifier_input
        args = args or _default_arguments(model)
        if not isinstance(args, NoisyRewardConfig):
            raise ValueError(f"`args` is a `{type(args).__name__}`; this trainer takes a `NoisyRewardConfig`.")
        model, classifier = _open_classifier(model, args, kwargs.get("quantization_config"))
        if scores_by_likelihood(classifier) and verifier_input is None:
            raise ValueError(
                "A verifier that scores by likelihood takes token ids of `VerifierInput.encode`, which mark the place"
                " of the solution; pass that `verifier_input`."
            )
        self.num_filtered_pairs: dict[str, int] = {}
        self._eval_pairs: list[ScoredPair] = []
        super().__init__(model, args, peft_config=peft_config and add_trained_head(peft_config, classifier), **kwargs)
        # Needs the prepared training set and the collator, which TRL has made by now.
        self._set_up_environments()
        # In bfloat16, scores of one problem's solutions would tie.
        keep_head_precise(self.model)
        lift_adapter(self.model)
        if scores_by_likelihood(self.model):
            return
        return_raw_scores(self.model)
        if not is_head_trained(self.model):
            logger.warning("The verifier's head is frozen; add it to the adapter's `modules_to_save` to train it.")

    def _set_up_environments(self) -> None:
        args, column = self.args, self.args.environment_column
        names = sorted(self.train_dataset.unique(column)) if args.invariance != "none" else []
        self.invariance = Invariance.of(args, names)
        numbers = {name: number for number, name in enumerate(names)}
        self.data_collator = PairCollator(self.data_collator, column if self.invariance else None, numbers)
        if self.invariance is None:
            return
        is_balanced = args.invariance_method.is_balanced
        check_batch(len(names), self._step_size, is_balanced=is_balanced, crowded=args.crowded_environments)
        if self.invariance.regulariser is not None:
            self.add_callback(ResetMomentsCallback(args))

    @property
    def _step_size(self) -> int:
        """Number of pairs in a step over all processes."""
        return self.args.train_batch_size * self.args.world_size * self.args.gradient_accumulation_steps

    def _get_train_sampler(self, train_dataset=None):
        if self.invariance is None or not self.args.invariance_method.is_balanced:
            return super()._get_train_sampler(train_dataset)
        environments = self.train_dataset[self.args.environment_column][:]
        return BalancedSampler(environments, self._step_size, seed=self.args.seed)

    def get_train_dataloader(self):
        dataloader = super().get_train_dataloader()
        if self.args.gradient_accumulation_steps > 1 and isinstance(self.train_dataset, Dataset):
            sort_steps(dataloader, self.train_dataset, self._step_size)
        return dataloader

    def get_batch_samples(self, *args, **kwargs):
        batches, num_items = super().get_batch_samples(*args, **kwargs)
        if len(batches) > 1:
            mark_step(batches)
        return batches, num_items

    def train(self, *args, **kwargs) -> TrainOutput:
        forget_evaluation_mode(self)
        return super().train(*args, **kwargs)

    def _prepare_dataset(self, dataset, processing_class, args, dataset_name):
        has_plain_loss = (args.loss, args.correction) == ("bradley_terry", "none")
        has_penalty = args.invariance_method.penalty is not None
        is_exact = args.correction == "exact" and dataset_name == "train" and not args.injects_noise
        check_columns(
            column_names(dataset),
            takes_margin=has_plain_loss and not has_penalty,
            needs_labels=is_exact and any(args.assumed_rates),
        )
        if dataset_name == "train" and args.invariance != "none":
            check_environments(dataset, args.environment_column)
        dataset = read_sides(dataset)
        _check_chat(next(iter(dataset)), processing_class)
        _warn_of_lost_words(dataset, processing_class, dataset_name)
        dataset = add_row_index(dataset, args.dataloader_num_workers)
        if dataset_name == "train" and _is_plain_text(dataset) and "prompt" not in column_names(dataset):
            logger.warning(
                "The pairs have no `prompt`, so the verifier learns from whole texts: a scorer will put nothing"
                " between a problem and a solution. `pvg train verifier` finds the problem in dialogues (HH-RLHF)."
            )
        num_pairs = None if not isinstance(dataset, Dataset) else len(dataset)
        dataset = drop_huge_pairs(dataset, processing_class, args.max_length)
        texts = dataset  # kept for inferring the input format below
        if _is_plain_text(dataset) and _adds_its_end(processing_class):
            dataset = add_token_ids(dataset, processing_class)
        prepared = super()._prepare_dataset(dataset, processing_class, args, dataset_name)
        if num_pairs is not None:
            self._count_filtered(dataset_name, before=num_pairs, after=len(prepared))
        if dataset_name == "train" and self.verifier_input is None:
            self.verifier_input = infer_verifier_input(texts, prepared, processing_class, args.max_length)
        return prepared

    def _count_filtered(self, dataset_name: str, *, before: int, after: int) -> None:
        self.num_filtered_pairs[dataset_name] = before - after
        message = f"{before - after} of {before} pairs of the {dataset_name} set are longer than `max_length` tokens"
        if after == 0:
            raise ValueError(f"{message}: nothing is left. Raise `max_length`, or shorten the texts.")
        if after < before:
            logger.warning(f"{message} and were left out. Raise `max_length` to keep them.")

    def _save(self, output_dir=None, state_dict=None):
        super()._save(output_dir, state_dict)
        if self.verifier_input is not None:
            self.verifier_input.save_with(self.processing_class, self._folder(output_dir))

    def _set_signature_columns_if_needed(self):
        if self._signature_columns is None:
            super()._set_signature_columns_if_needed()
            assert self._signature_columns is not None
            self._signature_columns += dict.fromkeys([*PAIR_COLUMNS, self.args.environment_column])

    @cached_property
    def _training_flops(self) -> int:
        """Floating-point operations per trained token; counting them takes milliseconds."""
        return flops_per_token(self.model, is_trained=True)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        tokens = {key: value for key, value in inputs.items() if key not in BATCH_KEYS}
        count_tokens(int(tokens["attention_mask"].sum()), self._training_flops)
        # Called for TRL's metrics; its loss is unused.
        _, outputs = super().compute_loss(model, tokens, return_outputs=True)
        chosen, rejected = _split_scores(outputs.logits, num_pairs=len(inputs["row_index"]))
        if self.model.training:
            loss = self._training_loss(chosen, rejected, inputs)
        else:
            self._eval_pairs += scored_pairs(chosen, rejected, inputs)
            loss = pair_loss(chosen, rejected, self.args, margin=inputs.get("margin"))
        self._check_finite(loss)
        return (loss, outputs) if return_outputs else loss

    def _training_loss(self, chosen: torch.Tensor, rejected: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
        labels = self._observed_labels(inputs)
        if self.invariance is not None:
            invariant_loss = self._invariant_loss(chosen, rejected, labels, inputs["environments"])
            if self.invariance.regulariser is not None:
                return invariant_loss
        if "step" not in inputs:
            return self._pair_loss(chosen, rejected, inputs, labels)
        step = inputs["step"]
        loss = partial(self._pair_loss, inputs=step, labels=self._observed_labels(step))
        return loss_of_part(loss, (chosen, rejected), step, self.current_gradient_accumulation_steps)

    def _invariant_loss(
        self, chosen: torch.Tensor, rejected: torch.Tensor, labels: torch.Tensor | None, environments: torch.Tensor
    ) -> torch.Tensor:
        """Compute the loss over environments; its metrics are also logged if batches are only balanced."""
        assert self.invariance is not None
        # Ties have weight 0 and are left out of the risks.
        preferred, other, weights = order_by_label(chosen, rejected, labels)
        loss, figures = self.invariance.objective(
            *gather_strict_pairs(self.accelerator, preferred - other, environments, weights),
            centring(chosen, rejected, self.args),
            is_on=self.state.global_step >= self.args.penalty_start(self.state.max_steps),
            num_processes=self.accelerator.num_processes,
        )
        for key, value in figures.items():
            self._metrics["train"][key].append(value)
        return loss

    def _pair_loss(
        self, chosen: torch.Tensor, rejected: torch.Tensor, inputs: Mapping[str, Any], labels: torch.Tensor | None
    ) -> torch.Tensor:
        margin, correction = inputs.get("margin"), self.args.correction
        return pair_loss(chosen, rejected, self.args, labels=labels, margin=margin, correction=correction)

    def _observed_labels(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """Return labels of (chosen, rejected), shape `(num_pairs, 2)`; `None` if all are (1, 0)."""
        keys, given = inputs["keys"], inputs.get("given_labels")
        if not self.args.injects_noise:
            return given
        given = clean_labels(len(keys)).to(keys.device) if given is None else given
        labels = injected_labels(keys, given, self.args, epoch=int(self.state.epoch or 0), step=self.state.global_step)
        if self.args.noise_resample == "mean":
            return labels
        shares = [labels != given, labels[:, 0] == labels[:, 1]]
        local = torch.stack([share.float().mean() for share in shares])
        flipped, tied = self.accelerator.gather(local[None]).mean(dim=0).tolist()
        self._metrics["train"]["flipped"].append(flipped)
        self._metrics["train"]["tied"].append(tied)
        return labels

    def _check_finite(self, loss: torch.Tensor) -> None:
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"The loss of step {self.state.global_step} is {loss.item()}. Lower `learning_rate` or"
                " `max_grad_norm`, raise `center`, or compute in float32; then continue from the last checkpoint."
            )

    def evaluation_loop(
        self, dataloader, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
    ) -> EvalLoopOutput:
        # Pairs are collected in `compute_loss` and evaluated together, each once.
        self._eval_pairs.clear()
        output = super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        metrics = self._eval_metrics(unique_pairs(gather_object(self._eval_pairs)))
        assert output.metrics is not None
        output.metrics.update({f"{metric_key_prefix}_{key}": value for key, value in metrics.items()})
        self._metrics["eval"].clear()  # TRL would log them as `eval_*`, whatever the prefix is
        return output

    def _eval_metrics(self, pairs: list[ScoredPair]) -> dict[str, float]:
        """Compute TRL's metrics and ours, counting each pair once."""
        if not pairs:
            raise ValueError("The evaluation set has no pair of at most `max_length` tokens.")
        chosen, rejected, margin = (
            torch.tensor(values) for values in zip(*((p.chosen, p.rejected, p.margin) for p in pairs), strict=True)
        )
        averages = {key: sum(values) / len(values) for key, values in self._metrics["eval"].items()}
        loss = pair_loss(chosen, rejected, self.args, margin=margin if margin.any() else None)
        return averages | {"loss": loss.item()} | pair_metrics(pairs)


def _default_arguments(model: str | PreTrainedModel | PeftModel) -> NoisyRewardConfig:
    source = model if isinstance(model, str) else str(model.config.name_or_path)
    return NoisyRewardConfig(f"{Path(source).name}-NoisyReward")


def _open_classifier(
    model: str | PreTrainedModel | PeftModel, args: NoisyRewardConfig, quantization_config: Any
) -> tuple[str | PreTrainedModel | PeftModel, PreTrainedModel | PeftModel]:
    """Return what TRL is to train, and the classifier, without its weights if TRL will load them."""
    if isinstance(model, str):
        settings: dict[str, Any] = {"trust_remote_code": args.trust_remote_code, **parsed_dict(args.model_init_kwargs)}
        origin = {key: settings[key] for key in ("revision", "trust_remote_code") if key in settings}
        if settings.get("ignore_mismatched_sizes", False) or check_classifier_source(model, **origin) == 1:
            return model, empty_classifier(model, **origin)
        settings = {"quantization_config": quantization_config, **settings}
        model = create_model_from_path(model, cast(Any, AutoModelForSequenceClassification), **settings)
    if not scores_by_likelihood(model):
        check_classifier(model)
        subtract_logits(model)
    return model, model


def _is_plain_text(dataset: Dataset | IterableDataset) -> bool:
    return "chosen_ids" not in column_names(dataset) and not is_conversational(next(iter(dataset)))


def _check_chat(row: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the chat template writes the solution of a chat: otherwise all pairs would be two equal texts."""
    if "chosen" not in row or not is_conversational(row):
        return
    # A short text in its place, because a template may rewrite the thoughts of a solution.
    messages = [*row.get("prompt", ()), *row["chosen"][:-1], {**row["chosen"][-1], "content": "A solution."}]
    render_chat(messages, tokenizer, row.get("chat_template_kwargs"), add_generation_prompt=False)


def _warn_of_lost_words(
    dataset: Dataset | IterableDataset, tokenizer: PreTrainedTokenizerBase, dataset_name: str
) -> None:
    lost = describe_lost(tokenizer, pair_texts(dataset))
    if lost is not None:
        logger.warning(
            f"The tokenizer cannot write the texts of the {dataset_name} set: {lost}. The verifier will not see what"
            " it loses; train a model whose tokenizer knows such texts."
        )


def _adds_its_end(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a tokenizer appends an end token itself: an encoder's, or one that was saved with a verifier."""
    return tokenizer.eos_token is None or ends_texts_with(tokenizer, tokenizer.eos_token_id)


def _split_scores(logits: torch.Tensor, num_pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores of the chosen and of the rejected solutions, each of shape `(num_pairs,)`."""
    if logits.shape != (2 * num_pairs, 1):
        raise ValueError(
            f"The model returned logits of shape {tuple(logits.shape)} for {num_pairs} pairs; a verifier must return"
            f" one per sequence: {(2 * num_pairs, 1)}."
        )
    chosen, rejected = logits.squeeze(-1).chunk(2)
    return chosen, rejected
