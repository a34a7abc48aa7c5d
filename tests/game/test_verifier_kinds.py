"""Every layer knows every kind of verifier."""

from typing import get_args, get_type_hints

import pytest

from pvg_hf.check.verifier_settings import VERIFIER_CHECKS
from pvg_hf.check.verifiers import VERIFIER_COSTS
from pvg_hf.config.player_sections import VERIFIER_TRAITS, VerifierConfig
from pvg_hf.game.verifier_kinds import KINDS
from pvg_hf.hub.cards.player import VERIFIER_CARDS


@pytest.mark.parametrize(
    "table",
    [VERIFIER_TRAITS, VERIFIER_COSTS, VERIFIER_CHECKS, KINDS, VERIFIER_CARDS],
    ids=["traits", "costs", "checks", "kinds", "cards"],
)
def test_each_table_has_every_kind(table):
    assert sorted(table) == sorted(get_args(get_type_hints(VerifierConfig)["kind"]))
