"""Values of Kirchner et al. 2024 (arXiv 2407.13692): read off their figures, or stated in words. Others are not known as numbers."""

from dataclasses import dataclass

READ_OFF = "read off the figure, which has no numbers; the error of reading is our estimate"


@dataclass(frozen=True)
class PublishedSeries:
    """
    A line of one of the paper's figures.

    Args:
        label (`str`):
            What it shows, with the paper's setting.
        xs (`tuple[float, ...]`), values (`tuple[float, ...]`):
            Places on the horizontal axis, and the values there.
        error (`float`):
            Uncertainty of reading, to either side.
        source (`str`):
            Where the values come from.
    """

    label: str
    xs: tuple[float, ...]
    values: tuple[float, ...]
    error: float
    source: str


@dataclass(frozen=True)
class PublishedRange:
    """
    Values of which only a range is known, for no round in particular.

    Args:
        label (`str`):
            What it shows, with the paper's setting.
        low (`float`), high (`float`):
            The range.
        source (`str`):
            Where it comes from.
    """

    label: str
    low: float
    high: float
    source: str


BEST_OF_600 = PublishedSeries(
    "paper, n about 600", (0, 1, 2, 3, 4), (0.23, 0.31, 0.34, 0.50, 0.52), 0.02, f"fig. 6b, {READ_OFF}"
)
EXPLOIT_STEPS = PublishedSeries(
    "paper, SRC, verifier of 1e-3 of the prover's compute",
    (0, 1, 2, 3, 4),
    (1800, 2800, 5500, 4000, 7500),
    500,
    f"fig. 6a, {READ_OFF}; trend only. With a verifier of 1e-2 nothing is found after round 0 within about 8,000 steps",
)
HELPFUL_ACCURACY = PublishedRange(
    "paper, helpful prover", 0.60, 0.63, "the legibility tax: about .60 to .63 of the game against .80 to .85"
)
CORRECTNESS_ONLY_ACCURACY = PublishedRange(
    "paper, correctness only", 0.80, 0.85, "of a prover for correctness only, both for no round in particular"
)
HUMAN_ACCURACY = PublishedSeries(
    "paper, people with 45 seconds",
    (0, 1, 2, 3, 4, 5),
    (0.76, 0.78, 0.81, 0.81, 0.77, 0.83),
    0.01,
    f"fig. 8b, 75 people and 15,983 judgments over all conditions, {READ_OFF}",
)
SEPARABILITY = PublishedSeries(
    "paper, SRC",
    (0, 4),
    (1.0, 0.5),
    0.1,
    "app. C and fig. S3, in words: from 1.0 towards .5 over the rounds; with CGC it stays high. The error is our estimate",
)
