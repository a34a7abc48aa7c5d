"""Help, a mistake in the arguments and `--status` are answered without loading torch and other large libraries."""

import json
import socket
import subprocess
import sys

import pytest

from pvg_hf.cli.main import COMMANDS
from pvg_hf.config import load_recipe
from pvg_hf.run.layout import RunFolder

RECIPE = "recipes/quickstart.yaml"
MISSPELLED = [RECIPE, "prover.learnig_rate=1"]
OF_RECIPES = [["no-such.yaml"], ["quickstrat"], MISSPELLED]  # arguments of a script that takes a recipe
MESSAGES = "recipes/messages/linear_f2.yaml"

WRONG: dict[str, list[list[str]]] = {
    "play": [
        *OF_RECIPES,
        [RECIPE, "--status", "--phsae"],
        [RECIPE, "--phase", "no-such-phase"],
        [MESSAGES, "training.num_ronds=1"],
    ],
    "plan": [*OF_RECIPES, [RECIPE, "--for", "no-such-card"]],
    "pilot": OF_RECIPES,
    "status": OF_RECIPES,
    "recipes": [["copy"], ["copy", "no-such-recipe"]],
    "sweep": OF_RECIPES,
    "report": [["no-such-run"]],
    "show": [["no-such-run"], ["runs/no-such-run"]],
    "compare": [["no-such-run", "no-such-run"], ["RUN:x", "RUN"]],
    "evaluate": [["no-such-run"], ["no-such-run", "--only", "no-such-evaluation"]],
    "attack": OF_RECIPES,
    "score": [["no-such-verifier", "no-such-file.jsonl"]],
    "choose": [["no-such-verifier", "no-such-file.jsonl"]],
    "bench": [["no-such-verifier"], ["http://localhost/score"], ["length", "--num-problems", "1"]],
    "calibrate": [["no-such-verifier", "no-such-file.jsonl"]],
    "train": [["verifier", "pairs.jsonl", "--output", "o"], ["prover", "gsm8k", "--model", "m", "--output", "o"]],
    "answer": [
        ["no-such-run", "How many?"],
        ["runs/no-such-run", "How many?"],
        ["no-such-run", "How many?", "--choose", "no-such-rule"],
    ],
    "label": [["proofs.jsonl", "--verifier", "v", "--output", "o", "-m", "2"]],
    "export": [["no-such-run", "--output", "o"]],
    "push": [["no-such-run"]],
    "pull": [["ana/run", "no-such-round"], ["no-such-run"]],
    "space": [["no-such-run"], ["no-such-run", "--output", "o"]],
    "new": [["no-such-kind"]],
    "doctor": [["--no-such-option"]],
}

WRONG_OF_SCRIPTS: dict[str, list[list[str]]] = {
    "run_rounds.py": OF_RECIPES,
}

WRONG_OF_TOOLS: dict[str, list[list[str]]] = {
    "attack_sandbox": [["--programs", "many"], ["--backend", "none"]],
    "build_base_models": [["--player", "no-such-player"]],
    "build_bench_set": [[], ["--games"]],
    "build_gsm8k_attacks": [[], ["--games"]],
    "check_gpu": [["--only", "no-such-part"]],
    "write_pictures": [["--chek"], ["no-such-picture"]],
    "write_reference": [["--chek"]],
}


STARTS = {"-m pvg_hf": WRONG, "scripts/": WRONG_OF_SCRIPTS, "-m tools.": WRONG_OF_TOOLS}


@pytest.fixture(scope="module")
def answers(repository, tmp_path_factory):
    """
    For all commands of this file, by their words: whether they are right, and what `light_commands` says of them.
    """
    run = tmp_path_factory.mktemp("run")
    recipe = load_recipe({"name": "begun", "output_dir": str(run)})
    folder = RunFolder.of(recipe)
    folder.write_recipe(recipe)
    (folder.root / "pool" / ".base.partial").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        commands: dict[tuple[str, ...], bool] = {("-m", "pvg_hf"): True, ("-m", "pvg_hf", "no-such-command"): False}
        for start, wrong in STARTS.items():
            for name, lines in wrong.items():
                command = (*start.split(), name) if start.endswith("pvg_hf") else tuple(f"{start}{name}".split())
                commands[*command, "--help"] = True
                commands |= {
                    (*command, *(word.replace("RUN", str(folder.root)) for word in words)): False for words in lines
                }
        commands["-m", "pvg_hf", "show", str(folder.root), "--port", str(taken.getsockname()[1])] = False
        commands["-m", "pvg_hf", "status", str(folder.recipe)] = True
        commands["-m", "pvg_hf", "status", MESSAGES, f"output_dir={run}"] = True
        commands["-m", "pvg_hf", "recipes"] = True
        ran = subprocess.run(
            [sys.executable, "-m", "tests.support.light_commands", str(tmp_path_factory.mktemp("output"))],
            input=json.dumps(list(commands)),
            cwd=repository,
            capture_output=True,
            text=True,
        )
    assert ran.returncode == 0, ran.stderr
    return {words: (commands[words], answer) for words, answer in zip(commands, json.loads(ran.stdout), strict=True)}


def test_every_command_is_tried(repository):
    assert sorted(WRONG) == sorted(name for group in COMMANDS.values() for name in group)
    assert sorted(WRONG_OF_SCRIPTS) == sorted(path.name for path in (repository / "scripts").glob("*.py"))
    assert sorted(WRONG_OF_TOOLS) == sorted(path.stem for path in (repository / "tools").glob("*.py"))


@pytest.mark.parametrize(
    ("start", "name"), [(start, name) for start, wrong in STARTS.items() for name in wrong], ids=lambda word: word
)
def test_help_and_mistakes_are_answered_without_large_libraries(start, name, answers):
    command = (*start.split(), name) if start.endswith("pvg_hf") else tuple(f"{start}{name}".split())
    of_command = {words: found for words, found in answers.items() if words[: len(command)] == command}
    assert len(of_command) >= 2
    for words, (is_right, answer) in of_command.items():
        assert answer["heavy"] == [], words
        assert answer["is_right"] == is_right, (words, answer)
        assert "Traceback" not in answer["stderr"], words


def test_an_unknown_command_is_answered_with_a_suggestion(answers):
    is_right, answer = answers["-m", "pvg_hf", "no-such-command"]
    assert not is_right
    assert "Unknown command `no-such-command`" in answer["stderr"]
    assert "pvg COMMAND" in answers["-m", "pvg_hf"][1]["stdout"]
