"""
Speed of the engines that can write solutions, side by side in one process:

    python benchmarks/generation.py
    python benchmarks/generation.py --lengths runs/RUN/pool/base/base.parquet
    python benchmarks/generation.py --lengths lognormal

On a GPU the model has the shape of Qwen2.5-0.5B, in bfloat16, and 32 prompts of 150 to 250 tokens have 8 solutions of
200 tokens each. On a CPU it is a toy in float32. All weights are random. With `--lengths`, each solution ends at a
length of its own: those of a file of a run's pool, in random order, or draws from a log-normal distribution with a
median of 274 tokens, which was published for solutions of GSM8K by a model of 0.5 B. Then the figures show what an
engine loses while finished rows wait for others: only tokens up to a row's end count, and there are more rows than fit
in a batch.

- `loop`: `pvg_hf.sampling.Sampler`
- `generate, dynamic cache`: plain transformers
- `generate, static cache, compiled`: plain transformers, the reference of all ratios
- `StaticSampler`: `pvg_hf.sampling.static_sampler`; on a CPU, where it is not the default, also without compilation
- `continuous batching`: transformers' `generate_batch`
- `vLLM`, if it is installed

`adapter`: with a LoRA adapter of rank 16 on all linear layers; `merged`: merged into the weights for the call, and
taken out again. An engine's first call includes its compilation and is listed apart; `ratio` compares tokens a second
of the median warm call with those of the reference. On a CPU, seconds of warm calls are those of the processor, over
all threads. Prints a table on standard error while it measures, and one JSON object.
"""

import argparse
import json
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    CompileConfig,
    ContinuousBatchingConfig,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from pvg_hf.core.seeding import derive_rng
from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.run.environment import git_revision
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.static_sampler import StaticSampler

ROOT = Path(__file__).parents[1]
REFERENCE = "generate, static cache, compiled"
ADAPTERS = ("none", "merged", "not merged")
# On a CPU, other work on the machine affects the processor's seconds less.
CLOCKS = {"cuda": time.perf_counter, "cpu": time.process_time}
END = 0  # id of the token that ends a solution
# No other number draws the end token: its probability is far lower with random weights.
LEAST_UNIFORM = 0.01
MEDIAN_LENGTH, LOG_STD = 274, 0.6
# By whether the model is a toy, and whether each row has a length of its own.
SHAPES = {
    (False, False): {
        "prompts": 32,
        "solutions": 8,
        "prompt_tokens": (150, 250),
        "new_tokens": 200,
        "rows_at_once": 256,
    },
    (False, True): {
        "prompts": 128,
        "solutions": 8,
        "prompt_tokens": (150, 250),
        "new_tokens": 512,
        "rows_at_once": 256,
    },
    (True, False): {"prompts": 16, "solutions": 4, "prompt_tokens": (30, 50), "new_tokens": 64, "rows_at_once": 64},
    (True, True): {"prompts": 64, "solutions": 4, "prompt_tokens": (30, 50), "new_tokens": 360, "rows_at_once": 64},
}


@dataclass(frozen=True)
class Work:
    """
    Solutions to write.

    Args:
        prompts (`list[list[int]]`):
            Prompt of each row; the solutions of a problem are adjacent.
        lengths (`list[int]`):
            Tokens of each row's solution.
        limit (`int`):
            Maximum length.
        rows_at_once (`int`):
            Rows of a batch, for the engines that do not choose it themselves.
        solutions (`int`):
            Solutions to each problem.
        seed (`int`):
            Seed of the draws.
    """

    prompts: list[list[int]]
    lengths: list[int]
    limit: int
    rows_at_once: int
    solutions: int
    seed: int

    def uniforms(self) -> torch.Tensor:
        """Uniform numbers that end each row at its length: 0 draws the first token, which is the end token."""
        numbers = derive_rng(self.seed, "uniforms").uniform(LEAST_UNIFORM, 1.0, (len(self.prompts), self.limit))
        for row, length in zip(numbers, self.lengths, strict=True):
            row[length - 1] = 0.0
        return torch.from_numpy(numbers)

    def batches(self) -> list[range]:
        """Indices of the rows of each batch, in the order of the rows."""
        every = range(len(self.prompts))
        return [every[start : start + self.rows_at_once] for start in every[:: self.rows_at_once]]


