"""The sections of a recipe. Each field says its unit and range; `docs/recipes.md` is generated from here."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from pvg_hf.roles import Role

section = dataclass(config=ConfigDict(extra="forbid"), kw_only=True)

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
ProperShare = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
FlipRate = Annotated[float, Field(ge=0, lt=1)]


@section
class TaskConfig:
    """The world that the game is played in."""

    name: str = Field("arithmetic", description="A registered task, or `package.module:Name`.")
    path: str | None = Field(None, description="Local folder of the task's files, for tasks that read any.")
    options: dict[str, Any] = Field(default_factory=dict, description="Further arguments of the task's class.")
    answer_format: Literal["strict", "lenient"] = Field(
        "strict", description="Which reading of the final answer counts; both are reported."
    )
    prompts: dict[Role, str] = Field(default_factory=dict, description="Jinja templates that replace the task's own.")
    few_shot: int | None = Field(None, ge=0, description="Examples in the base prompt; all of the task's by default.")
    sneaky_sees: Literal["nothing", "reference_answer", "honest_solution"] = Field(
        "nothing", description="What the sneaky role is shown beside the problem."
    )


@section
class SplitConfig:
    """How problems are shared out, by a hash of (seed, problem id)."""

    verifier_share: ProperShare = Field(0.5, description="Share of the training problems in D_V; the rest is D_pi.")
    heldout_share: ProperShare = Field(0.1, description="Share of D_V, and of D_pi, that is never trained on.")
    test_share: ProperShare = Field(0.1, description="Share set aside for a task without a test split of its own.")
    stratify_by: str | None = Field(None, description="A problem column within whose values the shares hold.")
    max_train: Count | None = Field(None, description="Use only so many training problems.")
    max_test: Count | None = Field(None, description="Use only so many test problems.")


@section
class LoraConfig:
    """Low-rank adapters in place of full fine-tuning."""

    r: Count = Field(16, description="Rank.")
    alpha: Positive = Field(32, description="Scale, divided by the rank.")
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="Dropout on the adapter's input.")
    target_modules: str | list[str] = Field("all-linear", description="Modules that get an adapter.")


@section
class ScratchConfig:
    """A model made from a configuration, with a tokenizer trained on the training problems and reference solutions."""

    model_type: str = Field("llama", description="A `model_type` of transformers' `AutoConfig`.")
    config: dict[str, Any] = Field(default_factory=dict, description="Arguments of that configuration.")
    vocab_size: Annotated[int, Field(ge=300)] = Field(4096, description="Size of the byte-level BPE vocabulary.")


@section
class WarmupConfig:
    """Supervised fine-tuning on the task's reference solutions, before the bootstrap."""

    max_steps: Count = Field(200, description="Optimiser steps.")
    batch_size: Count = Field(16, description="Solutions a step and process.")
    learning_rate: Positive = Field(1e-3, description="Peak of the cosine schedule.")
    max_length: Count = Field(512, description="Tokens of prompt and solution; longer ones are cut.")


@section
class PlayerConfig:
    """What both players have."""

    model: str = Field("arithmetic", description="A Hub id, a folder, or `arithmetic` for the model that ships here.")
    revision: str | None = Field(None, description="Branch, tag or commit on the Hub.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Of the weights; `auto` is bfloat16 on a GPU that has it, float32 elsewhere."
    )
    lora: LoraConfig | None = Field(None, description="Adapters; without this section all weights are trained.")
    scratch: ScratchConfig | None = Field(None, description="Make the model from a configuration; `model` is unused.")
    warmup: WarmupConfig | None = Field(None, description="Fine-tune on reference solutions first.")
    learning_rate: Positive = Field(2e-4, description="Peak learning rate.")
    lr_scheduler_type: str = Field("linear", description="A schedule of transformers.")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(0, description="Steps of linear learning-rate warm-up.")
    weight_decay: NonNegative = Field(0.0, description="Of AdamW.")
    max_grad_norm: Positive = Field(1.0, description="Gradients are clipped to this norm.")
    gradient_accumulation_steps: Count = Field(1, description="Micro-batches an optimiser step.")
    gradient_checkpointing: bool = Field(False, description="Recompute activations: less memory, about 1.3x the time.")
    save_steps: Count | None = Field(None, description="Steps between checkpoints to continue from; none by default.")
    trainer: dict[str, Any] = Field(
        default_factory=dict, description="Any further field of the trainer's config, under TRL's name for it."
    )


