"""
How fast the phases of a recipe for GSM8K are on a GPU, and how much of its memory they take, with random weights of the real
sizes:

    python benchmarks/recipe_phases.py recipes/gsm8k-qlora.yaml "$PVG_GSM8K_DIR"

Solutions are of full length, as random weights hardly ever end one. Prints one JSON object: tokens per second of minting and
scoring and of a prover step; each one's share of the machine's matrix rate (model FLOPs: what is computed twice to spare
memory counts once); the peak of each against what `--plan` predicts, and against three whole copies (policy, reference,
verifier) in bfloat16. To try the script itself where there is no GPU, make small players that write little:

    python benchmarks/recipe_phases.py recipes/gsm8k-8gb.yaml "$PVG_GSM8K_DIR" --layers 2 --hidden-size 64 \
        prover.max_completion_length=8 prover.prompts_per_step=2 mint.problems_per_batch=2
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from quickstart_round import Stopwatch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    Qwen2Config,
    Trainer,
)

from pvg_hf import load_recipe
from pvg_hf.config import Recipe
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.folder import write_json
from pvg_hf.game.phases.prover import run_prover
from pvg_hf.game.plan.checks import phase_context
from pvg_hf.game.plan.players import PlayerSize, read_player_size
from pvg_hf.game.plan.rounds import plan_rounds
from pvg_hf.game.players import open_base_sampler, open_scorer
from pvg_hf.game.schedule import PhaseKey
from pvg_hf.game.world import World
from pvg_hf.models.scratch import train_tokenizer
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.roles import Role
from pvg_hf.seeding import derive_rng

# hidden size, layers, heads, key-value heads, intermediate size
SIZES = {
    "Qwen/Qwen2.5-0.5B": (896, 24, 14, 2, 4864),
    "Qwen/Qwen2.5-1.5B-Instruct": (1536, 28, 12, 2, 8960),
    "Qwen/Qwen2.5-3B-Instruct": (2048, 36, 16, 2, 11008),
}
VOCABULARY = 151_936
STEPS, BATCHES = 3, 2  # of the prover's training, and of minting
NUM_SCORED = 512
FORWARDS_OF_A_STEP = 4  # to write, for the reference, forward, and backward through frozen weights


def random_player(
    kind: type, name: str, tokenizer, folder: Path, small: tuple[int, int] | None
) -> tuple[Path, PreTrainedModel]:
    """Save a model of the size that `name` has, with its tokenizer."""
    hidden, layers, heads, kv_heads, inner = SIZES[name]
    if small:
        hidden, layers, heads, kv_heads, inner = small[0], small[1], 4, 2, 2 * small[0]
    config = Qwen2Config(
        vocab_size=len(tokenizer) if small else VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=inner,
        tie_word_embeddings=True,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = kind.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, model


def prepare(path: str, problems: Path, changes: Sequence[str], folder: Path, small: tuple[int, int] | None) -> Recipe:
    """The recipe on random players, a few steps long, with a verifier of round 0 in its run."""
    recipe = load_recipe(path, [f"task.path={problems}", *changes])
    rows = World.load(recipe).parts["prover"].to_list()
    tokenizer = train_tokenizer([row["problem"] + "\n" + row["reference"] for row in rows], 16_384)
    overrides = [
        *changes,
        f"task.path={problems}",
        f"output_dir={folder}",
        "num_rounds=1",
        "watchdogs.max_truncated=1.0",
    ]
    overrides += [f"prover.max_steps={STEPS}", "prover.eval_steps=1000000", "logging.progress=false"]
    for player, config in (("prover", recipe.prover), ("verifier", recipe.verifier)):
        place, _ = random_player(AutoModelForCausalLM, config.model, tokenizer, folder / player, small)
        overrides += [f"{player}.model={place}", f"{player}.save_steps=null"]
    recipe = load_recipe(path, overrides)
    verifier = folder / recipe.name / "verifier" / "round-000"
    random_player(AutoModelForSequenceClassification, load_recipe(path).verifier.model, tokenizer, verifier, small)
    VerifierInput(recipe.verifier.template, tokenizer.eos_token, recipe.verifier.max_length).save(verifier)
    write_json(verifier / "calibration.json", {"threshold": 0.0})
    return recipe


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and bytes at the peak of the GPU's memory (0 without one)."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - start, torch.cuda.max_memory_allocated() if on_gpu else 0


def time_writing(context: PhaseContext, players: dict[str, PlayerSize]) -> dict[str, float]:
    """The base prover writes as in minting, beside the verifier."""
    recipe, world = context.recipe, context.world
    scorer = open_scorer(context, context.folder.verifier(0))
    sampler = open_base_sampler(context, beside=scorer)
    num_samples = recipe.mint.test_solutions_per_problem
    problems = world.parts["test"].select(range(BATCHES * recipe.mint.problems_per_batch)).to_list()
    prompts = [world.prompt(problem, Role.HELPFUL, sampler.tokenizer) for problem in problems]
    written: list[int] = []

    def write() -> None:
        for batch in sampler.batches(prompts):
            rngs = [[derive_rng(0, index, sample) for sample in range(num_samples)] for index in batch]
            for samples in sampler.sample([prompts[index] for index in batch], rngs):
                written.extend(sample.num_tokens for sample in samples)

    seconds, peak = timed(write)
    flops = 2 * players["prover"].num_multiplied * sum(written)
    result = figures("mint", seconds, peak, sum(written), flops)

    rows = (world.parts["test"].to_list() * (1 + NUM_SCORED // len(problems)))[:NUM_SCORED]
    texts = [row["problem"] for row in rows], [f"{row['reference']} {place}" for place, row in enumerate(rows)]
    num_tokens = sum(map(len, scorer.verifier_input.encode(scorer.tokenizer, *texts)))
    scorer(texts[0][:8], texts[1][:8])
    seconds, peak = timed(lambda: scorer(*texts))
    return result | figures("score", seconds, peak, num_tokens, 2 * players["verifier"].num_multiplied * num_tokens)


def time_training(context: PhaseContext, players: dict[str, PlayerSize], output: Path) -> dict[str, float]:
    watch = Stopwatch()
    watch.watch(Trainer, "training_step", "step")
    _, peak = timed(lambda: run_prover(context, output))
    config, lines = context.recipe.prover, [line for line in context.metrics if line["step"] is not None]
    prompts = [context.world.parts["prover"][index] for index in range(config.prompts_per_step)]
    prompt = sum(len(str(row["problem"])) for row in prompts) / len(prompts) / 4  # about four characters a token
    per_solution = prompt + sum(line["prover/completions/mean_length"] for line in lines) / len(lines)
    num_tokens = len(lines) * config.prompts_per_step * config.num_generations * per_solution
    flops = 2 * FORWARDS_OF_A_STEP * players["prover"].num_multiplied * num_tokens
    return figures("step", watch.seconds["step"], peak, num_tokens, flops)


def figures(name: str, seconds: float, peak: float, num_tokens: float, flops: float) -> dict[str, float]:
    return {
        f"{name}_tokens_per_second": round(num_tokens / seconds, 1),
        f"{name}_peak_gb": round(peak / 1e9, 2),
        f"{name}_share_of_matrix_rate": round(flops / seconds / matrix_rate(), 4),
    }


def matrix_rate() -> float:
    """FLOP/s of a large product in the type that the players compute in."""
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    size = 8192 if device == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    left @ right
    seconds, _ = timed(lambda: [left @ right for _ in range(10)])
    return 20 * size**3 / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("problems", type=Path, help="holds GSM8K's train.jsonl and test.jsonl")
    parser.add_argument("overrides", nargs="*", help="keys of the recipe with their values: prover.num_generations=4")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--hidden-size", type=int)
    arguments = parser.parse_intermixed_args()
    small = (arguments.hidden_size, arguments.layers) if arguments.layers and arguments.hidden_size else None
    with tempfile.TemporaryDirectory() as place:
        recipe = prepare(arguments.recipe, arguments.problems, arguments.overrides, Path(place), small)
        world = World.load(recipe)
        mint, prover = (phase_context(recipe, PhaseKey(name, 0), world) for name in ("mint", "prover"))
        players = {name: read_player_size(prover, name) for name in ("prover", "verifier")}
        (plan,) = plan_rounds(recipe, world)
        predicted = {f"{name}_predicted_gb": round(plan.work(name).memory / 1e9, 2) for name in ("mint", "prover")}
        copies = 2 * (2 * players["prover"].num_parameters + players["verifier"].num_parameters)
        measured = time_writing(mint, players) | time_training(prover, players, Path(place) / "prover-phase")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    result = {
        "device": device,
        "recipe": recipe.name,
        **measured,
        **predicted,
        "three_copies_gb": round(copies / 1e9, 2),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
