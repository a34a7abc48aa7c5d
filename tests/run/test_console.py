"""Output on the console."""

import io
import logging
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from pvg_hf import load_recipe
from pvg_hf.cli.main import main
from pvg_hf.run.console import ScriptParser, _make_handler, shows_progress
from pvg_hf.run.environment import (
    full_command,
    has_default_threads,
    is_by_accelerate,
    launcher,
    launcher_for,
    processes_asked,
    script_line,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def said(monkeypatch):
    """Log records to a stream and return the text."""

    def say(stream: io.StringIO, *records: tuple[str, int, str]) -> str:
        monkeypatch.setattr(sys, "stderr", stream)
        handler = _make_handler()
        for name, level, message in records:
            handler.handle(logging.LogRecord(name, level, __file__, 1, message, (), None))
        return stream.getvalue()

    return say


def test_a_file_has_a_line_per_record_however_long(said):
    text = said(io.StringIO(), ("pvg_hf.game.play", logging.INFO, "round-000/prover: " + "a figure, " * 30))
    assert text.count("\n") == 1
    assert "\x1b" not in text


def test_warnings_are_named(said):
    text = said(io.StringIO(), ("transformers", logging.WARNING, "mind the gap"), ("trl", logging.ERROR, "it fell"))
    first, second = text.splitlines()
    assert first.endswith("Warning: mind the gap")
    assert second.endswith("Error: it fell")


def test_a_warning_of_python_loses_its_place(said):
    text = said(io.StringIO(), ("py.warnings", logging.WARNING, "/a/b.py:12: UserWarning: mind the gap\n  warn(x)\n"))
    assert text.endswith(" UserWarning: mind the gap\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "py.warnings",
            "/a.py:1: FutureWarning: `gradient_checkpointing` is deprecated and will be removed in v6.\n  w\n",
        ),
        (
            "py.warnings",
            "/a.py:1: FutureWarning: `is_gradient_checkpointing` is deprecated and will be removed.\n  w\n",
        ),
        ("transformers.trainer", "The tokenizer has new PAD/BOS/EOS tokens that differ from the model config and"),
    ],
)
def test_harmless_warnings_are_left_out(said, name, message):
    assert said(io.StringIO(), (name, logging.WARNING, message)) == ""


def test_a_terminal_gets_wrapped_lines(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = said(Terminal(), ("pvg_hf.game.play", logging.INFO, "a figure, " * 30))
    assert text.count("\n") > 3


@pytest.mark.parametrize(
    ("stream", "wanted", "shown"), [(Terminal(), True, True), (Terminal(), False, False)], ids=["wanted", "unwanted"]
)
def test_progress_bars_are_for_terminals(monkeypatch, stream, wanted, shown):
    monkeypatch.setattr(sys, "stderr", stream)
    assert shows_progress(load_recipe({"logging": {"progress": wanted}}).logging) == shown
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not shows_progress(load_recipe({"logging": {"progress": wanted}}).logging)


def test_script_line_is_quoted_and_leaves_out_options(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/pvg", "status", "a.yaml", "prover.lora={r: 8}"])
    assert script_line() == "-m pvg_hf play a.yaml 'prover.lora={r: 8}'"
    assert full_command("python", script_line()) == "pvg play a.yaml 'prover.lora={r: 8}'"
    monkeypatch.setattr(sys, "argv", ["scripts/run_rounds.py", "a.yaml", "--status"])
    assert script_line(without=["--status"]) == "scripts/run_rounds.py a.yaml"
    monkeypatch.setattr(sys, "argv", ["/clone/experiments/arms.py", "a.yaml"])
    assert full_command("python", script_line()) == "python -m experiments.arms a.yaml"


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "python"),
        ({"ACCELERATE_MIXED_PRECISION": "no"}, "accelerate launch --num_processes 1"),
        (
            {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_USE_CPU": "True"},
            "accelerate launch --cpu --num_processes 1",
        ),
        (  # which starts several processes by torchrun
            {"ACCELERATE_MIXED_PRECISION": "bf16", "TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "4"},
            "accelerate launch --num_processes 4",
        ),
        (
            {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            "torchrun --nproc_per_node 2",
        ),
    ],
)
def test_a_launcher_is_detected_by_its_environment_variables(environment, named, monkeypatch):
    for name in ("ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_CPU", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pvg_hf.run.environment._parent_command", lambda: ["python", "bin/accelerate", "launch"])
    assert launcher() == named


@pytest.mark.parametrize(
    ("parent", "is_launcher"),
    [
        (["/usr/bin/python3", "/usr/local/bin/accelerate", "launch", "game.py"], True),
        (["python", "-m", "accelerate.commands.launch", "game.py"], True),
        (["/usr/bin/python3", "/usr/local/bin/accelerate-launch", "game.py"], True),
        (["-bash"], False),
        (["bash", "-c", "python game.py; accelerate launch game.py"], False),
        ([], False),
    ],
)
def test_a_variable_of_accelerate_is_no_launcher(parent, is_launcher, monkeypatch):
    """A shell may have set it, or an outer process."""
    monkeypatch.setattr("pvg_hf.run.environment._parent_command", lambda: parent)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert is_by_accelerate() == is_launcher
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION")
    assert not is_by_accelerate()


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["launch", "--cpu", "--num_processes", "2", "-m", "pvg_hf"], 2),
        (["launch", "--num-processes=4", "game.py"], 4),
        (["launch", "game.py"], 1),
        (["launch", "--num_processes"], 1),
    ],
)
def test_the_processes_that_accelerate_was_asked_for_are_known(words, asked, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    monkeypatch.setattr("pvg_hf.run.environment._parent_command", lambda: ["python", "bin/accelerate", *words])
    assert processes_asked() == asked
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION")  # another program started this process
    assert processes_asked() == 1


def test_several_processes_need_a_launcher():
    assert (launcher_for(1), launcher_for(3)) == ("python", "accelerate launch --num_processes 3")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ACCELERATE_MIXED_PRECISION": "no", "OMP_NUM_THREADS": "1"}, True),
        ({"ACCELERATE_MIXED_PRECISION": "no", "OMP_NUM_THREADS": "2"}, False),
        ({"ACCELERATE_MIXED_PRECISION": "no", "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2"}, False),
        ({"OMP_NUM_THREADS": "1"}, False),  # of the user's own will
    ],
)
def test_the_single_thread_set_by_the_launcher_is_detected(environment, expected, monkeypatch):
    for name in ("ACCELERATE_MIXED_PRECISION", "OMP_NUM_THREADS", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pvg_hf.run.environment._parent_command", lambda: ["python", "bin/accelerate", "launch"])
    assert has_default_threads() == expected


@pytest.mark.game
def test_a_closed_pipe_is_not_an_error(repository):
    """`| head -1` closes the pipe after its first line."""
    program = "from pvg_hf.run.console import print_result\nfor _ in range(9): print_result('x' * 100_000)"
    reading, writing = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, cwd=repository)
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    assert (process.communicate()[1], process.returncode) == (b"", 0)


