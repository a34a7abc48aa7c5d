"""Shared by all tests: no connection leaves the machine, and tiny models are made once."""

import atexit
import gc
import json
import os
import random
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, is_dataclass
from pathlib import Path
from typing import Any

# Whether CI runs the tests: kept for the processes that this one starts, as CI is set for all of them below.
os.environ.setdefault("PVG_TESTS_IN_CI", os.environ.get("CI", ""))
# Threads of this process and of all that it starts: equal bytes are promised for equal numbers of threads, and two
# workers with two threads each slow each other down. The imports of torch and numpy below read it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Modules of tests/support are named by recipes, and imported in other processes too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")))
)
# Games write their rates to HF_HOME, which must be neither the user's nor another worker's. Tests of the real Hub take
# their token from HF_TOKEN.
if "HF_HOME" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="pvg_hf-tests-")
    atexit.register(shutil.rmtree, os.environ["HF_HOME"], ignore_errors=True)
os.environ.update(CI="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import pytest
import torch
from datasets import Dataset
from filelock import FileLock
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis.database import DirectoryBasedExampleDatabase
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from tools.pretraining.tokenizers import build_arithmetic_tokenizer

REPOSITORY = Path(__file__).parent.parent
_LOOPBACK = ("127.", "localhost", "::1", "0.0.0.0")

# Property tests draw the same examples in every run. The nightly's profile searches at random and keeps what it finds.
_ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
hypothesis_settings.register_profile("repeatable", derandomize=True, database=None, **_ANY_SPEED)
hypothesis_settings.register_profile(
    "search",
    max_examples=1_000,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(REPOSITORY / ".hypothesis"),
    print_blob=True,
    **_ANY_SPEED,
)
hypothesis_settings.load_profile("repeatable")


# What a test starts follows from its fixtures, and for what is experimental from its folder. `game`, `docs`, `nightly`
# and `gpu` are marks in the files.
STARTED_BY = {"_served": "hub"} | dict.fromkeys(
    ("serve", "serve_for_module", "serve_study", "study_for_module", "chromium"), "app"
)
EXPERIMENTAL = ("experimental", "experiments")


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Mark tests by what they start, and let the longest files begin first, or one worker would be left with them at the
    end. `.ci/file_seconds.py --write` writes their times.
    """
    seconds = json.loads((REPOSITORY / "tests" / "file_seconds.json").read_text())
    for item in items:
        marks = {STARTED_BY[name] for name in item.fixturenames if name in STARTED_BY}
        if item.path.relative_to(REPOSITORY / "tests").parts[0] in EXPERIMENTAL:
            marks.add("experimental")
        for mark in sorted(marks):
            item.add_marker(mark)
    items.sort(key=lambda item: -seconds.get(item.path.relative_to(REPOSITORY / "tests").as_posix(), 0))


@pytest.hookimpl(tryfirst=True)  # before the fixtures
def pytest_runtest_setup() -> None:
    """Start each test with equal global generators, whichever tests have drawn from them before."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def pytest_make_parametrize_id(val: Any) -> str | None:
    """
    Readable id of a long text, or of a mapping, dataclass or the like of plain values, which pytest would number.
    """
    if isinstance(val, torch.dtype):
        return str(val).removeprefix("torch.")
    if isinstance(val, str):
        return None if len(val) <= 100 else _shorten(val.encode("unicode_escape").decode())
    if val is None or isinstance(val, bool | int | float | bytes):
        return None
    try:
        plain = _to_plain(val)
    except TypeError:
        return None
    is_words = isinstance(plain, list | tuple) and plain and all(isinstance(item, str) for item in plain)
    return _shorten(" ".join(plain).encode("unicode_escape").decode() if is_words else ascii(plain).replace("'", ""))


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:28]}...{text[-29:]}"


