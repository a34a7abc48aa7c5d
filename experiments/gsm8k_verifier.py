"""
Train a verifier from scratch on real GSM8K solutions to half of the problems, and judge it on the other half beside
baselines that check nothing.

    python -m experiments.gsm8k_verifier "$PVG_GSM8K_DIR" --output build/gsm8k-verifier.json

The folder holds `train.jsonl` and `model_solutions.jsonl` (problem_id, question, solution, is_correct). Nothing is
downloaded: a small language model reads the problems and solutions of `train.jsonl` first, and the verifier starts
from it, or from random weights.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging

ARCHITECTURE = {
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 352,
    "max_position_embeddings": 1024,
}
VOCABULARY, MAX_LENGTH = 2048, 640
TRAIN, SOLUTIONS = "train.jsonl", "model_solutions.jsonl"


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="of the halves, the weights and the training")
    parser.add_argument("--lm-steps", type=int, default=470, help="steps of 16 texts of the language model's training")
    parser.add_argument("--epochs", type=float, default=2.0, help="passes over the correct and incorrect solutions")
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    arguments = parser.parse_args()

    set_up_logging()
    return run_command(lambda: study(arguments))


def study(arguments) -> str:
    if missing := [file for file in (TRAIN, SOLUTIONS) if not (arguments.folder / file).is_file()]:
        raise ValueError(f"{arguments.folder} has no {' and no '.join(missing)}.")
    quiet_libraries()
    # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
    import pandas as pd

    from pvg_hf.core.files import write_json
    from pvg_hf.evaluation.intervals import first_half
    from pvg_hf.experimental.judging.causal_judge import CausalJudge
    from pvg_hf.experimental.judging.text_features import ends_with_number

    started = time.monotonic()
    rows = pd.DataFrame(read_lines(arguments.folder / SOLUTIONS)).rename(columns={"is_correct": "correct"})
    is_first = first_half(rows["problem_id"], seed=arguments.seed)
    learned, judged = rows[is_first], rows[~is_first].reset_index(drop=True)
    problems, solutions = judged["question"].tolist(), judged["solution"].tolist()
    with tempfile.TemporaryDirectory() as scratch:
        random_weights, trained = make_language_models(arguments, Path(scratch))
        scores = {
            "length: shorter is better": judged["solution"].str.len() * -1.0,
            "ends with a number": judged["solution"].map(ends_with_number).astype(float),
            "likelihood under the language model": CausalJudge.from_pretrained(trained, question=None)(
                problems, solutions
            ),
            "verifier from random weights": train_verifier(arguments, random_weights, learned, judged),
            "verifier from the language model": train_verifier(arguments, trained, learned, judged),
        }
    figures = {name: measure(judged.assign(score=values), arguments.seed) for name, values in scores.items()}
    if arguments.output:
        settings = {name: getattr(arguments, name) for name in ("seed", "lm_steps", "epochs")}
        values = {name: {key: figure.to_dict() for key, figure in row.items()} for name, row in figures.items()}
        write_json(arguments.output, {"settings": settings, "seconds": time.monotonic() - started, "figures": values})
    return show(figures, learned, judged)


def read_lines(path: Path) -> list[dict]:
    """Read the rows of a JSONL file; a `ValueError` if it is missing."""
    if not path.is_file():
        raise ValueError(f"{path} is missing; name a folder that has {path.name}.")
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def make_language_models(arguments, folder: Path) -> tuple[Path, Path]:
    """Save a language model with random weights, and the same after it has read the training split."""
    from datasets import Dataset

    from pvg_hf.config.player_sections import ScratchConfig
    from pvg_hf.models.from_config import make_model
    from pvg_hf.trainers.common.supervised import FineTuning, fine_tune

    # The solutions to judge end with `A: x`, where the data set has `#### x`.
    texts = [
        {"prompt": row["question"] + "\n", "completion": row["answer"].replace("#### ", "A: ")}
        for row in read_lines(arguments.folder / TRAIN)
    ]
    config = ScratchConfig(model_type="llama", config=ARCHITECTURE, vocab_size=VOCABULARY)
    model, tokenizer = make_model(config, (text for row in texts for text in row.values()), arguments.seed)
    places = folder / "random", folder / "trained"
    for place in places:
        if place.name == "trained":
            settings = FineTuning(
                max_steps=arguments.lm_steps,
                batch_size=16,
                learning_rate=3e-3,
                max_length=MAX_LENGTH,
                seed=arguments.seed,
                output_dir=str(folder / "scratch"),
                use_cpu=True,
                show_progress=False,
            )
            fine_tune(model, tokenizer, Dataset.from_list(texts), settings)
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)
    return places


def train_verifier(arguments, source: Path, learned, judged) -> list[float]:
    """Train a verifier on labelled solutions with cross-entropy, and score the others."""
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer
    from transformers.trainer_callback import PrinterCallback

    from pvg_hf import NoisyRewardConfig, NoisyRewardTrainer, VerifierScorer
    from pvg_hf.core.seeding import derive_rng

    texts = (learned["question"] + "\n" + learned["solution"]).to_numpy()
    correct = learned["correct"].to_numpy(bool)
    # Cross-entropy reads each side alone, so that a pair may hold solutions to two problems.
    rng = derive_rng(arguments.seed, "pairs")
    right, wrong = rng.permutation(texts[correct]), rng.permutation(texts[~correct])
    pairs = [{"chosen": right[k % len(right)], "rejected": text} for k, text in enumerate(wrong)]
    with tempfile.TemporaryDirectory() as scratch, torch.random.fork_rng(devices=[]):
        torch.manual_seed(arguments.seed)
        trainer = NoisyRewardTrainer(
            str(source),
            args=NoisyRewardConfig(
                scratch,
                loss="cross_entropy",
                num_train_epochs=arguments.epochs,
                per_device_train_batch_size=16,
                learning_rate=1e-3,
                lr_scheduler_type="cosine",
                warmup_steps=10,
                max_length=MAX_LENGTH,
                seed=arguments.seed,
                use_cpu=True,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                logging_steps=20,
            ),
            train_dataset=Dataset.from_list(pairs),
            processing_class=AutoTokenizer.from_pretrained(source, trust_remote_code=False),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        scorer = VerifierScorer(trainer.model, trainer.processing_class, trainer.verifier_input)
    return scorer((judged["question"] + "\n").tolist(), judged["solution"].tolist())


def measure(rows, seed: int) -> dict:
    """AUC over all solutions, accuracy on pairs of one problem, and balanced accuracy of single solutions."""
    from pvg_hf.evaluation.intervals import rate_difference
    from pvg_hf.evaluation.verifier_quality import judge_crossfitted, pair_accuracy, roc_auc
    from pvg_hf.experimental.judging.solution_legibility import balanced_accuracy

    accepted, correct = judge_crossfitted(rows, seed=seed).fillna(True).astype(float), rows["correct"]
    sides = [(accepted[side], rows["problem_id"][side]) for side in (correct, ~correct)]
    youden_j = rate_difference(*sides[0], *sides[1])
    return {
        "auc": roc_auc(rows),
        "pair accuracy": pair_accuracy(rows),
        "balanced accuracy": balanced_accuracy(youden_j),
    }


def show(figures: dict, learned, judged) -> str:
    from pvg_hf.core.markdown import markdown_table
    from pvg_hf.experimental.sweep.seeds import show_figure

    names = list(next(iter(figures.values())))
    table = [["score", *names], *([score, *map(show_figure, row.values())] for score, row in figures.items())]
    counts = [f"{len(rows):,} solutions ({rows['correct'].sum()} correct)" for rows in (learned, judged)]
    return f"Learned from {counts[0]}, judged on {counts[1]} to other problems.\n\n{markdown_table(table)}"


if __name__ == "__main__":
    sys.exit(main())
