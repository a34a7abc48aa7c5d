"""
The players of a message game are published by the trainer and by their own `push_to_hub`, and loaded from the Hub.
"""

import pytest

from tests.support.loopback_hub import OWNER

REPO = f"{OWNER}/message-game"


def test_the_trainer_publishes_both_players(hub, client, tmp_path):
    scores = client("push_message_game", str(tmp_path / "game"), REPO, strategy="end", in_the_end=True)
    files = hub.repo("message-game").files("main")
    assert {
        f"{player}/{name}" for player in ("prover", "verifier") for name in ("config.json", "model.safetensors")
    } <= {*files}
    card = files["README.md"].decode()
    assert f'MessageMLPProver.from_pretrained("{REPO}", subfolder="prover")' in card
    assert "| `num_rounds` | 2 |" in card
    assert "| `eval_accuracy` |" in card
    assert "arxiv:2108.12099" in card
    assert not any(name.startswith("checkpoint-") for name in files)
    assert client("message_scores", REPO) == pytest.approx(scores)


def test_players_are_published_with_every_checkpoint(hub, client, tmp_path):
    scores = client("push_message_game", str(tmp_path / "game"), REPO, strategy="every_save", in_the_end=False)
    assert client("message_scores", REPO) == pytest.approx(scores)
    assert "README.md" in hub.repo("message-game").files("main")


def test_a_player_is_published_alone(hub, client):
    before, after = client("push_message_player", f"{OWNER}/prover")
    assert before == after
    assert "config.json" in hub.repo("prover").files("main")
