"""The site's API reference reads docstrings in TRL's format."""

import pytest

pytest.importorskip("griffe", reason="the extra `docs` is not installed")

from tools.site.trl_docstrings import stated_defaults, to_google_style

DOCSTRING = """Return the [`~torch.Tensor`] of rates.

Args:
    model (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
        A verifier.
    scores (`torch.Tensor` of shape `(num_problems, num_solutions)`):
        Scores.
    options (`dict[str, Any]`, *optional*):
        Options.
    rho0, rho1 (`float`, defaults to 0.5):
        Rates.
    first (`int`), second (`str`, defaults to `"a"`):
        Two of different types.

Returns:
    `list[float]`: the rates.
"""

GOOGLE_STYLE = """Return the `Tensor` of rates.

Args:
    model (str | PreTrainedModel | PeftModel):
        A verifier.
    scores (torch.Tensor of shape (num_problems, num_solutions)):
        Scores.
    options (dict[str, Any]):
        Options.
    rho0 (float): See `rho1`.
    rho1 (float):
        Rates.
    first (int): See `second`.
    second (str):
        Two of different types.

Returns:
    list[float]: the rates.
"""


def test_a_docstring_becomes_google_style():
    assert to_google_style(DOCSTRING) == GOOGLE_STYLE


def test_defaults_of_arguments_that_are_described_together():
    assert stated_defaults(DOCSTRING) == {"rho0": "0.5", "rho1": "0.5", "second": '"a"'}
