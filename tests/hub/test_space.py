"""What the app puts on the Hub: itself as a Space, and a study's answers."""

from loopback_hub import OWNER


def test_a_space_is_private_and_holds_the_app_and_its_run(hub, client, reference, repository):
    script = str(repository / "scripts" / "push_space.py")
    status, said, told = client("run_script", script, str(reference.root), f"{OWNER}/app")
    assert (status, told.count("error")) == (0, 0)
    assert said.strip().endswith(f"spaces/{OWNER}/app")
    space = hub.repo("app")
    files = space.files()
    assert space.is_private
    assert {"app.py", "README.md", "requirements.txt", "space_app/app.py", "runs/game/recipe.yaml"} <= files.keys()
    assert not [path for path in files if path.endswith((".bin", ".pt", ".pkl", ".pyc"))]


def test_a_space_that_the_token_may_not_write_is_an_error(hub, client, reference, repository):
    hub.tokens = {"another"}
    script = str(repository / "scripts" / "push_space.py")
    status, _, told = client("run_script", script, str(reference.root), f"{OWNER}/app")
    assert status == 2
    assert told.startswith("error: ")
    assert "401" in told


def test_a_studys_answers_are_committed_and_come_back(hub, client, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    assert client("upload_answers", f"{OWNER}/answers", str(first), ["one"]) == []
    assert [text for path, text in hub.repo("answers").files().items() if path.endswith("answers.jsonl")] == [b"one\n"]
    assert hub.repo("answers").is_private
    restored = client("upload_answers", f"{OWNER}/answers", str(second), ["two"])
    assert [path for path in restored if path.endswith("answers.jsonl")] == ["answers.jsonl"]
    texts = [text for path, text in hub.repo("answers").files().items() if path.endswith("answers.jsonl")]
    assert texts == [b"one\ntwo\n"]
