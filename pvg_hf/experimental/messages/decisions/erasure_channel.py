"""
The binary erasure channel as a decision world: is the sent bit 1? Its best verifiers are known in closed form.

A bit, followed by `num_padding` uniform bits, is encoded by a linear code over F_2, and each symbol is erased with
probability p. The verifier sees the received word, the prover sees the bits, and the prover always claims that the
first bit is 1.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from pvg_hf.core.extensions import show_value, suggest
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.messages.decisions.decision_world import DecisionProblems, DecisionWorld, check_count
from pvg_hf.experimental.messages.decisions.linear_systems import eliminate, signs, unpack_bits
from pvg_hf.tasks.base import Split, check_split

Code = Literal["repetition", "linear"]

_MAX_LENGTH = 16  # closed forms add up all 2^n erasure patterns


class ErasureChannel(DecisionWorld):
    """
    Decides whether the first of the encoded bits is 1, from a word with erasures.

    Args:
        length: Length n of the code, at most 16.
        erasure_prob: P(a symbol is erased), in [0, 1).
        code: `repetition` repeats the bit; `linear` draws a generator matrix of full rank.
        num_padding: Bits after the first, for the linear code only; there it must be at least 1 and below `length`.
        num_train: Number of training problems.
        num_test: Number of test problems.
        seed: Seed of the code and of the problems.
    Attributes:
        generator: shape `(1 + num_padding,)`. Rows of the generator matrix, packed: bit i of row j is the coefficient
            of bit j in symbol i.
    Raises `ValueError` for a setting outside its range.
    """

    name: ClassVar = "erasure"

    def __init__(
        self,
        length: int = 4,
        erasure_prob: float = 0.5,
        code: str = "repetition",
        num_padding: int = 0,
        num_train: int = 10_000,
        num_test: int = 1_000,
        seed: int = 0,
    ):
        check_count("length", length, most=_MAX_LENGTH)
        if not 0 <= erasure_prob < 1:
            raise ValueError(f"`erasure_prob` must lie in [0, 1); got {show_value(erasure_prob)}.")
        if code not in get_args(Code):
            raise ValueError(f"Unknown code `{code}`. {suggest(str(code), get_args(Code))}")
        check_count("num_train", num_train)
        check_count("num_test", num_test)
        check_count("num_padding", num_padding, least=0)
        if (code == "linear") != (0 < num_padding < length):
            raise ValueError(
                f"`num_padding` is {num_padding}; the repetition code has none, and the linear code at least 1 and"
                f" fewer than `length`, which is {length}."
            )
        self.length = length
        self.erasure_prob = erasure_prob
        self.code = code
        self.num_padding = num_padding
        self.num_problems = {"train": num_train, "test": num_test}
        self.seed = seed
        self.generator = self._draw_generator()

    @property
    def default_message_width(self) -> int:
        return self.length

    def problems(self, split: Split, *, with_witness: bool = False) -> DecisionProblems:
        """
        Return the problems of a split.

        `inputs` holds the received word: 1 and -1 for the symbols 1 and 0, and 0 for an erasure. `prover_inputs` holds
        the bits as signs. The witness is the claimed codeword: of all codewords whose first bit is 1, the closest to
        the sent one.
        """
        check_split(split)
        rng = derive_rng(self.seed, self.name, self.length, self.erasure_prob, self.code, self.num_padding, split)
        number = self.num_problems[split]
        bits = rng.integers(0, 1 << (1 + self.num_padding), number, dtype=np.uint64)
        labels = (rng.permutation(number) < round(number / 2)).astype(np.int64)
        bits = bits >> np.uint64(1) << np.uint64(1) | labels.astype(np.uint64)
        sent = self.encode(bits)
        is_erased = rng.random((number, self.length)) < self.erasure_prob
        words = np.where(is_erased, np.float32(0), signs(unpack_bits(sent, self.length)))
        witness = None
        if with_witness:
            claimed = np.where(labels == 1, sent, sent ^ self.closest_lie)
            witness = signs(unpack_bits(claimed, self.length))
        shown = signs(unpack_bits(bits, 1 + self.num_padding))
        return DecisionProblems(labels, words, shown, witness=witness)

    def encode(self, bits: np.ndarray) -> np.ndarray:
        """Return the codewords of packed bits, packed: bit i is symbol i."""
        words = np.zeros(len(bits), dtype=np.uint64)
        for index, row in enumerate(self.generator):
            words ^= np.where(bits >> np.uint64(index) & np.uint64(1), row, np.uint64(0))
        return words

    @property
    def closest_lie(self) -> np.uint64:
        """
        Return a codeword of least weight among those whose first bit is 1: the difference between a word and the
        nearest lie.
        """
        odd = np.arange(1, 1 << (1 + self.num_padding), 2, dtype=np.uint64)  # the first bit is 1
        words = self.encode(odd)
        return words[np.bitwise_count(words).argmin()]

    def _draw_generator(self) -> np.ndarray:
        if self.code == "repetition":
            return np.array([(1 << self.length) - 1], dtype=np.uint64)
        rng = derive_rng(self.seed, self.name, "generator", self.length, self.num_padding)
        while True:
            rows = rng.integers(1, 1 << self.length, 1 + self.num_padding, dtype=np.uint64)
            if eliminate(rows[None], self.length)[1][0] == len(rows):
                return rows


@dataclass(frozen=True)
class ChannelOptimum:
    """
    Best verifiers of an erasure channel, on balanced labels that flip with a rate epsilon.

    Args:
        soundness: P(rejected | no) of the best verifier that accepts unless the word contradicts the claim, and sees
            no message: the probability that the unerased symbols determine the first bit. For the repetition code, 1 -
            p^n. Its completeness is 1.
        soundness_checking: The same for a verifier that checks a claimed codeword against the word, while the prover
            claims the closest lie: 1 - p^d, where d is the least weight of a codeword whose first bit is 1.
        noisy_loss: Least cross-entropy on noisy labels, in nats, without messages.
        clean_loss: Cross-entropy of that verifier on clean labels.
        clean_loss_checking: Cross-entropy on clean labels of the best verifier of noisy labels that only checks the
            claim.
    """

    soundness: float
    soundness_checking: float
    noisy_loss: float
    clean_loss: float
    clean_loss_checking: float


def solve_channel(channel: ErasureChannel, epsilon: float = 0.0) -> ChannelOptimum:
    """
    Compute the closed forms of a channel.

    With D the probability that the first bit is determined, the best probability of a noisy label 1 is 1 - epsilon,
    epsilon or, if the bit is undetermined, 1/2. Its loss is D H(epsilon) + (1 - D) log 2 on noisy labels, with H the
    binary entropy, and -D log(1 - epsilon) + (1 - D) log 2 on clean ones. Decisions do not depend on epsilon.

    A verifier that checks a claim sees a contradiction with probability (1 - q) / 2, for q = p^d, and predicts
    epsilon; otherwise it predicts (1 - 2 epsilon) / (1 + q) + epsilon.

    Args:
        epsilon: P(a label flips), in [0, .5).
    Raises `ValueError` if `epsilon` is outside its range.
    """
    if not 0 <= epsilon < 0.5:
        raise ValueError(f"`epsilon` is {epsilon}; it must lie in [0, 0.5).")
    determined = determined_prob(channel)
    distance = int(np.bitwise_count(channel.closest_lie))
    flipped = -epsilon * math.log(epsilon) if epsilon else 0.0
    kept = -math.log(1 - epsilon)
    undetermined = (1 - determined) * math.log(2)
    fooled = channel.erasure_prob**distance
    prob = (1 - 2 * epsilon) / (1 + fooled) + epsilon  # of yes, if nothing contradicts the claim
    consistent = -math.log(prob) / 2 - (fooled / 2 * math.log(1 - prob) if fooled else 0.0)
    return ChannelOptimum(
        soundness=determined,
        soundness_checking=1 - fooled,
        noisy_loss=determined * (flipped + (1 - epsilon) * kept) + undetermined,
        clean_loss=determined * kept + undetermined,
        clean_loss_checking=(1 - fooled) / 2 * kept + consistent,
    )


def determined_prob(channel: ErasureChannel) -> float:
    """
    Return the probability that the unerased symbols determine the first bit, over all erasure patterns.

    The first bit is determined exactly if adding it as a further symbol does not raise the rank of the unerased
    columns.
    """
    patterns = np.arange(1 << channel.length, dtype=np.uint64)  # bit i: symbol i is unerased
    kept = channel.generator[None, :] & patterns[:, None]  # (2^n, 1 + num_padding)
    extended = kept.copy()
    extended[:, 0] |= np.uint64(1 << channel.length)  # the first bit as a symbol that is never erased
    rank, with_bit = eliminate(kept, channel.length)[1], eliminate(extended, channel.length + 1)[1]
    num_kept = np.bitwise_count(patterns).astype(int)
    p = channel.erasure_prob
    probs = (1 - p) ** num_kept * p ** (channel.length - num_kept)
    return float(probs[rank == with_bit].sum())
