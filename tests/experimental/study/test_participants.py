"""A running study: the clock, one answer for each solution, and restarts."""

import pytest

from pvg_hf.experimental.study.items import StudyItem
from pvg_hf.experimental.study.participants import GRACE_SECONDS, Judgment, Study


def answer_next(study, judgment=Judgment.CORRECT, confidence=2) -> str:
    item = study.show("ann").item.item
    assert study.answer("ann", item, judgment, confidence)
    return item


def test_the_clock_starts_when_a_solution_is_shown_and_ignores_reloads(study, clock):
    assert study.progress("ann").seconds_left is None
    first = study.show("ann")
    assert first.seconds_left == 45
    clock.wait(10)
    assert study.show("ann") == study.progress("ann")
    assert study.progress("ann").item == first.item
    assert study.progress("ann").seconds_left == 35


def test_an_answer_holds_all_that_the_analysis_needs(study, clock):
    item = study.show("ann").item
    clock.wait(12.5)
    study.answer("ann", item.item, Judgment.FLAWED, 3)
    (row,) = study.answers()
    assert (row["judgment"], row["confidence"], row["seconds"], row["num_shown"]) == ("flawed", 3, 12.5, 1)
    assert [row[name] for name in ("participant", "item", "problem_id", "round_index", "role", "correct")] == [
        "ann",
        *(item.item, item.problem_id, item.round_index, item.role, item.correct),
    ]
    assert study.progress("ann").num_done == 1


def test_a_solution_is_answered_once(study):
    item = answer_next(study)
    assert not study.answer("ann", item, Judgment.FLAWED, 1)
    assert [row["judgment"] for row in study.answers()] == ["correct"]


def test_a_solution_that_was_never_shown_is_not_answered(study):
    unseen = study.sheet("ann")[0]
    assert not study.answer("ann", unseen.item, Judgment.CORRECT, 1)
    assert not study.answer("bob", unseen.item, Judgment.CORRECT, 1)
    assert study.answers() == []


@pytest.mark.parametrize(
    ("delay", "judgment"), [(GRACE_SECONDS - 0.1, "correct"), (GRACE_SECONDS + 0.1, "time_ran_out")]
)
def test_a_late_answer_is_not_recorded(study, clock, delay, judgment):
    item = study.show("ann").item.item
    clock.wait(45 + delay)
    study.answer("ann", item, Judgment.CORRECT, 3)
    (row,) = study.answers()
    assert row["judgment"] == judgment
    assert row["seconds"] == 45
    assert (row["confidence"] is None) == (judgment == "time_ran_out")


@pytest.mark.parametrize("passed", [0, 44.9])
def test_a_time_out_before_its_time_is_not_recorded(study, clock, passed):
    item = study.show("ann").item.item
    clock.wait(passed)
    assert study.answer("ann", item, Judgment.TIME_RAN_OUT, None) is None
    assert study.answers() == []
    assert study.progress("ann").seconds_left == pytest.approx(45 - passed)
    clock.wait(45 - passed)
    assert study.answer("ann", item, Judgment.TIME_RAN_OUT, 3) is Judgment.TIME_RAN_OUT
    assert [(row["judgment"], row["confidence"]) for row in study.answers()] == [("time_ran_out", None)]


def test_the_recorded_answer_is_returned(study, clock):
    assert study.answer("ann", study.show("ann").item.item, Judgment.FLAWED, 1) is Judgment.FLAWED
    item = study.show("ann").item.item
    clock.wait(60)
    assert study.answer("ann", item, Judgment.FLAWED, 1) is Judgment.TIME_RAN_OUT
    assert study.answer("ann", item, Judgment.FLAWED, 1) is None


def test_an_empty_sheet_is_not_kept(tmp_path, clock):
    items = []
    study = Study(tmp_path, lambda participant, counts: list(items), clock=clock)
    assert study.sheet("ann") == []
    assert study.show("ann").item is None
    assert not study.knows("ann")
    assert not (tmp_path / "sheets.jsonl").exists()
    items.append(StudyItem("i", "p", 0, "helpful", True, "How many?", "3"))
    assert study.show("ann").item == items[0]
    assert study.knows("ann")