@pytest.mark.game
@pytest.mark.nightly
@pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb, which makes the folders")
def test_a_killed_process_leaves_no_folders_behind(tmp_path, repository):
    """wandb makes two at import, and TRL imports wandb."""
    program = "; ".join(
        (
            "import os, signal",
            "from pvg_hf.run.console import quiet_libraries",
            "quiet_libraries()",
            "import pvg_hf.game.play",
            "print(pvg_hf.game.play.play.__name__, flush=True)",
            "os.kill(os.getpid(), signal.SIGKILL)",
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=repository,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("play\n", -signal.SIGKILL), done.stderr
    assert list(tmp_path.glob("*wandb*")) == []


@pytest.mark.game
@pytest.mark.nightly
@pytest.mark.skipif(find_spec("wandb") is None, reason="is about wandb")
def test_wandb_can_still_be_imported(repository):
    program = (
        "from pvg_hf.run.console import quiet_libraries; quiet_libraries(); import wandb; print(callable(wandb.init))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--prover.beta", "0.1"], "prover.beta=0.1"),
        (["--prover.beta=0.1"], "prover.beta=0.1"),
        (["--prover.beta", "0.1", "--plan"], "prover.beta=0.1"),
        (["seed=1", "--prover.max-steps", "5"], "prover.max_steps=5"),
        (["--prover.beta"], "prover.beta=VALUE"),
        (["--prover.beta", "--plan"], "prover.beta=VALUE"),
        (["--prover.trainer.min", "-1"], "prover.trainer.min=-1"),
        (["--num-rounds", "3"], "num_rounds=3"),
        (["--turbo"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_error_for_a_setting_with_dashes_shows_the_right_form(arguments, hint, run_rounds):
    said = run_rounds("recipe.yaml", *arguments)
    assert f"unrecognized arguments: {next(word for word in arguments if word.startswith('--'))}" in said
    assert said.strip().endswith(f": {hint}" if hint else "--turbo")


@pytest.mark.parametrize(
    "words",
    [
        "game.yaml a.b=1 c=x=y --seeds 3 4 --fast",
        "game.yaml --seeds 3 4 a.b=1 c=x=y --fast",
        "--seeds 3 4 a.b=1 --fast game.yaml c=x=y",
        "a.b=1 c=x=y game.yaml --fast --seeds 3 4",
    ],
)
def test_settings_are_read_in_any_place(words):
    parser = ScriptParser("A script.")
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--fast", action="store_true")
    parsed = parser.parse_intermixed_args(words.split())
    assert (parsed.recipe, parsed.overrides) == ("game.yaml", ["a.b=1", "c=x=y"])
    assert (parsed.seeds, parsed.fast) == ([3, 4], True)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "arguments are required: recipe\n"),
        (["QUICKSTART", "--for", "t4"], "--for belongs to --plan"),
        (["QUICKSTART", "--plan", "--for", "rtx4091"], "Unknown card `rtx4091`. Name one"),
        (["QUICKSTART", "prover.bta=1"], "Unknown key `bta` in section `prover`. Did you mean `beta`?"),
        (["QUICKSTART", "0.1"], "'0.1'; write `section.key=value`"),
        (["nowhere.yaml"], "There is no recipe `nowhere.yaml`"),
        (["QUICKSTART", "--phase", "provr"], "no phase `provr`. Did you mean `prover`?"),
        (["QUICKSTART", "--phase", "prover"], "name the round too"),
        (["QUICKSTART", "--phase", "bootstrap", "--round", "0"], "name no round, `--phase bootstrap`"),
        (["QUICKSTART", "--round", "1"], "Name the phase too"),
    ],
)
def test_mistakes_of_a_command_end_with_a_hint(arguments, hint, run_rounds, repository):
    quickstart = str(repository / "recipes" / "quickstart.yaml")
    said = run_rounds(*(quickstart if word == "QUICKSTART" else word for word in arguments))
    assert hint in said
    assert "Traceback" not in said


@pytest.fixture
def run_rounds(repository, tmp_path, monkeypatch, capsys):
    """Run `pvg play`, which must end with status 2, and return its messages."""

    def run(*arguments: str) -> str:
        monkeypatch.chdir(tmp_path)
        try:
            status = main(["play", *arguments])
        except SystemExit as ended:
            status = ended.code
        assert status == 2
        assert not any(tmp_path.iterdir())
        return capsys.readouterr().err

    return run
