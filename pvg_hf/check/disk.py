"""Space on the disk that a run will still take."""

from pvg_hf.check.player_sizes import PlayerSize, read_sizes
from pvg_hf.config import Recipe
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.layout import PhaseKey, RunFolder, partial_of, schedule, unfinished

ROW_BYTES = 500  # of a solution, in addition to its texts
NUM_ADAM = 3  # numbers in a checkpoint for each trained weight: the weight itself and Adam's two averages


def disk_bytes(recipe: Recipe, problems: GameProblems, hardware: Hardware) -> float | None:
    """
    Estimate the bytes that a run will still write: what its unfinished phases keep, and the largest set of checkpoints, which
    are deleted after their phase.

    Unfinished phases reuse the space that they take already. Compression of texts is left out. `None` if the configuration of a
    model is unknown.
    """
    kept, temporary = 0.0, [0.0]
    sizes: dict[int | None, dict[str, PlayerSize]] = {}
    rows = problems.sample("verifier", 64)
    row_bytes = ROW_BYTES + sum(len(row["problem"] + row["reference"]) for row in rows) / max(1, len(rows))
    for key in unfinished(recipe):
        index = key.round_index if key.round_index in recipe.rounds else None  # rounds without overrides are equal
        of_round = recipe if index is None else recipe.for_round(index)
        if index not in sizes:
            found = read_sizes(of_round, hardware)
            sizes[index] = {name: size for name, size in found.items() if size is not None}
            if len(sizes[index]) < len(found):
                return None
        kept += _num_rows(of_round, key, problems) * row_bytes + _weight_bytes(of_round, key, sizes[index])
        temporary.append(_checkpoint_bytes(of_round, key, sizes[index]))
    folder = RunFolder.of(recipe)
    begun = [path for key in schedule(recipe) for path in partial_of(key.target(folder)).rglob("*") if path.is_file()]
    return max(0.0, kept + max(temporary) - sum(path.stat().st_size for path in begun))


def _num_rows(recipe: Recipe, key: PhaseKey, problems: GameProblems) -> int:
    """Number of solutions that a phase stores; those of `bootstrap` and `mint` exist twice while the phase is played."""
    num_problems = {name: len(part) for name, part in problems.parts.items()}
    num_learned, mint = sum(num_problems[part] for part in VERIFIER_PARTS), recipe.mint
    num_test = num_problems["test"] * mint.test_solutions_per_problem
    if key.name == "bootstrap":
        return 2 * (num_learned * recipe.bootstrap.solutions_per_problem + len(GAME_ROLES) * num_test)
    if key.name == "mint":
        heldout = num_problems["verifier_heldout"] * mint.test_solutions_per_problem
        return 2 * (len(GAME_ROLES) * (num_learned * mint.solutions_per_problem + num_test) + num_test + heldout)
    if key.name == "prover" and recipe.logging.log_completions:
        return recipe.prover.planned_steps * recipe.prover.prompts_per_step * recipe.prover.num_generations
    return 0


def _weight_bytes(recipe: Recipe, key: PhaseKey, sizes: dict[str, PlayerSize]) -> float:
    """Bytes of the weights that a phase keeps."""
    if key.name == "warmup":
        made = [name for name, config in recipe.players.items() if config.is_made]
        return sum(sizes[name].num_parameters * sizes[name].weight_bytes for name in made)
    if key.name not in sizes:
        return 0.0
    prover = recipe.prover
    has_best = key.name == "prover" and Role.HELPFUL in prover.trained_roles
    return _trained_bytes(key.name, sizes) * ((prover.num_trainings if key.name == "prover" else 1) + has_best)


def _checkpoint_bytes(recipe: Recipe, key: PhaseKey, sizes: dict[str, PlayerSize]) -> float:
    """Bytes of the checkpoints that exist at a time: those that are kept, and the one that is being written."""
    if key.name not in sizes:
        return 0.0
    config = recipe.player(key.name)
    is_validated = key.name == "verifier" and not recipe.verifier.traits.learns_from_pairs
    if config.checkpoint_steps is None and not is_validated:
        return 0.0
    return (4 if is_validated else 3) * NUM_ADAM * _trained_bytes(key.name, sizes)


def _trained_bytes(player: str, sizes: dict[str, PlayerSize]) -> float:
    members = [player, "critic"] if player == "prover" and "critic" in sizes else [player]
    return sum(sizes[name].num_trained * sizes[name].trained_bytes for name in members)
