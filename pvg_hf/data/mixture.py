"""The mixture of rounds that a verifier is trained on."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, get_args

from pvg_hf.config.sections import DataConfig
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.extensions import ExtensionError, cut_to_line, load_function, running, suggest

MixtureKind = Literal["equal_per_round", "latest", "exponential", "sliding", "custom"]
MIXTURE_KINDS: tuple[str, ...] = get_args(MixtureKind)


def mixture_weights(
    kind: MixtureKind | str,
    round_index: int,
    *,
    window: int | None = None,
    custom: Mapping[int, float] | str | None = None,
) -> dict[int, float]:
    """
    Return the weights of the sources that the verifier of a round is trained on.

    A source is a round: -1 is the base prover, and k is round k's helpful and sneaky solutions together.

    Args:
        kind (`str`):
            `"equal_per_round"` (Kirchner et al. 2024), `"latest"`, `"exponential"` (source i weighs twice source i -
            1; Kim & Lee 2026), `"sliding"` (the last `window` sources, equally), `"custom"`, or `package.module:Name`,
            which is short for `"custom"` with that function.
        round_index (`int`):
            Round k of the verifier, 0 or more. Its sources are -1 to k - 1.
        window (`int`, *optional*):
            Number of sources for `"sliding"`, at least 1.
        custom (`Mapping[int, float]` or `str`, *optional*):
            For `"custom"`: a weight for each source, of any sum. Sources that do not exist yet are ignored, and
            missing ones weigh 0. Or the name `package.module:Name` of a function of `round_index` that returns such a
            mapping.

    Returns:
        `dict[int, float]`: the weight of each source, including those of weight 0; they sum to 1.

    Raises:
        ValueError: for an unknown kind, an argument that is missing or belongs to another kind, and weights that are
            negative, not finite, all 0, or of unknown sources.
        ExtensionError: if a custom function raises an error or returns no mapping.
    """
    if ":" in kind and custom is None:
        kind, custom = "custom", kind
    _check_arguments(kind, round_index, {"sliding": ("window", window), "custom": ("custom", custom)})
    sources = range(BASE_ROUND, round_index)
    if custom is not None:
        return _normalised(_custom_weights(custom, round_index), sources)
    num_sources = 1 if kind == "latest" else window or len(sources)
    # Weights relative to the newest source: base**0 for it, base**-1 for the one before, and so on.
    base = 2.0 if kind == "exponential" else 1.0
    return _normalised({source: base ** (source - sources[-1]) for source in sources[-num_sources:]}, sources)


def weights_for(data: DataConfig, round_index: int) -> dict[int, float]:
    """Return the [`mixture_weights`] of a recipe's section `data`."""
    return mixture_weights(data.mixture, round_index, window=data.window, custom=data.weights)


def _check_arguments(kind: str, round_index: int, owned: Mapping[str, tuple[str, Any]]) -> None:
    if kind not in MIXTURE_KINDS:
        raise ValueError(
            f"Unknown mixture `{cut_to_line(kind)}`. {suggest(kind, MIXTURE_KINDS)} Name a custom function as "
            "`package.module:Name`."
        )
    if round_index < 0:
        raise ValueError(f"`round_index` must be 0 or more, the round of a verifier; got {round_index}.")
    for owner, (name, value) in owned.items():
        if (value is not None) != (kind == owner):
            verb = "needs" if kind == owner else "does not take"
            raise ValueError(f"The mixture `{kind}` {verb} `{name}`; got {value!r}.")
        if name == "window" and value is not None and value < 1:
            raise ValueError(f"`window` is a number of sources, at least 1; got {value}.")


def _custom_weights(custom: Mapping[int, float] | str, round_index: int) -> Mapping[int, float]:
    if isinstance(custom, str):
        function = load_function(custom, "mixture", "(round_index) -> {source: weight}")
        with running(f"The mixture `{custom}`, asked for round {round_index},"):
            weights = function(round_index)
        if not isinstance(weights, Mapping):
            raise ExtensionError(
                f"The mixture `{custom}` must return a mapping of sources to weights for round {round_index}; got "
                f"{weights!r:.80}."
            )
        return weights
    # One mapping serves all rounds of a recipe; weights of rounds that are yet to come are ignored.
    return {k: weight for k, weight in custom.items() if not (isinstance(k, int) and k >= round_index)}


def _normalised(weights: Mapping[int, float], sources: Sequence[int]) -> dict[int, float]:
    unknown = [source for source in weights if source not in sources]
    if unknown:
        raise ValueError(
            f"The mixture weighs the sources {unknown}, but this round's are {sources[0]} (base) to {sources[-1]}."
        )
    check_mixture_weights(weights)
    total = sum(weights.values())
    return {source: weights.get(source, 0.0) / total for source in sources}


def check_mixture_weights(weights: Mapping[int, float]) -> None:
    """
    Check the weights of a mixture.

    Raises `ValueError` if a weight is negative or not finite, or if none is positive.
    """
    bad = {source: weight for source, weight in weights.items() if not _is_weight(weight)}
    if bad:
        raise ValueError(f"The weights of a mixture must be finite numbers, 0 or more; got {bad}.")
    if not sum(weights.values()) > 0:
        raise ValueError(f"A mixture needs a source with a weight above 0; got {dict(weights)}.")


def _is_weight(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value) and not value < 0
