"""PPO's critics are published with their provers, pulled byte for byte, and can be loaded."""

import shutil
from pathlib import Path

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.core.disk_names import CRITIC_FOLDER
from pvg_hf.models.adapters import attach_adapter
from pvg_hf.models.sources import load_tokenizer, read_adapter
from pvg_hf.models.value_model import load_value_model
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import branch_off, forget_settings
from tests.support.loopback_hub import OWNER

PPO = {"prover__algorithm": "ppo", "prover__max_steps": 2, "prover__save_steps": None}
WHOLE = {**PPO, "prover__ppo": {"num_iterations": 2, "critic": "verifier"}}
ADAPTERS = {
    **PPO,
    "prover__ppo": {"num_iterations": 2},
    "prover__lora": {"r": 2},
    "prover__model": "arithmetic",
    "prover__roles": "separate",
    "watchdogs__max_truncated": 1.0,
}
TEXT = "Box 7?"
CASES = [
    pytest.param(WHOLE, ["", "best-helpful"], id="whole"),
    pytest.param(ADAPTERS, ["helpful", "helpful/best-helpful", "sneaky"], id="adapters", marks=pytest.mark.nightly),
]


@pytest.fixture
def play_round(reference, make_recipe, tmp_path):
    """Play the first prover phase with PPO, and copy the reference's pool and evaluation as the phases that follow."""

    def play_it(changes) -> RunFolder:
        folder = branch_off(reference, tmp_path / "here", "round-000/prover")
        play(load_recipe(make_recipe(tmp_path / "here", **changes)), phase="prover", round_index=0)
        for finished, mine in ((reference.pool(0), folder.pool(0)), (reference.evaluation(0), folder.evaluation(0))):
            shutil.copytree(finished, mine)
            forget_settings(mine)  # those of the reference
        return folder

    return play_it


def _values_of(critic: Path) -> list[float]:
    """Value of each token of `TEXT`, computed with the package."""
    if (critic / "adapter_config.json").exists():
        adapter = read_adapter(critic, "prover")
        model = attach_adapter(load_value_model(adapter.base_model_name_or_path), critic, adapter)
    else:
        model = load_value_model(critic)
    ids = load_tokenizer(critic)(TEXT, return_tensors="pt")["input_ids"]
    return model.eval()(input_ids=ids).logits.flatten().tolist()


@pytest.mark.game
@pytest.mark.parametrize(("changes", "checkpoints"), CASES)
def test_critics_make_the_round_trip(changes, checkpoints, hub, client, play_round, tmp_path):
    folder = play_round(changes)
    client("push", str(folder.root), 0)
    pulled = RunFolder(Path(client("pull", f"{OWNER}/game", 0, str(tmp_path / "there"))))
    places = sorted(path.relative_to(folder.prover(0)) for path in folder.prover(0).rglob(str(CRITIC_FOLDER)))
    assert places == sorted(Path(checkpoint) / CRITIC_FOLDER for checkpoint in checkpoints)
    for place in places:
        mine, theirs = folder.prover(0) / place, pulled.prover(0) / place
        written = {path.name for path in mine.iterdir()} - {"README.md"}  # PEFT's card, without information
        assert {path.name for path in theirs.iterdir()} == written
        assert [name for name in written if (mine / name).read_bytes() != (theirs / name).read_bytes()] == []
        # The best checkpoint may be the starting point, whose critic says 0 of everything.
        assert any(_values_of(theirs)) or "best-helpful" in place.parts

    card = client("card_of", f"{OWNER}/game-prover", "round-000")
    assert f"`{CRITIC_FOLDER.as_posix()}` inside each\ncheckpoint" in card
    ids = f"tokenizer({TEXT!r}, return_tensors='pt')['input_ids']"
    found = client("run_card", card, f"critic(input_ids={ids}).logits.flatten().tolist()")
    assert found == pytest.approx(_values_of(pulled.prover(0) / checkpoints[0] / CRITIC_FOLDER), abs=1e-5)


def test_a_card_without_a_critic_names_none(published):
    assert "critic" not in published.repo("game-prover").files("round-000")["README.md"].decode()