def make_work(options: argparse.Namespace, vocab_size: int) -> Work:
    rng = derive_rng(options.seed, "prompts")
    low, high = options.prompt_tokens
    prompts = [rng.integers(1, vocab_size, rng.integers(low, high + 1)).tolist() for _ in range(options.prompts)]
    num_rows = options.prompts * options.solutions
    return Work(
        prompts=[prompt for prompt in prompts for _ in range(options.solutions)],
        lengths=draw_lengths(options.lengths, num_rows, options.new_tokens, options.seed),
        limit=options.new_tokens,
        rows_at_once=options.rows_at_once,
        solutions=options.solutions,
        seed=options.seed,
    )


def draw_lengths(source: str | None, number: int, limit: int, seed: int) -> list[int]:
    """
    Lengths of solutions, in tokens.

    Args:
        source (`str`, *optional*):
            File of a pool, whose lengths are drawn without replacement as far as they last; `"lognormal"`; or nothing,
            for `limit` everywhere.
        number (`int`):
            Number of solutions.
        limit (`int`):
            Longest length; others are cut to it.
        seed (`int`):
            Seed of the draws.
    """
    rng = derive_rng(seed, "lengths")
    if source is None:
        return [limit] * number
    if source == "lognormal":
        lengths = rng.lognormal(np.log(MEDIAN_LENGTH), LOG_STD, number)
    else:
        import pyarrow.parquet

        known = pyarrow.parquet.read_table(source, columns=["num_tokens"])["num_tokens"].to_numpy()
        lengths = np.resize(rng.permutation(known), number)
    return np.clip(lengths.round().astype(int), 1, limit).tolist()


def compile_everywhere() -> CompileConfig | None:
    """Settings of `generate` to compile on this machine; by default it compiles on a GPU, and not on a CPU."""
    if torch.cuda.is_available():
        return None
    config = CompileConfig()
    config._compile_all_devices = True
    return config


@dataclass(frozen=True)
class Engine:
    """
    A way to write solutions.

    Args:
        write (`Callable`):
            Model, tokenizer and work to the number of tokens of each row's solution.
        with_adapters (`bool`):
            Whether it is also measured with adapters.
    """

    write: Callable[[PreTrainedModel, PreTrainedTokenizerBase, Work], list[int]]
    with_adapters: bool = False


def sample_by(kind: type[Sampler]) -> Callable[..., list[int]]:
    def write(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, work: Work) -> list[int]:
        at_once = max(1, work.rows_at_once // work.solutions)
        sampler = kind(model, tokenizer, max_new_tokens=work.limit, prompts_per_batch=at_once)
        completions, _ = sampler.sample_ids(work.prompts, work.uniforms())
        return [len(tokens) for tokens in completions]

    return write


class CompiledStaticSampler(StaticSampler):
    """[`StaticSampler`] that compiles on a CPU, too."""

    compile_config = compile_everywhere()


def generate_by(*, is_compiled: bool = False, **settings) -> Callable[..., list[int]]:
    """
    Plain `generate`. A batch ends with its longest row, whose length is known here and would be found by a model.
    """

    def write(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, work: Work) -> list[int]:
        width = max(map(len, work.prompts))
        for batch in work.batches():
            rows = [work.prompts[index] for index in batch]
            ids = torch.tensor([[END] * (width - len(row)) + row for row in rows], device=model.device)
            mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=model.device)
            config = GenerationConfig(
                do_sample=True,
                top_k=0,
                top_p=1.0,
                max_new_tokens=max(work.lengths[index] for index in batch),
                pad_token_id=END,
                disable_compile=not is_compiled,
                compile_config=compile_everywhere() if is_compiled else None,
                **settings,
                **({"max_cache_len": width + work.limit} if settings else {}),
            )
            model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
        return work.lengths

    return write


