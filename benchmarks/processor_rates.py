"""
What a processor reaches with a language model, as shares of the rate of products of matrices:

    python benchmarks/processor_rates.py HuggingFaceTB/SmolLM2-135M-Instruct
    python benchmarks/processor_rates.py MODEL --rows 8 16

Times writing (20 tokens after a prompt of 75, with the cache), reading a prompt, and a step's passes of training on
it, by `transformers` in float32, for each number of rows. The shares are behind the rough times of `pvg plan` on a CPU
(`pvg_hf/check/round_plans.py`), and `writing_speedup`, of the most rows over the fewest, is behind the pilot's rate
(`pvg_hf/game/pilot.py`). Seconds are of the processor. Prints one JSON object.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
from transformers import AutoModelForCausalLM

from pvg_hf.check.graphics_cards import product_flops

PROMPT, WRITTEN = 75, 20  # tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder or a Hub id")
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 64], help="texts at once (default: 8 64)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
    peak = product_flops()
    rates = {rows: measure(model, rows) for rows in options.rows}
    shares = {rows: {name: rate / peak for name, rate in of_rows.items()} for rows, of_rows in rates.items()}
    speedup = rates[max(options.rows)]["writing"] / rates[min(options.rows)]["writing"]
    found = {"gflops_of_products": peak / 1e9, "shares": shares, "writing_speedup": speedup}
    print(json.dumps(found, indent=2))


def measure(model, rows: int) -> dict[str, float]:
    """FLOP per second of each kind of work: 2 for each parameter and token, 6 in training."""
    prompts = torch.randint(100, 4000, (rows, PROMPT), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": prompts, "attention_mask": torch.ones_like(prompts)}
    lengths = {"min_new_tokens": WRITTEN, "max_new_tokens": WRITTEN}
    with torch.inference_mode():
        reading = seconds(lambda: model(**inputs, logits_to_keep=1))
        both = seconds(lambda: model.generate(**inputs, **lengths, do_sample=True, pad_token_id=0))
    training = seconds(lambda: model(**inputs, labels=prompts).loss.backward())
    flops = 2 * model.num_parameters() * rows
    return {
        "writing": flops * WRITTEN / (both - reading),
        "reading": flops * PROMPT / reading,
        "training": 3 * flops * PROMPT / training,
    }


def seconds(run: Callable[[], object]) -> float:
    """Return the processor's time of a run, after one that warms up."""
    run()
    started = time.process_time()
    run()
    return time.process_time() - started


if __name__ == "__main__":
    main()
