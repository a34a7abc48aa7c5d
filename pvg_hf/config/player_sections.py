"""Recipe sections of the players: their models, their training, and corrections for label noise."""

from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from pvg_hf.analyses.scaled import ScaledVerification, check_scaled_verification
from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.config import fields as f
from pvg_hf.config.noise_section import check_rates
from pvg_hf.core.extensions import Effect
from pvg_hf.core.roles import GAME_ROLES, Role


@f.section
class PPOConfig:
    """Critic and updates of `algorithm: ppo`; `prover.beta` weighs the KL divergence in its rewards."""

    critic: Annotated[
        str | None, f.LowersMemory("adapter", 8, needs_critic=True), f.Asks(Effect.READS, f.is_outside)
    ] = None
    """`adapter`: an adapter like the prover's, with a head, on the prover's frozen base; needs `prover.lora`.
    `verifier`: a copy of the body of the round's verifier, fully fine-tuned. A Hub id or folder (`arithmetic`: the
    packaged verifier): that model, fully fine-tuned. By default `adapter` if the prover has `lora`, else a copy of the
    prover's body. A model must have the prover's vocabulary."""
    critic_learning_rate: Annotated[f.LearningRate | None, f.Sets()] = None
    """Peak learning rate of the critic; the prover's by default."""
    num_iterations: Annotated[f.Repeats, f.Sets()] = 4
    """Epochs over a batch of solutions. `max_steps` counts each epoch's steps."""
    gamma: Annotated[f.Share, f.Sets()] = 1.0
    """Discount of later rewards, per token."""
    gae_lambda: Annotated[f.Share, f.Sets()] = 0.95
    """Lambda of generalised advantage estimation: 1 uses the observed return, 0 relies on the critic."""
    whiten_advantages: Annotated[bool, f.Sets()] = True
    """Shift and scale the advantages of a batch to mean 0 and variance 1."""
    vf_coef: Annotated[f.PositiveWeight, f.Sets()] = 0.1
    """Weight of the value loss relative to the policy loss."""
    cliprange_value: Annotated[f.Factor | None, f.Sets()] = 0.2
    """Maximum change of a value on one batch, in units of the reward; `null` for no limit."""
    target_kl: Annotated[f.Factor | None, f.Sets()] = None
    """Skip the remaining epochs over a batch once the KL divergence from the prover that wrote it, per token, is above
    this."""


Combination = Literal["additive", "multiplicative"]
Estimate = Literal["sampled", "expected"]
RewardScaling = Literal["none", "group", "batch"]
PairCorrection = Literal["none", "smoothing", "forward", "backward"]
VerifierCorrection = Literal[PairCorrection, "exact"]
Generation = Literal["auto", "transformers", "continuous", "vllm_colocate", "vllm_server"]


