"""
The sections of a recipe.

Each field states its unit and range; the key reference in docs/reference/recipes.md is generated from them.
"""

import re
from dataclasses import asdict
from math import ceil
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from pvg_hf.config import fields as f
from pvg_hf.config.noise_section import ErrorBucketConfig
from pvg_hf.config.player_sections import VerifierCorrection
from pvg_hf.core.extensions import Effect
from pvg_hf.core.roles import Role

WatchAction = Annotated[
    Literal["off", "alert", "stop"],
    BeforeValidator(lambda value: "off" if value is False else value),  # YAML reads an unquoted `off` as False
]
SneakySees = Literal["nothing", "reference_answer", "honest_solution"]
HonestSource = Literal["dataset", "prover"]
CorrectSource = Literal["prover", "dataset", "both"]
PairChoice = Literal["labelled", "all"]


@f.section
class TaskConfig:
    """The task of the game."""

    name: Annotated[str, f.WholeGame(), f.Asks(Effect.RUNS, f.names_code)] = "arithmetic"
    """`apps`, `arithmetic`, `functions`, `gsm8k`, `mbpp`, `proofs`, or a custom task as `package.module:Name`."""
    path: Annotated[f.FilePath | None, f.WholeGame(), f.Asks(Effect.READS)] = None
    """Folder of the task's files, for a task that needs files (`gsm8k`, `mbpp`, `apps`)."""
    options: Annotated[dict[str, Any], f.WholeGame(), f.Asks(Effect.PASSES, f.always, beside="name")] = Field(
        default_factory=dict
    )
    """Further arguments of the task's class, e.g. `{max_difficulty: 6}`."""
    answer_format: Annotated[Literal["strict", "lenient"], f.WholeGame()] = "strict"
    """The reading of the final answer that determines correctness; the accuracy under both is reported."""
    prompts: Annotated[dict[Role, str], f.WholeGame()] = Field(default_factory=dict)
    """Jinja templates, by role, that replace the task's."""
    few_shot: Annotated[f.CountOrZero | None, f.WholeGame()] = None
    """Number of examples in the prompts of every role, with wrong solutions in the sneaky one. By default the task's
    own number: for `arithmetic` 0 of its 3, for `gsm8k` all 4."""
    sneaky_sees: SneakySees = "nothing"
    """What the sneaky role is shown in addition to the problem. May differ between rounds."""
    honest_source: HonestSource = "dataset"
    """The solution that `sneaky_sees: honest_solution` shows: the `dataset`'s reference, or the first correct solution
    of the `prover` in the helpful role (the reference if it has none). May differ between rounds."""

    @property
    def shows_own_solutions(self) -> bool:
        """Whether the sneaky role is shown the prover's own correct solutions."""
        return self.sneaky_sees == "honest_solution" and self.honest_source == "prover"


@f.section
class SplitConfig:
    """Split of the problems into parts, by a hash of (seed, problem id)."""

    verifier_share: f.ProperShare = 0.5
    """Share of the training problems for the verifier (called D_V); the others are the prover's (D_pi)."""
    heldout_share: f.ProperShare = 0.1
    """Share of D_V, and of D_pi, that is held out for evaluation."""
    test_share: f.ProperShare = 0.1
    """Share of all problems for the test part, if the task has no test split."""
    stratify_by: str | None = None
    """A column of the problems, e.g. `difficulty`; the shares then hold within each of its values."""
    max_train: f.Count | None = None
    """Use at most this many training problems, from the first."""
    max_test: f.Count | None = None
    """Use at most this many test problems, from the first."""


@f.section
class BootstrapConfig:
    """Solutions to the verifier's problems (D_V) from the base prover, or existing ones."""

    solutions_per_problem: f.Repeats = 4
    """Solutions of the base prover per problem of D_V."""
    pilot_problems: Annotated[f.CountOrZero, f.MayChange()] = 32
    """Problems of D_V that the base prover solves once in each role before the game, unless it ships with the package.
    The game is stopped if too few solutions are correct or wrong, or too many fail; 0 for no pilot
    (docs/reference/recipes.md#a-pilot-before-the-game)."""
    import_from: Annotated[f.FilePath | None, f.Asks(Effect.READS)] = None
    """A file, a folder, or a dataset on the Hub with solutions to use instead
    (docs/reference/data.md#your-own-data)."""
    import_config: str | None = None
    """Config of that folder or dataset, if it has several."""
    import_split: str | None = None
    """Split of that folder or dataset; by default its only one, or else `train`."""
    import_revision: str | None = None
    """Branch, tag or commit of that dataset on the Hub; the latest state by default."""
    import_columns: dict[str, str] = Field(default_factory=dict)
    """The source's columns, or paths, by ours, e.g. `{solution: response, problem: question}`."""

    @model_validator(mode="after")
    def _check(self) -> "BootstrapConfig":
        names = ("import_config", "import_split", "import_revision", "import_columns")
        given = [name for name, value in asdict(self).items() if name in names and value]
        if given and self.import_from is None:
            raise ValueError(f"`{'`, `'.join(given)}` describes `import_from`, which is not given")
        return self


