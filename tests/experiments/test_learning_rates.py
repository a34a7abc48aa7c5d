"""Learning rates of a prover, tried for a few steps."""

import pytest

from experiments.learning_rates import try_rates
from pvg_hf import load_recipe
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import bytes_of


@pytest.mark.game
def test_a_higher_rate_moves_the_prover_further(tmp_path, make_recipe):
    recipe = load_recipe(
        make_recipe(tmp_path, prover__roles="separate", prover__lora={"r": 4}, watchdogs__max_truncated=1.0)
    )
    table = try_rates(recipe, [1e-4, 1e-2], 4)
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert [row[:2] for row in rows] == [
        ["0.0001", "helpful"],
        ["0.0001", "sneaky"],
        ["0.01", "helpful"],
        ["0.01", "sneaky"],
    ]
    moved = [float(row[head.index("KL from the start, nats")]) for row in rows]
    assert moved[0] < 0.1 * moved[2]
    assert moved[1] < 0.1 * moved[3]
    played = {
        folder: bytes_of(RunFolder(folder)) for folder in tmp_path.iterdir() if (folder / "recipe.yaml").exists()
    }
    assert sorted(folder.name for folder in played) == ["game", "game-rate-0.0001", "game-rate-0.01"]
    assert try_rates(recipe, [1e-4, 1e-2], 4) == table
    assert {folder: bytes_of(RunFolder(folder)) for folder in played} == played