@f.section
class ScoreConfig:
    """A verifier that writes an evaluation and predicts a score (`verifier.kind: score`)."""

    proofs_per_step: Annotated[f.BatchSize, f.Decides("per_device_train_batch_size", "per_device_eval_batch_size")] = 8
    """Proofs per step, over all processes; each has a group of evaluations."""
    num_generations: Annotated[f.GroupSize, f.Sets()] = 4
    """Evaluations per proof: one group (K)."""
    temperature: Annotated[f.Temperature, f.Sets()] = ScoreVerifierSettings.temperature
    """Temperature of evaluations, in training and in use."""
    max_completion_length: Annotated[f.Count, f.Sets()] = ScoreVerifierSettings.max_new_tokens
    """Maximum length of an evaluation, in tokens; a truncated one is not read."""
    beta: Annotated[f.Weight, f.Sets()] = 0.0
    """Weight of the KL divergence from the initial verifier."""
    combination: Annotated[Combination, f.Sets()] = "additive"
    """How form, score and the meta-verifier's rating are combined to a reward; see
    docs/reference/score-verifier.md."""
    format_weight: Annotated[f.Weight, f.Sets()] = 0.125
    """Weight of the form in the additive combination."""
    score_weight: Annotated[f.Weight, f.Sets()] = 0.875
    """Weight of the score in the additive combination."""
    meta_verifier: Literal["none", "task", "initial"] = "none"
    """Who judges whether the issues that an analysis names exist: nobody; the task, if it can tell; or the initial
    weights of the round's verifier with a different prompt."""
    judge_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the training rows that ask about an analysis, so that the verifier can check analyses too; the task
    must provide such rows."""
    eval_steps: Annotated[f.Count, f.Decides("eval_steps", "save_steps")] = 10
    """Steps between validations; the best checkpoint is chosen by their reward."""
    eval_proofs: f.Count = 64
    """Maximum number of the verifier's held-out proofs in a validation."""
    num_analyses: f.Repeats = 2
    """Number of independent analyses of a proof when it is scored; its score is the mean of their scores."""
    estimate: Estimate = "sampled"
    """Value of an evaluation: the score in its box, or the expected score under the model's distribution over the
    box's content, which has a lower variance."""
    labels: Literal["task", "auto"] = "task"
    """Who scores the round's new proofs for the next verifier: the task, or the round's own verifier by scaled
    verification. The base prover's proofs are always scored by the task."""
    label_analyses: f.Repeats = ScaledVerification.num_analyses
    """n of scaled verification: analyses of a proof."""
    label_checks: f.Repeats = ScaledVerification.num_checks
    """m: checks of each analysis that claims an issue; odd."""
    label_agreements: f.Repeats = ScaledVerification.num_agreements
    """k: analyses that must agree on a label."""
    report_proofs: f.Count = 200
    """Maximum number of the round's test proofs whose evaluations are kept and judged."""
    evaluate_prompt: Annotated[str | None, f.Decides()] = None
    """Jinja template over `problem` and `proof`; by default the one stored with the model, else a built-in one."""
    judge_prompt: Annotated[str | None, f.Decides()] = None
    """Jinja template over `problem`, `proof` and `analysis` for checking an analysis."""
    chat_template_kwargs: Annotated[dict[str, Any] | None, f.Decides()] = None
    """Variables for the model's chat template, e.g. `{enable_thinking: false}`; by default those stored with the
    model, if any."""

    @model_validator(mode="after")
    def _check_rule(self) -> "ScoreConfig":
        check_scaled_verification(self.label_analyses, self.label_checks, self.label_agreements, prefix="label_")
        return self

    def prompts_for(self, source: str | Path, revision: str | None = None) -> ScoreVerifierSettings:
        """
        Resolve the prompts of a score verifier: the recipe's, else those stored with it at `source`, else defaults.
        """
        return ScoreVerifierSettings.for_model(source, self, revision)

    def rule(self) -> ScaledVerification:
        """Return n, m and k of scaled verification."""
        return ScaledVerification(self.label_analyses, self.label_checks, self.label_agreements)


@f.section
class SelfEvaluationConfig:
    """
    A prover that ends its proof with an evaluation of it, and is also rewarded for its accuracy (DeepSeekMath-V2).
    """

    proof_weight: f.Share = 0.76
    """Weight of the verifier's score of the proof."""
    evaluation_weight: f.Share = 0.24
    """Weight of the agreement of the prover's own score with the verifier's."""


PENALTY_WEIGHTS = {"vrex": 10.0, "irmv1": 100.0}  # those of DomainBed


@f.section
class InvarianceConfig:
    """
    Invariance of the verifier: what it learns should hold in every environment, i.e. in each round and for each
    writer.
    """

    method: Annotated[str, f.Sets("invariance"), f.Asks(Effect.RUNS, f.names_code)] = "none"
    """`none`; `balanced`, every batch has the same number of pairs from each environment; a penalty on the differences
    of the loss between environments, `vrex` or `irmv1`; `balanced+vrex`, `balanced+irmv1`; or a custom penalty as
    `package.module:Name`. Penalties need `bradley_terry` and `correction: none`."""
    environments: Annotated[Literal["round", "round_role"], f.Decides("environment_column")] = "round"
    """What forms an environment: the pairs of a round, or those of a round and role. A pair belongs to the environment
    of its incorrect solution."""
    weight: Annotated[f.FactorOrZero | None, f.Sets("invariance_weight")] = Field(
        None,
        description=(
            f"Weight of the penalty; by default {PENALTY_WEIGHTS['vrex']:g} for V-REx, {PENALTY_WEIGHTS['irmv1']:g}"
            " for IRMv1 and 1 for a custom one. Above 1, the whole loss is divided by it."
        ),
    )
    warmup_steps: Annotated[f.CountOrZero | None, f.Sets("invariance_warmup_steps")] = None
    """Steps before the penalty is switched on and the optimiser's moments are reset; by default a tenth of
    `verifier.max_steps`."""
    irm_form: Annotated[Literal["plain", "two_halves"], f.Sets()] = "plain"
    """IRMv1 as published, or an unbiased form that uses two halves of each environment's pairs."""
    crowded: Annotated[Literal["cycle", "refuse"], f.Sets("crowded_environments")] = "cycle"
    """If a batch cannot hold equally many pairs of each environment: cycle through the environments, or stop with an
    error."""


