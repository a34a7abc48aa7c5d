"""The recipe sections about players: their models, their training, and learning from labels that may be wrong."""

from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pvg_hf.analyses.scaled import ScaledVerification
from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.config.fields import (
    BatchSize,
    Count,
    CountOrZero,
    FilePath,
    FlipRate,
    GroupSize,
    NonNegative,
    Positive,
    Rank,
    Share,
    section,
)
from pvg_hf.config.noise import check_rates
from pvg_hf.core.roles import GAME_ROLES, Role


@section
class PPOConfig:
    """
    For `algorithm: ppo`: the critic, and what PPO does with it. The KL divergence within its rewards is weighed by
    `prover.beta`.
    """

    critic: str | None = Field(
        None,
        description="`adapter`: an adapter like the prover's, and a head, on the prover's frozen base; needs `prover.lora`. "
        "`verifier`: a copy of the body of the round's verifier, trained whole. A Hub id or folder (`arithmetic`: the packaged "
        "verifier): that model, trained whole. If left out, `adapter` where the prover has `lora`, else a copy of the "
        "prover's body. A model must have the prover's vocabulary.",
    )
    critic_learning_rate: Positive | None = Field(
        None, description="Peak learning rate of the critic; `prover.learning_rate` if left out."
    )
    num_iterations: Count = Field(
        4, description="Epochs over a batch of solutions. `prover.max_steps` counts each epoch's steps."
    )
    gamma: Share = Field(1.0, description="Discount of later rewards, per token.")
    gae_lambda: Share = Field(
        0.95,
        description="Lambda of generalised advantage estimation: 1 takes what a solution was paid, 0 the critic's word for it.",
    )
    whiten_advantages: bool = Field(
        True, description="Shift and scale the advantages of a batch to mean 0 and variance 1."
    )
    vf_coef: Positive = Field(0.1, description="Weight of the value loss beside the policy's.")
    cliprange_value: Positive | None = Field(
        0.2, description="How far a value may move on one batch, in units of the reward; `null` does not hold it."
    )
    target_kl: Positive | None = Field(
        None,
        description="Leave out what is left of the epochs over a batch once the KL divergence from the prover that wrote it, per "
        "token, is above this.",
    )


@section
class ScoreConfig:
    """A verifier that writes an evaluation and predicts a score (`verifier.kind: score`)."""

    proofs_per_step: BatchSize = Field(
        8, description="Proofs of a step, on each process; each is a group of evaluations."
    )
    num_generations: GroupSize = Field(4, description="Evaluations of a proof: one group (K).")
    temperature: Positive = Field(0.8, description="Temperature of evaluations, in training and in use.")
    max_completion_length: Count = Field(
        1024, description="Longest evaluation, in tokens; one that is cut is not read."
    )
    beta: NonNegative = Field(0.0, description="Weight of the KL divergence from the initial verifier.")
    combination: Literal["additive", "multiplicative"] = Field(
        "additive",
        description="How form, score and the meta-verifier's word become a reward; see docs/score-verifier.md.",
    )
    format_weight: NonNegative = Field(0.125, description="Of the form, in the additive combination.")
    score_weight: NonNegative = Field(0.875, description="Of the score, in the additive combination.")
    meta_verifier: Literal["none", "task", "initial"] = Field(
        "none",
        description="Who says whether the issues that an analysis names exist: nobody; the task, where it can tell; or the weights "
        "that the round's verifier starts from, asked the other question.",
    )
    judge_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0,
        description="Share of the training rows that ask about an analysis, so that the verifier can check analyses too; from a "
        "task that writes such rows.",
    )
    eval_steps: Count = Field(
        10, description="Steps between validations, by whose reward the best checkpoint is chosen."
    )
    eval_proofs: Count = Field(64, description="Proofs of D_V's held-out part in a validation, at most.")
    num_analyses: Count = Field(2, description="Evaluations over which a proof's score is the mean, when it scores.")
    estimate: Literal["sampled", "expected"] = Field(
        "sampled",
        description="What an evaluation counts for: the score that it boxed, or the expected score under the model's own "
        "distribution at the box, which scatters less.",
    )
    labels: Literal["task", "auto"] = Field(
        "task",
        description="Who scores the round's new proofs on D_V for the next verifier: the task, or the round's own verifier by "
        "scaled verification. The base prover's proofs are scored by the task.",
    )
    label_analyses: Count = Field(8, description="n of scaled verification: analyses of a proof.")
    label_checks: Count = Field(3, description="m: checks of each analysis that finds something wrong; odd.")
    label_agreements: Count = Field(3, description="k: analyses that must agree on a label.")
    report_proofs: Count = Field(
        200, description="Test proofs of the round whose evaluations are kept and judged, at most."
    )
    evaluate_prompt: str | None = Field(
        None,
        description="Jinja template over `problem` and `proof`; by default the one stored with the model, or a plain one.",
    )
    judge_prompt: str | None = Field(
        None, description="The same over `problem`, `proof` and `analysis`, for checking an analysis."
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None,
        description="What the model's chat template sees, e.g. `{enable_thinking: false}`; by default what is stored with the "
        "model, or nothing.",
    )

    @model_validator(mode="after")
    def _check_rule(self) -> "ScoreConfig":
        self.rule()
        return self

    def prompts_for(self, source: str | Path, revision: str | None = None) -> ScoreVerifierSettings:
        """What a verifier that writes is asked: by the recipe, else by what is stored with it at `source`, else plainly."""
        return ScoreVerifierSettings.for_model(
            source,
            evaluate_prompt=self.evaluate_prompt,
            judge_prompt=self.judge_prompt,
            max_new_tokens=self.max_completion_length,
            temperature=self.temperature,
            chat_template_kwargs=self.chat_template_kwargs,
            revision=revision,
        )

    def rule(self) -> ScaledVerification:
        """n, m and k."""
        try:
            return ScaledVerification(self.label_analyses, self.label_checks, self.label_agreements)
        except ValueError as err:  # which names them as the class does
            text = str(err).removesuffix(".")
            for name in ("num_analyses", "num_checks", "num_agreements"):
                text = text.replace(name, name.replace("num_", "label_"))
            raise ValueError(text) from err


