"""
The report's plots: each function takes a run and returns a plot with its caption, or `None` if there is no data yet.
"""

from pvg_hf.report.plots.best_of_n_curves import plot_best_of_n, plot_drawn_best_of_n
from pvg_hf.report.plots.dynamics import plot_dynamics
from pvg_hf.report.plots.flaw_kinds import plot_flaws
from pvg_hf.report.plots.over_rounds import plot_over_rounds
from pvg_hf.report.plots.pool_matrix import plot_pool_matrix
from pvg_hf.report.plots.scores import plot_roc, plot_scores
from pvg_hf.report.plots.time_bars import plot_time_split

PLOTS = (
    plot_pool_matrix,
    plot_over_rounds,
    plot_dynamics,
    plot_roc,
    plot_best_of_n,
    plot_drawn_best_of_n,
    plot_scores,
    plot_flaws,
    plot_time_split,
)
