"""Recovery of a prover phase whose sneaky role collapsed."""

import pytest
import torch
from safetensors.torch import load_file

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.data.problems import GameProblems
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.phase_record import read_record
from tests.support.game_runs import branch_off, differing, play_in_process, prover_steps

pytestmark = pytest.mark.game

# Collapse, at the third of six steps, unless all sneaky solutions are answered and incorrect.
COLLAPSE = {"watchdogs__min_valid_sneaky": 1.0, "watchdogs__window": 2, "watchdogs__goodharting": "off"}
THE_PROVER = {"phase": "prover", "round_index": 0}


def alerts(folder: RunFolder) -> list[tuple[str, str]]:
    return [(event["kind"], event["message"]) for event in read_json_lines(folder.events) if event["event"] == "alert"]


def test_a_collapse_is_reported_once_and_the_phase_continues(play_phase):
    folder = play_phase("prover", 0, **COLLAPSE)
    ((kind, message),) = alerts(folder)
    assert kind == "sneaky_collapse"
    assert message.startswith("Step 3: ")
    assert message.endswith(
        "of the sneaky solutions of the last 3 steps are answered and incorrect, significantly below 100%."
    )
    assert len(prover_steps(folder)) == 6
    (recorded,) = read_record(folder.prover(0)).alerts  # which are published, unlike the event log
    assert (recorded.kind, recorded.message) == (kind, message)


@pytest.mark.parametrize(
    ("recovery", "lora"),
    [
        ("easier", {"r": 4}),
        pytest.param("easier", None, marks=pytest.mark.nightly),
        *(
            pytest.param(recovery, lora, marks=pytest.mark.nightly)
            for recovery in ("temperature", "supervised")
            for lora in (None, {"r": 4})
        ),
    ],
)
def test_phase_starts_again_with_the_recovery(recovery, lora, play_phase, beginnings):
    folder = play_phase("prover", 0, **COLLAPSE, watchdogs__collapse_recovery=recovery, prover__lora=lora)
    first, second = beginnings
    assert first[0].state.global_step == 3
    assert second[0].state.global_step == 6  # a second collapse does not end the phase
    assert list(prover_steps(folder)) == [1, 2, 3, 4, 5, 6]
    assert read_json(folder.prover(0) / "recovery.json")["recovery"] == recovery
    assert alerts(folder)[1] == ("sneaky_collapse", f"The prover phase starts again with the recovery `{recovery}`.")

    assert second[0].args.temperature == pytest.approx(1.3 if recovery == "temperature" else 1.0)
    numbers = list(second[0].train_dataset["difficulty"])
    assert (numbers == sorted(numbers)) == (recovery == "easier")
    moved = [name for name, tensor in first[1].items() if not torch.equal(second[1][name], tensor)]
    adapters = [name for name in first[1] if "lora_B" in name]
    if recovery != "supervised":
        # The seed differs, and with it the adapters' first matrices; the second ones are 0 at first.
        assert [name for name in moved if "lora_A" not in name] == []
    elif lora:
        assert {name for name in moved if "lora_A" not in name} == set(adapters)
        # Adapter and unchanged base together are the prover that the phase ended with.
        trained, saved = second[0].model.state_dict(), load_file(folder.prover(0) / "adapter_model.safetensors")
        assert len(saved) == 2 * len(adapters)
        for name, tensor in saved.items():
            assert torch.equal(tensor, trained[name.replace(".weight", ".default.weight")])
    else:
        assert moved
        assert second[0].ref_model.state_dict().keys() >= set(moved)
        assert all(torch.equal(second[0].ref_model.state_dict()[name], first[1][name]) for name in moved)


@pytest.mark.nightly
@pytest.mark.parametrize("recovery", ["temperature", "easier", "supervised"])
def test_killed_in_the_second_attempt_it_resumes_to_the_same_bytes(recovery, tmp_path, make_recipe, reference):
    runs = []
    for name in ("whole", "killed"):
        output_dir = tmp_path / name
        runs.append(branch_off(reference, output_dir, "round-000/prover"))
        recipe = make_recipe(output_dir, **COLLAPSE, watchdogs__collapse_recovery=recovery)
        if name == "killed":  # the first attempt ends at step 3
            moment = {
                "event": "open",
                "pattern": r"prover/\.round-000\.partial/checkpoints/checkpoint-6/trainer_state",
            }
            order = {"recipe": recipe, "signal": "SIGKILL", "moment": moment, **THE_PROVER}
            assert play_in_process(order, tmp_path / "log.txt") == -9
        play(load_recipe(recipe), **THE_PROVER)
    assert differing(*runs) == []
    assert alerts(runs[0]) == alerts(runs[1])
    assert [event["checkpoint"] for event in read_json_lines(runs[1].events) if event["event"] == "continued"] == [
        "checkpoint-4"
    ]


def test_supervised_recovery_trains_on_mistakes_in_the_provers_own_problems(play_phase, monkeypatch):
    """20 steps of one solution each: incorrect solutions to problems of D_pi, none of which the verifier trains on."""
    shown = []

    def note_rows(model, tokenizer, rows, settings):
        shown.extend(rows)
        return [{"num_tokens": 0}]

    monkeypatch.setattr("pvg_hf.game.phases.prover.RECOVERY_BATCH_SIZE", 1)
    monkeypatch.setattr("pvg_hf.game.training.fine_tune", note_rows)
    folder = play_phase("prover", 0, **COLLAPSE, watchdogs__collapse_recovery="supervised")
    world = GameProblems.load(load_recipe(folder.recipe))
    of_prompt = {f"{row['problem']}\nsneaky solution:\n": row for row in world.parts["prover"]}
    assert 0 < len(shown) <= 20
    for row in shown:
        grade = world.task.grade(of_prompt[row["prompt"]], row["completion"])
        assert grade.answer is not None
        assert not grade.correct


def test_a_prover_without_incorrect_solutions_is_reported(play_phase, monkeypatch):
    monkeypatch.setattr("pvg_hf.game.phases.prover.sample_solutions", lambda *args, **settings: [])
    folder = play_phase("prover", 0, **COLLAPSE, watchdogs__collapse_recovery="supervised")
    assert ("sneaky_collapse", "The prover wrote no incorrect solution for the recovery.") in alerts(folder)
