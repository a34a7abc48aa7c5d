"""
What merging an adapter into its base costs in fidelity while solutions are sampled:

    python benchmarks/adapter_merging.py MODEL --learning-rate 2e-5 --steps 4 16

MODEL is a folder or Hub id of a causal language model. An adapter on all linear layers is trained on reference
solutions in float32, for as many steps as are named. After each of these numbers, the exact policy (base and adapter
in float32, not merged) writes solutions, and other ways to compute the same policy read them. Each is compared with
the log-probabilities that training in the same data type computes: in bfloat16, those of a bfloat16 base with a
float32 adapter under autocast. The problems are GSM8K from `PVG_GSM8K_DIR` if set, else stories of the same length.
Prints one JSON object, and a table on standard error:

- `mean` and `max`: absolute difference of the log-probability of a written token, in nats
- `kl`: divergence of the way's next-token distribution from that of training, mean over tokens, in nats
- `ess`: effective sample size of the importance weights of whole solutions, as a share of the solutions
- `kept`: share of the adapter's effect that is there: slope of the change of log-probabilities from the base,
  regressed on the exact change
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import Linear
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.models.sources import load_tokenizer
from pvg_hf.sampling import Sampler

BATCH_SIZE = 4  # solutions in a training step

Texts = list[tuple[list[int], list[int]]]  # tokens of prompts and of what follows


def read_problems(number: int) -> list[tuple[str, str]]:
    """Questions and reference solutions."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # `benchmarks` is not part of the package
    from tools.gpu_check.stand_ins import make_problems

    with tempfile.TemporaryDirectory() as folder:
        file = make_problems(Path(folder), is_toy="PVG_GSM8K_DIR" not in os.environ) / "train.jsonl"
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:number]]
    return [(row["question"] + "\n", row["answer"]) for row in rows]


def load(source: str, dtype: torch.dtype, seed: int) -> PeftModel:
    """Load a model with a new adapter of the recipes' shape, in float32 as in training."""
    model = load_causal_lm(source, dtype=dtype)
    torch.manual_seed(seed)
    return get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))


def train(model: PeftModel, texts: Texts, numbers: list[int], learning_rate: float) -> Iterator[int]:
    """Train the adapter on the texts, and yield after each number of steps."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=learning_rate)
    for before, number in pairwise([0, *sorted(numbers)]):
        for step in range(before, number):
            chosen = [texts[(step * BATCH_SIZE + place) % len(texts)] for place in range(BATCH_SIZE)]
            loss = torch.stack(
                [cross_entropy(read_logits(model, *text), torch.tensor(text[1])) for text in chosen]
            ).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"step {step + 1}: loss {loss.item():.3f}", file=sys.stderr)
        yield number


def read_logits(model: PeftModel, prompt: list[int], written: list[int]) -> torch.Tensor:
    """Logits of each written token: (tokens, vocabulary), in float32."""
    ids = torch.tensor([prompt + written])
    return model(input_ids=ids, logits_to_keep=len(written) + 1).logits[0, :-1].float()


@torch.inference_mode()
def read_logprobs(model: PeftModel, texts: Texts) -> list[torch.Tensor]:
    """Log-probabilities of all tokens at each place of each text."""
    return [read_logits(model, *text).log_softmax(-1) for text in texts]


@contextmanager
def merged(model: PeftModel, merge: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Replace each layer's weight by `merge(weight, change)`, without its adapter."""
    layers = [module for module in model.modules() if isinstance(module, Linear)]
    weights = [layer.get_base_layer().weight.data for layer in layers]
    for layer, weight in zip(layers, weights, strict=True):
        layer.get_base_layer().weight.data = merge(weight, layer.get_delta_weight("default"))
    with model.disable_adapter():
        yield
    for layer, weight in zip(layers, weights, strict=True):
        layer.get_base_layer().weight.data = weight


def compare(texts: Texts, way: list[torch.Tensor], trained: list[torch.Tensor]) -> dict[str, float]:
    """Figures of one way to compute the policy against the log-probabilities of training."""
    differences = [of_written(texts, trained)[i] - of_written(texts, way)[i] for i in range(len(texts))]
    every = torch.cat(differences)
    weights = torch.stack([difference.sum() for difference in differences]).softmax(0)
    kl = torch.cat([(w.exp() * (w - t)).sum(-1) for w, t in zip(way, trained, strict=True)])
    return {
        "mean": every.abs().mean().item(),
        "max": every.abs().max().item(),
        "kl": kl.mean().item(),
        "ess": 1 / (len(texts) * weights.square().sum().item()),
    }