@f.section
class DataConfig:
    """Training data of a verifier."""

    mixture: Annotated[str, f.Asks(Effect.RUNS, f.names_code), f.AfterBootstrap("verifier")] = "equal_per_round"
    """How much of its data a verifier takes from each earlier round: `equal_per_round` (Kirchner et al. 2024),
    `latest`, `exponential` (Kim & Lee 2026), `sliding`, `custom`, or `package.module:Name`."""
    window: Annotated[f.Count | None, f.AfterBootstrap("verifier")] = None
    """For `sliding`: number of rounds to look back; the base prover's solutions count as one."""
    weights: Annotated[dict[int, f.NonNegative] | None, f.AfterBootstrap("verifier")] = None
    """For `custom`: a weight for each round; -1 is the base prover."""
    solutions_per_problem: Annotated[
        int, Field(ge=2, le=f.MAX_REPEATS, multiple_of=2), f.AfterBootstrap("verifier")
    ] = 4
    """Solutions used per problem, half of them correct; new rounds replace some of the old ones."""
    correct_source: Annotated[CorrectSource, f.AfterBootstrap("verifier")] = "prover"
    """Source of the correct side of a pair: solutions of provers, the task's reference solutions, or both."""
    pairs: Annotated[PairChoice, f.AfterBootstrap("verifier")] = "labelled"
    """`labelled`: pairs of a solution labelled correct and one labelled incorrect. `all`: all pairs of
    `solutions_per_problem` solutions chosen regardless of their labels, including ties, which `verifier.correction:
    exact` and the corrections of `cross_entropy` need."""
    pair_share: Annotated[f.PositiveShare, f.AfterBootstrap("verifier")] = 1.0
    """For `pairs: all`: share of those pairs to keep, at random regardless of their labels."""
    annotations: Annotated[f.FilePath | None, f.Asks(Effect.READS)] = None
    """A run, or a file of rows, with labels that people gave solutions in the app
    (docs/how-to/app.md#labels-and-notes): verifiers see them in place of the grader's or the noise's."""


@f.section
class MintConfig:
    """New solutions of the round's prover to the verifier's problems (D_V) and to the test problems."""

    solutions_per_problem: Annotated[f.Repeats, f.AfterBootstrap("mint")] = 2
    """Solutions of each role per problem of D_V; later verifiers learn from them."""
    test_solutions_per_problem: f.Repeats = 8
    """Solutions of each role per test problem; the round is evaluated on them."""
    problems_per_batch: Annotated[f.Count | None, f.LowersMemory("lower", 5, ("bootstrap", "mint"))] = None
    """Prompts whose solutions are sampled together. By default 32 on a CPU, and 256 on a GPU, where memory decides how
    many of their solutions are written at once."""


MAX_GOODHART_WINDOW = 80  # batches (Kirchner et al. 2024)


