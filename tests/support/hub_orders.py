"""Functions that the client's process runs; their arguments and results are plain values."""

import io
import logging
import os
import re
import signal
import sys
import time
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download

from pvg_hf import load_recipe, play, pull_round, push_round
from pvg_hf.app.runs import open_run
from pvg_hf.app.space import SpaceCallback, push_space
from pvg_hf.check.machine import check_hub
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.check.plan import describe_plan
from pvg_hf.config.sections import HubConfig
from pvg_hf.core import hub_access
from pvg_hf.data.problems import GameProblems
from pvg_hf.experimental.answering.answerer import Answerer
from pvg_hf.experimental.attacks.verifier_attack import attack_verifier
from pvg_hf.experimental.messages.building import LoadedWorld, make_players, open_world
from pvg_hf.experimental.messages.game_modules import MessageGame
from pvg_hf.experimental.messages.judge import scores_of
from pvg_hf.experimental.messages.mlp_players import MessageMLPProver, MessageMLPVerifier
from pvg_hf.experimental.messages.stackelberg_config import StackelbergConfig
from pvg_hf.experimental.messages.stackelberg_trainer import StackelbergTrainer
from pvg_hf.experimental.study.legibility import study_folder
from pvg_hf.experimental.study.upload import uploaded
from pvg_hf.game.publish import publish_rounds
from pvg_hf.hub.locate import locate_run
from pvg_hf.hub.pull import pull_into
from pvg_hf.run.layout import RunFolder
from tests.support.index_rows import problem_ids
from tests.support.message_games import small_game, small_recipe

hub_access.WAITS = (0.01, 0.02)  # three attempts


@contextmanager
def log_into(text: io.StringIO):
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def push(folder: str, round_index: int, **hub: Any) -> str:
    """Returns what was logged."""
    said = io.StringIO()
    with log_into(said):
        push_round(folder, round_index, hub=HubConfig(**hub))
    return said.getvalue()


def push_in_child(folder: str, round_index: int, pid_file: str) -> int:
    """Push in a child process; returns its exit code, the negative number of the signal if one killed it."""
    pid = os.fork()
    if pid == 0:
        Path(pid_file).write_text(str(os.getpid()))
        push(folder, round_index)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def pull(run: str, round_index: Any, output_dir: str, **options: Any) -> str:
    return str(pull_round(run, round_index, output_dir=output_dir, **options))


def begin(root: str, run: str) -> int:
    return pull_into(Path(root), run)


def begin_and_be_killed(root: str, run: str, num_moved: int) -> int:
    """Pull a run's folder in a process that is killed after a number of files were moved; returns its exit code."""
    pid = os.fork()
    if pid == 0:
        moved: list[str] = []

        def kill(event: str, arguments: tuple) -> None:
            if event == "os.rename" and Path(arguments[1]).parent == Path(root):
                moved.append(str(arguments[1]))
                if len(moved) > num_moved:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        begin(root, run)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def attack(recipe: dict[str, Any]) -> str:
    """Attack the verifier that a recipe names; returns the folder."""
    return str(attack_verifier(load_recipe(recipe), num_workers=1))


def locate(source: str) -> str:
    return str(locate_run(source))


def answer(run: str, problem: str) -> tuple[float | None, list[float]]:
    """Probability and scores of four solutions."""
    reply = Answerer.from_run(run, device="cpu")(problem, num_samples=4)
    return reply.probability, [candidate.score for candidate in reply.candidates]


def open_in_the_app(source: str) -> tuple[list[int], list[str]]:
    """Rounds and the first problems of the app's index."""
    index = open_run(source).index()
    return index.rounds, problem_ids(index, index.rounds[-1])[:5]


def play_recipe(recipe: dict[str, Any], **options: Any) -> str:
    """Returns what was logged."""
    said = io.StringIO()
    with log_into(said):
        play(load_recipe(recipe), **options)
    return said.getvalue()


def publish(recipe: dict[str, Any]) -> None:
    """Publish as a game does after each evaluation."""
    recipe = load_recipe(recipe)
    publish_rounds(recipe, RunFolder.of(recipe))


def mistakes(recipe: dict[str, Any]) -> list[str]:
    return list(check_hub(load_recipe(recipe)))


def all_mistakes(recipe: dict[str, Any]) -> list[str]:
    recipe = load_recipe(recipe)
    return check_recipe(recipe, GameProblems.load(recipe))


def plan(recipe: dict[str, Any]) -> str:
    return describe_plan(load_recipe(recipe))


