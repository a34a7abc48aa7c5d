"""`pvg train`: a verifier on pairs, or a prover on problems, without a recipe or a game."""

import logging
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pvg_hf.cli.solutions import add_column, read_solutions
from pvg_hf.cli.sources import check_new_folder, find_verifier, local_verifier
from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.extensions import suggest
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

FILES = (".jsonl", ".json")


def train(words: Sequence[str]) -> int:
    """
    Train a verifier on solutions, or a prover on problems, without a recipe or a game.

        pvg train verifier labelled.jsonl --model HuggingFaceTB/SmolLM2-135M --output my-verifier max_steps=200
        pvg train prover gsm8k --model Qwen/Qwen2.5-0.5B-Instruct --verifier my-verifier --output my-prover

    A line of a verifier's data is a solution (`problem`, `solution`, `correct`) or a pair (`prompt`, `chosen`,
    `rejected`). Each solution is paired with one of the other kind to the same problem. Problems are those of a task:
    a built-in one, or MODULE:CLASS of your own. Settings are arguments of NoisyRewardConfig or ProverGRPOConfig, most
    of which are TRL's. The adapter of --lora has rank 16.
    """
    parser = ScriptParser(train.__doc__, "pvg train")
    parser.add_argument("player", choices=["verifier", "prover"])
    parser.add_argument("data", help="for a verifier: a .jsonl file or a dataset on the Hub; for a prover: a task")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="arguments of the trainer, e.g. max_steps=200"
    )
    parser.add_argument(
        "--model",
        required=True,
        help="the weights to begin with: a folder, a Hub id, or a packaged model such as arithmetic",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder to create")
    parser.add_argument("--eval", dest="eval_data", help="for a verifier: data to evaluate on, like the training data")
    add_column(parser)
    parser.add_argument("--verifier", help="for a prover: the verifier that it has to convince")
    parser.add_argument("--lora", action="store_true", help="train an adapter")
    options = parser.parse_intermixed_args(words)
    if options.player == "prover" and options.verifier is None:
        parser.error("a prover needs a --verifier")

    def work() -> str:
        check_new_folder(options.output)
        for source in (options.data, options.eval_data) if options.player == "verifier" else ():
            if source is not None and source.endswith(FILES) and not Path(source).is_file():
                raise ValueError(f"There is no file `{source}`.")
        settings = dict(_read_setting(text) for text in options.overrides)
        verifier = options.verifier and find_verifier(options.verifier)
        quiet_libraries()
        from pvg_hf.models.sources import resolve_model

        options.model = resolve_model(options.model, options.player)
        return (
            _train_verifier(options, settings)
            if options.player == "verifier"
            else _train_prover(options, settings, verifier)
        )

    set_up_logging()
    return run_command(work)


def _train_verifier(options: Namespace, settings: Mapping[str, str]) -> str:
    from pvg_hf.trainers.reward.config import NoisyRewardConfig
    from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

    args = _make_config(NoisyRewardConfig, options, settings)
    train_pairs, are_made = _load_pairs(options.data, options)
    trainer = NoisyRewardTrainer(
        options.model,
        args=args,
        train_dataset=train_pairs,
        eval_dataset=_load_pairs(options.eval_data, options)[0] if options.eval_data else None,
        peft_config=_adapter(options, "SEQ_CLS"),
    )
    # The line break after a problem belongs to the input format, not to the problem.
    if are_made and trainer.verifier_input:
        trainer.verifier_input = replace(trainer.verifier_input, template=VerifierConfig().template)
    trainer.train()
    found = f"pair accuracy {trainer.evaluate()['eval_accuracy']:.3f}\n" if options.eval_data else ""
    trainer.save_model(str(options.output))
    return f"{found}{options.output}"


def _train_prover(options: Namespace, settings: Mapping[str, str], verifier: str) -> str:
    from datasets import Dataset
    from transformers import AutoTokenizer

    from pvg_hf.core.roles import GAME_ROLES
    from pvg_hf.scoring import VerifierScorer
    from pvg_hf.tasks import PromptBuilder, load_task
    from pvg_hf.trainers.prover.config import ProverGRPOConfig
    from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer

    task = load_task(options.data)
    prompts = PromptBuilder(task)
    tokenizer = AutoTokenizer.from_pretrained(options.model, trust_remote_code=False)
    build = prompts.messages if tokenizer.chat_template else prompts.text
    args = _make_config(ProverGRPOConfig, options, settings)
    rows = [
        {**row, "role": role.value, "prompt": build(row, role)}
        for row in task.problems("train") or ()
        for role in GAME_ROLES
    ]
    trainer = ProverGRPOTrainer(
        options.model,
        scorer=VerifierScorer.from_pretrained(local_verifier(verifier)),
        grader=task.grade,
        args=args,
        train_dataset=Dataset.from_list(rows),
        peft_config=_adapter(options, "CAUSAL_LM"),
    )
    trainer.train()
    trainer.save_model(str(options.output))
    return str(options.output)


def _read_setting(text: str) -> tuple[str, str]:
    key, is_set, value = text.partition("=")
    if not is_set:
        raise ValueError(f"`{text}` is no setting: write key=value, such as max_steps=200.")
    return key, value


def _make_config(kind: Any, options: Namespace, settings: Mapping[str, str]) -> Any:
    from transformers import HfArgumentParser

    known = [field.name for field in fields(kind)]
    for name in settings:
        if name not in known:
            raise ValueError(f"`{kind.__name__}` has no argument `{name}`. {suggest(name, known)}")
    words = [f"--{name}={value}" for name, value in {"output_dir": str(options.output), **settings}.items()]
    (args,) = HfArgumentParser(kind).parse_args_into_dataclasses(words)  # which converts each to its type
    return args


def _adapter(options: Namespace, task_type: str) -> Any:
    if not options.lora:
        return None
    from peft import LoraConfig

    return LoraConfig(r=16, lora_alpha=32, task_type=task_type)


def _load_pairs(source: str, options: Namespace) -> tuple[Any, bool]:
    """Load pairs, or make them of labelled solutions, and return them with whether they were made."""
    from datasets import Dataset, load_dataset

    data = Dataset.from_json(source) if source.endswith(FILES) else load_dataset(source, split="train")
    if "chosen" in data.column_names or "chosen_ids" in data.column_names:
        return data, False
    rows = read_solutions(source, options.column, ("problem", "solution", "correct"))
    of_problems = [list(_pair(group)) for _, group in rows.groupby("problem_id", sort=False)]
    num_paired, pairs = sum(map(bool, of_problems)), list(chain.from_iterable(of_problems))
    if not pairs:
        raise ValueError(f"No problem of {source} has a correct and an incorrect solution, as a pair needs.")
    logger.info(
        "%s: %d pairs, from %d of %d problems; the others lack correct or incorrect solutions",
        *(source, len(pairs), num_paired, len(of_problems)),
    )
    return Dataset.from_list(pairs), True


def _pair(rows: "pd.DataFrame") -> Iterator[dict[str, str]]:
    """Pair the solutions to a problem, so that each is in a pair; those of the rarer kind are in several."""
    right, wrong = (rows.loc[rows["correct"] == kind, "solution"].tolist() for kind in (True, False))
    if not right or not wrong:
        return
    problem = rows["problem"].iloc[0]
    for place in range(max(len(right), len(wrong))):
        chosen, rejected = right[place % len(right)], wrong[place % len(wrong)]
        yield {"prompt": f"{problem}\n", "chosen": chosen, "rejected": rejected}
