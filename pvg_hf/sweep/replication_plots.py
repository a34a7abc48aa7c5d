"""Plots of the seeds of one recipe: means over seeds, in the style of the report."""

from collections.abc import Iterator, Sequence

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.report.plots.attack_curves import TERMS as ATTACK_TERMS
from pvg_hf.evaluation.report.plots.attack_curves import attack_judgements, draw_attacks
from pvg_hf.evaluation.report.plots.over_rounds import TERMS as ROUND_TERMS
from pvg_hf.evaluation.report.plots.over_rounds import draw_rounds
from pvg_hf.evaluation.report.plots.pool_matrix import TERMS as POOL_TERMS
from pvg_hf.evaluation.report.plots.pool_matrix import draw_pool_map
from pvg_hf.evaluation.report.plots.style import Plot
from pvg_hf.evaluation.report.pool_tables import pool_cells
from pvg_hf.evaluation.seeds import mean_over_seeds
from pvg_hf.run.read import RunData


def plot_replication(name: str, runs: Sequence[RunData]) -> Iterator[Plot]:
    """
    Plot means over seeds with 95 % intervals by Student's t.

    Args:
        name (`str`):
            Name of the recipe, with which the names of the plots begin.
        runs (`Sequence[RunData]`):
            A run per seed. Rounds that not every run has evaluated are left out.

    Yields:
        [`Plot`]: `NAME-rounds` (accuracy, completeness, soundness and pair accuracy by round), `NAME-pools` (verifiers
        x pools) and, if there are any, `NAME-attacks` (the attackers of all seeds). None without a round that all runs have.
    """
    begun = [run for run in runs if run.evaluated]
    if not begun:
        return
    num_rounds = min(len(run.evaluated) for run in begun)
    seeds = f"Means over {len(begun)} seed(s), with 95 % intervals by Student's t."

    def mean_figure(figure: str, index: int) -> Figure:
        return mean_over_seeds([run.evaluated[index].figure(figure).value for run in begun])

    yield Plot(
        f"{name}-rounds",
        "Results round by round",
        seeds,
        draw_rounds(mean_figure, list(range(num_rounds))),
        ROUND_TERMS,
    )
    of_runs = [pool_cells(run, "accepted") for run in begun]
    cells = {
        (verifier, pool): mean_over_seeds([of_run[verifier, pool].value for of_run in of_runs])
        for verifier, pool in of_runs[0]
        if max(verifier, pool) < num_rounds
        and all((verifier, pool) in of_run and of_run[verifier, pool].value is not None for of_run in of_runs)
    }
    if cells:
        yield Plot(
            f"{name}-pools", "Does a later verifier accept fewer mistakes?", seeds, draw_pool_map(cells), POOL_TERMS
        )
    attacks = attack_judgements(begun)
    if attacks:
        yield Plot(
            f"{name}-attacks",
            "How soon does a fresh attacker fool the verifier?",
            f"Attackers of {len(begun)} seed(s).",
            draw_attacks(attacks),
            ATTACK_TERMS,
        )
