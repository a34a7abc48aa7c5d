"""The sections of a recipe. Each field says its unit and range; the key reference in docs/recipes.md is generated from them."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pvg_hf.config.fields import Count, FilePath, NonNegative, ProperShare, Seed, Share, section
from pvg_hf.config.noise import NoiseConfig, restate_rates
from pvg_hf.config.players import (
    InvarianceConfig,
    LoraConfig,
    PlayerConfig,
    PPOConfig,
    ProverConfig,
    RatesConfig,
    ScoreConfig,
    ScratchConfig,
    SelfEvaluationConfig,
    VerifierConfig,
    WarmupConfig,
)
from pvg_hf.core.roles import Role

__all__ = [
    "BootstrapConfig",
    "DataConfig",
    "EvaluationConfig",
    "HubConfig",
    "InvarianceConfig",
    "LoggingConfig",
    "LoraConfig",
    "MintConfig",
    "NoiseConfig",
    "PPOConfig",
    "PlayerConfig",
    "ProverConfig",
    "RatesConfig",
    "ScoreConfig",
    "ScratchConfig",
    "SelfEvaluationConfig",
    "SplitConfig",
    "StoppingConfig",
    "SweepConfig",
    "TaskConfig",
    "VerifierConfig",
    "WarmupConfig",
    "WatchdogConfig",
    "restate_rates",
]

GoodhartAction = Annotated[
    Literal["off", "alert", "stop"],
    BeforeValidator(lambda value: "off" if value is False else value),  # YAML reads a bare `off` as False
]


@section
class TaskConfig:
    """The world that the game is played in."""

    name: str = Field(
        "arithmetic", description="`arithmetic`, `gsm8k`, `proofs`, or your own task as `package.module:Name`."
    )
    path: FilePath | None = Field(None, description="Folder of the task's files, for a task that reads any (`gsm8k`).")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of the task's class, e.g. `{max_difficulty: 6}`."
    )
    answer_format: Literal["strict", "lenient"] = Field(
        "strict",
        description="Which reading of the final answer decides about correctness; the accuracy under both is reported.",
    )
    prompts: dict[Role, str] = Field(
        default_factory=dict, description="Jinja templates, by role, that replace the task's own."
    )
    few_shot: int | None = Field(
        None,
        ge=0,
        description="Solved examples in the base prompt; the task's own number if left out: of `arithmetic` 0 of its 3, of "
        "`gsm8k` all 4.",
    )
    sneaky_sees: Literal["nothing", "reference_answer", "honest_solution"] = Field(
        "nothing", description="What the sneaky role is shown beside the problem."
    )


@section
class SplitConfig:
    """How problems are shared out, by a hash of (seed, problem id)."""

    verifier_share: ProperShare = Field(
        0.5, description="Share of the training problems for the verifier (D_V); the others are the prover's (D_pi)."
    )
    heldout_share: ProperShare = Field(
        0.1, description="Share of D_V, and of D_pi, that is never trained on but judged by."
    )
    test_share: ProperShare = Field(
        0.1, description="Share of all problems that is the test part, for a task without a test split of its own."
    )
    stratify_by: str | None = Field(
        None,
        description="A column of the problems, e.g. `difficulty`; the shares then hold within each of its values.",
    )
    max_train: Count | None = Field(None, description="Use the first so many training problems only.")
    max_test: Count | None = Field(None, description="Use the first so many test problems only.")


@section
class BootstrapConfig:
    """The base prover's solutions on D_V, or existing ones."""

    solutions_per_problem: Count = Field(4, description="Solutions of the base prover to each problem of D_V.")
    import_from: FilePath | None = Field(
        None,
        description="A `.jsonl` or `.parquet` file, a folder, or a dataset on the Hub, of solutions to use in their place.",
    )
    import_config: str | None = Field(None, description="Config of that folder or dataset, if it has several.")
    import_split: str | None = Field(None, description="Split of that folder or dataset; `train` if left out.")
    import_revision: str | None = Field(
        None, description="Branch, tag or commit of that dataset on the Hub; its latest state if left out."
    )
    import_columns: dict[str, str] = Field(
        default_factory=dict,
        description="What the source calls our columns, e.g. `{solution: response, problem: question}`.",
    )

    @model_validator(mode="after")
    def _check(self) -> "BootstrapConfig":
        names = ("import_config", "import_split", "import_revision", "import_columns")
        given = [name for name, value in asdict(self).items() if name in names and value]
        if given and self.import_from is None:
            raise ValueError(f"`{'`, `'.join(given)}` tells how to read `import_from`, which is not given")
        return self


