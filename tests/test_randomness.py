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
DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}  # of torch
GLOBAL_MODULES = {"random", "secrets", "uuid"}
GLOBAL_CALLS = {"manual_seed", "set_seed", "seed_all", "urandom", "initial_seed", "get_rng_state", "set_rng_state"}
IN_PLACE = {"uniform_", "normal_", "random_", "bernoulli_", "exponential_", "rand_like", "randn_like", "randint_like"}


def global_uses(source: str) -> list[str]:
    """What of a module reads or writes a global generator."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if _is_global(node)]


def _is_global(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in GLOBAL_MODULES or alias.name == "numpy.random" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        is_numpy = node.module == "numpy.random" and any(alias.name not in SEEDED for alias in node.names)
        of_torch = node.module == "torch" and any(
            alias.name in DRAWS | IN_PLACE | GLOBAL_CALLS for alias in node.names
        )
        return node.module.split(".")[0] in GLOBAL_MODULES or is_numpy or of_torch
    if isinstance(node, ast.Call):
        return _is_global_call(node)
    return False


def _is_global_call(node: ast.Call) -> bool:
    name = ast.unparse(node.func)
    *_, parent, last = ["", *name.split(".")]
    if name.startswith(("np.random.", "numpy.random.")):
        return last not in SEEDED or (last == "default_rng" and not node.args)
    has_generator = any(keyword.arg == "generator" for keyword in node.keywords)
    if (parent == "torch" and last in DRAWS) or last in IN_PLACE:
        return not has_generator
    return last in GLOBAL_CALLS and not name.startswith("generator.")


def test_there_is_something_to_check():
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
    ],
)
def test_such_uses_are_found(source):
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
    ],
)
def test_seeded_draws_are_no_such_uses(source):
    assert global_uses(source) == []


def _states() -> list:
    kind, keys, *rest = np.random.get_state()
    return [random.getstate(), kind, keys.tolist(), rest, torch.get_rng_state().tolist()]


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _use(folder: Path) -> object:
    """Something of each of the three parts."""
    from pvg_hf.data.mixture import mixture_weights
    from pvg_hf.data.pairs import build_pairs
    from pvg_hf.data.pool import write_pool
    from pvg_hf.data.schema import make_solution, solution_features
    from pvg_hf.data.split import split_problems
    from pvg_hf.noise import ImperfectChecker, Routing, flip_labels
    from pvg_hf.tasks import load_task

    task = load_task("arithmetic", num_train=30, num_test=4)
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
