"""Noise, data and tasks draw from seeds and names: they neither read nor write a global generator."""

import ast
import random
from pathlib import Path

import numpy as np
import pytest
import torch

PACKAGE = Path(__file__).parent.parent / "pvg_hf"
FILES = sorted(path for part in ("noise", "data", "tasks") for path in (PACKAGE / part).rglob("*.py"))
SEEDED = {"default_rng", "Generator", "SeedSequence", "BitGenerator", "PCG64", "Philox"}  # of numpy.random
FROM_ENTROPY = SEEDED - {"Generator", "BitGenerator"}  # where they are given no seed
DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}  # of torch
GLOBAL_MODULES = {"random", "secrets", "uuid"}
GLOBAL_CALLS = {"manual_seed", "set_seed", "seed_all", "urandom", "initial_seed", "get_rng_state", "set_rng_state"}
IN_PLACE = {"uniform_", "normal_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_", "log_normal_"}
IN_PLACE |= {"rand_like", "randn_like", "randint_like"}
# Methods of datasets and data frames, and the argument without which they take the global generator.
SEED_ARGUMENTS = {
    "shuffle": ("seed", "generator"),
    "train_test_split": ("seed", "generator", "random_state"),
    "sample": ("random_state", "seed"),
}


def global_uses(source: str) -> list[str]:
    """Expressions of a module that read or write a global generator."""
    tree = ast.parse(source)
    names = {"np": "numpy", **_names_of_modules(tree)}
    return [ast.unparse(node) for node in ast.walk(tree) if _is_global(node, names)]