@section
class VerifierConfig(PlayerConfig):
    """The verifier and its phase."""

    init: Literal["full", "head_only", "warm"] = Field(
        "full", description="Each round starts from: the initial weights; the last body and a new head; the last round."
    )
    loss: Literal["bradley_terry", "cross_entropy"] = Field("bradley_terry", description="Pair or pointwise loss.")
    correction: Literal["none", "smoothing", "forward", "backward"] = Field(
        "none", description="Correction for label noise at the rates of `noise`."
    )
    center: NonNegative = Field(0.005, description="Weight of the mean squared score of single solutions (lambda).")
    max_steps: Count = Field(300, description="Optimiser steps, the same every round.")
    pairs_per_step: Count = Field(32, description="Pairs a micro-batch and process.")
    template: str = Field("{{ problem }}\n{{ solution }}", description="Jinja template of the verifier's input.")
    max_length: Count = Field(1024, description="Tokens of an input; longer pairs are left out and counted.")
    tokens_per_batch: Count = Field(4096, description="Tokens of a scoring batch, padding included.")


@section
class ProverConfig(PlayerConfig):
    """The prover and its phase."""

    roles: Literal["shared", "separate", "sneaky_only", "helpful_only"] = Field(
        "shared", description="One prover told its role, an adapter per role, or one role against a fixed other side."
    )
    init: Literal["base", "previous"] = Field("base", description="Each round starts from the base or the last prover.")
    reward: str = Field(
        "src", description="`src`, `cgc`, `goodhart`, `correctness_only`, `standardized_src`, or `package.module:Name`."
    )
    reward_options: dict[str, Any] = Field(default_factory=dict, description="Further arguments of the reward.")
    max_steps: Count = Field(60, description="Planned optimiser steps; a stop rule may end the phase earlier.")
    prompts_per_step: Count = Field(16, description="(problem, role) prompts a generation batch, over all processes.")
    num_generations: Annotated[int, Field(ge=2)] = Field(8, description="Solutions per (problem, role): one group.")
    micro_batch_size: Count | None = Field(
        None, description="Solutions a forward and process; the whole batch by default."
    )
    beta: NonNegative = Field(0.05, description="Weight of the KL divergence from the base prover.")
    temperature: Positive = Field(1.0, description="Of sampling, in training and in minting.")
    max_completion_length: Count = Field(128, description="Tokens of a solution.")
    scale_rewards: Literal["none", "group", "batch"] = Field(
        "none", description="Division of advantages by a standard deviation; `none` keeps SRC's -1 and CGC's -2."
    )
    eval_steps: Count = Field(10, description="Steps between evaluations on D_pi's held-out part.")
    eval_problems: Count = Field(100, description="Held-out problems of each evaluation, at most.")
    eval_samples: Count = Field(2, description="Helpful solutions per held-out problem.")


@section
class BootstrapConfig:
    """The base prover's solutions on D_V, or existing ones."""

    solutions_per_problem: Count = Field(4, description="Base solutions for each problem of D_V.")
    import_from: str | None = Field(None, description="JSONL, Parquet or Hub dataset of solutions to use instead.")
    import_columns: dict[str, str] = Field(default_factory=dict, description="Our column name to the file's.")


@section
class DataConfig:
    """What a verifier is trained on."""

    mixture: str = Field(
        "equal_per_round",
        description="`equal_per_round`, `latest`, `exponential`, `sliding`, `custom`, or `package.module:Name`.",
    )
    window: Count | None = Field(None, description="Rounds that `sliding` looks back.")
    weights: dict[int, NonNegative] | None = Field(None, description="For `custom`: round (-1 = base) to weight.")
    solutions_per_problem: Annotated[int, Field(ge=2, multiple_of=2)] = Field(
        4, description="Solutions per problem, constant over rounds."
    )
    correct_source: Literal["prover", "dataset", "both"] = Field(
        "prover", description="Where the correct side of a pair comes from; `dataset` = reference solutions."
    )


