"""The code blocks of the pages run as printed, with tiny models in place of those on the Hub."""

import argparse
import doctest
import json
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import dropwhile, takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pytest
import torch
import yaml
from peft import get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerBase

from pvg_hf import VerifierScorer, load_recipe, load_task
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.cli.main import main as pvg
from pvg_hf.cli.sources import find_recipe
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.core.score_calibration import ScoreCalibration
from pvg_hf.data.pool import load_pool
from pvg_hf.data.problems import GameProblems
from pvg_hf.data.schema import solution_features
from pvg_hf.experimental.messages.recipe import load_message_recipe
from pvg_hf.models.export import export_merged
from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import lora_for_verifier
from pvg_hf.rewards import load_reward
from pvg_hf.rewards.correction_audit import audit_prover
from pvg_hf.run.console import ScriptParser
from pvg_hf.trainers.prover.stopping import FIGURES_OF_EVERY_STEP, FIGURES_OF_SOME_STEPS, StopRule
from pvg_hf.trainers.reward.invariance import load_regulariser
from tests.support.adapted_players import make_prover, save_player

pytestmark = pytest.mark.docs

DOCS = Path(__file__).parents[2] / "docs"
README = "../README.md"
PAGES = sorted([*DOCS.glob("**/*.md"), *DOCS.parent.glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MODULE_NAME = re.compile(r"# (\w+\.py)\n")  # a block that is a file has its name in the first line
NOT_RUN = "# needs "  # a block that begins so needs what no test can have, which it names
RUN_BY_OTHERS = {
    "explanation/how-a-game-works.md": "the end of examples/one_round.py, by tests/examples",
    "how-to/share-on-the-hub.md": "tests/hub/test_loading.py",
    "reference/prover-trainer.md": "tests/trainers",
}
OUTPUT = {"console", "input", "text"}  # languages of what is read, not typed
NOT_STARTED = {
    **dict.fromkeys(("git", "pip", "cd", "source"), "installs or enters"),
    **dict.fromkeys(("vllm", "text-embeddings-router", "curl"), "a server that is not ours"),
    "accelerate": "several processes",
    "make": ".ci/check_docs.py knows the targets",
}
WITHOUT_PARSER = {"examples/one_round.py", "benchmarks/code_figures.py"}  # read `sys.argv` themselves

CAUSAL_LMS = (
    *("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-0.6B"),
    "HuggingFaceTB/SmolLM2-135M",
)
SUBSTITUTES = {name: f"tiny/{name.rpartition('/')[2]}" for name in CAUSAL_LMS} | {
    "max_steps=200": "max_steps=2",
    'GRPOConfig("prover", ': (
        'GRPOConfig("prover", use_cpu=True, bf16=False, report_to="none", max_completion_length=8, '
    ),
}
CHAT_TEMPLATE = "{% for message in messages %}User: {{ message.content }}\n{% endfor %}"
TEMPLATE = VerifierInput("{{ problem }}\n{{ solution }}", "</s>", 1024)


def _blocks(page: str) -> list[tuple[str, str]]:
    """The (language, text) of each code block of a page, in order."""
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def _recipes(page: str) -> list[Recipe]:
    texts = [_substituted(text) for language, text in _blocks(page) if language == "yaml"]
    return [load_recipe(yaml.safe_load(text)) for text in texts]


def _write_modules(page: str) -> None:
    """Write the blocks that are files into the working directory."""
    for language, text in _blocks(page):
        if language == "python" and (module := MODULE_NAME.match(text)):
            Path(module[1]).write_text(text, encoding="utf-8")


def _run(page: str) -> dict[str, Any]:
    """Run the Python blocks of a page one after the other; returns the names that they define."""
    _write_modules(page)
    namespace: dict[str, Any] = {}
    for number, (language, text) in enumerate(_blocks(page)):
        name, code = f"{page}, block {number}", _substituted(text)
        if language == "pycon":
            _run_examples(code, name, namespace)
        elif language == "python" and not MODULE_NAME.match(text) and not text.startswith(NOT_RUN):
            exec(compile(code, name, "exec"), namespace)
    return namespace


def _substituted(text: str) -> str:
    for name, substitute in SUBSTITUTES.items():
        text = text.replace(name, substitute)
    return text


def _run_examples(text: str, name: str, namespace: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    test.globs = namespace  # shared: the parser has made a copy
    report: list[str] = []
    assert doctest.DocTestRunner().run(test, out=report.append, clear_globs=False).failed == 0, "".join(report)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory from which modules are imported, with its own cache of datasets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for module in ("my_task", "counting"):
        monkeypatch.delitem(sys.modules, module, raising=False)  # that of another test
    return tmp_path


def _config(tokenizer: PreTrainedTokenizerBase) -> LlamaConfig:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    return LlamaConfig(vocab_size=len(tokenizer), num_labels=1, **sizes, **ids)


def _save(model, tokenizer, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture
def tiny_models(folder, tokenizer) -> None:
    """A tiny language model, with a chat template, for each id of the pages."""
    torch.manual_seed(0)
    for name in CAUSAL_LMS:
        _save(LlamaForCausalLM(_config(tokenizer)), tokenizer, folder / SUBSTITUTES[name])
        (folder / SUBSTITUTES[name] / "chat_template.jinja").write_text(CHAT_TEMPLATE)


@pytest.fixture
def gsm8k_folder(folder) -> None:
    """The folder that the pages name by `path: gsm8k`, with enough problems for every part of a split."""
    example = json.loads(next(text for language, text in _blocks("reference/tasks.md") if language == "json"))
    (folder / "gsm8k").mkdir()
    for split, number in (("train", 60), ("test", 2)):
        rows = [{**example, "question": f"{example['question']} {split} {i}"} for i in range(number)]
        (folder / "gsm8k" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def pair_files(folder) -> None:
    """`train.jsonl` and `test.jsonl`, with the keys of the page's row."""
    example = json.loads(
        next(text for language, text in _blocks("reference/verifier-trainer.md") if language == "json")
    )
    task = load_task("arithmetic", num_train=16, num_test=6)
    for split in ("train", "test"):
        rows = [
            {
                "prompt": problem["problem"] + "\n",
                "chosen": problem["reference"],
                "rejected": "has 3\n#### 3",
                "source": "mine",
            }
            for problem in task.problems(split)
        ]
        assert rows[0].keys() == example.keys()
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def proof_file(folder) -> None:
    """`proofs.jsonl`, with the columns of the page's comment."""
    rows = load_task("proofs", num_train=40).rated_proofs("train").rename_column("proof", "solution")
    rows.remove_columns("problem_id").to_json(folder / "proofs.jsonl")


@pytest.fixture
def runs(folder, tokenizer, tiny_models) -> None:
    """
    The runs that the page on players loads from: one with full weights, three with adapters on a packaged or own
    model.
    """
    packaged = resolve_model("arithmetic", "prover")
    quickstart = folder / "runs/quickstart/prover/round-001/helpful"
    save_player(make_prover(Path(packaged)), load_tokenizer(packaged), quickstart, "prover")
    prover, verifier = LlamaForCausalLM(_config(tokenizer)), LlamaForSequenceClassification(_config(tokenizer))
    _save(prover, tokenizer, folder / "runs/mine/prover/round-003/best-helpful")
    _save(verifier, tokenizer, folder / "runs/quickstart/verifier/round-001")
    TEMPLATE.save(folder / "runs/quickstart/verifier/round-001")
    prover = make_prover(Path(SUBSTITUTES["Qwen/Qwen2.5-1.5B-Instruct"]))
    for name in ("shared/prover/round-003", "gsm8k/prover/round-003/helpful", "gsm8k/prover/round-003/sneaky"):
        save_player(prover, tokenizer, folder / "runs" / name, "prover")
    _save(
        get_peft_model(verifier, lora_for_verifier(LoraConfig(r=2), verifier)),
        tokenizer,
        folder / "runs/gsm8k/verifier/round-003",
    )


def test_examples_of_the_tasks_page_run(folder, tiny_models, gsm8k_folder):
    names = _run("reference/tasks.md")
    assert names["text"].startswith("User: Ana has 3 pens.")  # through the chat template


def test_examples_of_the_page_on_a_custom_task_run(folder):
    task = _run("how-to/custom-task.md")["task"]
    assert "num_wrong_lines" in solution_features(task)
    for split in ("train", "test"):
        assert all(task.grade(row, row["reference"]).correct for row in task.problems(split))


def test_recipes_of_the_tasks_page_are_valid(folder, gsm8k_folder):
    tokenizer = train_tokenizer([], 300)  # of bytes, which can write the texts of any task
    for name in CAUSAL_LMS:
        _save(LlamaForCausalLM(_config(tokenizer)), tokenizer, folder / SUBSTITUTES[name])
    _write_modules("how-to/custom-task.md")
    recipes = [*_recipes("reference/tasks.md"), *_recipes("how-to/custom-task.md")]
    worlds = {recipe.task.name: (recipe, GameProblems.load(recipe)) for recipe in recipes}
    assert worlds.keys() == {"arithmetic", "gsm8k", "counting:CountTask"}
    assert check_recipe(*worlds["counting:CountTask"]) == []


def test_examples_of_the_extensions_page_run(folder, monkeypatch):
    for module in ("my_rules", "my_rewards"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    _write_modules("how-to/custom-code.md")
    with_rule, with_reward = _recipes("how-to/custom-code.md")
    for recipe in (with_rule, with_reward):
        assert check_recipe(recipe, GameProblems.load(recipe)) == []
    paid = load_reward(with_reward.prover.reward)(
        torch.tensor([1.0, 2.0, 0.0, 3.0]),
        torch.tensor([True, False, True, False]),
        torch.tensor([False, False, True, True]),
        group_size=2,
        **with_reward.prover.reward_options,
    )
    # The helpful incorrect and the sneaky correct solution miss their roles; the last outscores half of its group.
    assert paid.tolist() == [0.0, -0.5, -0.5, 0.5]
    rule = StopRule(with_rule.stopping, with_rule.prover)
    means = {"score/helpful_correct": 1.0, "score/sneaky_incorrect": 0.8, "failed/sneaky": 0.0}
    assert [rule.ask(means, step) for step in (19, 20)] == [False, True]
    told = set(
        re.findall(
            r"`((?:accuracy|failed|judged_accuracy|score)/\w+)`", (DOCS / "how-to/custom-code.md").read_text("utf-8")
        )
    )
    by_score = ("error/", "num_scored/")  # for each figure of `score/`
    keys = [key for key in (*FIGURES_OF_EVERY_STEP, *FIGURES_OF_SOME_STEPS) if not key.startswith(by_score)]
    assert told == {key.format(role=role) for key in keys for role in GAME_ROLES}
    assert all(f"`{name}...`" in (DOCS / "how-to/custom-code.md").read_text("utf-8") for name in by_score)


def test_examples_of_the_verifier_trainer_page_run(folder, tiny_models, pair_files):
    names = _run("reference/verifier-trainer.md")
    scorer, pair = names["scorer"], names["train"][0]
    read = scorer.verifier_input.encode(scorer.tokenizer, [pair["prompt"]], [pair["chosen"]])
    assert read == [
        names["trainer"].train_dataset[0]["chosen_ids"]
    ]  # the scorer uses the input format of the training
    assert len(names["scores"]) == 2
    told = set(re.findall(r"`(eval_[a-z_]+)`", (DOCS / "reference/verifier-trainer.md").read_text(encoding="utf-8")))
    assert told - names["trainer"].evaluate().keys() == set()
    trusted, invariant, by_likelihood = _recipes("reference/verifier-trainer.md")
    assert by_likelihood.verifier.kind == "likelihood"
    assert (trusted.rates.source, trusted.data.pairs, trusted.verifier.correction) == ("trusted", "all", "exact")
    assert invariant.verifier.invariance.method == "balanced+irmv1"
    penalty = load_regulariser("own_penalty:worst_risk")
    margins, environments = torch.tensor([0.0, 2.0, -2.0]), torch.tensor([0, 0, 1])
    assert penalty(margins, environments).item() == pytest.approx(2.1269, abs=1e-4)  # log(1 + e^2)


def test_examples_of_the_data_page_run(folder, arithmetic_run):
    shutil.copytree(arithmetic_run / "pool", folder / "pool")
    names = _run("reference/data.md")
    assert [row["role"] for row in names["rows"]] == ["sneaky"] * 40
    assert len(load_pool("sneaky.parquet")) == 40
    assert len(names["heldout"]) < len(names["solutions"])
    assert len(names["pairs"]) == names["report"].num_pairs > 0


def test_recipes_of_the_prover_trainer_page_are_valid():
    combined, recipe, with_critic = _recipes("reference/prover-trainer.md")
    assert (combined.prover.reward, combined.prover.roles) == ("composite", "helpful_only")
    assert (with_critic.prover.algorithm, with_critic.prover.num_batches) == ("ppo", 60)
    assert (recipe.prover.reward_correction, recipe.rates.rho1) == ("backward", 0.1)
    assert audit_prover(recipe.prover, (recipe.rates.rho0, recipe.rates.rho1)).verdict == "real"


def test_examples_of_the_score_verifier_page_run(folder, tiny_models, proof_file):
    names = _run("reference/score-verifier.md")
    assert (folder / "verifier" / "score_verifier.json").exists()
    assert [trainer.state.global_step for trainer in (names["meta"], names["trainer"])] == [2, 0]
    assert names["trainer"].meta_verifier == names["rate"]
    assert all(0 <= score <= 1 for score in names["scores"])
    assert names["qualities"] == names["analyses"]["score"][:8]


def test_examples_of_the_code_page_run():
    names = _run("reference/programs.md")
    assert (names["grade"].correct, names["grade"].certified) == (False, True)
    assert names["task"].name == "functions"


def test_examples_of_the_page_on_migrating_from_ppo_run(folder, tiny_models):
    names = _run("how-to/come-from-trl-ppo.md")
    assert names["args"].beta == 0.05
    assert names["trainer"].state.global_step == 2
    assert (folder / "out/critic/value_model/model.safetensors").exists()


def test_examples_of_the_players_page_run(folder, runs):
    named = json.loads((folder / "runs/quickstart/prover/round-001/helpful/adapter_config.json").read_text())
    assert named["base_model_name_or_path"] == "arithmetic"  # as in the run of `make demo`
    names = _run("reference/players.md")
    scorer = VerifierScorer.from_pretrained("runs/quickstart/verifier/round-001")
    assert scorer([names["problem"]], [names["solution"]]) == pytest.approx([names["score"]], abs=1e-6)
    adapted = VerifierScorer(names["verifier"], names["tokenizer"], TEMPLATE)
    (expected,) = adapted([names["problem"]], [names["solution"]])
    assert [found["score"] for found in names["found"]] == pytest.approx([expected], abs=1e-5)
    assert len(_recipes("reference/players.md")) == 3


def test_examples_of_the_message_game_page_run(folder):
    names = _run("explanation/message-game.md")
    assert names["trainer"].state.global_step == 150
    assert {"eval_accuracy", "eval_accuracy_shuffled"} <= names["figures"].keys()
    assert (folder / "message-game/prover/config.json").exists()


def test_examples_of_the_choosing_page_run(folder, runs):
    verifier = folder / "my-verifier"
    shutil.copytree(
        folder / "runs/quickstart/verifier/round-001", verifier, ignore=shutil.ignore_patterns("digests.json")
    )
    ScoreCalibration({"slope": 1.0, "intercept": 0.0}, [-1.0] * 201, [-2.0] * 201, 400, 100).save(verifier)
    names = _run("how-to/choose-among-answers.md")
    assert names["best"] in (0, 1)
    assert 0 < names["probabilities"][0] < 1
    assert names["accepted"] == [names["scorer"](["How many?"], ["#### 3"])[0] >= -1]


def test_examples_of_the_page_on_serving_run(folder, runs, monkeypatch):
    export_merged(folder / "runs/quickstart/verifier/round-001", folder / "my-verifier", player="verifier")
    lm_eval = {
        name: ModuleType(name) for name in ("lm_eval", "lm_eval.api", "lm_eval.api.filter", "lm_eval.api.registry")
    }
    lm_eval["lm_eval.api.filter"].Filter = object  # the package is not among our requirements
    lm_eval["lm_eval.api.registry"].register_filter = lambda name: lambda found: found
    for name, module in lm_eval.items():
        monkeypatch.setitem(sys.modules, name, module)
    names = _run("how-to/serve-a-verifier.md")
    assert names["trainer"].state.global_step == 2
    scorer, solution = (
        VerifierScorer.from_pretrained("my-verifier"),
        names["text"].removeprefix(f"{names['problems'][0]}\n"),
    )
    assert [names["score"]] == pytest.approx(scorer([names["problems"][0]], [solution]), abs=1e-5)
    monkeypatch.delitem(sys.modules, "choose_filter", raising=False)
    chosen = (
        import_module("choose_filter")
        .ChooseByVerifier("my-verifier")
        .apply([["#### 3", "#### 10"]], [{"question": names["problems"][0]}])
    )
    assert chosen == [[["#### 3", "#### 10"][scorer.choose(names["problems"][0], ["#### 3", "#### 10"])]]]


def test_examples_of_the_noise_page_run(folder):
    names = _run("explanation/noise.md")
    assert names["outcome"].truth is True
    assert len(names["lines"]) == names["outcome"].attempts
    texts = [yaml.safe_load(text) for language, text in _blocks("explanation/noise.md") if language == "yaml"]
    assert [load_recipe(values).noise.applies_to for values in texts] == ["verifier"] * 5 + ["prover", "verifier"]


def test_examples_of_the_readme_run(folder, tiny_models, pair_files):
    names = _run(README)
    assert names["trainer"].args.correction == "none"
    assert (folder / "my-verifier" / "model.safetensors").exists()
    assert names["best"] in (0, 1)
    (recipe,) = _recipes(README)
    assert (recipe.task.name, recipe.prover.lora.r) == ("my_task:MyTask", 16)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_every_page_is_run_or_says_why_not(page):
    name = page.relative_to(DOCS).as_posix() if DOCS in page.parents else f"../{page.name}"
    blocks = [text for language, text in BLOCK.findall(page.read_text("utf-8")) if language in ("python", "pycon")]
    is_run_here = f'"{name}"' in Path(__file__).read_text("utf-8") or name == README
    assert is_run_here or all(text.startswith(NOT_RUN) for text in blocks)
    languages = {language for language, _ in BLOCK.findall(page.read_text("utf-8"))}
    assert languages <= {"python", "pycon", "yaml", "bash", "sh", "json", *OUTPUT}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_recipe_of_a_page_can_be_read(page):
    for language, text in BLOCK.findall(page.read_text("utf-8")):
        if language == "yaml":
            load_recipe(yaml.safe_load(text))


class Understood(Exception):
    """Raised in place of what a command does, once its arguments are read."""


@pytest.fixture
def only_reads_arguments(monkeypatch):
    """Commands end once their arguments are read: what they do takes minutes, or needs a GPU, the Hub or a run."""
    for parser, method in (
        (argparse.ArgumentParser, "parse_args"),
        (argparse.ArgumentParser, "parse_intermixed_args"),
        (ScriptParser, "parse_intermixed_args"),
    ):
        monkeypatch.setattr(parser, method, _stopping_after(getattr(parser, method)))


def _stopping_after(read_arguments: Callable) -> Callable:
    def stop(*words, **options):
        read_arguments(*words, **options)
        raise Understood

    return stop


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_understood(page, only_reads_arguments, monkeypatch, repository):
    """A command knows its arguments, and a recipe that it names exists and takes the settings."""
    monkeypatch.chdir(repository)
    for words in _commands(page):
        program, *arguments = words
        if program in NOT_STARTED or WITHOUT_PARSER & set(words):
            continue
        if program == "pvg":
            with pytest.raises(Understood):
                pvg(arguments)
        else:
            assert program == "python", words
            is_module = arguments[0] == "-m"
            name, *arguments = arguments[is_module:]
            monkeypatch.setattr(sys, "argv", [name, *arguments])
            start = runpy.run_module if is_module else runpy.run_path
            with pytest.raises(Understood):
                start(name, run_name="__main__")
        if program == "pvg" and arguments[0] in ("play", "plan", "pilot", "status", "sweep", "attack"):
            _, recipe, *rest = arguments
            if Path(recipe).stem not in ("mine", "counting") and not recipe.startswith("runs/"):
                load = load_message_recipe if "messages/" in recipe else load_recipe
                load(find_recipe(recipe), [word for word in rest if "=" in word and not word.startswith("-")])


def _commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command of a page, without variables, redirections and the launcher."""
    for language, text in BLOCK.findall(page.read_text("utf-8")):
        begun = ""
        for line in text.splitlines() if language in ("bash", "sh") else ():
            begun += line.removesuffix("\\") + "\n"
            try:
                words = shlex.split(begun, comments=True)
            except ValueError:  # a quotation goes on in the next line
                continue
            if line.endswith("\\"):
                continue
            begun = ""
            words = list(dropwhile(lambda word: re.match(r"[A-Z_]+=", word), words))
            if words:
                yield list(takewhile(lambda word: word not in ("<", ">", "|"), words))


@pytest.mark.parametrize(
    "page",
    ["how-to/compare-seeds-and-settings.md", "reference/figures.md", "reference/grading.md", "reference/sandbox.md"],
)
def test_examples_that_need_no_model_run(page, monkeypatch, repository):
    monkeypatch.chdir(repository)
    assert _run(page)


def test_the_example_of_the_errors_page():
    names = _run("reference/errors.md")
    assert "`learning_rate`" in names["message"]


def test_every_example_of_the_formulas_page_runs():
    try:
        _run("reference/formulas.md")
    finally:
        torch.set_printoptions(profile="default")
