"""A game that is killed in every phase and resumed each time ends in the same bytes as an uninterrupted one."""

import signal

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import DIGESTS, read_json, read_json_lines
from pvg_hf.run.layout import PhaseKey, RunFolder, schedule
from pvg_hf.run.phase_record import read_record
from tests.support.game_runs import differing, play_in_process

pytestmark = [pytest.mark.game, pytest.mark.smoke]

# A process is killed just before this happens; the next one resumes, and is killed at the next moment.
DEATHS = {
    "bootstrap, between two files": ("os.rename", r"pool/\.base\.partial/test-helpful\.parquet'", 1),
    "verifier, in a checkpoint": ("open", r"verifier/\.round-000\.partial/checkpoints/checkpoint-6/trainer_state", 1),
    "prover, in a checkpoint": ("open", r"prover/\.round-000\.partial/checkpoints/checkpoint-4/trainer_state", 1),
    "mint, between two files": ("os.rename", r"pool/\.round-000\.partial/sneaky\.parquet'", 1),
    "evaluate, before its figures": ("os.rename", r"evaluation/\.round-000\.partial/metrics\.json'", 1),
    "verifier, after its last checkpoint": ("open", r"verifier/\.round-001\.partial/config\.json", 1),
    "verifier, all but finished": ("os.rename", r"verifier/\.round-001\.partial', '.*/verifier/round-001'", 1),
    "prover, before a checkpoint": ("open", r"prover/\.round-001\.partial/checkpoints/checkpoint-2/trainer_state", 1),
    "prover, after its last checkpoint": ("open", r"prover/\.round-001\.partial/config\.json", 1),
    "prover, all but finished": ("os.rename", r"prover/\.round-001\.partial', '.*/prover/round-001'", 1),
    "mint, all but finished": ("os.rename", r"pool/\.round-001\.partial', '.*/pool/round-001'", 1),
    # which are brought up to date when the run is opened, after minting and after the evaluation
    "after the last phase, before the run's lists": ("os.rename", r"/state\.json'", 3),
}


IN_A_CHECKPOINT_AND_BETWEEN_FILES = ("prover, in a checkpoint", "mint, between two files")


@pytest.fixture(
    scope="module",
    params=[IN_A_CHECKPOINT_AND_BETWEEN_FILES, pytest.param(tuple(DEATHS), marks=pytest.mark.nightly)],
    ids=["at two moments", "at all moments"],
)
def deaths(request) -> tuple[str, ...]:
    return request.param


@pytest.fixture(scope="module")
def killed(tmp_path_factory, make_recipe, deaths) -> RunFolder:
    """A game that was killed at each of these moments and resumed."""
    output_dir = tmp_path_factory.mktemp("killed")
    recipe, log = make_recipe(output_dir, logging__report=True), output_dir / "log.txt"
    for name in deaths:
        event, pattern, count = DEATHS[name]
        moment = {"event": event, "pattern": pattern, "count": count}
        code = play_in_process({"recipe": recipe, "signal": "SIGKILL", "moment": moment}, log)
        if code != -signal.SIGKILL:
            pytest.fail(f"The process that was to die in `{name}` ended with {code}:\n{log.read_text()}")
    return play(load_recipe(recipe))


def test_ends_in_the_same_bytes(killed, reference):
    assert differing(killed, reference) == []


def test_has_the_same_digests(killed, reference):
    """Every file of a finished phase is the same, except those with times."""
    files = sorted(path.relative_to(reference.root) for path in reference.root.rglob(DIGESTS))
    assert len(files) == len(schedule(reference.read_recipe())) == 9
    assert [
        str(path) for path in files if (killed.root / path).read_bytes() != (reference.root / path).read_bytes()
    ] == []


def test_lists_and_report_are_brought_up_to_date(killed, reference):
    assert read_json(killed.state) == read_json(reference.state)
    assert killed.report.stat().st_mtime > (killed.evaluation(1) / "metrics.json").stat().st_mtime


def test_end_of_every_phase_is_in_the_event_log_once(killed):
    """This includes phases killed just before or just after their results appeared."""
    ends = [event for event in read_json_lines(killed.events) if event["event"] == "phase_finished"]
    assert [str(PhaseKey(event["phase"], event["round"])) for event in ends] == read_json(killed.state)["finished"]
    for event in ends:
        record = read_record(PhaseKey(event["phase"], event["round"]).target(killed))
        assert (record.seconds, record.summary) == (event["seconds"], event["summary"])


def test_resumes_from_the_newest_complete_checkpoint(killed, deaths):
    checkpoints = {
        "verifier, in a checkpoint": ("verifier", 0, "checkpoint-4"),
        "prover, in a checkpoint": ("prover", 0, "checkpoint-2"),
        "verifier, after its last checkpoint": ("verifier", 1, "checkpoint-8"),
        "prover, after its last checkpoint": ("prover", 1, "checkpoint-6"),
    }
    continued = [event for event in read_json_lines(killed.events) if event["event"] == "continued"]
    assert [(event["phase"], event["round"], event["checkpoint"]) for event in continued] == [
        checkpoints[name] for name in deaths if name in checkpoints
    ]


def test_leaves_nothing_unfinished_behind(killed):
    hidden = [path.name for path in killed.root.rglob("*") if path.name.startswith(".") or "checkpoint" in path.name]
    assert hidden == [".lock"]