def _to_plain(val: Any) -> Any:
    """
    Return a value whose text is the same in all processes, without addresses or sets.

    Raises:
        TypeError: if there is none.
    """
    if isinstance(val, dict):
        return {_to_plain(key): _to_plain(item) for key, item in val.items()}
    if isinstance(val, set | frozenset):
        return sorted(map(_to_plain, val))
    if isinstance(val, list | tuple):
        return type(val)(map(_to_plain, val)) if type(val) in (list, tuple) else list(map(_to_plain, val))
    if isinstance(val, torch.Tensor):
        return val.tolist()
    if isinstance(val, Exception):
        return f"{type(val).__name__}: {val}"
    if is_dataclass(val) and not isinstance(val, type):
        return _to_plain(list(astuple(val)))
    if isinstance(val, str):
        return str(val)  # an enum's value
    if val is None or isinstance(val, int | float):
        return val
    raise TypeError(f"{type(val)} is not plain.")


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch):
    """Any connection off the loopback fails the test."""
    connect = socket.socket.connect

    def guarded(self, address):
        if isinstance(address, tuple) and not str(address[0]).startswith(_LOOPBACK):
            raise AssertionError(f"A test tried to reach {address}.")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(scope="session", autouse=True)
def _disk_is_not_waited_for():
    """Leave it to the system when files reach the disk: a test may lose its process, and never its power."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _imports_are_not_collected():
    """
    Freeze imported objects: every phase and training collects garbage, which takes half a second for torch and
    transformers.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _imports_are_collected_at_the_end():
    """
    Unfreeze imported objects, or the interpreter does not free them, and DuckDB reports each as `nanobind: leaked`.
    """
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    """The arithmetic task's tokenizer."""
    return build_arithmetic_tokenizer()