def batch_continuously(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, work: Work) -> list[int]:
    """`generate_batch`, with a length for each row."""
    config = GenerationConfig(do_sample=True, top_k=0, top_p=1.0, max_new_tokens=work.limit, pad_token_id=END)
    config.eos_token_id = -1
    # By default it takes most of the memory, which on a CPU is that of all programs.
    share = ContinuousBatchingConfig(max_memory_percent=None if model.device.type == "cuda" else 0.02)
    found: dict[str, int] = {}
    with (
        torch.no_grad(),
        model.continuous_batching_context_manager(config, continuous_batching_config=share) as manager,
    ):
        requests = [
            manager.add_request(prompt, max_new_tokens=length)
            for prompt, length in zip(work.prompts, work.lengths, strict=True)
        ]
        while len(found) < len(requests):
            result = manager.get_result(timeout=1)
            if result is None and not manager.is_running():
                raise RuntimeError(f"Continuous batching stopped after {len(found)} of {len(requests)} rows.")
            if result is not None and result.is_finished():
                found[result.request_id] = len(result.generated_tokens)
    return [found[request] for request in requests]


def make_vllm() -> Callable[..., list[int]]:
    """vLLM with the same weights, from a folder; its process keeps its memory, so that it is the last engine."""
    started: list[Any] = []

    def write(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, work: Work) -> list[int]:
        from tempfile import mkdtemp

        from vllm import LLM, SamplingParams

        if not started:
            folder = mkdtemp()
            model.save_pretrained(folder)
            started.append(LLM(model=folder, skip_tokenizer_init=True, gpu_memory_utilization=0.5, seed=work.seed))
        settings = [
            SamplingParams(max_tokens=length, temperature=1.0, ignore_eos=True, detokenize=False)
            for length in work.lengths
        ]
        prompts = [{"prompt_token_ids": prompt} for prompt in work.prompts]
        outputs = started[0].generate(prompts, sampling_params=settings, use_tqdm=False)
        return [len(output.outputs[0].token_ids) for output in outputs]

    return write


def all_engines() -> dict[str, Engine]:
    engines = {
        REFERENCE: Engine(generate_by(is_compiled=True, cache_implementation="static"), with_adapters=True),
        "StaticSampler": Engine(sample_by(CompiledStaticSampler), with_adapters=True),
        **({} if torch.cuda.is_available() else {"StaticSampler, not compiled": Engine(sample_by(StaticSampler))}),
        "loop": Engine(sample_by(Sampler), with_adapters=True),
        "generate, dynamic cache": Engine(generate_by()),
        "continuous batching": Engine(batch_continuously),
    }
    return engines | ({"vLLM": Engine(make_vllm())} if find_spec("vllm") else {})


def make_model(dtype: torch.dtype, device: str, *, is_toy: bool, seed: int) -> PreTrainedModel:
    from tools.gpu_check.stand_ins import TOY_SIZES, TOY_VOCABULARY, published_settings

    settings = published_settings("Qwen/Qwen2.5-0.5B")
    settings |= TOY_SIZES | {"vocab_size": TOY_VOCABULARY, "num_key_value_heads": 2} if is_toy else {}
    settings |= {"pad_token_id": END, "eos_token_id": None, "bos_token_id": None}
    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[settings["model_type"]](**settings), dtype=dtype)
    return model.eval()


def make_tokenizer() -> PreTrainedTokenizerBase:
    """A tokenizer whose first token ends a solution; its other tokens are never asked for."""
    tokenizer = train_tokenizer([], 300)
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(END)
    return tokenizer


@contextmanager
def with_adapter(model: PreTrainedModel, adapter: str, seed: int) -> Iterator[PreTrainedModel | PeftModel]:
    if adapter == "none":
        yield model
        return
    torch.manual_seed(seed)
    wrapped = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")).eval()
    try:
        yield wrapped
    finally:
        wrapped.unload()


