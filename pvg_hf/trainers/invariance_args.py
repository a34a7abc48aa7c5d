"""The arguments of invariance over environments, which the verifier's trainer takes among its own."""

from dataclasses import dataclass, field

from pvg_hf.suggestions import suggest
from pvg_hf.trainers.invariance import DEFAULT_WEIGHTS, IRM_FORMS, Method, load_regulariser, read_method

CROWDING = ("refuse", "cycle")


@dataclass
class InvarianceArguments:
    """
    Part of [`NoisyRewardConfig`].

    Args:
        invariance (`str`, defaults to `"none"`):
            `"none"`, `"balanced"` (every batch holds as many pairs of each environment), `"vrex"`, `"irmv1"`,
            `"balanced+vrex"`, `"balanced+irmv1"`, or a [`~pvg_hf.trainers.invariance.Regulariser`] of your own as
            `package.module:Name` or `balanced+package.module:Name`.
        environment_column (`str`, defaults to `"environment"`):
            The column of the training set that names each pair's environment.
        invariance_weight (`float`, *optional*):
            Weight of the penalty, at least 0; 10 for V-REx, 100 for IRMv1 (both DomainBed's) and 1 for your own by
            default. Where it is above 1 the whole loss is divided by it.
        invariance_warmup_steps (`int`, *optional*):
            Steps before the penalty is switched on, where the optimiser's moments are reset; a tenth of all steps by
            default.
        irm_form (`str`, defaults to `"plain"`):
            `"plain"` or `"two_halves"`, the unbiased one, of IRMv1.
        crowded_environments (`str`, defaults to `"cycle"`):
            What to do where a batch, over all processes, cannot hold equally many pairs of all environments: `"cycle"`
            through them, each batch holding as many of them as divide it, or `"refuse"`.
    """

    invariance: str = field(default="none", metadata={"help": "Invariance over environments, e.g. `balanced+irmv1`."})
    environment_column: str = field(default="environment", metadata={"help": "Column that names the environment."})
    invariance_weight: float | None = field(default=None, metadata={"help": "Weight of the invariance penalty."})
    invariance_warmup_steps: int | None = field(
        default=None, metadata={"help": "Steps before the penalty is on; a tenth of all by default."}
    )
    irm_form: str = field(default="plain", metadata={"help": "IRMv1 `plain`, or by `two_halves`."})
    crowded_environments: str = field(
        default="cycle", metadata={"help": "`cycle` through environments that no batch can hold, or `refuse`."}
    )

    @property
    def invariance_method(self) -> Method:
        """What `invariance` names."""
        return read_method(self.invariance)

    @property
    def penalty_weight(self) -> float:
        """Weight of the penalty once it is on; 0 without one."""
        penalty = self.invariance_method.penalty
        if penalty is None:
            return 0.0
        return DEFAULT_WEIGHTS.get(penalty, 1.0) if self.invariance_weight is None else self.invariance_weight

    def penalty_start(self, max_steps: int) -> int:
        """The step, of `max_steps` in all, before which the penalty is off."""
        return -(-max_steps // 10) if self.invariance_warmup_steps is None else self.invariance_warmup_steps

    def check_invariance(self) -> None:
        """
        Raises:
            ValueError: for a setting outside its range.
        """
        penalty = self.invariance_method.penalty
        if penalty is not None:
            load_regulariser(penalty)
        for name, known in (("irm_form", IRM_FORMS), ("crowded_environments", CROWDING)):
            if vars(self)[name] not in known:
                raise ValueError(f"`{name}` is `{vars(self)[name]}`. {suggest(str(vars(self)[name]), known)}")
        for name in ("invariance_weight", "invariance_warmup_steps"):
            value = vars(self)[name]
            if value is not None and not value >= 0:
                raise ValueError(f"`{name}` is {value}; it must be at least 0.")
