"""A recipe attacks a verifier that is on the Hub."""

from pathlib import Path

from tests.support.loopback_hub import OWNER


def test_a_published_verifier_is_attacked(published, client, make_recipe, tmp_path):
    settings = {"rewards": ["src"], "seeds": [0], "max_steps": 2, "num_problems": 2}
    verifier = {"verifier": f"{OWNER}/game-verifier", "revision": "round-001"}
    folder = client("attack", make_recipe(tmp_path, name="attack", attack={**settings, **verifier}))
    (attacker,) = (Path(folder) / "attackers").iterdir()
    assert attacker.name.startswith("round-001-src-grpo-seed-0-of-2-")
    assert "`src/found`" in (Path(folder) / "summary.md").read_text()