def run_card(card: str, probe: str, **replacements: str) -> Any:
    """Run the Python blocks of a card, and return a name that they define."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", card, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        for text, replacement in replacements.items():
            block = block.replace(text, replacement)
        exec(compile(block, "card", "exec"), names)
    return eval(probe, names)


def fetch(repo: str, revision: str) -> str:
    return snapshot_download(repo, revision=revision)


def load_rows(repo: str, config: str, split: str, revision: str | None = None) -> list[dict[str, Any]]:
    from datasets import load_dataset

    return load_dataset(repo, config, split=split, revision=revision).to_list()


def card_of(repo: str, revision: str) -> str:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(repo, "README.md", revision=revision)).read_text(encoding="utf-8")


def model_index(repo: str, revision: str) -> list[tuple[str, float]]:
    """Names and values of the results that the Hub reads from a model card."""
    from huggingface_hub import ModelCard

    results = ModelCard(card_of(repo, revision)).data.eval_results
    return [(result.metric_name, result.metric_value) for result in results]


def run_command(*words: str) -> tuple[int, str, str]:
    """Returns the exit status of `pvg`, and what it wrote on both outputs."""
    from pvg_hf.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


def run_command_without_token(*words: str) -> tuple[int, str, str]:
    token = os.environ.pop("HF_TOKEN")
    try:
        return run_command(*words)
    finally:
        os.environ["HF_TOKEN"] = token


def play_with_space(recipe: dict[str, Any]) -> str:
    """Play as the script does if `hub.space` is set."""
    return play_recipe(recipe, callbacks=[SpaceCallback()])


def push_app(folder: str, space: str, **options: Any) -> str:
    """Returns what was logged."""
    said = io.StringIO()
    with log_into(said):
        push_space(folder, space, **options)
    return said.getvalue()


def open_study_app(run: str, folder: str, repository: str) -> str:
    """Open the app with a study whose answers are uploaded to the Hub; returns the log."""
    from pvg_hf.experimental.study.app import StudySettings, make_study_app

    said = io.StringIO()
    with log_into(said), ExitStack() as stack:
        make_study_app(open_run(run), StudySettings(folder=Path(folder), repository=repository), stack)
    return said.getvalue()


def find_study(run: str) -> str:
    """The app's default folder for the study of a run."""
    return str(study_folder(open_run(run)))


def upload_answers(repository: str, folder: str, lines: list[str]) -> tuple[list[str], str]:
    """
    Run a study that ends right after its answers; returns the files in the folder once the study was opened, and the
    log.
    """
    place, said = Path(folder), io.StringIO()
    with log_into(said), uploaded(repository, place, os.environ["HF_TOKEN"]) as lock:
        restored = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
        time.sleep(1)  # the commit at the start does not have the answers
        with lock, (place / "answers.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
    return restored, said.getvalue()


def score_verifier(repo: str, revision: str) -> tuple[str, str, str]:
    """Prompts of a score verifier on the Hub: as used, as used by a training that starts from it, and without it."""
    from pvg_hf import ScoreVerifierConfig
    from pvg_hf.scoring import GenerativeVerifier

    verifier = GenerativeVerifier.from_pretrained(repo, revision=revision, device="cpu")
    args = ScoreVerifierConfig("unused", use_cpu=True, model_init_kwargs={"revision": revision})
    found = args.verifier_settings(repo)
    return verifier.settings.evaluate_prompt, found.evaluate_prompt, args.verifier_settings().evaluate_prompt


def push_message_game(folder: str, repo: str, *, strategy: str, in_the_end: bool) -> list[float]:
    """Train a small message game with `push_to_hub`, and return the scores of two problems by the trained players."""
    recipe = small_recipe()
    loaded = open_world(recipe)
    settings = {"num_rounds": 2, "prover_steps": 3, "verifier_steps": 2, "save_strategy": "steps", "save_steps": 5}
    settings |= {"use_cpu": True, "disable_tqdm": True, "report_to": "none"}
    hub = {"push_to_hub": True, "hub_model_id": repo, "hub_strategy": strategy, "hub_always_push": True}
    trainer = StackelbergTrainer(
        *make_players(recipe, loaded, 0),
        args=StackelbergConfig(folder, **settings, **hub),
        train_dataset=loaded.train,
        eval_dataset=loaded.test,
    )
    trainer.train()
    if in_the_end:
        trainer.evaluate()
        trainer.push_to_hub(tags="test")
    return _scores_of(trainer.game, loaded)


def message_scores(repo: str, revision: str = "main") -> list[float]:
    """Return the scores of two problems by the players in a repository."""
    players = [
        player_class.from_pretrained(repo, subfolder=name, revision=revision)
        for name, player_class in (("prover", MessageMLPProver), ("verifier", MessageMLPVerifier))
    ]
    return _scores_of(MessageGame(*players), open_world(small_recipe()))


def _scores_of(game: MessageGame, loaded: LoadedWorld) -> list[float]:
    return scores_of(game.eval(), loaded.test)[:2].tolist()


def push_message_player(repo: str) -> tuple[float, float]:
    """Push a prover by its own `push_to_hub`, and return a weight before and after it was loaded again."""
    prover = small_game().prover
    prover.push_to_hub(repo)
    loaded = MessageMLPProver.from_pretrained(repo)
    return prover.network[0].weight[0, 0].item(), loaded.network[0].weight[0, 0].item()
