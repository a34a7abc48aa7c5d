"""Sneaky prompts that show the prover's own correct solutions."""

import pandas as pd
import pytest

from pvg_hf.core.integrity import read_json_lines
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.game.context import PlayerLoader
from pvg_hf.run.layout import METRICS, pool_file, pool_test_file
from pvg_hf.sampling import Sampler

pytestmark = pytest.mark.game

SHOWN = {
    "task__name": "tests.support.recall_task:ShownRecallTask",
    "task__sneaky_sees": "honest_solution",
    "task__honest_source": "prover",
}


@pytest.fixture
def loaded(monkeypatch):
    """Names of the folders that samplers are loaded from."""
    names = []

    def load(players, source, load=PlayerLoader.sampler, **options):
        names.append(str(source).rsplit("/", 1)[-1])
        return load(players, source, **options)

    monkeypatch.setattr(PlayerLoader, "sampler", load)
    return names


def shown_in(prompt: str) -> str:
    """Return the part of a sneaky prompt between the problem and the request."""
    _, shown = prompt.removesuffix("\nsneaky solution:\n").split("\n", 1)
    return shown


def test_the_prover_phase_shows_what_its_initial_weights_write(play_phase, beginnings, loaded, player):
    folder = play_phase("prover", 0, **SHOWN)
    ((trainer, _),) = beginnings
    rows = pd.DataFrame(trainer.train_dataset.to_list())
    sneaky = rows[rows["role"] == Role.SNEAKY].drop_duplicates("problem_id")
    shown = sneaky["prompt"].map(shown_in)
    # Only the prover's own solutions are shown without their first line, and only correct ones.
    is_own = shown.str.startswith("####")
    answers = sneaky["reference"].str.split("\n").str[1]
    assert shown[is_own].tolist() == answers[is_own].tolist()
    assert shown[~is_own].tolist() == sneaky["reference"][~is_own].tolist()
    (share,) = [
        line["prover/own_honest_share"]
        for line in read_json_lines(folder.prover(0) / METRICS)
        if "prover/own_honest_share" in line
    ]
    assert 0 <= share <= 1
    assert (share > 0) >= is_own.any()  # the steps do not reach every problem
    assert loaded == [player.name]


def test_with_separate_roles_the_helpful_prover_of_the_phase_writes(play_phase, loaded):
    play_phase("prover", 0, **SHOWN, prover__roles="separate", prover__lora={"r": 4}, prover__max_steps=2)
    assert loaded == ["helpful"]


def test_minting_shows_the_first_correct_helpful_solution(play_phase, monkeypatch):
    prompts: list[str] = []

    def note(sampler, asked, rngs, sample=Sampler.sample):
        prompts.extend(asked)
        return sample(sampler, asked, rngs)

    monkeypatch.setattr(Sampler, "sample", note)
    folder = play_phase("mint", 0, **SHOWN)
    pool = folder.pool(0)
    helpful = pd.concat([pd.read_parquet(pool / name(Role.HELPFUL)) for name in (pool_file, pool_test_file)])
    correct = set(helpful["problem"][helpful["outcome"] == Outcome.VERIFIED])
    references = helpful.drop_duplicates("problem_id").set_index("problem")["reference"]
    sneaky = [prompt for prompt in prompts if prompt.endswith("sneaky solution:\n")]
    assert len(sneaky) == len(references)
    for prompt in sneaky:
        problem = prompt.split("\n", 1)[0]
        reference = references[problem]
        assert shown_in(prompt) == (reference.split("\n")[1] if problem in correct else reference)