@section
class NoiseConfig:
    """Flips of the labels that the verifier is told. Judging takes clean labels."""

    epsilon: Annotated[float, Field(ge=0, lt=0.5)] | None = Field(None, description="Symmetric: rho0 = rho1 = epsilon.")
    rho0: FlipRate = Field(0.0, description="P(label 1 | truth 0).")
    rho1: FlipRate = Field(0.0, description="P(label 0 | truth 1).")
    level: Literal["label", "pair"] = Field("label", description="Flip labels of solutions, or the order of pairs.")
    resample: Literal["fixed", "epoch", "step"] = Field(
        "fixed", description="Draw once for the pool, or anew each epoch or step of the verifier's training."
    )

    @model_validator(mode="after")
    def _check(self) -> "NoiseConfig":
        if self.epsilon is not None:
            if self.rho0 or self.rho1:
                raise ValueError("give either `epsilon` or `rho0` and `rho1`, not both")
            self.rho0 = self.rho1 = self.epsilon
        if self.rho0 + self.rho1 >= 1:
            raise ValueError(f"`rho0 + rho1` must be below 1; got {self.rho0 + self.rho1}")
        return self


@section
class MintConfig:
    """The round's prover writes on D_V and on the test problems."""

    solutions_per_problem: Count = Field(2, description="Solutions for each problem of D_V and role.")
    test_solutions_per_problem: Count = Field(8, description="Solutions for each test problem and role.")
    problems_per_batch: Count = Field(32, description="Prompts sampled together; smaller needs less memory.")


@section
class StoppingConfig:
    """When a prover phase ends before its planned steps."""

    rule: str = Field(
        "auto",
        description="`auto` (by reward), `parity`, `parity_and_incorrect`, `goodhart`, `max_steps`, `module:Name`.",
    )
    sneaky_incorrect_threshold: Share = Field(0.95, description="Incorrect rate of the sneaky role.")
    score_parity_threshold: NonNegative = Field(0.1, description="Margin of parity, in units of the score.")
    ema: ProperShare | None = Field(None, description="Weight of the newest step; 5 / planned steps by default.")


@section
class WatchdogConfig:
    """What is watched, and what happens then."""

    window: Count = Field(10, description="Steps of a watchdog's window.")
    min_valid_sneaky: Share = Field(0.1, description="Sneaky collapse below this share of valid sneaky solutions.")
    collapse_recovery: Literal["none", "temperature", "easier", "supervised"] = Field(
        "none", description="What to do about a collapse, beyond the alert."
    )
    goodharting: Literal["off", "alert", "stop"] = Field("alert", description="Exploit rate rises while the gap falls.")
    min_pair_accuracy: Share = Field(0.55, description="A verifier below this on D_V's held-out part ends the round.")
    max_truncated: Share = Field(0.5, description="A batch truncated beyond this share ends the phase.")


@section
class EvaluationConfig:
    """What is measured on test problems after each round."""

    best_of_n: list[Annotated[int, Field(ge=2, multiple_of=2)]] = Field(
        default_factory=lambda: [2, 4, 8], description="Sizes of the balanced best-of-n."
    )
    bootstrap_samples: Annotated[int, Field(ge=100)] = Field(1000, description="Resamples behind an interval.")
    num_examples: Count = Field(12, description="Problems shown side by side in the report.")


@section
class LoggingConfig:
    """Where figures go, beside the run folder."""

    report_to: list[str] = Field(default_factory=list, description="`trackio`, `wandb`, `tensorboard`.")
    project: str = Field("pvg_hf", description="The tracker's project.")
    log_completions: bool = Field(False, description="Keep each step's solutions as Parquet in the prover's folder.")
    progress: bool = Field(True, description="Show progress bars.")
