"""The recipe of the message game: world, players, training, noise, judging, and the noise sweep."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, field_validator, model_validator

from pvg_hf.config import fields as f
from pvg_hf.config.load import RecipeError, list_mistakes_of, parse_override, read_yaml, refuse
from pvg_hf.config.noise_section import RateSchedule, Resample, check_rates
from pvg_hf.config.sections import Tracker
from pvg_hf.config.trust import origin_of
from pvg_hf.core.commands import pvg_command

PlayerKind = Literal["mlp", "transformer", "checking"]
MessageForm = Literal["continuous", "discrete"]
MessageSource = Literal["prover", "none", "witness"]
LeaderGradient = Literal["alternating", "unrolled"]
Dynamics = Literal["stackelberg", "simultaneous"]
ScoreCorrection = Literal["none", "forward", "backward"]
CheckStart = Literal["random", "parity"]

SYMMETRIC_LIMIT = 0.5

_ONLY_OF = {
    "hidden_size": ("mlp",),
    "num_layers": ("mlp",),
    "dropout": ("mlp", "transformer"),
    "num_checks": ("checking",),
    "start": ("checking",),
    "model": ("transformer",),
    "encoder": ("transformer",),
    "freeze_encoder": ("transformer",),
}
# Keys on which the others of a section depend, with their defaults.
_DECIDING = {"prover": ("kind", "mlp"), "verifier": ("kind", "mlp"), "world": ("name", "linear_f2")}
_OF_DISCRETE = ("num_symbols", "temperature")


def _check_steps(value: int | str) -> int | str:
    if isinstance(value, int) and value < 1:
        raise ValueError("must be at least 1, or `best_response`")
    return value


@f.section
class WorldConfig:
    """The decision problems."""

    name: str = Field(
        "linear_f2",
        description="`linear_f2`, `erasure`, `snli`, `fever`, `stand_in` (generated texts), or a custom world as "
        "`package.module:Name`.",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Arguments of the world's class.")


@f.section
class MessageConfig:
    """The messages."""

    form: MessageForm = Field(
        "continuous",
        description="`continuous`: in (-1, 1), by tanh. `discrete`: symbols, by the straight-through Gumbel trick.",
    )
    width: f.Count | None = Field(
        None, description="Entries of a message; by default as many as a witness has, or 16."
    )
    num_symbols: f.AtLeastTwo | None = Field(None, description="For `discrete`: symbols per entry; 2 by default.")
    temperature: f.Temperature | None = Field(
        None, description="For `discrete`: temperature of the Gumbel softmax; 1 by default."
    )

    @model_validator(mode="after")
    def _check(self) -> "MessageConfig":
        unused = [name for name in _OF_DISCRETE if vars(self)[name] is not None and self.form != "discrete"]
        if unused:
            raise ValueError(f"messages of the form `{self.form}` do not use `{'`, `'.join(unused)}`; remove it")
        return self


@f.section
class MessagePlayer:
    """Settings that a prover and a verifier share. A key that the player's kind does not use is an error."""

    kind: PlayerKind = Field("mlp", description="`mlp`, `transformer` (for texts), or `checking` (verifiers only).")
    hidden_size: f.Count | None = Field(None, description="For `mlp`: width of the hidden layers; 128 by default.")
    num_layers: f.Count | None = Field(None, description="For `mlp`: number of hidden layers; 2 by default.")
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        None, description="For `mlp`: after each hidden layer; for `transformer`: before the head. 0 by default."
    )
    model: f.FilePath | None = Field(
        None, description="For `transformer`: Hub id or folder of an encoder; distilbert-base-uncased by default."
    )
    encoder: dict[str, Any] | None = Field(
        None,
        description="For `transformer`: configuration (`model_type`, sizes) of a new encoder, instead of `model`.",
    )
    freeze_encoder: bool | None = Field(None, description="For `transformer`: train only the head; false by default.")

    @model_validator(mode="after")
    def _check_kind(self) -> "MessagePlayer":
        unused = [
            name
            for name, kinds in _ONLY_OF.items()
            if name in {field.name for field in fields(self)}
            and vars(self)[name] is not None
            and self.kind not in kinds
        ]
        if unused:
            raise ValueError(f"a player of kind `{self.kind}` does not use `{'`, `'.join(unused)}`; remove it")
        if self.model is not None and self.encoder is not None:
            raise ValueError("give either `model` or `encoder`, not both")
        return self

    def stated(self, *names: str) -> dict[str, Any]:
        """Return those of the named keys that have a value."""
        return {name: vars(self)[name] for name in names if vars(self)[name] is not None}


@f.section
class MessageProver(MessagePlayer):
    """The prover, which sends a message about a problem and always argues for yes."""

    @field_validator("kind")
    @classmethod
    def _check_prover(cls, kind: str) -> str:
        if kind == "checking":
            raise ValueError("`checking` is a verifier; a prover is `mlp` or `transformer`")
        return kind


