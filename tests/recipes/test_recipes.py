"""Every shipped recipe has no mistakes and plays."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from accelerate.commands.config.config_args import load_config_from_file
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from experiments.arms import describe_arms
from pvg_hf import load_recipe, load_task, play
from pvg_hf.check.graphics_cards import CARDS
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.check.plan import describe_plan
from pvg_hf.check.round_plans import planned_hardware
from pvg_hf.config.player_sections import ScratchConfig
from pvg_hf.core.integrity import read_json
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.templates import render_prompt
from pvg_hf.data.problems import GameProblems
from pvg_hf.experimental.sweep import describe_sweep, list_cells
from pvg_hf.models.from_config import make_model
from pvg_hf.models.quantization import saved_quantization
from pvg_hf.tasks import PromptBuilder
from pvg_hf.trainers.common.supervised import FineTuning, fine_tune
from tests.support.program_rows import flawed_sum

FOLDER = Path(__file__).parents[2] / "recipes"
LAUNCHERS = sorted((FOLDER / "accelerate").glob("*.yaml"))
MESSAGE_GAMES = sorted((FOLDER / "messages").glob("*.yaml"))  # tests/experimental/messages/test_recipes.py
RECIPES = [path for path in sorted(FOLDER.rglob("*.yaml")) if path not in {*LAUNCHERS, *MESSAGE_GAMES}]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Of every section what makes a game last; the rest is the recipe's own.
SMALL_GAME = [
    "num_rounds=1",
    "device=cpu",
    "bootstrap.solutions_per_problem=2",
    "bootstrap.pilot_problems=0",
    "verifier.max_steps=3",
    "prover.max_steps=2",
    "prover.prompts_per_step=4",
    "prover.num_generations=2",
    "prover.eval_problems=4",
    "prover.max_completion_length=48",
    "mint.test_solutions_per_problem=2",
    "evaluation.best_of_n=[2]",
    "evaluation.bootstrap_samples=100",
    "watchdogs.min_pair_accuracy=0.0",
    "watchdogs.max_truncated=1.0",
]
SMALL_GAME_ON_PAIRS = [*SMALL_GAME, "verifier.pairs_per_step=4"]


def test_at_least_one_recipe_is_found():
    names = {path.stem for path in RECIPES}
    assert {
        "demo",
        "quickstart",
        "arithmetic",
        "arithmetic-short",
        "schedule",
        "checker",
        "budget",
        "sweep",
        "sweep-small",
        "corrections",
        "structured",
        "arithmetic-ppo",
        "gsm8k",
        "gsm8k-small",
        "gsm8k-mini",
        "gsm8k-qlora",
        "gsm8k-small-cpu",
        "words-cpu",
        "mbpp",
        "apps",
    } <= names


@pytest.mark.parametrize("path", LAUNCHERS, ids=lambda path: path.stem)
def test_a_launchers_configuration_opens_with_its_command_and_is_read(path):
    assert f"--config_file recipes/accelerate/{path.name}" in path.read_text().splitlines()[0]
    config = load_config_from_file(str(path))
    kinds = {"one_gpu": "NO", "multi_gpu": "MULTI_GPU", "fsdp": "FSDP", "zero3": "DEEPSPEED"}
    assert str(config.distributed_type.value) == kinds.pop(path.stem)
    assert kinds.keys() == {other.stem for other in LAUNCHERS} - {path.stem}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_opens_with_its_command_and_has_no_mistake(path, problems, programs, untrained_qwen):
    name = path.relative_to(FOLDER).with_suffix("").as_posix()
    assert re.search(rf"recipes/{name}\.yaml|\bpvg \w+ {name}(?![\w-])", path.read_text().splitlines()[0])
    recipe = load_recipe(path)
    assert recipe.name == path.stem
    if recipe.task.name == "gsm8k":
        small = [f"task.path={problems}", "split.stratify_by=null"]
        recipe = load_recipe(
            path, [*small, f"prover.model={untrained_qwen}", f"verifier.model={untrained_qwen}"]
        )  # nothing is downloaded
        recipe.prover.prompts_per_step = 4  # as many as the few problems give
    if name == "words-cpu":
        small = ["verifier.max_length=512", "prover.warmup.max_length=512"]  # its tokens are shorter
        recipe = load_recipe(path, [*small, f"prover.model={untrained_qwen}", f"verifier.model={untrained_qwen}"])
    if recipe.task.name in ("mbpp", "apps"):
        small = [f"task.path={programs[recipe.task.name]}", "task.options={sandbox: none, num_train: null}"]
        recipe = load_recipe(path, [*small, f"prover.model={untrained_qwen}", f"verifier.model={untrained_qwen}"])
        recipe.prover.prompts_per_step = 4
    if recipe.task.name.startswith("experiments.decimal_chain_sum:"):
        small = ["task.options={num_train: 2000, num_test: 20}"]
        recipe = load_recipe(path, [*small, f"prover.model={untrained_qwen}", f"verifier.model={untrained_qwen}"])
    # vLLM, which few machines have, is no mistake in a plan for another one
    hardware = planned_hardware(recipe.device, CARDS["h100"] if recipe.prover.generation == "vllm_colocate" else None)
    assert check_recipe(recipe, GameProblems.load(recipe), hardware) == []


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_plays_what_the_experiments_support(path):
    """Weights that both roles share and plain SRC did badly (experiments/dynamics.md)."""
    recipe = load_recipe(path)
    assert recipe.prover.lora is None or recipe.prover.roles != "shared" or recipe.attack is not None
    assert recipe.prover.reward != "src"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_whose_phases_need_separate_processes_opens_with_their_command(path):
    needs_processes = load_recipe(path).prover.generation == "vllm_colocate"
    assert ("--launcher" in path.read_text().splitlines()[0]) == needs_processes


def test_the_plan_of_the_study_of_systematic_errors_has_its_amounts(untrained_qwen, repository, tmp_path):
    small = ["task.options={num_train: 2000, num_test: 20}", f"output_dir={tmp_path}"]
    small += [f"prover.model={untrained_qwen}", f"verifier.model={untrained_qwen}"]
    recipe = load_recipe(repository / "experiments/systematic.yaml", small)
    plan = " ".join(describe_plan(recipe, CARDS["h100"]).split())
    assert "h100 (not this one)" in plan
    assert "at most 500 steps of 64 prompts x 4" in plan
    assert "`prover.generation` needs vLLM" in plan or find_spec("vllm") is not None
    bucket = recipe.noise.checker.errors.targeted_buckets[0]
    assert (bucket.selector, bucket.FPR) == ("rel_error < 0.1", 1.0)
    assert list(tmp_path.iterdir()) == []


def test_the_checkers_of_one_rate_are_planned_with_every_seed(repository, tmp_path):
    recipe = load_recipe(repository / "recipes/noise/same-rate.yaml", [f"output_dir={tmp_path}", "device=cpu"])
    plan = describe_arms(recipe)
    assert "Checkers clean, random, per-problem, rare-key, master-key\nSeeds    0, 1, 2, 3, 4\n" in plan
    assert "To play  25 of 25 games" in plan
    assert "at most 100 steps of 32 prompts x 8" in plan
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", [path for path in RECIPES if "\nsweep:" in path.read_text()], ids=lambda path: path.stem
)
def test_every_cell_of_a_sweep_has_no_mistakes(path, tmp_path):
    recipe = load_recipe(path, [f"output_dir={tmp_path}", "sweep.seeds=[0]"])
    assert "pvg sweep" in path.read_text().splitlines()[0]
    assert f"To play  {len(list_cells(recipe))} cells" in describe_sweep(recipe, num_workers=2)


def _check_played(folder, num_phases: int) -> None:
    assert len(read_json(folder.state)["finished"]) == num_phases
    assert folder.report.exists()
    figures = read_json(folder.evaluation(0) / "metrics.json")
    assert figures["round/accuracy/sneaky"]["n"] == 24


@pytest.mark.game
@pytest.mark.parametrize(
    "name",
    [
        "quickstart",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("arithmetic", "arithmetic-ppo", "noise/checker")),
    ],
)
def test_a_recipe_of_the_built_in_world_plays(name, tmp_path, repository):
    small = ["task.options.num_train=160", "task.options.num_test=12", f"output_dir={tmp_path}"]
    recipe = load_recipe(repository / f"recipes/{name}.yaml", [*SMALL_GAME_ON_PAIRS, *small])
    _check_played(play(recipe), num_phases=5)


@pytest.mark.game
@pytest.mark.nightly
def test_the_recipe_of_a_generative_verifier_plays(tmp_path, repository):
    """It plays verifier, prover, harder proofs and their labels, and the next verifier, which trains on these."""
    small = ["task.options.num_train=160", "task.options.num_test=12", f"output_dir={tmp_path}", *SMALL_GAME]
    small += ["num_rounds=2", "verifier.score.proofs_per_step=4", "verifier.score.eval_proofs=8"]
    small += ["verifier.max_steps=2", "verifier.score.label_analyses=2", "verifier.score.label_checks=1"]
    folder = play(load_recipe(repository / "recipes/proofs.yaml", small))
    _check_played(folder, num_phases=9)
    for round_index in (0, 1):
        figures = read_json(folder.evaluation(round_index) / "metrics.json")
        assert figures["round/evaluations/format_rate"]["value"] > 0.4
        assert figures["round/labels/coverage"]["n"] > 0


SIZES = ("scratch.vocab_size=400", "scratch.config.hidden_size=32", "scratch.config.num_hidden_layers=2")
SMALL_PLAYERS = [f"{player}.{setting}" for player in ("prover", "verifier") for setting in SIZES]
SMALL_PLAYERS += ["prover.warmup.max_steps=150", "prover.warmup.learning_rate=5.0e-3", "verifier.warmup.max_steps=5"]


@pytest.mark.game
@pytest.mark.nightly
def test_the_recipe_that_makes_its_players_for_a_gpu_plays(tmp_path, repository):
    small = ["task.options.num_train=160", "task.options.num_test=12", f"output_dir={tmp_path}"]
    small += ["task.options.min_difficulty=2", "task.options.max_difficulty=2", "task.options.distractor_rate=0.0"]
    small += ["prover.warmup.batch_size=16", "verifier.warmup.batch_size=16"]
    # A prover that has seen so few texts solves no problem of D_V, so the references are the correct sides.
    taught = ["prover.warmup.max_steps=300", "prover.scratch.config.hidden_size=64", "data.correct_source=both"]
    recipe = load_recipe(
        repository / "recipes/arithmetic-gpu.yaml", [*SMALL_GAME_ON_PAIRS, *small, *SMALL_PLAYERS, *taught]
    )
    _check_played(play(recipe), num_phases=6)


@pytest.mark.game
@pytest.mark.nightly
def test_the_recipe_for_small_machines_plays_on_text(tmp_path, repository, problems):
    small = [f"task.path={problems}", f"output_dir={tmp_path}", "split.max_train=null", "split.max_test=null"]
    recipe = load_recipe(repository / "recipes/gsm8k-small-cpu.yaml", [*SMALL_GAME_ON_PAIRS, *small, *SMALL_PLAYERS])
    folder = play(recipe)
    _check_played(folder, num_phases=6)
    judged = pd.read_parquet(folder.verifier(0) / "heldout.parquet")
    references = judged[judged["environment"] == "reference"]
    assert references["correct"].all()
    assert len(references) > 0
    assert not list(folder.prover(0).glob("best-helpful*"))  # the helpful role stays as it is


def _small_qwen(texts: list[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A Qwen2 of two narrow layers with a chat template, in place of the download."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model, tokenizer = make_model(ScratchConfig("qwen2", {**sizes, "intermediate_size": 128}, 600), texts, seed=0)
    tokenizer.chat_template = CHAT_TEMPLATE
    return model, tokenizer


def _taught(folder: Path, texts: list[str], asked: list[tuple[str, str]]) -> Path:
    """Save a small Qwen2 that was trained to answer prompts; `asked` has pairs of a prompt and an answer."""
    model, tokenizer = _small_qwen(texts)
    rows = [{"prompt": render_prompt(prompt, tokenizer), "completion": answer} for prompt, answer in asked]
    settings = FineTuning(150, 16, 5e-3, 512, seed=0, output_dir=str(folder), use_cpu=True, show_progress=False)
    fine_tune(model, tokenizer, Dataset.from_list(rows), settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def untrained_qwen(tmp_path_factory) -> Path:
    """For plans, which read no weights."""
    folder = tmp_path_factory.mktemp("untrained-qwen")
    for part in _small_qwen(["def f(x):\n    return 1 + 2 - 3 * 4 / 567890\n#### "]):
        part.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def qwen(tmp_path_factory, problems) -> Path:
    """A small Qwen2 that was trained on the answer format."""
    task = load_task("gsm8k", path=str(problems))
    rows, prompts = task.problems("train").to_list(), PromptBuilder(task, few_shot=0)
    asked = [(prompts.text(row, role), row["reference"]) for row in rows for role in Role]
    return _taught(tmp_path_factory.mktemp("qwen"), ["".join(pair) for pair in asked], asked)


@pytest.mark.game
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "quantized", "settings"),
    [
        ("gsm8k", set(), ["prover.micro_batch_size=4"]),
        ("gsm8k-small", set(), []),
        ("gsm8k-mini", set(), ["split.max_train=null"]),
        ("gsm8k-qlora", {"prover", "verifier"}, ["verifier.quantization=4bit", "verifier.lora={}"]),
    ],
)
def test_a_round_of_gsm8k_with_a_small_model_of_its_architecture(
    name, quantized, settings, tmp_path, repository, problems, qwen
):
    small = [f"task.path={problems}", f"output_dir={tmp_path}", f"prover.model={qwen}", f"verifier.model={qwen}"]
    small += ["task.few_shot=0", "split.stratify_by=null"]
    recipe = load_recipe(repository / f"recipes/{name}.yaml", [*SMALL_GAME_ON_PAIRS, *small, *settings])
    assert "qwen" in describe_plan(recipe)
    folder = play(recipe)
    _check_played(folder, num_phases=5)
    for player, its_folder in (("prover", folder.prover(0) / "helpful"), ("verifier", folder.verifier(0))):
        assert (its_folder / "adapter_config.json").exists() == (recipe.player(player).lora is not None)
        assert saved_quantization(its_folder) == ("4bit" if player in quantized else "none")


@pytest.fixture(scope="module")
def coder(tmp_path_factory, programs) -> Path:
    """A small Qwen2 that writes honest and flawed programs."""
    task = load_task("mbpp", path=str(programs["mbpp"]), sandbox="none")
    rows, prompts = task.problems("train").to_list(), PromptBuilder(task, sneaky_sees="honest_solution")
    asked, texts = [], []
    for row in rows:
        honest, flawed = row["reference"], flawed_sum(int(row["problem_id"].split("-")[-1]))
        for role in Role:
            text = prompts.text(row, role, honest_solution=honest)
            asked += [(text, honest), (text, flawed)]
            texts.append(text + honest + flawed)
    return _taught(tmp_path_factory.mktemp("coder"), texts, asked)


@pytest.mark.game
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["mbpp", "apps"])
def test_a_round_of_programs_with_a_small_model_of_its_architecture(name, tmp_path, repository, programs, coder):
    small = [f"task.path={programs[name]}", "task.options={sandbox: none, num_train: null}", f"output_dir={tmp_path}"]
    small += [f"prover.model={coder}", f"verifier.model={coder}", "split.test_share=0.15"]
    # The small prover solves few problems, so the references are correct sides, too.
    small += ["data.correct_source=both"]
    folder = play(load_recipe(repository / f"recipes/{name}.yaml", [*SMALL_GAME_ON_PAIRS, *small]))
    assert len(read_json(folder.state)["finished"]) == 5
    pool = pd.concat(map(pd.read_parquet, folder.pool(0).rglob("*.parquet")))
    assert {"visible_pass_rate", "hidden_pass_rate", "similarity", "failing_input"} <= set(pool.columns)
    assert all((folder.prover(0) / role / "adapter_config.json").exists() for role in GAME_ROLES)


@pytest.mark.skipif("PVG_GSM8K_DIR" not in os.environ, reason="set PVG_GSM8K_DIR to a folder with GSM8K's JSONL files")
def test_the_recipe_for_small_machines_has_no_mistakes_with_the_real_problems(repository):
    recipe = load_recipe(repository / "recipes/gsm8k-small-cpu.yaml", [f"task.path={os.environ['PVG_GSM8K_DIR']}"])
    assert check_recipe(recipe, GameProblems.load(recipe)) == []
