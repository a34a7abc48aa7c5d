"""Each kind of verifier is one class, which has all that pvg_hf asks of a kind."""

import inspect
from typing import get_args, get_type_hints

import pytest

from pvg_hf.config.player_sections import VERIFIER_KINDS, VerifierConfig
from pvg_hf.game.phases.verifier import VerifierKind

ASKED = [name for name, _ in inspect.getmembers(VerifierKind, inspect.isfunction) if not name.startswith("_")]


def test_every_value_of_the_recipe_is_registered():
    assert sorted(VERIFIER_KINDS) == sorted(get_args(get_type_hints(VerifierConfig)["kind"]))


@pytest.mark.parametrize("kind", VERIFIER_KINDS)
def test_a_kind_has_a_class_with_all_that_is_asked_of_it(kind):
    made = VerifierConfig(kind=kind).implementation()
    assert {"train", "open", "training_tokens", "check_trainer", "can_continue"} < set(ASKED)
    for name in ASKED:
        asked, given = (inspect.signature(getattr(place, name)) for place in (VerifierKind, type(made)))
        assert list(given.parameters) == list(asked.parameters)


@pytest.mark.parametrize("kind", VERIFIER_KINDS)
def test_a_kinds_card_exists(kind):
    from pvg_hf.hub.cards import player

    assert (player.Path(player.__file__).with_name(VERIFIER_KINDS[kind].card)).exists()