@section
class SelfEvaluationConfig:
    """A prover that evaluates its own proof behind it, and is paid for being right about it (DS25)."""

    proof_weight: Share = Field(0.76, description="Of the verifier's score of the proof.")
    evaluation_weight: Share = Field(0.24, description="Of how near the prover's own score is to the verifier's.")


@section
class InvarianceConfig:
    """Invariance of the verifier over environments: what it learns should hold in every round, whoever wrote the solutions."""

    method: str = Field(
        "none",
        description="`none`; `balanced`, every batch holds as many pairs of each environment; a penalty on how the plain loss "
        "differs over environments, `vrex` or `irmv1`; `balanced+vrex`, `balanced+irmv1`; or a penalty of your own as "
        "`package.module:Name`. Penalties go with `bradley_terry` and `correction: none`.",
    )
    environments: Literal["round", "round_role"] = Field(
        "round",
        description="What is one environment: the pairs of a round, or those of a round and role. A pair belongs to its "
        "incorrect solution's.",
    )
    weight: NonNegative | None = Field(
        None,
        description="Weight of the penalty; 10 for V-REx, 100 for IRMv1 and 1 for your own if left out. Above 1, the whole loss "
        "is divided by it.",
    )
    warmup_steps: CountOrZero | None = Field(
        None,
        description="Steps before the penalty is switched on and the optimiser's moments are reset; a tenth of "
        "`verifier.max_steps` if left out.",
    )
    irm_form: Literal["plain", "two_halves"] = Field(
        "plain",
        description="IRMv1 as it was published, or without its bias by two halves of each environment's pairs.",
    )
    crowded: Literal["cycle", "refuse"] = Field(
        "cycle",
        description="Where a batch cannot hold as many pairs of each environment: go through the environments in turn, or end "
        "with an error.",
    )


@section
class RatesConfig:
    """The rates of wrong labels that corrections assume."""

    source: Literal["noise", "given", "trusted"] = Field(
        "noise",
        description="`noise`: what that section injects. `given`: `rho0` and `rho1` of this section, for labels that came with "
        "errors. `trusted`: estimated in each phase that corrects, from the solutions of a few problems whose clean truth is known.",
    )
    rho0: FlipRate = Field(0.0, description="For `given`: P(label 1 | truth 0).")
    rho1: FlipRate = Field(0.0, description="For `given`: P(label 0 | truth 1); `rho0 + rho1` must stay below 1.")
    trusted_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.05, description="For `trusted`: share of D_V's problems whose clean truth the estimate may see."
    )

    @model_validator(mode="after")
    def _check(self) -> "RatesConfig":
        if self.source != "given" and (self.rho0 or self.rho1):
            raise ValueError(f"`rho0` and `rho1` are of `source: given`, and `source` is `{self.source}`")
        check_rates(self.rho0, self.rho1)
        return self