@f.section
class MessageVerifier(MessagePlayer):
    """The verifier, which sees problem and message and decides."""

    num_logits: Literal[1, 2] = Field(1, description="Logits of the head: one for yes, or one for each answer.")
    num_checks: f.Count | None = Field(
        None, description="For `checking`: products of problem and message; 32 by default."
    )
    start: CheckStart | None = Field(
        None,
        description=(
            "For `checking`: `random` by default; `parity` starts at the function that checks the equations of"
            " `linear_f2`."
        ),
    )

    @model_validator(mode="after")
    def _check_start(self) -> "MessageVerifier":
        if self.start == "parity" and self.num_checks is not None:
            raise ValueError("with `start: parity` there is one check per equation; remove `num_checks`")
        return self


@f.section
class StackelbergSection:
    """The training: who moves when, and how."""

    num_rounds: f.Count = Field(100, description="Rounds; in each, the prover and then the verifier takes its steps.")
    prover_steps: Annotated[f.Count | Literal["best_response"], AfterValidator(_check_steps)] = Field(
        10, description="Steps of the prover per round, or `best_response`: until its loss stops falling."
    )
    max_prover_steps: f.Count = Field(100, description="With `best_response`: maximum number of steps per round.")
    response_patience: f.AtLeastTwo = Field(
        10,
        description=(
            "With `best_response`: stop when the mean loss of this many steps is not below that of the steps before."
        ),
    )
    verifier_steps: f.Count = Field(5, description="Steps of the verifier per round.")
    dynamics: Dynamics = Field(
        "stackelberg", description="`stackelberg`: the players take turns. `simultaneous`: each step updates both."
    )
    leader_gradient: LeaderGradient = Field(
        "alternating",
        description=(
            "`alternating`: the verifier's gradient at fixed messages. `unrolled`: also through the prover's last"
            " steps."
        ),
    )
    unroll_steps: f.Count = Field(5, description="With `unrolled`: number of the prover's last steps.")
    batch_size: f.BatchSize = Field(64, description="Problems per step and process.")
    learning_rate: f.LearningRateOrZero = Field(1e-4, description="The verifier's, and the prover's by default.")
    prover_learning_rate: f.LearningRateOrZero | None = Field(None, description="The prover's, if it differs.")
    weight_decay: f.Weight = Field(0.01, description="The verifier's, and the prover's by default.")
    prover_weight_decay: f.Weight | None = Field(None, description="The prover's, if it differs.")
    max_grad_norm: f.NonNegative = Field(
        1.0, description="The verifier's gradients are clipped to this norm; 0 for no limit."
    )
    prover_max_grad_norm: f.NonNegative | None = Field(None, description="The prover's, if it differs.")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="Schedule of the learning rate, over the steps of each player."
    )
    prover_schedule: Literal["constant", "linear", "cosine"] | None = Field(
        None, description="The prover's, if it differs."
    )
    entropy_bonus: f.Weight = Field(
        0.0,
        description="Weight of the entropy of the messages in the prover's loss, against messages that are all alike.",
    )
    correction: ScoreCorrection = Field("none", description="Correction of the verifier's loss for flipped labels.")
    center: f.Weight = Field(0.0, description="Weight of the mean squared score; `backward` needs a value above 0.")


@f.section
class LabelNoise:
    """Noise of the labels that the verifier is trained on. Evaluation and judging use clean labels."""

    epsilon: Annotated[float, Field(ge=0, lt=SYMMETRIC_LIMIT)] | None = Field(
        None, description="A symmetric rate: `rho0 = rho1 = epsilon`."
    )
    rho0: f.FlipRate = Field(0.0, description="P(label 1 | truth 0).")
    rho1: f.FlipRate = Field(0.0, description="P(label 0 | truth 1); `rho0 + rho1` must stay below 1.")
    resample: Resample = Field("fixed", description="Draw once per problem (`fixed`), per `epoch`, or per `step`.")
    schedule: RateSchedule | None = Field(
        None, description="Schedule of the rates over the rounds; constant without it."
    )

    @model_validator(mode="after")
    def _check(self) -> "LabelNoise":
        if self.epsilon is not None:  # as in `NoiseConfig`; the values are validated again after `to_dict`
            if (self.rho0, self.rho1) not in ((0, 0), (self.epsilon, self.epsilon)):
                raise ValueError("give either `epsilon` or `rho0` and `rho1`, not both")
            self.rho0 = self.rho1 = self.epsilon
        check_rates(self.rho0, self.rho1)
        if self.schedule is not None and self.schedule.over != "rounds":
            raise ValueError("the schedule of the message game is `over: rounds`")
        return self