@f.section
class StoppingConfig:
    """Rule that ends a prover phase before its planned steps."""

    rule: Annotated[str, f.AfterBootstrap(), f.Asks(Effect.RUNS, f.names_code)] = "auto"
    """`parity`, `parity_and_incorrect`, `goodhart`, `max_steps`, or `package.module:Name`; `auto` is the rule of the
    reward: the table of rewards in docs/reference/formulas.md lists it, and a custom reward declares it
    (docs/how-to/custom-code.md)."""
    options: Annotated[dict[str, Any], f.AfterBootstrap(), f.Asks(Effect.PASSES, f.always, beside="rule")] = Field(
        default_factory=dict
    )
    """Keyword arguments of a custom rule, e.g. `{margin: 0.3}`."""
    sneaky_incorrect_threshold: Annotated[f.Share, f.AfterBootstrap()] = 0.95
    """For `parity_and_incorrect`: share of the sneaky solutions without failure that must be incorrect; fewer than
    half may fail."""
    score_parity_threshold: Annotated[f.FactorOrZero, f.AfterBootstrap()] = 0.1
    """Parity is reached within this margin, in units of the verifier's score."""
    parity_confidence: Annotated[float, Field(ge=0.5, lt=1), f.AfterBootstrap()] = 0.95
    """One-sided confidence that the mean scores are within that margin, given at least 10 solutions of each side; at
    0.5 the means alone decide, however few solutions they have."""
    labels: Annotated[Literal["clean", "observed"], f.AfterBootstrap("verifier")] = "clean"
    """Labels by which a run decides: the stop rule, the watchdogs of a prover phase, the best helpful checkpoint, the
    verifier's threshold, and whether it is degenerate. `clean`: the truth. `observed`: as the player sees them
    (`noise`), which is all that a user of an imperfect checker has. Judging always uses clean labels."""
    goodhart_window: Annotated[f.Count | None, f.AfterBootstrap()] = None
    """For `goodhart`: number of batches over which the prover's accuracy is averaged; by default a tenth of the
    planned batches, at most 80 (Kirchner et al. 2024: 80 of some 8,000). The rule needs a whole window, so that one
    longer than the phase is refused."""
    ema: Annotated[f.PositiveShare | None, f.AfterBootstrap()] = None
    """Weight of the newest step in the moving averages that the rule uses, 1 for none; by default 5 / `max_steps`
    (with `ppo`, 5 / the number of batches, because only a step that writes solutions has these figures)."""

    def newest_weight(self, num_batches: int) -> float:
        """Return the weight of the newest batch in the moving averages of a phase with `num_batches`, in (0, 1]."""
        return self.ema or min(1.0, 5 / num_batches)

    def accuracy_window(self, num_batches: int) -> int:
        """Return the number of batches over which `goodhart` averages the accuracy in a phase with `num_batches`."""
        return self.goodhart_window or min(MAX_GOODHART_WINDOW, ceil(num_batches / 10))


DEFAULT_MIN_PAIRS = 500


