"""The report of a message game's run."""

import pytest

from pvg_hf.core.figure import wilson
from pvg_hf.experimental.messages.judge import MessageJudgement
from pvg_hf.experimental.messages.report import describe_gate, figures_table, read_message_run, write_message_report
from pvg_hf.experimental.messages.run import play_messages
from tests.support.message_games import small_recipe


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    recipe = small_recipe(f"output_dir={tmp_path_factory.mktemp('runs')}", "name=small", "controls=[none, witness]")
    return play_messages(recipe).root


def test_a_run_has_a_report(root):
    page = (root / "report.html").read_text(encoding="utf-8")
    assert "small: message game" in page
    assert "The game" in page
    assert "<script" not in page
    assert page.count("<img") == 1
    assert (root / "plots" / "training.png").exists()
    assert "num_equations: 3" in page  # the recipe
    before = page
    write_message_report(root)
    assert (root / "report.html").read_text(encoding="utf-8") == before


def test_the_table_has_every_figure_of_every_game(root):
    _, judged = read_message_run(root)
    table = figures_table(judged)
    assert table.headers == ["figure", "the prover's messages", "without messages", "the true witness"]
    cells = dict(table.rows)
    assert cells["accuracy"][0].n == "n=60"
    assert cells["soundness attack"][1].value == "-"  # there is no message to attack
    assert "precision at 0.1" in cells


def figures(accuracy: float, shuffled: float = 0.5) -> MessageJudgement:
    shares = {"accuracy": accuracy, "completeness": accuracy, "soundness": accuracy, "accuracy_shuffled": shuffled}
    return MessageJudgement({name: wilson(value, 1000, 1000) for name, value in shares.items()})


def test_statements_by_hand():
    good = " ".join(describe_gate({"prover": figures(0.9), "none": figures(0.7)}))
    assert "passes the gate: it is clearly above both chance (0.500) and this" in good
    assert "verifier uses them" in good
    bad = " ".join(describe_gate({"prover": figures(0.7, 0.7), "none": figures(0.69)}))
    assert "fails the gate: it is not clearly above" in bad
    assert "does not clearly use them" in bad


def test_a_folder_without_a_judged_game_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no judged message game"):
        read_message_run(tmp_path)