@f.section
class RatesConfig:
    """Rates of wrong labels that corrections assume."""

    source: Literal["noise", "given", "trusted"] = "noise"
    """`noise`: the rates that the section `noise` injects. `given`: `rho0` and `rho1` of this section, for labels that
    came with errors. `trusted`: estimated in each phase that corrects, from solutions to a few problems with known
    truth."""
    rho0: Annotated[f.FlipRate, f.Decides()] = 0.0
    """For `given`: P(label 1 | truth 0)."""
    rho1: Annotated[f.FlipRate, f.Decides()] = 0.0
    """For `given`: P(label 0 | truth 1); `rho0 + rho1` must stay below 1."""
    trusted_share: f.PositiveShare = 0.05
    """For `trusted`: share of the verifier's problems (D_V) whose truth the estimate may use."""

    @model_validator(mode="after")
    def _check(self) -> "RatesConfig":
        if self.source != "given" and (self.rho0 or self.rho1):
            raise ValueError(f"`rho0` and `rho1` need `source: given`, and `source` is `{self.source}`")
        check_rates(self.rho0, self.rho1)
        return self


# `save_steps: auto` gives this many checkpoints per phase, but at least this many steps between them.
AUTO_SAVES = 10

MIN_AUTO_SAVE_STEPS = 10

# `eval_steps: auto` gives at most this many evaluations after the first, and in total at most this share of the
# phase's sampling.
MAX_AUTO_EVALUATIONS = 10

MAX_EVALUATION_SHARE = 0.15


@f.section
class LoraConfig:
    """Low-rank adapters instead of full fine-tuning."""

    r: f.Rank = 16
    """Rank of the adapters."""
    alpha: f.Factor = 32
    """The adapters are scaled by `alpha / r` (PEFT's `lora_alpha`)."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout on the adapters' input."""
    target_modules: str | list[str] = "all-linear"
    """Modules that get an adapter, as in PEFT; `all-linear` excludes heads."""


@f.section
class ScratchConfig:
    """A randomly initialised model, with a tokenizer trained on the training problems and reference solutions."""

    model_type: str = "llama"
    """A `model_type` of transformers' `AutoConfig`."""
    config: Annotated[dict[str, Any], f.Asks(Effect.PASSES, f.is_structured)] = Field(default_factory=dict)
    """Arguments of that configuration, e.g. `{hidden_size: 128, num_hidden_layers: 3}`."""
    vocab_size: Annotated[int, Field(ge=300, le=f.MAX_BATCH)] = 4096
    """Maximum size of the byte-level BPE vocabulary; few texts give fewer tokens."""


@f.section
class WarmupConfig:
    """
    Supervised fine-tuning on reference solutions to the player's own problems (D_V or D_pi), before the bootstrap.
    """

    max_steps: f.Steps = 200
    """Optimiser steps."""
    batch_size: Annotated[f.Count, f.LowersMemory("lower", 1, ("warmup",))] = 16
    """Solutions per step, over all processes."""
    learning_rate: f.LearningRate = 1e-3
    """Peak learning rate of the cosine schedule."""
    max_length: f.Count = 512
    """Maximum length of prompt and solution, in tokens; longer ones are truncated at the end, and left out if nothing
    of the solution remains."""


