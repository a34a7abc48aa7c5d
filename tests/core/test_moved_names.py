"""Old import paths of what is experimental."""

import sys
from importlib import import_module

import pytest

import pvg_hf
from pvg_hf.core.moved_names import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_gives_the_same_objects_and_warns(old, monkeypatch):
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{old}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.warns(DeprecationWarning, match=MOVED[old]):
        before = import_module(old)
    now = import_module(MOVED[old])
    public = [name for name in vars(now) if not name.startswith("_")]
    assert [name for name in public if vars(before)[name] is not vars(now)[name]] == []


def test_modules_within_follow():
    with pytest.warns(DeprecationWarning, match="mlp_players"):
        from pvg_hf.messages.mlp_players import MessageMLPProver
    from pvg_hf.experimental.messages.mlp_players import MessageMLPProver as Now

    assert MessageMLPProver is Now


@pytest.mark.parametrize("name", ["pvg_hf.no_such_part", "pvg_hf.study.no_such_part"])
def test_a_path_that_never_was_is_not_found(name):
    with pytest.raises(ModuleNotFoundError, match="no_such_part"):
        import_module(name)
    assert pvg_hf.__all__
