"""An order of training rows in which every batch holds as many of each environment."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from pvg_hf.seeding import derive_rng


def environments_per_batch(num_environments: int, batch_size: int) -> int:
    """The most environments that a batch can hold equally many rows of: a divisor of its size."""
    return max(number for number in range(1, num_environments + 1) if batch_size % number == 0)


def check_batch(num_environments: int, batch_size: int, *, is_balanced: bool, crowded: str) -> None:
    """
    Args:
        num_environments (`int`):
            Of the training set.
        batch_size (`int`):
            Pairs of a batch over all processes.
        is_balanced (`bool`):
            Whether every batch is to hold as many pairs of each environment.
        crowded (`str`):
            `"refuse"` or `"cycle"`: what to do with environments that a batch cannot hold so.

    Raises:
        ValueError: if a batch cannot hold them, and is not to cycle through them, or cannot hold two of them.
    """
    num_held = environments_per_batch(num_environments, batch_size) if is_balanced else batch_size
    where = f"A batch of {batch_size} pairs, over all processes,"
    if is_balanced and num_held == 1 < num_environments:
        raise ValueError(
            f"{where} cannot hold as many pairs of one of {num_environments} environments as of another: take an even "
            "batch size."
        )
    if num_held < num_environments and crowded == "refuse":
        evenly = " evenly" if is_balanced else ""
        raise ValueError(
            f"{where} cannot hold {num_environments} environments{evenly}. Take a multiple of {num_environments} pairs, or "
            "let batches go through the environments in turn (`cycle`)."
        )


class BalancedSampler(Sampler[int]):
    """
    Rows in an order in which each block of `batch_size` holds equally many rows of each environment; where they are too
    many for that, of as many of them as divide the block, in turn. An epoch has as many batches as the rows give; the
    rows of a small environment come several times in it, all of them once before any comes again.

    Args:
        environments (`Sequence[str]`):
            Of each row.
        batch_size (`int`):
            Of a batch over all processes.
        seed (`int`):
            Of the order; an epoch has a draw of its own.
    """

    def __init__(self, environments: Sequence[str], batch_size: int, *, seed: int):
        names, numbers = np.unique(np.asarray(environments, dtype=object).astype(str), return_inverse=True)
        self.members = [np.flatnonzero(numbers == number) for number in range(len(names))]
        self.batch_size = batch_size
        self.num_batches = -(-len(numbers) // batch_size)
        self.num_held = environments_per_batch(len(names), batch_size)
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the dataloader before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_batches * self.batch_size

    def __iter__(self) -> Iterator[int]:
        streams = [self._stream(number) for number in range(len(self.members))]
        for batch in range(self.num_batches):
            held = [(batch * self.num_held + place) % len(streams) for place in range(self.num_held)]
            for _ in range(self.batch_size // self.num_held):
                yield from (next(streams[number]) for number in held)

    def _stream(self, number: int) -> Iterator[int]:
        """The rows of an environment without end, in a new order each time round."""
        rng = derive_rng(self.seed, "balanced", self.epoch, number)
        while True:
            yield from rng.permutation(self.members[number]).tolist()
