"""The values that the plots of experimental parts draw."""

from dataclasses import replace

import numpy as np

from experiments.replication_tables import seeds_attacks_table
from pvg_hf.experimental.attacks.attack_curves import attack_judgements, draw_attacks, plot_attacks
from pvg_hf.experimental.programs.similarities_plot import plot_similarities
from tests.support.plotted_run import lines_of, run

__all__ = ["run"]


def test_similarities_have_a_panel_per_role_and_round_and_an_outline_per_kind(run):
    canvas = plot_similarities(run).canvas
    minted = [data for data in run.rounds if data.solutions is not None]
    assert len(canvas.axes) == 2 * len(minted)
    data = minted[0]
    for axes, role in zip(canvas.axes[:: len(minted)], ("helpful", "sneaky"), strict=True):
        rows = data.solutions[data.solutions["role"] == role]
        correct = int(rows["correct"].sum())
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels == [f"certified wrong, n={len(rows) - correct:,}", f"correct, n={correct:,}"]
        wrong, filled = (patch.get_data().values for patch in axes.patches)
        assert wrong.argmax() == 10 or correct == len(rows)  # 0.52 is in [0.5, 0.55)
        assert filled[-1] == (correct > 0)


def test_a_task_without_programs_has_no_similarities(run):
    minted = [data for data in run.rounds if data.solutions is not None]
    plain = [replace(data, solutions=data.solutions.drop(columns="similarity")) for data in minted]
    assert plot_similarities(replace(run, rounds=plain)) is None


def test_attacks_have_a_line_per_attacker_and_a_survival_curve_per_round(run):
    gaps, incorrect, left = plot_attacks(run).canvas.axes
    assert lines_of(gaps).keys() == {"round 0", "round 1"}
    assert len(gaps.get_lines()) == len(incorrect.get_lines()) == 2 * 2 + 1  # and the criterion
    # Scores 0, 1, none, 2 less 1, with a weight of .5; a step without an incorrect solution keeps the mean.
    np.testing.assert_allclose(lines_of(gaps)["round 0"].get_ydata(), [-1, -0.5, -0.5, 0.25])
    np.testing.assert_allclose(left.get_lines()[0].get_xdata(), [0, 3, 4])
    np.testing.assert_allclose(left.get_lines()[0].get_ydata(), [1, 0.5, 0.5])


def test_attackers_of_all_seeds_are_shown_together(run):
    gaps, _, left = draw_attacks(attack_judgements([run, run])).axes
    assert lines_of(gaps).keys() == {"round 0", "round 1"}
    assert len(gaps.get_lines()) == 2 * 4 + 1  # four attackers for each verifier
    np.testing.assert_allclose(left.get_lines()[0].get_ydata(), [1, 0.5, 0.5])
    header, _, *rows = [line.strip("| ").split(" | ") for line in seeds_attacks_table([run, run]).splitlines()]
    assert header[:4] == ["attacker", "verifier", "found an exploit", "steps of each"]
    assert [row[:4] for row in rows] == [["src", str(k), "2 of 4", "3, 3, > 4, > 4"] for k in (0, 1)]
    assert rows[1][-1] == "1.000"  # equal outcomes
    assert seeds_attacks_table([replace(run, judgements=[])]) is None