# `save_steps: auto`: so many checkpoints in a phase, but none closer than so many steps.
AUTO_SAVES = 10

MIN_AUTO_SAVE_STEPS = 10


@section
class LoraConfig:
    """Low-rank adapters in place of full fine-tuning."""

    r: Rank = Field(16, description="Rank of the adapters.")
    alpha: Positive = Field(32, description="The adapters are scaled by `alpha / r` (PEFT's `lora_alpha`).")
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="Dropout on the adapters' input.")
    target_modules: str | list[str] = Field(
        "all-linear", description="Modules that get an adapter, as in PEFT; `all-linear` leaves out heads."
    )


@section
class ScratchConfig:
    """A model made from a configuration, with a tokenizer trained on the training problems and reference solutions."""

    model_type: str = Field("llama", description="A `model_type` of transformers' `AutoConfig`.")
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments of that configuration, e.g. `{hidden_size: 128, num_hidden_layers: 3}`.",
    )
    vocab_size: Annotated[int, Field(ge=300)] = Field(
        4096, description="Largest size of the byte-level BPE vocabulary; few texts give fewer tokens."
    )


@section
class WarmupConfig:
    """Supervised fine-tuning on the task's reference solutions, before the bootstrap."""

    max_steps: Count = Field(200, description="Optimiser steps.")
    batch_size: Count = Field(16, description="Solutions a step, on each process.")
    learning_rate: Positive = Field(1e-3, description="Peak of the cosine schedule.")
    max_length: Count = Field(
        512, description="Longest prompt with solution, in tokens; the end of longer ones is cut off."
    )


