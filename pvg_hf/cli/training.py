"""`pvg train`: a verifier on pairs, or a prover on problems, without a recipe or a game."""

import logging
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pvg_hf.cli.solutions import SOURCE, add_data_options, read_source
from pvg_hf.cli.sources import check_new_folder, find_verifier, local_verifier
from pvg_hf.core.extensions import suggest
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging

if TYPE_CHECKING:
    from pvg_hf.data.reading import Pair

logger = logging.getLogger(__name__)


def train(words: Sequence[str]) -> int:
    """
    Train a verifier on solutions, or a prover on problems, without a recipe or a game.

        pvg train verifier labelled.jsonl --model HuggingFaceTB/SmolLM2-135M --output my-verifier max_steps=200
        pvg train prover gsm8k --model Qwen/Qwen2.5-0.5B-Instruct --verifier my-verifier --output my-prover

    A row of a verifier's data is a solution (`problem`, `solution`, `correct`) or a pair (`prompt`, `chosen`,
    `rejected`). Each solution is paired with one of the other kind to the same problem. Problems are those of a task:
    a built-in one, or MODULE:CLASS of your own. Settings are arguments of NoisyRewardConfig or ProverGRPOConfig, most
    of which are TRL's. The adapter of --lora has rank 16.
    """
    parser = ScriptParser(train.__doc__, "pvg train")
    parser.add_argument("player", choices=["verifier", "prover"])
    parser.add_argument("data", help=f"for a verifier: {SOURCE}; for a prover: a task")
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
    parser.add_argument("--eval-split", help="split of --eval, or of the training data without --eval")
    add_data_options(parser)
    parser.add_argument("--verifier", help="for a prover: the verifier that it has to convince")
    parser.add_argument("--lora", action="store_true", help="train an adapter")
    options = parser.parse_intermixed_args(words)
    if options.player == "prover" and options.verifier is None:
        parser.error("a prover needs a --verifier")

    def work() -> str:
        check_new_folder(options.output)
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
    from datasets import Dataset
    from transformers import AutoTokenizer

    from pvg_hf.data.reading import PairForm
    from pvg_hf.trainers.reward.columns import PAIR_COLUMNS
    from pvg_hf.trainers.reward.config import NoisyRewardConfig
    from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

    args = _make_config(NoisyRewardConfig, options, settings)
    parts = _read_parts(options)
    form = PairForm.of(
        parts["train"],
        writes_chats=lambda: (
            AutoTokenizer.from_pretrained(options.model, trust_remote_code=False).chat_template is not None
        ),
    )
    kept = (*PAIR_COLUMNS, "margin", args.environment_column)
    datasets = {f"{part}_dataset": Dataset.from_list(form.write(pairs, kept)) for part, pairs in parts.items()}
    trainer = NoisyRewardTrainer(options.model, args=args, peft_config=_adapter(options, "SEQ_CLS"), **datasets)
    # The line break after a problem belongs to the input format, not to the problem.
    if not form.is_chat and trainer.verifier_input:
        trainer.verifier_input = replace(trainer.verifier_input, template=form.template)
    trainer.train()
    found = f"pair accuracy {trainer.evaluate()['eval_accuracy']:.3f}\n" if "eval" in parts else ""
    trainer.save_model(str(options.output))
    return f"{found}{options.output}"


def _read_parts(options: Namespace) -> "dict[str, list[Pair]]":
    """Read the pairs to train on and, if there are any, those to evaluate on."""
    from pvg_hf.data.reading import find_pairs

    parts = {"train": find_pairs(options.data, read_source(options.data, options))}
    if options.eval_data or options.eval_split:
        source = options.eval_data or options.data
        # A config and a revision are those of one dataset.
        others = {} if source == options.data else {"config": None, "revision": None}
        parts["eval"] = find_pairs(source, read_source(source, options, split=options.eval_split, **others))
    return parts


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