@section
class DataConfig:
    """What a verifier is trained on."""

    mixture: str = Field(
        "equal_per_round",
        description="How much of its data a verifier takes from each earlier round: `equal_per_round` (K24), `latest`, "
        "`exponential` (KL26), `sliding`, `custom`, or `package.module:Name`.",
    )
    window: Count | None = Field(
        None, description="For `sliding`: number of rounds that it looks back, the base's solutions counting as one."
    )
    weights: dict[int, NonNegative] | None = Field(
        None, description="For `custom`: a weight for each round; -1 is the base prover."
    )
    solutions_per_problem: Annotated[int, Field(ge=2, multiple_of=2)] = Field(
        4, description="Solutions used of each problem, half of them correct: new rounds replace part of the old."
    )
    correct_source: Literal["prover", "dataset", "both"] = Field(
        "prover",
        description="Where the correct side of a pair comes from: what provers wrote, the task's reference solutions, or both.",
    )
    pairs: Literal["labelled", "all"] = Field(
        "labelled",
        description="`labelled`: pairs of a solution labelled correct and one labelled incorrect. `all`: `solutions_per_problem` "
        "solutions whatever their labels, and all pairs of them, ties included, which `verifier.correction: exact` and the "
        "corrections of `cross_entropy` need.",
    )
    pair_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="For `pairs: all`: share of those pairs that is kept, at random whatever their labels."
    )


@section
class MintConfig:
    """The round's prover writes on D_V and on the test problems."""

    solutions_per_problem: Count = Field(
        2, description="Solutions of each role to each problem of D_V, which later verifiers learn from."
    )
    test_solutions_per_problem: Count = Field(
        8, description="Solutions of each role to each test problem, which the round is judged by."
    )
    problems_per_batch: Count = Field(
        32, description="Prompts whose solutions are sampled together; fewer need less memory."
    )


@section
class StoppingConfig:
    """When a prover phase ends before its planned steps."""

    rule: str = Field(
        "auto",
        description="`parity`, `parity_and_incorrect`, `goodhart`, `max_steps`, or `package.module:Name`; `auto` is the rule of the "
        "reward: the table of rewards of docs/formulas.md has it, and a custom reward declares it (docs/extensions.md).",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Keyword arguments of a custom rule, e.g. `{margin: 0.3}`."
    )
    sneaky_incorrect_threshold: Share = Field(
        0.95,
        description="For `parity_and_incorrect`: share of the sneaky solutions that did not fail which must be incorrect; fewer than half may fail.",
    )
    score_parity_threshold: NonNegative = Field(
        0.1, description="Parity is reached within this margin, in units of the verifier's score."
    )
    ema: ProperShare | None = Field(
        None,
        description="Weight of the newest step in the moving averages that the rule reads; 5 / `max_steps` if left out (with "
        "`ppo`, 5 / the number of batches: only a step that writes solutions has such figures).",
    )

    def newest_weight(self, num_batches: int) -> float:
        """Weight of the newest batch in the moving averages of a phase of so many, in (0, 1]."""
        return self.ema or min(1.0, 5 / num_batches)


@section
class WatchdogConfig:
    """What is watched, and what happens then."""

    window: Count = Field(10, description="Steps that a watchdog looks at together.")
    min_valid_sneaky: Share = Field(
        0.1, description="The sneaky role has collapsed where fewer of its solutions are answered and incorrect."
    )
    collapse_recovery: Literal["none", "temperature", "easier", "supervised"] = Field(
        "none",
        description="Beyond the alert, start the phase again: hotter, with the easiest problems first, or after a short "
        "fine-tuning on known incorrect solutions.",
    )
    goodharting: GoodhartAction = Field(
        "alert",
        description="What to do where the score gap falls while the exploit rate rises, or the verifier ranks incorrect above correct.",
    )
    min_pair_accuracy: Share = Field(
        0.55,
        description="A verifier that orders fewer held-out pairs rightly ends the run, before a prover is trained on it.",
    )
    max_truncated: Share = Field(
        0.5, description="A step with a larger share of solutions without an end ends the run."
    )


