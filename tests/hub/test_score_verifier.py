"""A published generative verifier is used from the Hub with the prompts that it was trained with."""

import pytest

from pvg_hf.analyses.settings import ScoreVerifierSettings
from tests.support.hub_client import ClientError
from tests.support.loopback_hub import OWNER


def test_the_prompts_are_published_with_the_verifier(hub, client, score_run):
    for round_index in (0, 1):
        client("push", str(score_run.root), round_index)
    repo = f"{OWNER}/game-verifier"
    used, trained_further, plain = client("score_verifier", repo, "round-000")
    assert used == trained_further == ScoreVerifierSettings.load(score_run.verifier(0)).evaluate_prompt
    assert plain != used
    assert any("/resolve/round-000/score_verifier.json" in request for request in hub.requests)
    fetched = {request.rsplit("/", 1)[-1] for request in hub.requests if "/resolve/" in request}
    assert {"model.safetensors", "score_verifier.json"} <= fetched
    assert "training_args.bin" not in fetched
    card = hub.repo("game-verifier").files("round-001")["README.md"].decode()
    (score,) = client("run_card", card, "scores")
    assert 0 <= score <= 1


def test_a_missing_model_is_an_error(hub, client):
    with pytest.raises(ClientError, match=f"{OWNER}/another.*not a folder"):
        client("score_verifier", f"{OWNER}/another", "main")