def test_an_empty_sheet_that_was_kept_is_drawn_again(study, open_again):
    study.folder.mkdir()
    study.folder.joinpath("sheets.jsonl").write_text('{"participant": "ann", "time": 1.0, "items": []}\n')
    again = open_again()
    assert not again.knows("ann")
    assert len(again.sheet("ann")) == 8
    assert open_again().sheet("ann") == again.sheet("ann")


def test_a_participant_who_returns_late_sees_the_next_solution(study, clock):
    first = study.show("ann").item
    clock.wait(3600)
    progress = study.progress("ann")
    assert progress.has_run_out
    assert not study.progress("ann").has_run_out  # which is reported once
    assert progress.item != first
    assert progress.seconds_left is None  # it waits until it is asked for
    assert [row["judgment"] for row in study.answers()] == ["time_ran_out"]


def test_a_restarted_process_continues_where_the_last_one_ended(study, open_again, clock):
    done = [answer_next(study) for _ in range(3)]
    on_show = study.show("ann").item
    clock.wait(600)
    again = open_again()
    assert again.sheet("ann") == study.sheet("ann")
    progress = again.progress("ann")
    assert (progress.num_done, progress.item, progress.seconds_left) == (3, on_show, None)
    assert not again.answer("ann", on_show.item, Judgment.CORRECT, 1)  # the time for which it was viewed is unknown
    again.show("ann")
    assert again.answer("ann", on_show.item, Judgment.CORRECT, 1)
    rows = open_again().answers()
    assert [row["item"] for row in rows] == [*done, on_show.item]
    assert [row["num_shown"] for row in rows] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("answers", '{"a": 1}'),
        ("answers", '{"participant": "ann", "item": "x"}'),
        ("sheets", '{"participant": "ann", "items": [{"x": 1}]}'),
        ("sheets", '{"participant": "ann", "items": 3}'),
        ("shown", '{"participant": ["ann"], "item": "x"}'),
    ],
)
def test_a_line_that_no_study_wrote_is_named(study, open_again, name, line):
    answer_next(study)
    file = study.folder / f"{name}.jsonl"
    with file.open("a") as lines:
        lines.write(line + "\n")
    with pytest.raises(ValueError, match=r"not from a study") as caught:
        open_again()
    assert f"{file} has" in str(caught.value)
    assert line in str(caught.value)


def test_all_solutions_are_judged_in_the_end(study):
    items = [answer_next(study) for _ in range(8)]
    assert items == [item.item for item in study.sheet("ann")]
    progress = study.show("ann")
    assert (progress.num_done, progress.num_items, progress.item) == (8, 8, None)


def test_participants_have_different_sheets(study):
    assert not study.knows("bob")
    ann, bob = study.sheet("ann"), study.sheet("bob")
    assert study.knows("bob")
    assert {item.item for item in ann}.isdisjoint(item.item for item in bob)  # the least often given come first


@pytest.mark.parametrize("name", ["", "a/b", "..\n", "x" * 65, "<b>"])
def test_an_id_that_cannot_be_part_of_a_link_is_refused(study, name):
    with pytest.raises(ValueError, match="1 to 64 letters"):
        study.sheet(name)


def test_viewing_a_study_creates_no_folder(open_again):
    held = []
    study = open_again(hold=lambda: held.append(study.folder.exists()))
    assert not study.knows("ann")
    assert study.answers() == []
    assert not study.folder.exists()
    sheet = study.sheet("ann")
    study.sheet("bob")
    assert held == [False]  # once, before the folder was made
    assert open_again().sheet("ann") == sheet


def test_a_folder_locked_by_another_process_is_neither_read_nor_written(open_again, study):
    study.sheet("ann")

    def refuse() -> None:
        raise ValueError("held by process 7")

    with pytest.raises(ValueError, match="process 7"):
        open_again(hold=refuse)