@section
class EvaluationConfig:
    """What is measured on test problems after each round."""

    best_of_n: list[Annotated[int, Field(ge=2, multiple_of=2)]] = Field(
        default_factory=lambda: [2, 4, 8],
        description="Values of n for balanced best-of-n; at most `mint.test_solutions_per_problem` can be judged.",
    )
    bootstrap_samples: Annotated[int, Field(ge=100)] = Field(
        1000, description="Resamples of the problems behind an interval."
    )
    num_examples: Count = Field(12, description="Problems whose solutions the report shows side by side.")


TRACKERS = ("trackio", "wandb", "tensorboard")


@section
class LoggingConfig:
    """Where figures go, beside the run folder."""

    report_to: list[str] = Field(
        default_factory=list, description=f"Trackers to report to: {', '.join(f'`{name}`' for name in TRACKERS)}."
    )
    project: str = Field("pvg_hf", description="Name of the project there.")
    log_completions: bool = Field(False, description="Keep each step's solutions as Parquet in the prover's folder.")
    progress: bool = Field(True, description="Draw progress bars where the output is a terminal.")


@section
class HubConfig:
    """Rounds on the Hub: `NAMESPACE/RUN-prover`, `-verifier` and `-solutions`, a tag for each round."""

    push: bool = Field(False, description="Publish each round once it is evaluated.")
    namespace: str | None = Field(
        None,
        pattern=r"^[\w.-]+$",
        description="User or organisation whose repositories these are; the token's owner if left out.",
    )
    run_name: str | None = Field(
        None, pattern=r"^[\w.-]+$", description="What the repositories' names begin with; `name` if left out."
    )
    private: bool = Field(
        True, description="Make private repositories. Those that are public already are then refused."
    )
    space: bool = Field(
        False,
        description="With `push`: keep the app on the run as a Space, `NAMESPACE/RUN-app`, renewed with each round. Needs a "
        "clone of the repository and the extra `app`.",
    )
    overwrite: bool = Field(
        False,
        description="Replace a round that is published with other content, and take back those after it; it is refused otherwise.",
    )
    license: str | None = Field(
        None,
        pattern=r"^[\w.-]+$",
        description="Licence of the cards, by the Hub's name of it, e.g. `apache-2.0`. If left out, Apache-2.0 where players and task are "
        "built in; otherwise the cards name none.",
    )


Correction = Literal[
    "none", "smoothing", "forward", "backward", "exact", "pointwise", "pointwise_forward", "pointwise_backward"
]

Level = Annotated[float, Field(ge=0, lt=1)]

PLAIN, POINTWISE = "none", "pointwise"


@section
class SweepConfig:
    """
    Play the rest of the recipe once for each noise level, seed and correction (`scripts/sweep_noise.py`). A game by itself
    does not read this section.
    """

    form: Literal["verifier", "game"] = Field(
        "verifier",
        description="`verifier`: the first verifier alone, on solutions of the base prover. `game`: all rounds; the figures "
        "are of the last one.",
    )
    levels: Annotated[list[Level], Field(min_length=1)] = Field(
        default_factory=lambda: [0.0, 0.1, 0.2, 0.3, 0.4],
        description="Rates of wrong labels. The clean verifier, which all others are compared with, is trained in any case.",
    )
    vary: Literal["epsilon", "rho0", "rho1"] = Field(
        "epsilon", description="Which rate of `noise` the levels are; that section states none itself."
    )
    seeds: Annotated[list[Seed], Field(min_length=1)] = Field(
        default_factory=lambda: [0, 1, 2], description="In place of the recipe's `seed`; each has its own pool."
    )
    corrections: Annotated[list[Correction], Field(min_length=1)] = Field(
        default_factory=lambda: [PLAIN, "forward"],
        description="Of the verifier's loss. `pointwise` is cross-entropy on single solutions, by itself without a correction; all "
        "others are Bradley-Terry. `exact`, `pointwise_forward` and `pointwise_backward` come with `data.pairs: all`.",
    )

    @field_validator("levels", "seeds", "corrections")
    @classmethod
    def _each_once(cls, values: list[Any]) -> list[Any]:
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"each may stand there once; {', '.join(map(str, twice))} stands there again")
        return values
