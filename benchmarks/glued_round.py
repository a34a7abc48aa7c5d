"""
The first round of the quickstart without pvg_hf's trainers, scorer and sampler.

It uses TRL's `RewardTrainer` and `GRPOTrainer` and transformers' `generate`, as their documentation shows, with the
settings of a careful user:

    python benchmarks/glued_round.py FOLDER

The problems, prompts, grading, and numbers of steps, solutions and tokens are the recipe's. Prompts are sorted by
length before generation, and the reward model reads padded batches of 32 texts. `quickstart_round.py` times this
script.
"""

import sys
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GenerationConfig,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer, RewardConfig, RewardTrainer

from pvg_hf import load_recipe
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.sources import resolve_model

RECIPE = Path(__file__).parents[1] / "recipes" / "quickstart.yaml"
PROMPTS_PER_BATCH = 32
TEXTS_PER_BATCH = 32
QUIET = {"report_to": "none", "disable_tqdm": True, "bf16": False, "gradient_checkpointing": False, "use_cpu": True}
Row = dict[str, object]


class Player:
    """A prover that writes with `generate`."""

    def __init__(self, model, tokenizer, recipe, world: GameProblems):
        self.model, self.tokenizer, self.recipe, self.world = model.eval(), tokenizer, recipe, world

    @torch.inference_mode()
    def write(self, part: str, role: Role, num_samples: int, limit: int | None = None) -> list[Row]:
        problems = self.world.parts[part].to_list()[:limit]
        prompts = [self.world.prompt(problem, role, self.tokenizer) for problem in problems]
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        config = GenerationConfig(
            do_sample=True,
            top_k=0,
            max_new_tokens=self.recipe.prover.max_completion_length,
            num_return_sequences=num_samples,
            pad_token_id=self.tokenizer.pad_token_id,
            eos_token_id=self.tokenizer.eos_token_id,
        )
        rows: list[Row] = []
        for start in range(0, len(order), PROMPTS_PER_BATCH):
            batch = order[start : start + PROMPTS_PER_BATCH]
            inputs = self.tokenizer(
                [prompts[i] for i in batch], padding=True, padding_side="left", return_tensors="pt"
            )
            output = self.model.generate(**inputs, generation_config=config)[:, inputs["input_ids"].shape[1] :]
            texts = self.tokenizer.batch_decode(output, skip_special_tokens=True)
            owners = [problems[i] for i in batch for _ in range(num_samples)]
            rows += [self._grade(problem, text) for problem, text in zip(owners, texts, strict=True)]
        return rows

    def _grade(self, problem: Row, text: str) -> Row:
        return {**problem, "solution": text, "correct": self.world.task.grade(problem, text).correct}


