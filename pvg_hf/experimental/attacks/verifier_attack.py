"""Attacks one frozen verifier with the prover of a recipe, without a run."""

from concurrent.futures import Executor
from pathlib import Path

from pvg_hf.config import Recipe, RecipeError
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.disk_names import round_index_of
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json, write_text
from pvg_hf.core.score_calibration import ScoreCalibration
from pvg_hf.experimental.attacks.attack_plan import AttackedVerifier
from pvg_hf.experimental.attacks.attack_results import attack_figures, write_evidence
from pvg_hf.experimental.attacks.fresh_attacker import run_attacks
from pvg_hf.models.sources import local_folder
from pvg_hf.run.lock import locked

SUMMARY = "summary.md"
FIGURES_FILE = "figures.json"
_ATTACKERS = "attackers"


def attack_verifier(recipe: Recipe, *, num_workers: int | None = None, executor: Executor | None = None) -> Path:
    """
    Attack the verifier of the recipe's section `attack`, or resume the attacks.

    Args:
        recipe: Task, split, prover, and the section `attack`.
    Returns: the folder `OUTPUT_DIR/NAME`, with `summary.md`, `figures.json`, the curves and a folder per attacker.
    Raises `ValueError` if the recipe names no verifier or has mistakes, or the verifier is missing or has no
    threshold. Raises `JobsFailedError` if attackers could not be trained; the others are kept.
    """
    if recipe.attack is None or recipe.attack.verifier is None:
        raise RecipeError("The recipe does not name the verifier to attack: `attack: {verifier: FOLDER}`.")
    if recipe.prover.is_made:
        raise RecipeError(
            "The attackers start from `prover.model`, but the recipe makes the prover itself (`prover.scratch` or "
            "`prover.warmup`). Give the folder of the made one, such as `runs/NAME/models/prover`, as `prover.model`."
        )
    admit_recipe(recipe)
    root = Path(recipe.output_dir) / recipe.name
    folder = Path(local_folder(recipe.attack.verifier, recipe.attack.revision))
    acceptance = ScoreCalibration.require(folder).acceptance()
    round_index = round_index_of(recipe.attack.revision or folder.name) or 0
    verifier = AttackedVerifier(round_index, folder, root / "models", recipe, recipe.attack.helpful_score)
    with locked(root, is_main=True, user="The attacks in {root} are being trained"):
        results = run_attacks(
            [verifier], recipe.attack, root / _ATTACKERS, num_workers=num_workers, executor=executor
        )[round_index]
        figures = attack_figures(results, [], acceptance)
        write_evidence(results, root)
        write_json(root / FIGURES_FILE, {key: figure.to_dict() for key, figure in figures.items()})
        write_text(root / SUMMARY, _summarize(recipe, figures))
    return root


def _summarize(recipe: Recipe, figures: dict[str, Figure]) -> str:
    rows = [f"| `{key}` | {figure:.3f} |" for key, figure in figures.items()]
    head = [f"# Attacks on {recipe.attack.verifier}", "", "| figure | value, 95 % interval, n |", "|---|---|"]
    return "\n".join([*head, *rows]) + "\n"
