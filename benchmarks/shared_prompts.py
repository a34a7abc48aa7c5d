"""
Time of a GRPO update's passes with each prompt read once for all its solutions, against once for each solution:

    python benchmarks/shared_prompts.py
    python benchmarks/shared_prompts.py --model HuggingFaceTB/SmolLM2-135M-Instruct --prompt 390 --solution 120

Both compute the log-probabilities of the same random texts with a LoRA adapter, forward and backward, in turns. The
model of the default has the shape of SmolLM2-135M with a third of its layers and random weights. `seconds` are of
the processor on a CPU, the median over the turns; `ratio` is separate over shared. Prints one JSON object.
"""

import argparse
import json
import statistics
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig
from trl.trainer.utils import add_fused_lm_head

from pvg_hf.trainers.common.shared_prompts import can_share_prompts, share_prompts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder or a Hub id; random weights by default")
    parser.add_argument("--prompts", type=int, default=2, help="number of prompts (%(default)s)")
    parser.add_argument("--generations", type=int, default=8, help="solutions to each (%(default)s)")
    parser.add_argument("--prompt", type=int, default=390, help="tokens of a prompt (%(default)s)")
    parser.add_argument("--solution", type=int, default=120, help="tokens of the longest solution (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="times that each is run (%(default)s)")
    options = parser.parse_args()
    model = load_model(options.model)
    assert can_share_prompts(model)
    print(json.dumps(compare(model, options), indent=2))


def load_model(source: str | None):
    torch.manual_seed(0)
    if source is not None:
        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    else:
        config = LlamaConfig(
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=10,
            num_attention_heads=9,
            num_key_value_heads=3,
            vocab_size=49152,
            tie_word_embeddings=True,
        )
        model = AutoModelForCausalLM.from_config(config)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    adapted = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    return adapted.to("cuda" if torch.cuda.is_available() else "cpu")


def compare(model, options: argparse.Namespace) -> dict:
    ids, mask = random_texts(options, model.config.vocab_size)
    ids, mask = ids.to(model.device), mask.to(model.device)
    shared = share_prompts(ids, mask, options.solution)
    assert shared is not None
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, : -options.solution] = -100
    ways = {
        "separate": {"input_ids": ids, "attention_mask": mask, "labels": labels},
        "shared": shared.inputs,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    losses = {}
    for turn in range(options.turns + 1):
        for name, inputs in ways.items():
            start = now()
            loss = model(**inputs, fused_lm_head=True).log_probs.sum()
            loss.backward()
            model.zero_grad()
            losses[name] = loss.item()
            if turn:  # the first one warms up
                seconds[name].append(now() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "tokens": {"separate": int(mask.sum()), "shared": shared.num_tokens},
        "seconds": medians,
        "ratio": medians["separate"] / medians["shared"],
        "relative_difference_of_loss": abs(losses["shared"] / losses["separate"] - 1),
        "threads": torch.get_num_threads(),
        "device": str(model.device),
    }


def random_texts(options: argparse.Namespace, num_words: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts of one length, and solutions of between half of the longest length and all of it."""
    generator = torch.Generator().manual_seed(0)
    rows, width = options.prompts * options.generations, options.prompt + options.solution
    ids = torch.randint(num_words, (rows, width), generator=generator)
    prompts = ids[:: options.generations, : options.prompt]
    ids[:, : options.prompt] = prompts.repeat_interleave(options.generations, dim=0)
    lengths = torch.randint(options.solution // 2, options.solution + 1, (rows,), generator=generator)
    return ids, (torch.arange(width) < options.prompt + lengths[:, None]).long()


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


if __name__ == "__main__":
    main()