@f.section
class WatchdogConfig:
    """Watchdogs on the training, and what they do."""

    window: f.Count = 10
    """Least number of batches that a watchdog tests together: it tests the whole phase, its halves, quarters and so
    on. A phase with fewer batches is not watched."""
    min_valid_sneaky: f.Share = 0.1
    """The sneaky role has collapsed if significantly less than this share of its solutions is answered and
    incorrect."""
    collapse_recovery: Literal["none", "temperature", "easier", "supervised"] = "none"
    """In addition to the alert, restart the phase: at a higher temperature, with the easiest problems first, or after
    a short fine-tuning on incorrect solutions, which the prover writes to its own problems (D_pi)."""
    goodharting: WatchAction = "alert"
    """What to do if the score gap falls while the exploit rate rises, or if the verifier ranks incorrect above
    correct, significantly: in a phase without a change, an alert has a probability of at most 5 %, or more if
    neighbouring steps depend on each other strongly (docs/explanation/intervals-and-watchdogs.md)."""
    false_positives: WatchAction = "alert"
    """What to do if the helpful role's wrong solutions are accepted much more often at the start of its training than
    before it, by the observed labels, or by the verifier if the reward may pay such solutions for their scores
    (docs/explanation/noise.md)."""
    false_positive_window: f.ProperShare = 0.15
    """The start of the training, as a share of its planned steps, for `false_positives`."""
    max_false_positive_rise: f.Share = 0.3
    """The rise of the share of accepted wrong solutions that `false_positives` reacts to."""
    min_pair_accuracy: Annotated[f.Share, f.MayChange()] = 0.55
    """A verifier that ranks fewer held-out pairs correctly ends the run, before a prover is trained on it."""
    max_truncated: Annotated[f.Share, f.Sets("max_truncated_share", player="prover"), f.MayChange()] = 0.5
    """A step with a larger share of truncated solutions ends the run."""
    min_pairs: Annotated[f.Count | None, f.MayChange()] = None
    """A verifier with fewer training pairs ends the run before it is trained; by default 500, or a tenth of its
    problems (D_V) if that is less."""

    def least_pairs(self, num_problems: int) -> int:
        """Return the number of training pairs that a verifier with `num_problems` problems needs, at least 1."""
        return self.min_pairs or max(1, min(DEFAULT_MIN_PAIRS, num_problems // 10))


@f.section
class EvaluationConfig:
    """Evaluation on test problems after each round."""

    best_of_n: list[Annotated[int, Field(ge=2, multiple_of=2)]] = Field(default_factory=lambda: [2, 4, 8])
    """Values of n for balanced best-of-n, up to `mint.test_solutions_per_problem`."""
    bootstrap_samples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    """Number of bootstrap resamples of the problems for an interval."""
    crossed_rounds: f.CountOrZero = 8
    """Number of earlier rounds (round 0 and the latest ones) whose verifiers score the round's test solutions, and
    whose test solutions the round's verifier scores; 0 for none."""
    num_examples: f.Count = 12
    """Number of problems whose solutions the report shows side by side."""


Tracker = Literal["trackio", "wandb", "tensorboard"]


@f.section
class LoggingConfig:
    """Logging in addition to the run folder: trackers, completions and progress bars."""

    report_to: Annotated[list[Tracker], f.Decides(), f.Asks(Effect.SENDS, f.leaves_machine)] = Field(
        default_factory=list
    )
    """Trackers to report to."""
    project: str = "pvg_hf"
    """Name of the project in the trackers."""
    log_completions: Annotated[bool, f.Sets(player="prover")] = False
    """Keep each step's solutions as Parquet in the prover's folder."""
    progress: Annotated[bool, f.Decides("disable_tqdm")] = True
    """Show progress bars if the output is a terminal, and else log a training's progress every minute."""
    report: bool = True
    """Write the report after each evaluated round, which takes some seconds. If it is switched on later, the next
    start writes it."""


@f.section
class HubConfig:
    """
    Publishing of rounds on the Hub: `NAMESPACE/RUN-prover`, `-verifier` and `-solutions`, with a tag for each round.
    """

    push: Annotated[bool, f.Asks(Effect.SENDS)] = False
    """Publish each round when it is evaluated."""
    namespace: Annotated[str | None, f.Asks(Effect.SENDS)] = Field(None, pattern=r"^[\w.-]+$")
    """User or organisation that owns the repositories; the token's owner by default."""
    run_name: Annotated[str | None, f.Asks(Effect.SENDS)] = Field(None, pattern=r"^[\w.-]+$")
    """Prefix of the repositories' names; `name` by default."""
    private: Annotated[bool, f.Asks(Effect.SENDS, f.always)] = True
    """Create private repositories; existing public ones are then refused."""
    space: Annotated[bool, f.Asks(Effect.SENDS)] = False
    """With `push`: publish the app for the run as a Space, `NAMESPACE/RUN-app`, updated each round. Needs a clone of
    the repository and the extra `app`."""
    overwrite: Annotated[bool, f.Asks(Effect.SENDS)] = False
    """Replace a published round with different content, and remove the rounds after it; otherwise this is refused."""
    license: str | None = Field(None, pattern=r"^[\w.-]+$")
    """Licence in the cards, by its name on the Hub, e.g. `apache-2.0`. By default Apache-2.0 if players and task are
    built in; otherwise none."""


Correction = Literal[VerifierCorrection, "pointwise", "pointwise_all", "pointwise_forward", "pointwise_backward"]

PLAIN: Final = "none"
POINTWISE: Final = "pointwise"


def _check_each_once(values: list[Any]) -> list[Any]:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"each value may occur once; {', '.join(map(str, twice))} is repeated")
    return values


_EACH_ONCE = AfterValidator(_check_each_once)
_ARM_NAME = r"^[\w-]+$"


@f.section
class ArmsConfig:
    """
    Checkers that err at one rate in different ways, compared by `experiments/arms.py`. A single game ignores this.
    """

    rate: f.ProperShare = 0.108
    """Share of the base prover's wrong solutions that each checker accepts. What its buckets do not account for is
    accepted at random."""
    seeds: Annotated[list[f.Seed], Field(min_length=1), _EACH_ONCE] = Field(default_factory=lambda: [0, 1, 2, 3, 4])
    """Replaces the recipe's `seed`."""
    checkers: dict[Annotated[str, Field(pattern=_ARM_NAME)], list[ErrorBucketConfig]] = Field(default_factory=dict)
    """The buckets of `noise.checker.errors` by name of the checker; an empty list is random errors. A game with clean
    labels, `clean`, is always played."""

    @field_validator("checkers", mode="before")
    @classmethod
    def _check_names(cls, checkers: Any) -> Any:
        for name in checkers if isinstance(checkers, dict) else ():
            if name == "clean":
                raise ValueError("`clean` is the game without errors; give the checker another name")
            if isinstance(name, str) and not re.search(_ARM_NAME, name):
                raise ValueError(f"{name!r:.80} cannot be a checker's name; use letters, digits, `_` and `-` only")
        return checkers


@f.section
class AttackSettings:
    """Fresh attackers that are trained against a frozen verifier; see docs/how-to/attack-a-verifier.md."""

    rewards: Annotated[list[str], Field(min_length=1), _EACH_ONCE, f.Asks(Effect.RUNS, f.names_code)] = Field(
        default_factory=lambda: ["src", "cgc", "goodhart"]
    )
    """Rewards of the attackers; each is trained with each algorithm and seed."""
    algorithms: Annotated[list[Literal["grpo", "ppo"]], Field(min_length=1), _EACH_ONCE] = Field(
        default_factory=lambda: list[Literal["grpo", "ppo"]](["grpo"])
    )
    """Algorithms of the attackers, as `prover.algorithm`."""
    seeds: Annotated[list[f.Seed], Field(min_length=1), _EACH_ONCE] = Field(default_factory=lambda: [0, 1, 2])
    """Seeds of the attackers; the problems are split as in the game."""
    max_steps: f.Steps | None = None
    """The cap: steps after which an attack has found nothing; four times `prover.max_steps` by default."""
    num_problems: f.Count = 50
    """Test problems that each trained attacker solves once, for the texts of the attack."""
    sneaky_sees: SneakySees | None = None
    """What the attackers are shown in addition to the problem, as `task.sneaky_sees`; by default what the sneaky role
    of the round is shown."""
    ema: f.PositiveShare | None = None
    """Weight of the newest step in the moving averages of the criterion of an exploit; by default that of the game's
    own prover phases (`stopping.ema`). An average with a small weight lags: it needs about 3 / `ema` steps to
    follow."""


@f.section
class AttackConfig(AttackSettings):
    """A frozen verifier that `pvg attack` attacks with the prover. A single game ignores this section."""

    verifier: Annotated[f.FilePath | None, f.Asks(Effect.READS, f.is_outside)] = None
    """Folder of a verifier (`runs/NAME/verifier/round-NNN`, also of a pulled run), or its id on the Hub. Required."""
    revision: str | None = None
    """Branch, tag (`round-NNN`) or commit of a verifier on the Hub."""
    helpful_score: Annotated[float, Field(ge=-f.MAX_FACTOR, le=f.MAX_FACTOR)] | None = None
    """Mean score of helpful correct solutions, which the attackers must reach; by default that of the base prover's,
    or of the references with `data.correct_source: dataset`, on the prover's held-out problems."""


@f.section
class SweepConfig:
    """Games that `pvg sweep` plays, one for each noise level, seed and correction. A single game ignores this."""

    form: Literal["verifier", "game"] = "verifier"
    """`verifier`: only the first verifier, on solutions of the base prover. `game`: all rounds; the figures are those
    of the last one."""
    levels: Annotated[list[f.FlipRate], Field(min_length=1), _EACH_ONCE] = Field(
        default_factory=lambda: [0.0, 0.1, 0.2, 0.3, 0.4]
    )
    """Rates of wrong labels. The clean verifier, with which all others are compared, is always trained."""
    vary: Literal["epsilon", "rho0", "rho1"] = "epsilon"
    """The rate of `noise` that the levels set; `noise` itself must not set a rate."""
    seeds: Annotated[list[f.Seed], Field(min_length=1), _EACH_ONCE] = Field(default_factory=lambda: [0, 1, 2])
    """Replaces the recipe's `seed`; each seed has its own pool."""
    corrections: Annotated[list[Correction], Field(min_length=1), _EACH_ONCE] = Field(
        default_factory=lambda: list[Correction]([PLAIN, "forward"])
    )
    """Corrections of the verifier's loss. `pointwise` is cross-entropy on single solutions without a correction; those
    without this prefix are for Bradley-Terry. `exact`, `pointwise_forward` and `pointwise_backward` use `data.pairs:
    all`, and so does `pointwise_all`, the cross-entropy without a correction that the last two are to be compared
    with."""