@f.section
class PlayerConfig:
    """Settings of both players."""

    if TYPE_CHECKING:
        max_steps: int  # of each player's own section

    model: Annotated[f.FilePath, f.Asks(Effect.READS, f.is_outside)] = "arithmetic"
    """A Hub id, a folder, or a packaged model: `arithmetic`, `functions` or `proofs` for either player,
    `arithmetic-small`, `arithmetic-judge` or `arithmetic-judge-small` for a verifier. A verifier of kind
    `bradley_terry` takes a language model and gives it a new head."""
    revision: Annotated[str | None, f.Decides("model_init_kwargs", player="prover")] = None
    """Branch, tag or commit on the Hub."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights. `auto` is float32 on a CPU and for the verifier when it scores, and bfloat16 elsewhere, if
    the GPU computes in it. Fully fine-tuned weights stay in float32. `bfloat16` is faster on a CPU with AMX or
    AVX512-BF16, and much slower on others (see `pvg doctor`). In bfloat16, a score also depends on its batch."""
    quantization: Annotated[Literal["none", "4bit"], f.LowersMemory("4bit", 4)] = "none"
    """`4bit`: the base under the adapters in NF4 (QLoRA), a quarter of the memory of bfloat16; needs `lora` and
    bitsandbytes. The score head stays in float32."""
    lora: Annotated[LoraConfig | None, f.LowersMemory("add", 3)] = None
    """Train adapters (`lora: {}` uses the defaults); without this section, all weights are trained."""
    scratch: Annotated[ScratchConfig | None, f.WholeGame()] = None
    """Create the model from a configuration; `model` is then ignored."""
    warmup: Annotated[WarmupConfig | None, f.WholeGame()] = None
    """Fine-tune the initial weights on reference solutions first."""
    learning_rate: Annotated[f.LearningRate, f.Sets(), f.AfterBootstrap()] = 2e-4
    """Peak learning rate of AdamW."""
    lr_scheduler_type: Annotated[str, f.Sets(), f.AfterBootstrap()] = "linear"
    """Schedule of the learning rate, by its name in transformers."""
    warmup_steps: Annotated[f.CountOrZero, f.Sets(), f.AfterBootstrap()] = 0
    """Steps in which the learning rate rises from 0; not the section `warmup`."""
    weight_decay: Annotated[f.Weight, f.Sets(), f.AfterBootstrap()] = 0.0
    """Weight decay of AdamW."""
    max_grad_norm: Annotated[f.Positive, f.Sets(), f.AfterBootstrap()] = 1.0
    """Maximum norm of gradients; larger ones are scaled down."""
    micro_batch_size: Annotated[
        f.BatchSize | Literal["auto"] | None,
        f.Decides("per_device_train_batch_size", "gradient_accumulation_steps"),
        f.AfterBootstrap(),
        f.LowersMemory("lower", 1),
    ] = "auto"
    """Rows per forward and backward pass and process: pairs for a verifier that learns from pairs, else texts. It must
    divide a process's rows of a step, which does not depend on it. `auto` is, on a GPU, the largest power of two that
    the estimate of memory allows, halved if memory runs out; elsewhere it is `null`: all rows at once. See
    docs/explanation/speed-and-memory.md."""
    gradient_checkpointing: Annotated[
        bool | Literal["auto"],
        f.Decides("gradient_checkpointing", "activation_checkpointing"),
        f.AfterBootstrap(),
        f.LowersMemory("true", 2),
    ] = "auto"
    """Recompute activations instead of storing them: less memory, about 1.3 times the time. `auto` does so on a GPU
    where 8 texts at once would not fit otherwise, and never elsewhere."""
    save_steps: Annotated[
        f.Count | Literal["auto"] | None, f.Decides("save_steps", "save_strategy"), f.AfterBootstrap(), f.MayChange()
    ] = "auto"
    """Steps between the checkpoints from which a stopped phase resumes; two are kept. `auto` is a tenth of the phase,
    but at least 10 steps. Without checkpoints (`null`), a stopped phase starts again."""
    trainer: Annotated[dict[str, Any], f.Asks(Effect.PASSES, f.is_structured)] = Field(default_factory=dict)
    """Further arguments of the trainer's config under TRL's names (`RewardConfig`, `GRPOConfig`). Arguments that a key
    of the recipe sets, or that the game relies on, are refused here."""

    @property
    def is_made(self) -> bool:
        """Whether the game creates the initial weights, by `scratch` or `warmup`."""
        return self.scratch is not None or self.warmup is not None

    @property
    def step_sizes(self) -> dict[str, int]:
        """Sizes by their keys; their product is the number of rows of a step."""
        raise NotImplementedError

    @property
    def rows_per_step(self) -> int:
        """Pairs, solutions or evaluations of a step, over all processes; those of a batch for `ppo`."""
        return prod(self.step_sizes.values())

    @property
    def recomputes(self) -> bool:
        """Whether activations are recomputed. An `auto` that was not resolved for a GPU is false."""
        return self.gradient_checkpointing is True

    @property
    def needs_whole_steps(self) -> bool:
        """Whether the loss of a step is not a sum over its micro-batches, so that `auto` keeps all rows together."""
        return False

    def rows_at_once(self, share: int) -> int:
        """
        Rows of a micro-batch, of a process's `share` of a step. An `auto` that was not resolved for a GPU is all of
        them.
        """
        return self.micro_batch_size if isinstance(self.micro_batch_size, int) else share

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps on one batch. A checkpoint has everything needed to resume only between batches."""
        return 1

    @property
    def checkpoint_steps(self) -> int | None:
        """Steps between checkpoints, or `None` for none: `save_steps`, with `auto` resolved."""
        if self.save_steps != "auto":
            return self.save_steps
        # An argument of GRPO; it is validated with the trainer's other arguments.
        iterations = self.trainer.get("num_iterations", 1)
        step = self.steps_per_batch * (iterations if isinstance(iterations, int) and iterations > 0 else 1)
        return ceil(max(MIN_AUTO_SAVE_STEPS, self.max_steps / AUTO_SAVES) / step) * step


@dataclass(frozen=True)
class VerifierTraits:
    """
    Traits of a kind of verifier, on which checks, estimates and trainer arguments depend.

    Args:
        has_score_head: Whether the verifier is a classifier with a head of one logit; otherwise, it is a language
            model.
        learns_from_pairs: Whether it is trained on pairs of solutions; otherwise, on single ones.
        has_bounded_scores: Whether its scores are in [0, 1].
        scores_by_likelihood: Whether its score is the mean log-probability of a solution's tokens.
        implementation: Import path of the class with everything else that pvg_hf asks of the kind: a `VerifierKind`,
            see `pvg_hf/game/phases/verifier.py`.
        card, pipeline: Template of its model card, in `pvg_hf/hub/cards`, and the task under which the Hub lists it.
    """

    has_score_head: bool
    learns_from_pairs: bool
    has_bounded_scores: bool
    implementation: str
    card: str
    pipeline: str
    scores_by_likelihood: bool = False
    sections: dict[str, type] = field(default_factory=dict)


VERIFIER_KINDS = {
    "bradley_terry": VerifierTraits(
        has_score_head=True,
        learns_from_pairs=True,
        has_bounded_scores=False,
        implementation="pvg_hf.game.phases.verifier:PairVerifier",
        card="verifier.md.jinja",
        pipeline="text-classification",
    ),
    "likelihood": VerifierTraits(
        has_score_head=False,
        learns_from_pairs=True,
        has_bounded_scores=False,
        scores_by_likelihood=True,
        implementation="pvg_hf.game.phases.verifier:LikelihoodVerifier",
        card="verifier.md.jinja",
        pipeline="text-generation",
    ),
    "score": VerifierTraits(
        has_score_head=False,
        learns_from_pairs=False,
        has_bounded_scores=True,
        implementation="pvg_hf.game.phases.verifier:ScoreVerifier",
        card="score-verifier.md.jinja",
        pipeline="text-generation",
        sections={"score": ScoreConfig},
    ),
}
"""The kinds of verifiers, by the value of `verifier.kind`."""


@f.section
class VerifierConfig(PlayerConfig):
    """The verifier and its phase."""

    kind: Literal["bradley_terry", "likelihood", "score"] = "bradley_terry"
    """`bradley_terry`: a head on a language model returns a number. `likelihood`: the number is the mean
    log-probability of the solution's tokens after the problem, without a head; both are trained on pairs. `score`: the
    language model writes an evaluation and predicts a score in {0, 0.5, 1}; of this section it uses the keys of both
    players, `init` and `max_steps`."""
    score: ScoreConfig | None = None
    """Settings of `kind: score`; defaults apply without this section."""
    init: Literal["full", "head_only", "warm"] = "full"
    """Initial weights of each round: `full`, the initial weights and a new head (Kirchner et al. 2024); `head_only`,
    the last round's body and a new head; `warm`, the last round's verifier."""
    head: Literal["new", "keep"] = "new"
    """Head that the initial weights get: `new`, drawn from normal(0, 0.02), the same in every round; `keep`, the
    checkpoint's own, which must be a trained one. Of two logits, the score is the difference."""
    likelihood_scale: f.Factor = 10.0
    """For `kind: likelihood`: the score is this times the mean log-probability (beta of SimPO, Meng et al. 2024)."""
    shares_base: bool = False
    """The verifier is an adapter and a head on the prover's base, which is in memory only once. Needs `lora` for both,
    and the same `model`, `dtype` and `quantization`. For saving memory and for ablations: a verifier as large as its
    prover gained no robustness (Kirchner et al. 2024)."""
    loss: Annotated[Literal["bradley_terry", "cross_entropy"], f.Sets(), f.AfterBootstrap()] = "bradley_terry"
    """Loss on pairs, or on single solutions."""
    correction: Annotated[VerifierCorrection, f.Sets(), f.AfterBootstrap()] = "none"
    """Correction of the loss for label noise at the rates of `rates`; `smoothing` and `exact` are for `bradley_terry`
    only. If the pool's labels are noisy, `exact` and every correction of `cross_entropy` need `data.pairs: all`."""
    invariance: Annotated[InvarianceConfig, f.AfterBootstrap()] = Field(default_factory=InvarianceConfig)
    """Invariance across rounds and roles; has its own table."""
    center: Annotated[f.Weight, f.Sets(), f.AfterBootstrap()] = 0.005
    """Weight lambda of the mean squared score of single solutions, which centres the scores (Kirchner et al. 2024).
    Not TRL's `center_rewards_coefficient`."""
    max_steps: Annotated[f.Steps, f.Sets(), f.Decides("num_train_epochs"), f.AfterBootstrap()] = 300
    """Optimiser steps per round."""
    pairs_per_step: Annotated[f.BatchSize, f.Decides("per_device_train_batch_size"), f.AfterBootstrap()] = 32
    """Pairs per optimiser step, over all processes."""
    eval_steps: Annotated[
        f.Count | None, f.Decides("eval_strategy", "eval_steps", "metric_for_best_model"), f.AfterBootstrap()
    ] = None
    """Steps between validations on pairs of D_V's held-out part, where a checkpoint is saved; the verifier of the
    lowest loss is kept, or with a `correction` that of the highest pair accuracy. They see the labels that training
    sees, not the truth. By default, the last step is kept."""
    patience: Annotated[f.Count | None, f.AfterBootstrap()] = None
    """Validations in a row without a better verifier that end the training; needs `eval_steps`."""
    template: str = "{{ problem }}\n{{ solution }}"
    """Jinja template of the verifier's input; stored with its weights."""
    max_length: Annotated[f.Count, f.Sets(), f.LowersMemory("lower", 5)] = 1024
    """Maximum length of an input, in tokens; longer pairs are skipped in training and counted, longer solutions are
    truncated for scoring."""
    tokens_per_batch: Annotated[f.Count | None, f.LowersMemory("lower", 7, ("prover", "mint", "evaluate"))] = None
    """Tokens per batch when scoring, including padding; by default half of what fits into the free memory of a GPU,
    and 2,048 on a CPU."""

    @model_validator(mode="after")
    def _check_kind(self) -> "VerifierConfig":
        if self.score is not None and "score" not in self.traits.sections:
            raise ValueError(f"`score` has settings of `kind: score`, and `kind` is `{self.kind}`")
        if self.patience is not None and self.eval_steps is None:
            raise ValueError("`patience` counts validations, and there are none without `eval_steps`")
        if self.traits.scores_by_likelihood and self.loss == "cross_entropy":
            raise ValueError(
                "`loss: cross_entropy` needs scores of both signs, and a likelihood's are below 0; take"
                " `bradley_terry`"
            )
        return self

    @classmethod
    def pair_keys(cls) -> list[str]:
        """Return the keys that only verifiers trained on pairs use, i.e. of kind `bradley_terry` or `likelihood`."""
        shared = {key.name for key in fields(PlayerConfig)} | {"kind", "score", "init", "max_steps"}
        return [key.name for key in fields(cls) if key.name not in shared]

    @property
    def needs_whole_steps(self) -> bool:
        return self.traits.learns_from_pairs and self.invariance.method not in ("none", "balanced")

    @property
    def step_sizes(self) -> dict[str, int]:
        if self.traits.learns_from_pairs:
            return {"pairs_per_step": self.pairs_per_step}
        score = self.score_settings
        return {"score.proofs_per_step": score.proofs_per_step, "score.num_generations": score.num_generations}

    @property
    def validation_steps(self) -> int | None:
        """Steps between validations, each with a checkpoint, from which the best is kept; `None` without."""
        return self.eval_steps if self.traits.learns_from_pairs else self.score_settings.eval_steps

    @property
    def traits(self) -> VerifierTraits:
        """Traits of the verifier's kind."""
        return VERIFIER_KINDS[self.kind]

    def implementation(self) -> Any:
        """Import the class of the verifier's kind, and return an instance."""
        module, _, name = self.traits.implementation.partition(":")
        return getattr(import_module(module), name)()

    @property
    def score_settings(self) -> ScoreConfig:
        """The settings of the section `score`, or their defaults."""
        return self.score or ScoreConfig()


