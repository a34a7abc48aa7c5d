"""
Build the trained prover's mistakes of the set `gsm8k` of `pvg bench`.

    python -m tools.build_gsm8k_attacks --games build/bench-games
    python -m tools.build_gsm8k_attacks --games build/bench-games task.path=GSM8K prover.model=SMOL verifier.model=SMOL

Trains SmolLM2-135M-Instruct as a verifier with a head, and the same model as a sneaky prover against it by DPO
(Rafailov et al. 2023): of its mistakes on a training problem, the one with the highest score is preferred to the one
with the lowest. It then solves the set's test problems, and its mistakes are written to pvg_hf/assets/bench-gsm8k.
Takes about two hours of a core; what is finished in the folder is used again. Arguments like `task.path` change the
game's recipe; with folders as in the second line, nothing is downloaded.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.build_bench_set import write_rows

if TYPE_CHECKING:
    import pandas as pd

    from pvg_hf import Recipe
    from pvg_hf.game.context import PlayerLoader

RECIPE = Path("recipes/gsm8k-small.yaml")
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
GAME = (
    "name=bench-gsm8k",
    "num_rounds=1",
    "task.few_shot=0",
    "split.max_train=1000",
    "split.max_test=20",
    "bootstrap.solutions_per_problem=1",
    "bootstrap.pilot_problems=0",
    "data.correct_source=dataset",
    "mint.test_solutions_per_problem=1",
    "mint.problems_per_batch=64",
    f"verifier.model={MODEL}",
    "verifier.lora={r: 16, alpha: 32}",
    "verifier.learning_rate=2e-4",
    "verifier.max_steps=40",
    "verifier.pairs_per_step=8",
    "verifier.warmup_steps=4",
    "verifier.trainer={bf16: true}",
    "verifier.max_length=512",
    f"prover.model={MODEL}",
    "prover.roles=sneaky_only",
    "prover.warmup={max_steps: 40, batch_size: 8, learning_rate: 1e-4, max_length: 300}",
    "prover.temperature=0.8",
    "prover.max_completion_length=150",
)
"""A game that a CPU can play. Its base prover solves few problems, so that the correct side of each pair is a
reference."""

PHASES = (("warmup", None), ("bootstrap", None), ("verifier", 0))
NUM_PROBLEMS = 300  # of the prover's part
NUM_SAMPLES = 4
NUM_TEST_SAMPLES = 4
NUM_PAIRS = 152  # those whose scores differ most
DPO = {
    "beta": 0.1,
    "learning_rate": 1e-3,
    "num_train_epochs": 1,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "max_length": 400,
    "bf16": True,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
}
SEED = 0


def write_mistakes(overrides: Sequence[str]) -> "pd.DataFrame":
    """Train the verifier and the prover, let the prover solve the set's test problems, and return its mistakes."""
    import pandas as pd

    from pvg_hf import load_recipe, play
    from pvg_hf.core.roles import Role
    from pvg_hf.data.problems import GameProblems
    from pvg_hf.evaluation.role_figures import is_valid_mistake
    from pvg_hf.experimental.bench.attack_sets import TEST, TRAINED_HEAD, make_gsm8k_rows
    from pvg_hf.game.context import PlayerLoader
    from pvg_hf.sampling import sample_solutions

    recipe = load_recipe(RECIPE, [*GAME, *overrides])
    for phase, round_index in PHASES:
        run = play(recipe, phase=phase, round_index=round_index)
    players = PlayerLoader(recipe, run)
    prover = run.root / "attacker"
    if not prover.exists():
        train_prover(recipe, players, prover)
    made = make_gsm8k_rows(recipe.task.path)
    wanted = set(made[made["part"] == TEST]["problem_id"])
    prompts = GameProblems.load(recipe).prompts
    problems = [row for row in prompts.task.problems("test").to_list() if row["problem_id"] in wanted]
    sampler = players.sampler(prover)
    rows = sample_solutions(sampler, prompts, problems, Role.SNEAKY, num_samples=NUM_TEST_SAMPLES, seed=SEED)
    found = pd.DataFrame(rows)
    print(found["outcome"].value_counts())
    return found[is_valid_mistake(found)].assign(kind=TRAINED_HEAD)[["kind", "problem_id", "solution"]]


def train_prover(recipe: "Recipe", players: "PlayerLoader", output: Path) -> None:
    """Train the base prover on pairs of its own mistakes by DPO, and save the adapter."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from trl import DPOConfig, DPOTrainer

    from pvg_hf.core.roles import Role
    from pvg_hf.data.problems import GameProblems
    from pvg_hf.models.prover_model import load_prover

    game = GameProblems.load(recipe)
    mistakes = sample_mistakes(players, game, output.with_suffix(".parquet"))
    model, tokenizer = load_prover(players.initial_model("prover")[0], dtype=torch.float32)
    scores = mistakes.groupby("problem_id")["score"]
    gaps = (scores.max() - scores.min()).nlargest(NUM_PAIRS).index
    pairs = []
    for best, worst in zip(scores.idxmax()[gaps], scores.idxmin()[gaps], strict=True):
        chosen, rejected = mistakes.loc[best].to_dict(), mistakes.loc[worst, "solution"]
        prompt = game.prompt(chosen, Role.SNEAKY, tokenizer)
        pairs.append({"prompt": prompt, "chosen": chosen["solution"], "rejected": rejected})
    partial = output.with_suffix(".partial")
    trainer = DPOTrainer(
        model,
        args=DPOConfig(str(partial), seed=SEED, use_cpu=not torch.cuda.is_available(), **DPO),
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
    )
    trainer.train()
    trainer.save_model()
    partial.rename(output)


def sample_mistakes(players: "PlayerLoader", game, path: Path) -> "pd.DataFrame":
    """Let the base prover write mistakes to training problems, and score them; they are kept in a file."""
    import pandas as pd

    from pvg_hf.core.roles import Role
    from pvg_hf.evaluation.role_figures import is_valid_mistake
    from pvg_hf.sampling import sample_solutions

    if path.exists():
        return pd.read_parquet(path)
    problems = game.sample("prover", NUM_PROBLEMS)
    sampler = players.base_sampler()
    rows = sample_solutions(sampler, game.prompts, problems, Role.SNEAKY, num_samples=NUM_SAMPLES, seed=SEED)
    found = pd.DataFrame(rows)
    mistakes = found[is_valid_mistake(found)].copy()
    scorer = players.scorer(0)
    mistakes["score"] = scorer(mistakes["problem"].tolist(), mistakes["solution"].tolist())
    mistakes.to_parquet(path)
    return mistakes


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=Path, required=True, help="folder of the game")
    parser.add_argument("--output", type=Path, help="file to write (default: that of the package)")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="changes of the game's recipe")
    options = parser.parse_args(words)
    from pvg_hf.experimental.bench.attack_sets import GSM8K_TRAINED

    write_rows(write_mistakes([f"output_dir={options.games}", *options.overrides]), options.output or GSM8K_TRAINED)


if __name__ == "__main__":
    main()
