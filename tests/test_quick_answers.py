"""Help, a mistake in the arguments and `--status` are answered without loading torch and other large libraries."""

import json
import socket
import subprocess
import sys

import pytest

from pvg_hf.config import load_recipe
from pvg_hf.run.layout import RunFolder

RECIPE = "recipes/quickstart.yaml"
MISSPELLED = [RECIPE, "prover.learnig_rate=1"]
OF_RECIPES = [["no-such.yaml"], MISSPELLED]  # arguments of a script that takes a recipe
MESSAGES = "recipes/messages/linear_f2.yaml"
OF_MESSAGES = [["no-such.yaml"], [MESSAGES, "training.num_ronds=1"]]

WRONG: dict[str, list[list[str]]] = {
    "answer.py": [
        ["no-such-run", "How many?"],
        ["runs/no-such-run", "How many?"],
        ["no-such-run", "How many?", "--choose", "no-such-rule"],
    ],
    "attack_verifier.py": OF_RECIPES,
    "auto_label.py": [["proofs.jsonl", "--verifier", "v", "--output", "o", "-m", "2"]],
    "compare_messages.py": [[*words, "--output", "o", "--variant", "one"] for words in OF_MESSAGES],
    "evaluate_again.py": [["no-such-run"]],
    "evaluate_run.py": [["no-such-run"], ["no-such-run", "--only", "no-such-evaluation"]],
    "export_player.py": [["no-such-run", "--output", "o"]],
    "pull_round.py": [["ana/run", "no-such-round"], ["no-such-run"]],
    "push_run.py": [["no-such-run"]],
    "push_space.py": [["no-such-run"], ["no-such-run", "--output", "o"]],
    "run_messages.py": OF_MESSAGES,
    "run_phases.py": OF_RECIPES,
    "run_rounds.py": [
        *OF_RECIPES,
        [RECIPE, "--status", "--phsae"],
        [RECIPE, "--phase", "no-such-phase"],
        [RECIPE, "--plan", "--for", "no-such-card"],
    ],
    "sweep_equilibrium.py": OF_MESSAGES,
    "sweep_noise.py": OF_RECIPES,
}


WRONG_OF_TOOLS: dict[str, list[list[str]]] = {
    "attack_sandbox": [["--programs", "many"], ["--backend", "none"]],
    "build_base_models": [["--player", "no-such-player"]],
    "check_gpu": [["--only", "no-such-part"]],
    "write_pair_picture": [["no-such-run", "o.png"]],
    "write_reference": [["--chek"]],
}


@pytest.fixture(scope="module")
def answers(repository, tmp_path_factory):
    """For all commands of this file, by their words: whether they are right, and what `light_commands` says of them."""
    run = tmp_path_factory.mktemp("run")
    recipe = load_recipe({"name": "begun", "output_dir": str(run)})
    folder = RunFolder.of(recipe)
    folder.write_recipe(recipe)
    (folder.root / "pool" / ".base.partial").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        commands = {(f"scripts/{name}", "--help"): True for name in WRONG} | {("-m", "pvg_hf.app", "--help"): True}
        commands |= {(f"scripts/{name}", *words): False for name, lines in WRONG.items() for words in lines}
        commands |= {("-m", f"tools.{name}", "--help"): True for name in WRONG_OF_TOOLS}
        commands |= {
            ("-m", f"tools.{name}", *words): False for name, lines in WRONG_OF_TOOLS.items() for words in lines
        }
        # `runs/no-such-run` is no name of the Hub, also in a clone in which nothing was played.
        commands |= {("-m", "pvg_hf.app", run): False for run in ("no-such-run", "runs/no-such-run")}
        commands |= {("-m", "pvg_hf.app", str(run), "--port", str(taken.getsockname()[1])): False}
        commands |= {("scripts/run_rounds.py", str(folder.recipe), "--status"): True}
        commands |= {("scripts/run_messages.py", MESSAGES, f"output_dir={run}", "--status"): True}
        ran = subprocess.run(
            [sys.executable, "-m", "tests.support.light_commands", str(tmp_path_factory.mktemp("output"))],
            input=json.dumps(list(commands)),
            cwd=repository,
            capture_output=True,
            text=True,
        )
    assert ran.returncode == 0, ran.stderr
    return {words: (commands[words], answer) for words, answer in zip(commands, json.loads(ran.stdout), strict=True)}


def test_every_script_is_tried(repository):
    assert sorted(WRONG) == sorted(path.name for path in (repository / "scripts").glob("*.py"))
    assert sorted(WRONG_OF_TOOLS) == sorted(path.stem for path in (repository / "tools").glob("*.py"))


@pytest.mark.parametrize(
    "command", [*(f"scripts/{name}" for name in WRONG), *(f"tools.{name}" for name in WRONG_OF_TOOLS), "pvg_hf.app"]
)
def test_help_and_mistakes_are_answered_without_large_libraries(command, answers):
    of_command = {words: found for words, found in answers.items() if command in words}
    assert len(of_command) >= 2
    for words, (is_right, answer) in of_command.items():
        assert answer["heavy"] == [], words
        assert answer["is_right"] == is_right, (words, answer)
        assert "Traceback" not in answer["stderr"], words
