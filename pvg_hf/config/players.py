"""The sections of a recipe that are about a player: its model, its training and, for each of the two, its phase."""

from math import ceil
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pvg_hf.config.fields import (
    BatchSize,
    Count,
    CountOrZero,
    FilePath,
    GroupSize,
    NonNegative,
    Positive,
    Rank,
    section,
)
from pvg_hf.config.learning import InvarianceConfig
from pvg_hf.config.ppo import PPOConfig
from pvg_hf.config.score import ScoreConfig, SelfEvaluationConfig
from pvg_hf.roles import GAME_ROLES, Role

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
        description="`src`, `cgc`, `goodhart`, `correctness_only`, `standardized_src`, `acceptance`, or `package.module:Name`; "
        "docs/formulas.md has the formulas.",
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
