"""A GRPO trainer for verifiers that write an evaluation and predict a score."""

from collections.abc import Callable, Sequence

import torch
from accelerate.utils import gather
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.analyses.form import Evaluation, read_evaluation
from pvg_hf.data.proofs import check_proofs
from pvg_hf.models.sources import load_tokenizer
from pvg_hf.rewards.predicted_score import score_agreement
from pvg_hf.scoring import GenerativeVerifier
from pvg_hf.tasks.base import RatesAnalyses
from pvg_hf.trainers.common.grpo import SampledGRPOTrainer, completion_text
from pvg_hf.trainers.generative.config import ScoreVerifierConfig
from pvg_hf.trainers.generative.meta_verification import MetaVerifier, ask_meta_verifier
from pvg_hf.trainers.generative.metrics import ScoreSignals, score_metrics

NAN = float("nan")


class ScoreVerifierTrainer(SampledGRPOTrainer):
    """
    Trains a language model to write an evaluation of a proof and to predict its score, 0, 0.5 or 1 (DeepSeekMath-V2,
    2025).

    The evaluations of one proof form a group. A row with an `analysis` asks for an evaluation of that analysis
    instead, so that this trainer also trains meta-verifiers, and one model can learn both.

    Args:
        model (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            A causal language model.
        args ([`ScoreVerifierConfig`]):
            The trainer's arguments.
        train_dataset ([`~datasets.Dataset`]):
            Dataset with `problem` and `proof` (texts) and `score` (0, 0.5 or 1; null if unknown: such a row has no
            effect). Optional columns: `analysis` (a text, or null for a row about the proof), whose quality is then
            the `score`, and `prompt`, which replaces the templates.
        eval_dataset ([`~datasets.Dataset`] or `dict[str, Dataset]`, *optional*):
            Dataset with the same columns.
        meta_verifier (`Callable`, *optional*):
            Function `(problems, proofs, analyses) -> qualities` for R_meta, in [0, 1], or `None` for an unreadable
            answer, which counts as 0; e.g. [`GenerativeVerifier.rate_analyses`]. It is asked about analyses of proofs
            with the required form.
        reward_funcs (`list[Callable]`, *optional*):
            Further TRL reward functions, with `args.reward_weights` (the evaluation's weight comes first).
        processing_class ([`~transformers.PreTrainedTokenizerBase`], *optional*):
            The tokenizer; by default the model's own.
        kwargs:
            Further arguments of [`~trl.GRPOTrainer`].

    Raises:
        ValueError: for a meta-verifier that is not a function, missing columns, invalid scores, no reference score at
            all, or fewer rows than one generation batch.

    Example:

    ```python
    task = load_task("proofs")
    trainer = ScoreVerifierTrainer(
        "path/or/hub-id",
        args=ScoreVerifierConfig("verifier", max_steps=200),
        train_dataset=task.rated_proofs("train"),
        meta_verifier=task.rate_analyses,
    )
    trainer.train()
    ```
    """

    _name = "ScoreVerifier"
    player = "score verifier"

    def __init__(
        self,
        model,
        *,
        args: ScoreVerifierConfig,
        train_dataset: Dataset,
        eval_dataset: Dataset | dict[str, Dataset] | None = None,
        meta_verifier: MetaVerifier | None = None,
        reward_funcs: Sequence[Callable] = (),
        processing_class: PreTrainedTokenizerBase | None = None,
        **kwargs,
    ):
        if isinstance(meta_verifier, GenerativeVerifier | RatesAnalyses):
            raise ValueError(
                f"`meta_verifier` must be a function; for a `{type(meta_verifier).__name__}` pass its `rate_analyses`."
            )
        if meta_verifier is not None and not callable(meta_verifier):
            raise ValueError(f"`meta_verifier` must be a function; got {type(meta_verifier).__name__}.")
        self.settings = args.verifier_settings(_source_of(model))
        self.meta_verifier = meta_verifier
        self.evaluation_reward = args.evaluation_reward()
        tokenizer = processing_class or _tokenizer_of(model)
        check_proofs(train_dataset, needs_scores=True)
        super().__init__(
            model,
            reward_funcs=[_placeholder_rewards, *reward_funcs],
            args=args,
            train_dataset=self._add_prompts(train_dataset, tokenizer),
            eval_dataset=self._prepare_evaluation(eval_dataset, tokenizer),
            processing_class=tokenizer,
            **kwargs,
        )
        self.reward_func_names[0] = "evaluation"

    def _prepare_evaluation(self, dataset, tokenizer: PreTrainedTokenizerBase):
        if isinstance(dataset, dict):
            return {name: self._prepare_evaluation(part, tokenizer) for name, part in dataset.items()}
        if dataset is None:
            return None
        check_proofs(dataset, needs_scores=True)
        return self._add_prompts(dataset, tokenizer)

    def _add_prompts(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        if "prompt" in dataset.column_names:
            return dataset
        return dataset.add_column("prompt", [self.settings.render(row, tokenizer) for row in dataset])

    def _pay(self, rewards, inputs, completions, completion_ids_list):
        evaluations = [
            read_evaluation(completion_text(completion), is_cut=is_cut)
            for completion, is_cut in zip(completions, self._are_cut(completion_ids_list), strict=True)
        ]
        signals = self._gather_signals(inputs, evaluations)
        agreement = score_agreement(signals.predicted, signals.reference)
        rewards[:, 0] = self.evaluation_reward(signals.has_form, agreement, signals.quality)
        rewards[signals.reference.isnan()] = torch.nan  # in all columns, or TRL would take the row's reward for 0
        self._record_metrics(score_metrics(signals))
        return rewards

    def _gather_signals(self, inputs: list[dict], evaluations: list[Evaluation]) -> ScoreSignals:
        """Collect the parsed evaluations of this process's rows, and gather those of all processes."""
        is_judgment = [row.get("analysis") is not None for row in inputs]
        references = [row["score"] for row in inputs]
        predicted = [evaluation.score for evaluation in evaluations]
        has_form = [evaluation.has_form for evaluation in evaluations]
        problems, proofs = ([row[name] for row in inputs] for name in ("problem", "proof"))
        rated = ask_meta_verifier(self.meta_verifier, problems, proofs, evaluations, is_exempt=is_judgment)
        local = {
            "predicted": [NAN if score is None else score for score in predicted],
            "reference": [NAN if score is None else score for score in references],
            "has_form": has_form,
            "is_cut": [evaluation.is_cut for evaluation in evaluations],
            "is_judgment": is_judgment,
            "quality": rated.quality,
            "was_asked": rated.was_asked,
            "is_unreadable": rated.is_unreadable,
        }
        self._log_completion_extra("score", references)
        self._log_completion_extra("predicted", predicted)
        self._log_completion_extra("has_form", has_form)
        self._log_completion_extra("quality", rated.quality)
        table = torch.tensor(list(local.values()), dtype=torch.float32, device=self.accelerator.device).T
        return ScoreSignals(**dict(zip(local, gather(table.contiguous()).T, strict=True)))  # (local rows, signals)

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            self.settings.save(self._folder(output_dir))


def _placeholder_rewards(completions: list, **columns) -> list[float]:
    """Return rewards of 0, as TRL requires a function; `_pay` puts the real rewards in its column."""
    return [0.0] * len(completions)


def _source_of(model: str | PreTrainedModel) -> str:
    return model if isinstance(model, str) else model.config._name_or_path


def _tokenizer_of(model: str | PreTrainedModel) -> PreTrainedTokenizerBase:
    source = _source_of(model)
    if not source:
        raise ValueError(
            "The model was made in memory and has no path to a tokenizer; pass one as `processing_class`."
        )
    tokenizer = load_tokenizer(source)
    tokenizer.padding_side = "left"
    return tokenizer