@f.section
class JudgingConfig:
    """Judging of a trained game, on test problems."""

    accept_at: f.ProperShare = Field(
        0.5,
        description=(
            "Probability of yes at which the verifier accepts, on the scale of clean labels. Below .5, undecided cases"
            " are accepted."
        ),
    )
    fresh_prover_steps: f.CountOrZero = Field(
        500, description="Steps of a new prover against the final verifier; 0: none."
    )
    attack_steps: f.CountOrZero = Field(100, description="Steps of the direct optimisation of each message; 0: none.")
    attack_restarts: f.Count = Field(
        4, description="Random starts of that optimisation, in addition to the prover's message."
    )
    attack_problems: f.Count = Field(500, description="Test problems with the answer no that are attacked.")
    coverages: list[f.ProperShare] = Field(
        default_factory=lambda: [0.1, 0.25, 0.5], description="Shares of problems for precision at coverage."
    )


@f.section
class EquilibriumConfig:
    """Settings that `pvg sweep` varies; a single game ignores this section."""

    levels: Annotated[list[Annotated[float, Field(ge=0, lt=SYMMETRIC_LIMIT)]], Field(min_length=1)] = Field(
        default_factory=lambda: [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45],
        description="Rates epsilon of flipped labels. The clean game is always played.",
    )
    seeds: Annotated[list[f.Seed], Field(min_length=1)] = Field(
        default_factory=lambda: [42, 123, 456], description="Replaces the recipe's `seed`."
    )
    vectorized: bool = Field(True, description="Train all seeds of a level together.")


@f.section
class MessageRecipe:
    """The recipe of a message game. A file only states what differs from these defaults."""

    name: f.RunName = Field("messages", description="Name of the run and of its folder.")
    seed: f.Seed = Field(0, description="Seed that every random draw derives from.")
    output_dir: f.FilePath = Field("runs", description="Folder in which the run's folder is created.")
    device: str = Field(
        "auto", pattern=r"^(auto|cpu|cuda)$", description="`cpu`, `cuda`, or `auto`: a GPU if there is one."
    )
    controls: list[Literal["none", "witness"]] = Field(
        default_factory=lambda: ["none"],
        description="Further games for comparison: without messages, and with the true witness as the message.",
    )
    max_length: f.Count = Field(128, description="Maximum tokens of a pair of texts.")
    save_steps: f.CountOrZero = Field(500, description="Steps between checkpoints; 0: none.")
    report_to: list[Tracker] = Field(
        default_factory=list, description="Trackers to report to. TensorBoard's files are in each game's folder."
    )
    world: WorldConfig = Field(default_factory=WorldConfig)
    messages: MessageConfig = Field(default_factory=MessageConfig)
    prover: MessageProver = Field(default_factory=MessageProver)
    verifier: MessageVerifier = Field(default_factory=MessageVerifier)
    training: StackelbergSection = Field(default_factory=StackelbergSection)
    noise: LabelNoise = Field(default_factory=LabelNoise)
    judging: JudgingConfig = Field(default_factory=JudgingConfig)
    equilibrium: EquilibriumConfig = Field(default_factory=EquilibriumConfig)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for YAML; `load_message_recipe` reads them back to an equal recipe."""
        return MESSAGE_ADAPTER.dump_python(self, mode="json")


MESSAGE_ADAPTER: TypeAdapter[MessageRecipe] = TypeAdapter(MessageRecipe)


def load_message_recipe(source: str | Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> MessageRecipe:
    """
    Load a recipe of the message game.

    Args:
        source: A YAML file, or its contents.
        overrides: `section.key=value`, with the value in YAML; later ones win. Another kind of player, or another
            world, replaces its whole section.
    Raises `RecipeError` listing every unknown key (with the closest known one), wrong type and value out of range; or
        if it is the recipe of a game with rounds of solutions.
    """
    values = dict(source) if isinstance(source, Mapping) else read_yaml(Path(source))
    if not isinstance(source, Mapping) and (pulled := origin_of(Path(source))) is not None:
        raise RecipeError(
            f"{source} is in the pulled run {pulled}, and message games are never published. It is not used."
        )
    overrides = list(overrides)
    for override in overrides:
        values = _overridden(values, parse_override(override))
    if "task" in values:
        raise RecipeError(
            "This recipe has a `task`, so that it is not one of a message game: play it by "
            f"`{pvg_command('play', 'RECIPE' if isinstance(source, Mapping) else source, *overrides)}`."
        )
    refuse(list_mistakes_of(values, MessageRecipe))
    return MESSAGE_ADAPTER.validate_python(values)


def _overridden(values: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Return values with those of an override; a noise rate replaces rates in the other form."""
    merged = dict(values)
    for key, value in override.items():
        if key == "noise" and isinstance(value, dict) and isinstance(merged.get(key), dict):
            replaced = (
                {"epsilon"} if {"rho0", "rho1"} & value.keys() else {"rho0", "rho1"} if "epsilon" in value else set()
            )
            merged[key] = {name: rate for name, rate in merged[key].items() if name not in replaced}
        is_section = isinstance(value, dict) and value and isinstance(merged.get(key), dict)
        # Settings of another kind of player, or of another world, do not apply any more.
        name, default = _DECIDING.get(key, ("", ""))
        before = merged[key].get(name, default) if is_section else default
        is_section = is_section and value.get(name, before) == before
        merged[key] = _overridden(merged[key], value) if is_section else value
    return merged