def of_written(texts: Texts, logprobs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [
        row.gather(1, torch.tensor(written)[:, None])[:, 0] for (_, written), row in zip(texts, logprobs, strict=True)
    ]


def share_kept(texts: Texts, way, base, exact, exact_base) -> float:
    """Slope of a way's change of log-probabilities from its base, regressed on the exact change."""
    way, base, exact, exact_base = (
        torch.cat(of_written(texts, logprobs)) for logprobs in (way, base, exact, exact_base)
    )
    change = exact - exact_base
    return (((way - base) * change).sum() / change.square().sum()).item()


def measure(exact: PeftModel, half: PeftModel, texts: Texts) -> dict[str, dict[str, float]]:
    """Figures of each way to sample, by its name."""
    half.load_state_dict({n: p for n, p in exact.state_dict().items() if "lora_" in n}, strict=False)
    adapted = read_logprobs(exact, texts)
    with exact.disable_adapter():
        base = read_logprobs(exact, texts)
    with torch.autocast("cpu", torch.bfloat16):
        trained = read_logprobs(half, texts)
        with half.disable_adapter():
            trained_base = read_logprobs(half, texts)
    with half.disable_adapter():
        half_base = read_logprobs(half, texts)
    # Each way, without the adapter, and the log-probabilities of training.
    ways = {"float32, not merged": (adapted, base, adapted), "float32, no adapter": (base, base, adapted)}
    with merged(exact, lambda weight, change: weight + change):
        ways["float32, merged"] = (read_logprobs(exact, texts), base, adapted)
    ways["bfloat16, as in training"] = (trained, trained_base, trained)
    ways["bfloat16, not merged"] = (read_logprobs(half, texts), half_base, trained)
    with merged(half, lambda weight, change: weight + change.bfloat16()):
        ways["bfloat16, merged in bfloat16"] = (read_logprobs(half, texts), half_base, trained)
    with merged(half, lambda weight, change: (weight.float() + change).bfloat16()):
        ways["bfloat16, merged in float32, then rounded"] = (read_logprobs(half, texts), half_base, trained)
    ways["bfloat16, no adapter"] = (half_base, half_base, trained)
    return {
        name: {**compare(texts, way, of_training), "kept": share_kept(texts, way, way_base, adapted, base)}
        for name, (way, way_base, of_training) in ways.items()
    }


def relative_size(model: PeftModel) -> float:
    """Norm of the adapter's change as a share of the norm of the weights that it changes, median over the layers."""
    sizes = [
        (layer.get_delta_weight("default").norm() / layer.get_base_layer().weight.norm()).item()
        for layer in model.modules()
        if isinstance(layer, Linear)
    ]
    return torch.tensor(sizes).median().item()


def write_solutions(
    model: PeftModel, tokenizer: PreTrainedTokenizerBase, prompts: list[str], limit: int, seed: int
) -> Texts:
    rows = tokenizer(prompts)["input_ids"]
    uniforms = torch.rand(len(rows), limit, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    completions, _ = Sampler(model, tokenizer, max_new_tokens=limit).sample_ids(rows, uniforms)
    return list(zip(rows, completions, strict=True))


def show(results: list[dict[str, Any]]) -> str:
    lines = ["| steps | change / weights | way | mean | max | kl | ess | kept |", "|" + " --- |" * 8]
    for result in results:
        for name, found in result["ways"].items():
            lines.append(
                f"| {result['steps']} | {result['relative_size']:.1e} | {name} | {found['mean']:.1e} |"
                f" {found['max']:.1e} | {found['kl']:.1e} | {found['ess']:.3f} | {found['kept']:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder or Hub id of a causal language model")
    parser.add_argument("--steps", type=int, nargs="+", default=[4, 16], help="training steps of the adapter")
    parser.add_argument("--learning-rate", type=float, default=2e-5, help="as in recipes/gsm8k.yaml by default")
    parser.add_argument("--problems", type=int, default=32, help="problems to which a solution is written")
    parser.add_argument("--new-tokens", type=int, default=96, help="maximum length of a solution")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tokenizer = load_tokenizer(options.model)
    tokenizer.padding_side = "left"
    exact, half = (load(options.model, dtype, options.seed) for dtype in (torch.float32, torch.bfloat16))
    problems = read_problems(2 * options.problems)
    asked, shown = problems[: options.problems], problems[options.problems :]
    texts = [(tokenizer(question)["input_ids"], tokenizer(answer)["input_ids"]) for question, answer in shown]
    results = []
    for steps in train(exact, texts, options.steps, options.learning_rate):
        prompts = [question for question, _ in asked]
        written = write_solutions(exact, tokenizer, prompts, options.new_tokens, options.seed)
        size = relative_size(exact)
        results.append({"steps": steps, "relative_size": size, "ways": measure(exact, half, written)})
    print(show(results), file=sys.stderr)
    print(json.dumps({**vars(options), "num_threads": torch.get_num_threads(), "results": results}, indent=2))


if __name__ == "__main__":
    main()