def make_tiny_llama(tokenizer, **settings) -> LlamaForCausalLM:
    """A Llama of two narrow layers with seeded weights, large enough to prefer some tokens over others."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    others = {"max_position_embeddings": 256, "tie_word_embeddings": True, **sizes, **ids, **settings}
    config = LlamaConfig(vocab_size=len(tokenizer), **others)
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
    return model


@pytest.fixture(scope="session")
def tiny_prover(tmp_path_factory, tokenizer) -> Path:
    """Folder of a tiny causal language model with the arithmetic tokenizer."""
    folder = tmp_path_factory.mktemp("tiny") / "prover"
    make_tiny_llama(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def small_recipe(tmp_path, tiny_prover) -> dict[str, Any]:
    """A recipe on the arithmetic task that can be planned, as plain values."""
    return {
        "name": "game",
        "output_dir": str(tmp_path / "runs"),
        "device": "cpu",
        "task": {"options": {"num_train": 80, "num_test": 6}},
        "verifier": {"model": str(tiny_prover), "max_steps": 10, "pairs_per_step": 4},
        "prover": {
            "model": str(tiny_prover),
            "max_steps": 5,
            "prompts_per_step": 4,
            "num_generations": 4,
            "max_completion_length": 64,
        },
    }


@pytest.fixture(scope="session")
def wider_prover(tmp_path_factory, tokenizer) -> Path:
    """Folder of a prover wide enough for bitsandbytes, which quantises blocks of 64 weights."""
    folder = tmp_path_factory.mktemp("wider") / "prover"
    make_tiny_llama(tokenizer, hidden_size=64, intermediate_size=128).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def once(tmp_path_factory, worker_id) -> Callable[[str], AbstractContextManager[Path]]:
    """
    Gives a path that all processes of a test session share, one process at a time: what the first one has written
    there need not be made again.
    """
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent

    @contextmanager
    def place(name: str) -> Iterator[Path]:
        with FileLock(shared / f"{name}.lock"):
            yield shared / name

    return place


@pytest.fixture(scope="session")
def player(once, tokenizer) -> Path:
    """
    Folder of a language model trained for a second or two: it nearly always answers, and is right by chance, about one
    time in six.
    """
    with once("player") as folder:
        if not folder.exists():
            _teach_to_answer(tokenizer, folder)
    return folder


@pytest.fixture(scope="session")
def writer(once) -> Path:
    """
    Folder of a language model trained for a few seconds to solve, to evaluate and to do both: it mostly keeps the
    format, and is right by chance.
    """
    with once("writer") as folder:
        if not folder.exists():
            _teach_to_evaluate(folder)
    return folder


def _teach_to_evaluate(folder: Path) -> None:
    from pvg_hf.analyses.form import write_evaluation
    from pvg_hf.core.roles import Role
    from pvg_hf.core.seeding import derive_rng
    from pvg_hf.tasks import PromptBuilder
    from pvg_hf.tasks.proofs.language import PROOF_SETTINGS, SELF_EVALUATION_PROMPT
    from pvg_hf.trainers.common.supervised import FineTuning, fine_tune
    from tests.support.recall_task import FINE, NUMBERS, WRONG, RecallTask, write_analysis, write_solution
    from tools.pretraining.tokenizers import build_proofs_tokenizer

    torch.manual_seed(0)
    tokenizer = build_proofs_tokenizer()
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=128, tie_word_embeddings=True, **sizes, **ids)
    )
    prompts, rng, rows = PromptBuilder(RecallTask()), derive_rng("writer"), []
    for problem in RecallTask(num_train=600).problems("train").to_list() * 3:
        proof, text = write_solution(int(rng.choice(NUMBERS))), problem["problem"]
        analysis = (FINE, WRONG, write_analysis(text, proof))[rng.integers(3)]
        evaluation = write_evaluation(analysis, float(analysis == FINE))
        asked = {"problem": text, "proof": proof}
        rows += [
            {"prompt": prompts.text(problem, list(Role)[rng.integers(len(Role))]), "completion": proof},
            {"prompt": PROOF_SETTINGS.prompt(asked), "completion": evaluation},
            {"prompt": PROOF_SETTINGS.prompt({**asked, "analysis": analysis}), "completion": evaluation},
            {"prompt": SELF_EVALUATION_PROMPT.replace("{{ problem }}", text), "completion": f"{proof}\n{evaluation}"},
        ]
    settings = FineTuning(250, 32, 1e-2, 128, seed=0, output_dir=str(folder), use_cpu=True, show_progress=False)
    fine_tune(model, tokenizer, Dataset.from_list(rows), settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    PROOF_SETTINGS.save(folder)


def _teach_to_answer(tokenizer, folder: Path) -> None:
    from pvg_hf.core.roles import Role
    from pvg_hf.core.seeding import derive_rng
    from pvg_hf.tasks import PromptBuilder
    from pvg_hf.trainers.common.supervised import FineTuning, fine_tune
    from tests.support.recall_task import NUMBERS, RecallTask, write_solution

    torch.manual_seed(0)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, tie_word_embeddings=True, **sizes, **ids)
    )
    prompts, rng = PromptBuilder(RecallTask()), derive_rng("player")
    rows = [
        {
            "prompt": prompts.text(problem, list(Role)[rng.integers(len(Role))]),
            "completion": write_solution(int(rng.choice(NUMBERS))),
        }
        for problem in RecallTask(num_train=640).problems("train").to_list() * 3
    ]
    settings = FineTuning(120, 16, 1e-2, 64, seed=0, output_dir=str(folder), use_cpu=True, show_progress=False)
    fine_tune(model, tokenizer, Dataset.from_list(rows), settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="session")
def make_recipe(player) -> Callable[..., dict[str, Any]]:
    """Makes recipes, as plain values; `section__key=value` changes one."""

    def make(output_dir: Path, **changes: Any) -> dict[str, Any]:
        model = {"model": str(player), "learning_rate": 0.003, "save_steps": 2}
        recipe = {
            "output_dir": str(output_dir),
            "device": "cpu",
            "task": {"name": "tests.support.recall_task:RecallTask", "options": {"num_train": 60, "num_test": 4}},
            "split": {"heldout_share": 0.2},
            "bootstrap": {"pilot_problems": 0},  # the player is known
            # two epochs of the pairs, so that the second one is continued from a checkpoint too
            "verifier": {**model, "max_steps": 8, "pairs_per_step": 8, "max_length": 32},
            "prover": {
                **model,
                "reward": "src",
                "learning_rate": 0.001,
                "max_steps": 6,
                "prompts_per_step": 4,
                "num_generations": 4,
                "max_completion_length": 8,
                "eval_steps": 2,
                "eval_problems": 4,
            },
            "stopping": {"rule": "max_steps"},
            "watchdogs": {"min_pair_accuracy": 0.0},
            "mint": {
                "test_solutions_per_problem": 2,
                "problems_per_batch": 3,
            },  # several batches, for several processes
            "evaluation": {"best_of_n": [2], "bootstrap_samples": 100},
            "logging": {"progress": False, "report": False},  # a report takes as long as such a game
        }
        for path, value in changes.items():
            *sections, key = path.split("__")
            section = recipe
            for name in sections:
                section = section.setdefault(name, {})
            section[key] = value
        return recipe

    return make


@pytest.fixture(scope="session")
def make_score_recipe(make_recipe, writer) -> Callable[..., dict[str, Any]]:
    """Makes recipes of games with a generative verifier, which also labels the prover's proofs."""

    def make(output_dir: Path, **changes: Any) -> dict[str, Any]:
        verifier = {
            "model": str(writer),
            "learning_rate": 0.003,
            "max_steps": 4,
            "kind": "score",
            "score": {
                "proofs_per_step": 4,
                "num_generations": 4,
                "max_completion_length": 48,
                "eval_steps": 2,
                "eval_proofs": 4,
                "judge_share": 0.25,
                "meta_verifier": "task",
                "labels": "auto",
                "label_analyses": 4,
                "label_checks": 1,
                "label_agreements": 2,
            },
        }
        settings = {
            "task__name": "tests.support.recall_task:JudgedRecallTask",
            "verifier": verifier,
            "prover__model": str(writer),
            "prover__max_completion_length": 16,
            **changes,
        }
        return make_recipe(output_dir, **settings)

    return make