class Verifier:
    """A reward model that scores padded batches, as in `GRPOTrainer`."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer

    @torch.inference_mode()
    def score(self, problems: list[str], solutions: list[str]) -> list[float]:
        texts = [f"{p}\n{s}{self.tokenizer.eos_token}" for p, s in zip(problems, solutions, strict=True)]
        scores: list[float] = []
        for start in range(0, len(texts), TEXTS_PER_BATCH):
            inputs = self.tokenizer(texts[start : start + TEXTS_PER_BATCH], padding=True, return_tensors="pt")
            scores += self.model(**inputs).logits[:, 0].tolist()
        return scores

    def judge(self, rows: list[Row]) -> None:
        scores = self.score([row["problem"] for row in rows], [row["solution"] for row in rows])
        for row, score in zip(rows, scores, strict=True):
            row["score"] = score


def make_pairs(rows: list[Row], pairs_per_problem: int) -> Dataset:
    by_problem: dict[object, list[list[str]]] = {}
    for row in rows:
        by_problem.setdefault(row["problem"], [[], []])[row["correct"]].append(row["solution"])
    pairs = [
        {"prompt": f"{problem}\n", "chosen": chosen, "rejected": rejected}
        for problem, (wrong, right) in by_problem.items()
        for chosen, rejected in list(zip(dict.fromkeys(right), dict.fromkeys(wrong)))[:pairs_per_problem]
    ]
    return Dataset.from_list(pairs).shuffle(seed=0)


def train_verifier(recipe, pairs: Dataset, folder: Path) -> Verifier:
    config, source = recipe.verifier, resolve_model(recipe.verifier.model, "verifier")
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
    model.config.pad_token_id = tokenizer.pad_token_id
    args = RewardConfig(
        str(folder / "verifier"),
        max_steps=config.max_steps,
        per_device_train_batch_size=config.pairs_per_step,
        learning_rate=config.learning_rate,
        warmup_steps=config.warmup_steps,
        save_strategy="no",
        logging_steps=1,
        **QUIET,
    )
    trainer = RewardTrainer(model, args=args, train_dataset=pairs, processing_class=tokenizer)
    trainer.train()
    trainer.save_model()
    return Verifier(trainer.model, tokenizer)


class HeldOut(TrainerCallback):
    """Evaluates helpful solutions to held-out problems and keeps the best checkpoint, as the recipe does."""

    def __init__(self, recipe, world: GameProblems, verifier: Verifier, folder: Path):
        self.recipe, self.world, self.verifier, self.folder = recipe, world, verifier, folder
        self.best, self.trainer = float("-inf"), None

    def on_step_end(self, args, state, control, model, **kwargs):
        config = self.recipe.prover
        if state.global_step % config.evaluation_steps:
            return
        player = Player(model, self.trainer.processing_class, self.recipe, self.world)
        rows = player.write("prover_heldout", Role.HELPFUL, config.eval_samples, config.eval_problems)
        model.train()
        self.verifier.judge(rows)
        reward = sum(row["score"] if row["correct"] else -2.0 for row in rows) / len(rows)
        if reward > self.best:
            self.best = reward
            self.trainer.save_model(str(self.folder / "best-helpful"))


def train_prover(recipe, world: GameProblems, verifier: Verifier, role: Role, folder: Path) -> Path:
    config, source = recipe.prover, resolve_model(recipe.prover.model, "prover")
    tokenizer = AutoTokenizer.from_pretrained(source)
    sign = 1 if role == Role.HELPFUL else -1

    def standardized_src(completions: list[str], problem: list[str], reference: list[str], **columns) -> list[float]:
        scores = torch.tensor(verifier.score(problem, completions)).view(-1, config.num_generations)
        std = scores.std(dim=1, keepdim=True, correction=0)
        relative = torch.where(std > 0, (scores - scores.mean(dim=1, keepdim=True)) / std, 0.0).flatten()
        rows = [{"problem": p, "reference": r} for p, r in zip(problem, reference, strict=True)]
        grades = [world.task.grade(row, text) for row, text in zip(rows, completions, strict=True)]
        aligned = torch.tensor([g.answer is not None and (g.correct == (sign > 0)) for g in grades])
        return torch.where(aligned & (relative > 0), relative, -2.0).tolist()

    problems = world.parts["prover"].to_list()
    prompts = Dataset.from_list([{**row, "prompt": world.prompt(row, role, tokenizer)} for row in problems])
    args = GRPOConfig(
        str(folder / role),
        max_steps=config.max_steps,
        per_device_train_batch_size=config.prompts_per_step * config.num_generations,
        num_generations=config.num_generations,
        max_completion_length=config.max_completion_length,
        learning_rate=config.learning_rate,
        beta=config.beta,
        scale_rewards="none",
        save_strategy="no",
        logging_steps=1,
        **QUIET,
    )
    held_out = HeldOut(recipe, world, verifier, folder)
    trainer = GRPOTrainer(
        source,
        reward_funcs=[standardized_src],
        args=args,
        train_dataset=prompts,
        peft_config=LoraConfig(
            r=config.lora.r, lora_alpha=config.lora.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        callbacks=[held_out] if role == Role.HELPFUL else [],
    )
    held_out.trainer = trainer
    trainer.train()
    trainer.save_model()
    return folder / role


def play_round(folder: Path) -> dict[str, float]:
    """Play one round, and return the accuracy of either role on test problems."""
    recipe = load_recipe(RECIPE)
    world, mint = GameProblems.load(recipe), recipe.mint
    source = resolve_model(recipe.prover.model, "prover")
    tokenizer = AutoTokenizer.from_pretrained(source)
    base = Player(AutoModelForCausalLM.from_pretrained(source), tokenizer, recipe, world)
    rows = base.write("verifier", Role.BASE, recipe.bootstrap.solutions_per_problem)
    held_out = base.write("verifier_heldout", Role.BASE, recipe.bootstrap.solutions_per_problem)
    tests = {role: base.write("test", role, mint.test_solutions_per_problem) for role in GAME_ROLES}
    verifier = train_verifier(recipe, make_pairs(rows, recipe.data.solutions_per_problem // 2), folder)
    for solutions in (held_out, *tests.values()):
        verifier.judge(solutions)

    adapters = {role: train_prover(recipe, world, verifier, role, folder) for role in GAME_ROLES}
    adapters["best-helpful"] = folder / "best-helpful"
    accuracy: dict[str, float] = {}
    for name, adapter in adapters.items():
        model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(source), adapter).merge_and_unload()
        player, role = Player(model, tokenizer, recipe, world), Role.SNEAKY if name == Role.SNEAKY else Role.HELPFUL
        parts = [("test", mint.test_solutions_per_problem)]
        if name != "best-helpful":
            parts += [(part, mint.solutions_per_problem) for part in ("verifier", "verifier_heldout")]
        for part, num_samples in parts:
            written = player.write(part, role, num_samples)
            verifier.judge(written)
            if part == "test":
                accuracy[str(name)] = sum(row["correct"] for row in written) / len(written)
    return accuracy


if __name__ == "__main__":
    print(play_round(Path(sys.argv[1])))