@f.section
class ProverConfig(PlayerConfig):
    """The prover and its phase."""

    roles: Annotated[Literal["shared", "separate", "sneaky_only", "helpful_only"], f.AfterBootstrap()] = "shared"
    """`separate`: an adapter for each role, helpful first; needs `lora`. `shared`: one prover whose prompt states the
    role (Kirchner et al. 2024); the packaged prover then ends below its base (experiments/dynamics.md). `sneaky_only`,
    `helpful_only`: only this role is trained."""
    init: Annotated[Literal["base", "previous"], f.AfterBootstrap()] = "base"
    """Initial weights of each round: the base prover (Kirchner et al. 2024), or the last round's prover."""
    algorithm: Annotated[Literal["grpo", "ppo"], f.AfterBootstrap(), f.LowersMemory("grpo", 9, needs_critic=True)] = (
        "grpo"
    )
    """`grpo`: a solution is compared with its group's mean. `ppo`: a critic, trained together with the prover,
    estimates the advantage of each token."""
    ppo: Annotated[PPOConfig | None, f.AfterBootstrap()] = None
    """Critic and settings of `algorithm: ppo`; defaults apply without this section."""
    reward: Annotated[str, f.Sets(), f.AfterBootstrap(), f.Asks(Effect.RUNS, f.names_code)] = "standardized_src"
    """A name in the table of rewards of docs/reference/formulas.md, or `package.module:Name`
    (docs/how-to/custom-code.md). The default does not depend on the scale of the scores; `src` is the form of Kirchner
    et al. 2024."""
    reward_options: Annotated[
        dict[str, Any], f.Sets(), f.AfterBootstrap(), f.Asks(Effect.PASSES, f.always, beside="reward")
    ] = Field(default_factory=dict)
    """Further arguments of the reward, e.g. `{floor: -2.0}` for `cgc`, or `{floor: -1.0, score_scale: 2.0}` for
    `src`."""
    self_evaluation: SelfEvaluationConfig | None = None
    """The prover appends an evaluation to its proof (its prompt must ask for one) and is paid for both, instead of
    `reward`; needs `roles: helpful_only` and `verifier.kind: score`. `self_evaluation: {}` uses the defaults."""
    reward_correction: Annotated[Literal["none", "backward"], f.Sets(), f.AfterBootstrap()] = "none"
    """`backward`: an unbiased reward for solutions that are graded with errors, at the rates of `rates`. The phase
    reports whether this changes what is learned."""
    max_steps: Annotated[f.Steps, f.Sets(), f.Decides("num_train_epochs"), f.AfterBootstrap()] = 60
    """Planned optimiser steps, for each role if roles are `separate`; a stop rule may end the phase earlier."""
    helpful_max_steps: Annotated[f.Steps | None, f.AfterBootstrap()] = None
    """Planned optimiser steps of the helpful role if roles are `separate`; `max_steps` by default. The sneaky role may
    take longer to reach parity than the helpful one to learn."""
    prompts_per_step: Annotated[f.BatchSize, f.AfterBootstrap(), f.LowersMemory("lower", 5)] = 16
    """(problem, role) prompts per step, over all processes; with `ppo` per batch, on which `ppo.num_iterations` steps
    are taken."""
    num_generations: Annotated[f.GroupSize, f.Sets(), f.AfterBootstrap()] = 8
    """Solutions per prompt: one group."""
    beta: Annotated[f.Weight, f.Sets(), f.Decides("kl_coef"), f.AfterBootstrap()] = 0.05
    """Weight of the KL divergence from the base prover; 0 saves the forward pass and the memory of the reference."""
    temperature: Annotated[f.Temperature, f.Sets()] = 1.0
    """Sampling temperature, in training, minting and evaluation."""
    top_p: Annotated[f.PositiveShare, f.Sets()] = 1.0
    """Sample from the most probable tokens that together have this probability; 1 for all. This key and the next three
    change what is sampled, and not the log-probabilities that training uses: see docs/reference/prover-trainer.md."""
    top_k: Annotated[f.CountOrZero, f.Sets()] = 0
    """Sample from this number of most probable tokens; 0 for all."""
    min_p: Annotated[f.Share, f.Sets()] = 0.0
    """Sample from tokens with at least this share of the most probable token's probability."""
    repetition_penalty: Annotated[f.PositiveWeight, f.Sets()] = 1.0
    """Reduce the logits of tokens that are in the prompt or the solution by this factor; 1 for none."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Variables for the model's chat template, e.g. `{enable_thinking: false}` to switch off thinking aloud."""
    generation: Annotated[
        Generation,
        f.Sets(),
        f.Decides("use_vllm", "vllm_mode", "use_transformers_continuous_batching"),
        f.Asks(Effect.SENDS, "vllm_server".__eq__),
    ] = "auto"
    """Engine that generates solutions, in training and minting. `auto`: vLLM if it is installed and there is a GPU
    (with `pvg play --launcher`), else `transformers`, which is a compiled `generate` with a static cache on a GPU,
    and this package's loop on a CPU. `continuous`: transformers' continuous batching. `vllm_colocate`, `vllm_server`:
    vLLM in the same process or as a server. See docs/reference/prover-trainer.md."""
    max_completion_length: Annotated[
        f.Count, f.Sets(), f.LowersMemory("lower", 6, ("bootstrap", "prover", "mint"))
    ] = 128
    """Maximum length of a solution, in tokens; one that does not end counts as failed."""
    scale_rewards: Annotated[RewardScaling, f.Sets(), f.AfterBootstrap()] = "none"
    """Division of advantages by the standard deviation of a group or batch; `none` keeps the -1 of `src` and the -2 of
    `cgc`."""
    eval_steps: Annotated[f.Count | Literal["auto"], f.AfterBootstrap()] = "auto"
    """Steps between evaluations on the prover's held-out problems, by which the best helpful checkpoint is chosen; the
    prover that the phase begins with is evaluated too, and kept if no later one is better. `auto` is a tenth of the
    helpful role's training, or more if the evaluations would then take over 15 % of the phase's sampling; the first
    and the last are always made."""
    eval_problems: Annotated[f.Count, f.AfterBootstrap()] = 100
    """Maximum number of held-out problems in such an evaluation."""
    eval_samples: Annotated[f.Repeats, f.AfterBootstrap()] = 2
    """Helpful solutions per problem in such an evaluation."""

    @model_validator(mode="after")
    def _check_algorithm(self) -> "ProverConfig":
        if self.ppo is not None and not self.has_critic:
            raise ValueError(f"`ppo` has settings of `algorithm: ppo`, and `algorithm` is `{self.algorithm}`")
        return self

    @model_validator(mode="after")
    def _check_helpful_steps(self) -> "ProverConfig":
        if self.helpful_max_steps is not None and not self.is_separate:
            raise ValueError(
                f"`helpful_max_steps` is for `roles: separate`, and `roles` is `{self.roles}`; `max_steps` sets the"
                " steps of both roles together"
            )
        return self

    @property
    def needs_whole_steps(self) -> bool:
        return self.trainer.get("loss_type") == "bnpo"  # TRL divides it by the tokens of a micro-batch

    @property
    def step_sizes(self) -> dict[str, int]:
        return {"prompts_per_step": self.prompts_per_step, "num_generations": self.num_generations}

    @property
    def has_critic(self) -> bool:
        """Whether a critic is trained together with the prover."""
        return self.algorithm == "ppo"

    @property
    def ppo_settings(self) -> PPOConfig:
        """The settings of the section `ppo`, or their defaults."""
        return self.ppo or PPOConfig()

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps on one batch of solutions."""
        return self.ppo_settings.num_iterations if self.has_critic else 1

    @property
    def num_batches(self) -> int:
        """Number of batches of solutions per training, if nothing ends it early."""
        return -(-self.max_steps // self.steps_per_batch)

    @property
    def evaluation_steps(self) -> int:
        """
        Steps between evaluations on held-out problems: `eval_steps`, with `auto` resolved.

        An evaluation is counted as one batch of the training, or as more if it has more solutions. With fewer it is
        not cheaper on a GPU, where the longest solution decides how long it takes to write a batch.
        """
        if self.eval_steps != "auto":
            return self.eval_steps
        solutions = self.eval_problems * self.eval_samples
        cost = max(1.0, solutions / self.rows_per_step)  # in batches
        affordable = MAX_EVALUATION_SHARE / (1 - MAX_EVALUATION_SHARE) * self.total_batches / cost
        after_start = min(MAX_AUTO_EVALUATIONS, max(1, int(affordable) - 1))
        return ceil(self.training_of(Role.HELPFUL).max_steps / after_start)

    @property
    def trained_roles(self) -> tuple[Role, ...]:
        """The roles that the phase trains."""
        return (Role(self.roles.removesuffix("_only")),) if self.roles.endswith("_only") else GAME_ROLES

    @property
    def is_separate(self) -> bool:
        """Whether each role has a separate adapter, and a separate folder."""
        return self.roles == "separate"

    @property
    def trainings(self) -> dict[tuple[Role, ...], "ProverConfig"]:
        """
        Settings of each training of the phase, by the roles that it trains, in their order.

        `separate` trains one role after the other. `max_steps` are then those of the role.
        """
        if not self.is_separate:
            return {self.trained_roles: self}
        steps = {Role.HELPFUL: self.helpful_max_steps or self.max_steps, Role.SNEAKY: self.max_steps}
        return {(role,): replace(self, max_steps=steps[role], helpful_max_steps=None) for role in self.trained_roles}

    def training_of(self, role: Role) -> "ProverConfig":
        """Settings of the training of a role; these, if the phase does not train it."""
        return next((training for roles, training in self.trainings.items() if role in roles), self)

    @property
    def num_trainings(self) -> int:
        """Number of trainings in the phase."""
        return len(self.trainings)

    @property
    def total_batches(self) -> int:
        """Number of batches of solutions in the phase, if nothing ends it early."""
        return sum(training.num_batches for training in self.trainings.values())

    @property
    def planned_steps(self) -> int:
        """Number of optimiser steps in the phase, if nothing ends it early."""
        return sum(training.max_steps for training in self.trainings.values())
