"""The contract of a decision world, and the registry of worlds by name."""

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pvg_hf.core.extensions import load_extension, show_value, suggest
from pvg_hf.tasks.base import Split

WORLDS = {
    "linear_f2": "pvg_hf.experimental.messages.decisions.linear_systems:LinearSystems",
    "erasure": "pvg_hf.experimental.messages.decisions.erasure_channel:ErasureChannel",
    "snli": "pvg_hf.experimental.messages.decisions.text_pairs:Snli",
    "fever": "pvg_hf.experimental.messages.decisions.text_pairs:Fever",
    "stand_in": "pvg_hf.experimental.messages.decisions.text_pairs:StandIn",
}
"""Import path of each registered world; a world is imported when it is first used."""


@dataclass(frozen=True)
class DecisionProblems:
    """
    Decision problems of one split, as columns.

    Args:
        labels (`np.ndarray` of shape `(num_problems,)`): True answers, 1 for yes and 0 for no.
        inputs (`np.ndarray` of shape `(num_problems, num_inputs)`, *optional*):
            What the verifier sees, float32; `None` for texts.
        prover_inputs (`np.ndarray` of shape `(num_problems, num_prover_inputs)`, *optional*):
            What the prover sees, if it differs.
        texts (`list[tuple[str, str]]`, *optional*):
            Pairs of texts, such as premise and hypothesis, in place of `inputs`.
        witness (`np.ndarray` of shape `(num_problems, message_width)`, *optional*):
            The most convincing argument for yes, in {-1, 1}; for a problem with answer yes it is a proof.
    """

    labels: np.ndarray
    inputs: np.ndarray | None = None
    prover_inputs: np.ndarray | None = None
    texts: list[tuple[str, str]] | None = None
    witness: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.labels)


class DecisionWorld(ABC):
    """
    Base class of decision worlds. A recipe names one by a key of `WORLDS`, or a subclass as `package.module:Name`.

    Class attributes:
        name (`str`): The world's name in recipes.
        has_texts (`bool`): Whether problems are pairs of texts, which need transformer players.
    """

    name: ClassVar[str]
    has_texts: ClassVar[bool] = False

    @abstractmethod
    def problems(self, split: Split, *, with_witness: bool = False) -> DecisionProblems:
        """
        Return the problems of a split.

        Args:
            split (`str`): `train` or `test`.
            with_witness (`bool`, *optional*, defaults to `False`): Whether to compute witnesses.

        Raises:
            ValueError: for another split, or if the world has no witnesses and they are asked for.
        """

    @property
    def default_message_width(self) -> int:
        """Number of entries of a message that can carry a witness; 16 if the world has none."""
        return 16


def load_world(name: str, **options: Any) -> DecisionWorld:
    """
    Construct a world from its name and options.

    Args:
        name (`str`): A key of `WORLDS`, or `package.module:Name`.
        **options:
            Arguments of the class.

    Raises:
        ValueError: for an unknown name, a class that is not a world, or an unknown option.
    """
    if ":" not in name and name not in WORLDS:
        raise ValueError(
            f"Unknown world `{name}`. {suggest(name, WORLDS)} Name a custom world as `package.module:Name`."
        )
    world_class = load_extension(WORLDS.get(name, name), "world")
    if not (inspect.isclass(world_class) and issubclass(world_class, DecisionWorld)):
        raise ValueError(f"Cannot load the world `{name}`: it must be a subclass of `DecisionWorld`.")
    known = inspect.signature(world_class).parameters
    for option in options:
        if option not in known:
            raise ValueError(f"Unknown option `{option}` of world `{name}`. {suggest(option, known)}")
    return world_class(**options)


def check_count(name: str, number: object, least: int = 1, most: int = 10**7) -> None:
    """Check an option that counts something. Raises `ValueError` unless it is a whole number in [`least`, `most`]."""
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"`{name}` must be a whole number from {least:,} to {most:,}; got {show_value(number)}.")
