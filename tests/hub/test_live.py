"""The real Hub, with the real client: opt in with `-m hub_live`, HF_TOKEN and PVG_HUB_NAMESPACE."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

SCRIPT = """
import sys
from huggingface_hub import HfApi
from pvg_hf import pull_round, push_round
from pvg_hf.config.sections import HubConfig
from pvg_hf.hub.layout import RunRepos

folder, output, namespace, run = sys.argv[1:]
repos = RunRepos(namespace, run)
try:
    for _ in range(2):
        push_round(folder, 0, hub=HubConfig(namespace=namespace, run_name=run))
    print(pull_round(str(repos), 0, output_dir=output))
finally:
    for kind in ("prover", "verifier", "solutions"):
        repo_type = "dataset" if kind == "solutions" else "model"
        HfApi().delete_repo(repos.repo_id(kind), repo_type=repo_type, missing_ok=True)
"""


@pytest.mark.hub_live
@pytest.mark.skipif("PVG_HUB_NAMESPACE" not in os.environ, reason="set HF_TOKEN and PVG_HUB_NAMESPACE")
def test_a_round_goes_to_the_hub_and_comes_back(reference, repository, tmp_path):
    from pvg_hf.run.layout import RunFolder
    from tests.support.game_runs import bytes_of

    run = f"pvg-hf-live-test-{uuid.uuid4().hex[:8]}"
    arguments = [str(reference.root), str(tmp_path), os.environ["PVG_HUB_NAMESPACE"], run]
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "PYTHONPATH": str(repository)}
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mine, others = bytes_of(RunFolder(Path(done.stdout.strip()))), bytes_of(reference)
    assert len(mine) > 10
    assert [path for path in mine if mine[path] != others[path]] == []
