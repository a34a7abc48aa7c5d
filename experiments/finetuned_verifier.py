"""
Fine-tune a pretrained language model as a verifier with a head, and as one by likelihood, on the same pairs of GSM8K
solutions to half of the problems (by seed). Judge both on the other half, where one of two solutions is correct.

    python -m experiments.finetuned_verifier MODEL "$PVG_GSM8K_DIR" --output build/finetuned-verifier

MODEL is a causal language model: a folder, or an id on the Hub. Adapters are trained on all of its layers. The folder
holds `model_solutions.jsonl`. A pair is an incorrect solution and the other model's correct one, or the reference if
there is none. Each verifier's scores are a file in the output's folder, and are not computed again, so that parts of
the work (`--kinds`, `--seeds`) can be done by several processes.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from experiments.command import run_experiment
from experiments.gsm8k_verifier import SOLUTIONS, read_lines
from experiments.pretrained_verifier import measure_choice
from pvg_hf.run.console import ScriptParser

KINDS = {"head": None, "likelihood": 10.0}  # scale of a likelihood
PAIRS_PER_STEP, WARMUP_STEPS, MAX_LENGTH = 8, 5, 512


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the halves and of the training")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="(default: both)")
    parser.add_argument("--learning-rate", type=float, default=2e-4, help="at its peak (default: 2e-4)")
    parser.add_argument("--max-steps", type=int, default=32, help=f"of {PAIRS_PER_STEP} pairs (default: 32)")
    parser.add_argument("--num-problems", type=int, help="judge these only, to try the command")
    parser.add_argument("--output", type=Path, required=True, help="folder for scores and figures")
    arguments = parser.parse_args()
    return run_experiment(lambda: study(arguments))


def study(arguments) -> str:
    import pandas as pd

    from pvg_hf.core.figure import Figure
    from pvg_hf.core.files import write_json
    from pvg_hf.core.markdown import markdown_table
    from pvg_hf.evaluation.intervals import first_half
    from pvg_hf.evaluation.verifier_quality import pair_accuracy, roc_auc
    from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure

    rows = pd.DataFrame(read_lines(arguments.folder / SOLUTIONS)).rename(columns={"is_correct": "correct"})
    found: dict[str, dict[str, list[Figure]]] = {}
    ordered: dict[str, list[list[float]]] = {name: [] for name in arguments.kinds}
    from_references = []
    for seed in arguments.seeds:
        is_first = first_half(rows["problem_id"], seed=seed)
        from_references.append(chosen_sides(rows[is_first])[1].mean())
        judged = rows[~is_first].reset_index(drop=True)
        # Where both solutions are right or both wrong, no order of them changes a figure within problems.
        num_correct = judged.groupby("problem_id")["correct"].transform("sum")
        differ = judged[num_correct == 1][: arguments.num_problems and 2 * arguments.num_problems]
        for name in arguments.kinds:
            settings = f"{Path(arguments.model).name}-{name}-{arguments.learning_rate:g}-{arguments.max_steps}"
            file = arguments.output / f"{settings}-seed-{seed}.json"
            if not file.is_file():
                write_json(file, train_and_score(arguments, KINDS[name], seed, rows[is_first], differ))
            stored = json.loads(file.read_text())
            if len(stored["scores"]) != len(differ):
                raise ValueError(
                    f"{file} has scores of {len(stored['scores'])} solutions, and {len(differ)} are judged; delete it."
                )
            ordered[name].append([line["accuracy"] for line in stored["log"] if line["loss"] is not None])
            scores = pd.Series(stored["scores"], differ.index)
            scored = judged.assign(score=scores.reindex(judged.index, fill_value=0.0))
            figures = {"auc": roc_auc(scored.loc[differ.index]), "pair accuracy": pair_accuracy(scored)}
            for figure, value in (figures | measure_choice(scored)).items():
                found.setdefault(name, {}).setdefault(figure, []).append(value)
    write_json(
        arguments.output / "figures.json",
        {
            "model": Path(arguments.model).name,
            "seeds": arguments.seeds,
            "max_steps": arguments.max_steps,
            "learning_rate": arguments.learning_rate,
            "share of references among the correct sides": from_references,
            "training pairs ordered rightly, by 4 steps": ordered,
            "figures": {
                name: {figure: [value.to_dict() for value in values] for figure, values in row.items()}
                for name, row in found.items()
            },
        },
    )
    names = list(next(iter(found.values())))
    table = [["verifier", *names]]
    for name, row in found.items():
        means = (mean_over_seeds([value.value for value in row[figure]]) for figure in names)
        table.append([name, *(show_figure(mean, with_n=False) for mean in means)])
    return markdown_table(table)


def train_and_score(arguments, scale: float | None, seed: int, learned, judged) -> dict:
    """Return the scores of `judged`, the log of the training, and the processor time of both."""
    import torch
    from transformers import AutoTokenizer

    from pvg_hf import NoisyRewardConfig, NoisyRewardTrainer, VerifierScorer
    from pvg_hf.config.player_sections import LoraConfig
    from pvg_hf.models.verifier_input import VerifierInput
    from pvg_hf.models.verifier_model import load_initial_verifier, lora_for_verifier

    started = time.process_time()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model, trust_remote_code=False)
    verifier_input = VerifierInput(
        "{{ problem }}{{ solution }}", tokenizer.eos_token, max_length=MAX_LENGTH, likelihood_scale=scale
    )
    with tempfile.TemporaryDirectory() as scratch, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = load_initial_verifier(arguments.model, likelihood_scale=scale)
        trainer = NoisyRewardTrainer(
            model,
            args=NoisyRewardConfig(
                scratch,
                max_steps=arguments.max_steps,
                per_device_train_batch_size=1,  # no padding to a longer pair, which halves the time on a processor
                gradient_accumulation_steps=PAIRS_PER_STEP,
                learning_rate=arguments.learning_rate,
                lr_scheduler_type="cosine",
                warmup_steps=WARMUP_STEPS,
                max_length=MAX_LENGTH,
                seed=seed,
                use_cpu=True,
                report_to="none",
                save_strategy="no",
                logging_steps=4,
            ),
            train_dataset=make_pairs(learned, tokenizer, verifier_input),
            processing_class=tokenizer,
            verifier_input=verifier_input,
            peft_config=lora_for_verifier(LoraConfig(r=16, alpha=32), model),
        )
        trainer.train()
        scorer = VerifierScorer(trainer.model, tokenizer, verifier_input)
        trained = time.process_time()
        scores = scorer((judged["question"] + "\n").tolist(), judged["solution"].tolist())
    return {
        "scores": scores,
        "log": [{key: line.get(key) for key in ("step", "loss", "accuracy")} for line in trainer.state.log_history],
        "pairs": len(trainer.train_dataset),
        "seconds": {"training": trained - started, "scoring": time.process_time() - trained},
    }


def make_pairs(learned, tokenizer, verifier_input):
    """One pair of token ids for each incorrect solution."""
    from datasets import Dataset

    wrong = learned[~learned["correct"]]
    prompts = (wrong["question"] + "\n").tolist()
    sides = {"chosen": chosen_sides(learned)[0], "rejected": wrong["solution"]}
    return Dataset.from_dict(
        {f"{side}_ids": verifier_input.encode(tokenizer, prompts, texts.tolist()) for side, texts in sides.items()}
    )


def chosen_sides(learned):
    """The correct side for each incorrect solution, and whether it is the reference."""
    right = learned[learned["correct"]].groupby("problem_id")["solution"].first()
    wrong = learned[~learned["correct"]]
    chosen = wrong["problem_id"].map(right)
    return chosen.fillna(wrong["reference"]), chosen.isna()


if __name__ == "__main__":
    sys.exit(main())