@section
class PlayerConfig:
    """What both players have."""

    model: FilePath = Field(
        "arithmetic",
        description="A Hub id, a folder, or `arithmetic` or `proofs` for those that ship with the package. A verifier of kind "
        "`bradley_terry` takes a language model and gives it a new head.",
    )
    revision: str | None = Field(None, description="Branch, tag or commit on the Hub.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Type of the weights on a GPU. `auto` is float32 for weights that are trained whole and for the verifier "
        "when it scores, and bfloat16, where the GPU computes in it, for others (a base under adapters, a prover that "
        "writes). In bfloat16 a score depends on its batch too. A CPU takes float32.",
    )
    quantization: Literal["none", "4bit"] = Field(
        "none",
        description="`4bit`: the base under the adapters in NF4 (QLoRA), a quarter of the memory of bfloat16; needs `lora` "
        "and bitsandbytes. The score head stays in float32.",
    )
    lora: LoraConfig | None = Field(
        None,
        description="Train adapters (`lora: {}` takes the defaults); without this section all weights are trained.",
    )
    scratch: ScratchConfig | None = Field(
        None, description="Make the model from a configuration; `model` is then not used."
    )
    warmup: WarmupConfig | None = Field(
        None, description="Fine-tune the initial weights on reference solutions first."
    )
    learning_rate: Positive = Field(2e-4, description="Peak learning rate of AdamW.")
    lr_scheduler_type: str = Field("linear", description="Schedule of the learning rate, by its name in transformers.")
    warmup_steps: CountOrZero = Field(
        0, description="Steps in which the learning rate rises from 0; not the section `warmup`."
    )
    weight_decay: NonNegative = Field(0.0, description="Weight decay of AdamW.")
    max_grad_norm: Positive = Field(1.0, description="Gradients are scaled down to this norm where they exceed it.")
    gradient_accumulation_steps: Count = Field(
        1,
        description="Batches to an optimiser step. Of the verifier only; the prover's follows from `micro_batch_size`.",
    )
    gradient_checkpointing: bool = Field(
        False,
        description="Compute activations a second time instead of keeping them: less memory, about 1.3 times the time.",
    )
    save_steps: Count | Literal["auto"] | None = Field(
        "auto",
        description="Steps between the checkpoints from which a stopped phase resumes; two are kept. `auto` is a tenth of the "
        "phase, but at least 10 steps. Without checkpoints (`null`) a stopped phase starts again. May be changed in a begun run.",
    )
    trainer: dict[str, Any] = Field(
        default_factory=dict,
        description="Any other argument of the trainer's config under TRL's name (`RewardConfig`, `GRPOConfig`). What a key of "
        "the recipe sets, or the game itself relies on, is refused here.",
    )

    @property
    def is_made(self) -> bool:
        """Whether the game makes the initial weights, by `scratch` or `warmup`."""
        return self.scratch is not None or self.warmup is not None

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps on one batch; only between batches does a checkpoint hold all that training resumes from."""
        return 1

    @property
    def checkpoint_steps(self) -> int | None:
        """Steps between checkpoints, or `None` for no checkpoints: `save_steps`, with `auto` resolved."""
        if self.save_steps != "auto":
            return self.save_steps
        iterations = self.trainer.get(
            "num_iterations", 1
        )  # GRPO's, which is checked with the trainer's other arguments
        step = self.steps_per_batch * (iterations if isinstance(iterations, int) and iterations > 0 else 1)
        return ceil(max(MIN_AUTO_SAVE_STEPS, self.max_steps / AUTO_SAVES) / step) * step


@section
class VerifierConfig(PlayerConfig):
    """The verifier and its phase."""

    kind: Literal["bradley_terry", "score"] = Field(
        "bradley_terry",
        description="`bradley_terry`: a head on a language model gives a number. `score`: the language model writes an evaluation "
        "and predicts a score in {0, 0.5, 1}; of this section it takes what both players have, `init` and `max_steps`.",
    )
    score: ScoreConfig | None = Field(
        None, description="Settings of `kind: score`; without this section they have their defaults."
    )
    init: Literal["full", "head_only", "warm"] = Field(
        "full",
        description="What each round starts from: `full`, the initial weights and a new head (K24); `head_only`, the last "
        "round's body and a new head; `warm`, the last round's verifier.",
    )
    shares_base: bool = Field(
        False,
        description="The verifier is an adapter and a head on the prover's base, which is in memory once where both are needed. "
        "Needs `lora` for both, and the same `model`, `dtype` and `quantization`. For memory and for ablations: a verifier as "
        "large as its prover gained no robustness (K24).",
    )
    loss: Literal["bradley_terry", "cross_entropy"] = Field(
        "bradley_terry", description="On pairs, or on single solutions."
    )
    correction: Literal["none", "smoothing", "forward", "backward", "exact"] = Field(
        "none",
        description="Correction of the loss for label noise at the rates of `rates`; `smoothing` and `exact` are for "
        "`bradley_terry` only. Where the pool's labels are noisy, `exact` needs `data.pairs: all`, and so does every correction "
        "of `cross_entropy`.",
    )
    invariance: InvarianceConfig = Field(
        default_factory=InvarianceConfig, description="Invariance over rounds and roles, see its own section."
    )
    center: NonNegative = Field(
        0.005,
        description="Weight lambda of the mean squared score of single solutions, which centres the scores (K24). Not TRL's "
        "`center_rewards_coefficient`.",
    )
    max_steps: Count = Field(300, description="Optimiser steps of a round.")
    pairs_per_step: BatchSize = Field(
        32, description="Pairs of a batch, on each process (TRL's `per_device_train_batch_size`)."
    )
    template: str = Field(
        "{{ problem }}\n{{ solution }}", description="Jinja template of the verifier's input; stored with its weights."
    )
    max_length: Count = Field(
        1024,
        description="Longest input in tokens; pairs over it are left out of training and counted, solutions are cut when scored.",
    )
    tokens_per_batch: Count | None = Field(
        None,
        description="Tokens of a batch when scoring, padding included; by default half of what the free memory of a GPU "
        "holds, and 2,048 on a CPU.",
    )

    @model_validator(mode="after")
    def _check_kind(self) -> "VerifierConfig":
        if self.score is not None and self.kind != "score":
            raise ValueError(f"`score` holds settings of `kind: score`, and `kind` is `{self.kind}`")
        return self

    @property
    def score_settings(self) -> ScoreConfig:
        """Those of the section, or their defaults."""
        return self.score or ScoreConfig()


@section
class ProverConfig(PlayerConfig):
    """The prover and its phase."""

    roles: Literal["shared", "separate", "sneaky_only", "helpful_only"] = Field(
        "shared",
        description="`shared`: one prover that its prompt tells the role (K24). `separate`: an adapter for each role, helpful "
        "first; needs `lora`. `sneaky_only`, `helpful_only`: the other side stays as it is.",
    )
    init: Literal["base", "previous"] = Field(
        "base", description="What each round starts from: the base prover (K24), or the last round's."
    )
    algorithm: Literal["grpo", "ppo"] = Field(
        "grpo",
        description="`grpo`: a solution is compared with its group's mean. `ppo`: a critic, trained beside the prover, says what "
        "each token was worth.",
    )
    ppo: PPOConfig | None = Field(
        None, description="Critic and settings of `algorithm: ppo`; without this section they have their defaults."
    )
    reward: str = Field(
        "src",
        description="A name in the table of rewards of docs/formulas.md, or `package.module:Name` (docs/extensions.md).",
    )
    reward_options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of the reward, e.g. `{floor: -2.0}` for `cgc`."
    )
    self_evaluation: SelfEvaluationConfig | None = Field(
        None,
        description="The prover writes an evaluation behind its proof (its prompt must ask for one) and is paid for both, in place of "
        "`reward`; needs `roles: helpful_only` and `verifier.kind: score`. `self_evaluation: {}` takes the defaults.",
    )
    reward_correction: Literal["none", "backward"] = Field(
        "none",
        description="`backward`: the reward that is right in the mean where the prover's solutions are graded with errors, at the "
        "rates of `rates`. The phase says whether that changes what is learned.",
    )
    max_steps: Count = Field(
        60,
        description="Planned optimiser steps, of each role where roles are `separate`; a stop rule may end the phase earlier.",
    )
    prompts_per_step: BatchSize = Field(
        16,
        description="(problem, role) prompts of a step, over all processes; with `ppo`, of a batch, on which `ppo.num_iterations` "
        "steps are taken.",
    )
    num_generations: GroupSize = Field(8, description="Solutions to a prompt: one group.")
    micro_batch_size: BatchSize | None = Field(
        None,
        description="Solutions of a forward and backward pass, on each process; must divide its `prompts_per_step * "
        "num_generations / processes`, which is the default.",
    )
    beta: NonNegative = Field(
        0.05,
        description="Weight of the KL divergence from the base prover; 0 saves the reference's forward pass and memory.",
    )
    temperature: Positive = Field(1.0, description="Temperature of sampling, in training and in minting.")
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="What the model's chat template sees, e.g. `{enable_thinking: false}` for a model that would think aloud.",
    )
    generation: Literal["transformers", "continuous", "vllm_colocate", "vllm_server"] = Field(
        "transformers",
        description="What writes solutions, in training and in minting: this package's loop over transformers, continuous "
        "batching (on a GPU), or vLLM in the same process or as a server; see docs/prover-trainer.md.",
    )
    max_completion_length: Count = Field(
        128, description="Longest solution, in tokens; one that does not end is a failed one."
    )
    scale_rewards: Literal["none", "group", "batch"] = Field(
        "none",
        description="Division of advantages by the standard deviation of a group or batch; `none` keeps SRC's -1 and CGC's -2.",
    )
    eval_steps: Count = Field(
        10,
        description="Steps between judgements on D_pi's held-out part, by which the best helpful checkpoint is chosen.",
    )
    eval_problems: Count = Field(100, description="Held-out problems of such a judgement, at most.")
    eval_samples: Count = Field(2, description="Helpful solutions to each of them.")

    @model_validator(mode="after")
    def _check_algorithm(self) -> "ProverConfig":
        if self.ppo is not None and self.algorithm != "ppo":
            raise ValueError(f"`ppo` holds settings of `algorithm: ppo`, and `algorithm` is `{self.algorithm}`")
        return self

    @property
    def ppo_settings(self) -> PPOConfig:
        """Those of the section, or their defaults."""
        return self.ppo or PPOConfig()

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps on one batch of solutions."""
        return self.ppo_settings.num_iterations if self.algorithm == "ppo" else 1

    @property
    def num_batches(self) -> int:
        """Batches of solutions of each training, if nothing ends it early."""
        return -(-self.max_steps // self.steps_per_batch)

    @property
    def trained_roles(self) -> tuple[Role, ...]:
        """Roles of the phase."""
        return (Role(self.roles.removesuffix("_only")),) if self.roles.endswith("_only") else GAME_ROLES

    @property
    def num_trainings(self) -> int:
        """Trainings of the phase: `separate` trains one role after the other."""
        return 2 if self.roles == "separate" else 1

    @property
    def planned_steps(self) -> int:
        """Optimiser steps of the phase if nothing ends it early."""
        return self.max_steps * self.num_trainings