def time_engine(
    engine: Engine, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, work: Work, adapter: str, repeats: int
) -> dict[str, Any]:
    """Time the first call and `repeats` further ones, and check that all rows have their lengths."""
    torch.compiler.reset()  # no engine meets what another one has compiled
    taken = []
    clock = time.perf_counter  # of the first call, whose compiler is another process
    with with_adapter(model, adapter, work.seed) as player:
        for _ in range(1 + repeats):
            synchronize()
            started = clock()
            if adapter == "merged":
                player.merge_adapter()
            written = engine.write(player, tokenizer, work)
            if adapter == "merged":
                player.unmerge_adapter()
            synchronize()
            taken.append(clock() - started)
            clock = CLOCKS[model.device.type]
            if written != work.lengths:
                wrong = next(
                    row for row, pair in enumerate(zip(written, work.lengths, strict=True)) if pair[0] != pair[1]
                )
                raise RuntimeError(f"Row {wrong} has {written[wrong]} tokens instead of {work.lengths[wrong]}.")
    first, *warm = taken
    median = statistics.median(warm)
    return {
        "first_seconds": round(first, 3),
        "seconds": round(median, 3),
        "seconds_range": [round(min(warm), 3), round(max(warm), 3)],
        "tokens_a_second": round(sum(work.lengths) / median, 1),
        "ms_a_token_of_all_rows": round(1000 * median / max(work.lengths), 2),
    }


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure(options: argparse.Namespace, engines: dict[str, Engine], show: Callable[[str], None]) -> dict[str, Any]:
    """Time each engine; one that fails is recorded with its error, and the others still run."""
    device = options.device
    dtype = torch.float32 if options.is_toy else torch.bfloat16
    model, tokenizer = make_model(dtype, device, is_toy=options.is_toy, seed=options.seed), make_tokenizer()
    work = make_work(options, model.config.vocab_size)
    results: list[dict[str, Any]] = []
    for name, engine in engines.items():
        for adapter in ADAPTERS if engine.with_adapters else ADAPTERS[:1]:
            record = {"engine": name, "adapter": adapter}
            try:
                record |= time_engine(engine, model, tokenizer, work, adapter, options.repeats)
                reference = (results or [record])[0].get("tokens_a_second")  # `None` if the reference failed
                record["ratio"] = reference and round(record["tokens_a_second"] / reference, 3)
            except (RuntimeError, ValueError) as error:
                traceback.print_exc()
                record["error"] = f"{type(error).__name__}: {error}"
            results.append(record)
            show(describe(record))
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "tokens": sum(work.lengths),
        "rows": len(work.prompts),
        "results": results,
    }


HEADER = "| engine | adapter | ratio | tokens a second | warm call, s | first call, s |\n|" + " --- |" * 6


def describe(record: dict[str, Any]) -> str:
    """One line of the table."""
    begin = f"| {record['engine']} | {record['adapter']} |"
    if "error" in record:
        return f"{begin} {record['error'].splitlines()[0]} | | | |"
    low, high = record["seconds_range"]
    return (
        f"{begin} {record['ratio'] or nan:.2f} | {record['tokens_a_second']:,.0f} | {record['seconds']:.2f}"
        f" [{low:.2f}, {high:.2f}] | {record['first_seconds']:.2f} |"
    )


def read_options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    has_gpu = torch.cuda.is_available()
    parser.add_argument(
        "--lengths", help="a file of a pool, or `lognormal`; by default all solutions are equally long"
    )
    parser.add_argument("--prompts", type=int, help="number of problems")
    parser.add_argument("--solutions", type=int, help="solutions to each problem")
    parser.add_argument("--new-tokens", type=int, help="tokens of the longest solution")
    parser.add_argument("--rows-at-once", type=int, help="rows of a batch, for engines that do not choose it")
    parser.add_argument("--repeats", type=int, default=3, help="warm calls, of which the median counts")
    parser.add_argument("--engine", action="append", help="measure this engine beside the reference; may be repeated")
    parser.add_argument("--toy", dest="is_toy", action="store_true", default=not has_gpu, help="the toy, on a GPU too")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    options.device = "cuda" if has_gpu else "cpu"
    for name, value in SHAPES[options.is_toy, options.lengths is not None].items():
        if vars(options).get(name) is None:
            setattr(options, name, value)
    return options


def main() -> None:
    sys.path.insert(0, str(ROOT))  # `benchmarks` is not part of the package
    from tools.gpu_check.machine import probe_machine

    options, engines = read_options(), all_engines()
    if unknown := set(options.engine or ()) - set(engines):
        raise SystemExit(f"Unknown engine {unknown.pop()!r}; there are: {', '.join(engines)}.")
    chosen = {name: engine for name, engine in engines.items() if name in (REFERENCE, *(options.engine or engines))}
    print(HEADER, file=sys.stderr, flush=True)
    found = measure(options, chosen, lambda line: print(line, file=sys.stderr, flush=True))
    machine = {**probe_machine(), "threads": torch.get_num_threads(), "processor": platform.processor()}
    print(json.dumps({"machine": machine, "commit": git_revision(), "options": vars(options), **found}, indent=2))


if __name__ == "__main__":
    main()