def _names_of_modules(tree: ast.AST) -> dict[str, str]:
    """Other names of modules, as in `import numpy as xp`."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    return {alias.asname: alias.name for node in imports for alias in node.names if alias.asname is not None}


def _is_global(node: ast.AST, names: dict[str, str]) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in GLOBAL_MODULES or alias.name == "numpy.random" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and _is_global_import(node.module, {alias.name for alias in node.names})
    return isinstance(node, ast.Call) and _is_global_call(node, names)


def _is_global_import(module: str, imported: set[str]) -> bool:
    if module == "numpy.random":
        return not imported <= SEEDED
    if module in ("numpy", "torch") and "random" in imported:
        return True
    return module.split(".")[0] in GLOBAL_MODULES or (
        module == "torch" and bool(imported & (DRAWS | IN_PLACE | GLOBAL_CALLS))
    )


def _is_global_call(node: ast.Call, names: dict[str, str]) -> bool:
    first, *rest = ast.unparse(node.func).split(".")
    name = ".".join([names.get(first, first), *rest])
    *_, parent, last = ["", *name.split(".")]
    if last in FROM_ENTROPY and parent in ("", "random"):
        return not _is_given(node, "seed", "entropy", is_first=True)
    if name.startswith("numpy.random."):
        return last not in SEEDED
    if last in SEED_ARGUMENTS and parent:
        return not _is_given(node, *SEED_ARGUMENTS[last], is_first=last == "shuffle")  # as in `rng.shuffle(values)`
    if (parent == "torch" and last in DRAWS) or last in IN_PLACE:
        return not _is_given(node, "generator")
    return name == "torch.seed" or (last in GLOBAL_CALLS and not name.startswith("generator."))


def _is_given(node: ast.Call, *names: str, is_first: bool = False) -> bool:
    """
    Whether a call has one of the named arguments, or a first positional one if that has its meaning, and not `None`.
    """
    values = [keyword.value for keyword in node.keywords if keyword.arg in names]
    values += node.args[:1] if is_first else []
    return any(ast.unparse(value) != "None" for value in values)


def test_source_files_are_found():
    assert {path.parts[len(PACKAGE.parts)] for path in FILES} == {"noise", "data", "tasks"}
    assert len(FILES) > 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_global_generator_is_used(path):
    assert global_uses(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import shuffle",
        "import uuid",
        "from numpy.random import rand",
        "np.random.rand(3)",
        "np.random.seed(0)",
        "np.random.default_rng()",
        "torch.manual_seed(0)",
        "torch.cuda.manual_seed(0)",
        "torch.rand(3)",
        "torch.randperm(3, device='cpu')",
        "torch.rand_like(x)",
        "x.uniform_()",
        "transformers.set_seed(1)",
        "os.urandom(8)",
        "from torch import rand",
        "from numpy import random",
        "import numpy as xp; xp.random.rand(3)",
        "import numpy as xp; xp.random.default_rng()",
        "from numpy.random import default_rng; default_rng()",
        "np.random.default_rng(None)",
        "np.random.default_rng(seed=None)",
        "np.random.Generator(np.random.PCG64())",
        "import torch as t; t.randn(3)",
        "torch.rand(3, generator=None)",
        "torch.seed()",
        "x.cauchy_()",
        "dataset.shuffle()",
        "dataset.shuffle(seed=None)",
        "dataset['train'].shuffle(keep_in_memory=True)",
        "dataset.train_test_split(0.1)",
        "frame.sample(3)",
        "frame.groupby('problem_id').sample(n=1, random_state=None)",
    ],
)
def test_uses_of_global_generators_are_found(source):
    assert len(global_uses(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "np.random.default_rng(derive_seed(seed))",
        "from numpy.random import Generator",
        "rng.normal(size=3)",
        "torch.rand(3, generator=generator)",
        "x.uniform_(generator=generator)",
        "generator.manual_seed(3)",
        "import numpy as xp; xp.random.default_rng(3)",
        "from numpy.random import default_rng; default_rng(seed=3)",
        "np.random.Generator(np.random.PCG64(3))",
        "from . import random",
        "rng.shuffle(values)",
        "dataset.shuffle(seed)",
        "dataset.shuffle(seed=seed)",
        "dataset.shuffle(generator=rng)",
        "dataset.train_test_split(0.1, seed=seed)",
        "frame.sample(3, random_state=rng)",
    ],
)
def test_seeded_draws_are_accepted(source):
    assert global_uses(source) == []


def _states() -> list:
    kind, keys, *rest = np.random.get_state()
    return [random.getstate(), kind, keys.tolist(), rest, torch.get_rng_state().tolist()]


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _use(folder: Path) -> object:
    """Use each of the three parts."""
    from pvg_hf.data.mixture import mixture_weights
    from pvg_hf.data.pairs.build import build_pairs
    from pvg_hf.data.pool import write_pool
    from pvg_hf.data.schema import make_solution, solution_features
    from pvg_hf.data.split import split_problems
    from pvg_hf.noise import ImperfectChecker, Routing, flip_labels
    from pvg_hf.tasks import load_task

    task = load_task("arithmetic", num_train=60, num_test=4)
    parts = split_problems(task.problems("train"), task.problems("test"), seed=0)
    checker = ImperfectChecker(lambda row, text: task.grade(row, text).correct, Routing(escalation_policy="always"))
    rows = []
    for problem in parts["verifier"]:
        for index, text in enumerate((problem["reference"], "has 3\n#### 3")):
            label = checker.check(problem, text).label
            named = {"task": task, "problem": problem, "part": "verifier", "role": "base", "round_index": -1}
            told = {"prover": "p", "solution": text, "grade": task.grade(problem, text), "label": label}
            rows.append(make_solution(**named, **told, sample_index=index, num_tokens=None, is_truncated=False))
    write_pool(folder / "pool.parquet", [rows], solution_features(task))
    pairs, _ = build_pairs(
        [folder / "pool.parquet"], seed=0, round_index=0, weights=mixture_weights("latest", 0), solutions_per_problem=2
    )
    flipped = flip_labels(torch.ones(50), 0.3, generator=torch.Generator().manual_seed(1))
    return [rows, pairs.to_list(), flipped.tolist()]


def test_global_generators_are_neither_written_nor_read(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    _seed_all(1)
    before = _states()
    first = _use(tmp_path / "a")
    assert _states() == before
    _seed_all(2)
    assert _use(tmp_path / "b") == first