@pytest.fixture(scope="session")
def reference(once, make_recipe):
    """Two rounds of the recall task, played without an interruption. Tests read the run and never write to it."""
    from pvg_hf.run.layout import RunFolder

    with once("reference") as folder:
        _play_once(make_recipe(folder, logging__report=True))
    return RunFolder(folder / "game")


@pytest.fixture(scope="session")
def arithmetic_run(once) -> Path:
    """
    Folder of a run of two rounds on the arithmetic task, played by the players that ship with the package. Tests read
    it and never write to it.
    """
    recipe = {
        "name": "small",
        "device": "cpu",
        "task": {"name": "arithmetic", "options": {"num_train": 60, "num_test": 12}},
        "split": {"verifier_share": 0.7, "heldout_share": 0.3},
        "bootstrap": {"solutions_per_problem": 2},
        "verifier": {"max_steps": 4, "pairs_per_step": 8},
        "prover": {"max_steps": 2, "prompts_per_step": 2, "num_generations": 2, "max_completion_length": 72},
        "stopping": {"rule": "max_steps"},
        "watchdogs": {"min_pair_accuracy": 0.0},
        "mint": {"solutions_per_problem": 1, "test_solutions_per_problem": 3},
        "evaluation": {"best_of_n": [2], "bootstrap_samples": 100},
        "logging": {"progress": False},
    }
    with once("arithmetic") as folder:
        _play_once({**recipe, "output_dir": str(folder)})
    return folder / "small"


@pytest.fixture(scope="session")
def score_run(once, make_score_recipe):
    """Two rounds of the recall task with a generative verifier. Tests read the run and never write to it."""
    from pvg_hf.run.layout import RunFolder

    with once("score") as folder:
        _play_once(make_score_recipe(folder, logging__report=True))
    return RunFolder(folder / "game")


def _play_once(recipe: dict[str, Any]) -> None:
    """Play a recipe unless it has been played. A run that others read is not opened again."""
    is_played = Path(recipe["output_dir"]) / "is-played"
    if not is_played.exists():
        from pvg_hf import load_recipe, play

        play(load_recipe(recipe))
        is_played.touch()


@pytest.fixture
def run_copy(arithmetic_run, tmp_path) -> Path:
    """A copy of the run that a test may write to."""
    return Path(shutil.copytree(arithmetic_run, tmp_path / "runs" / "small"))
