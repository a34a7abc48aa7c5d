"""Sampling by `generate` with a static cache, on a CPU and mostly not compiled."""

import gc
import logging
import weakref

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import CompileConfig

from pvg_hf.core.seeding import derive_rng
from pvg_hf.core.stop_checks import stoppable
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.engines import choose_generation, choose_sampler
from pvg_hf.sampling.static_sampler import StaticSampler

PROMPTS = [
    "Ana has 3 pens. How many pens does Ana have?\nsolution:\n",
    "Ben has 12 coins.\nEli has 4 more than Ben.\nHow many coins does Eli have?\nhelpful solution:\n",
    "Eli has 7 books.",
]
MAX_NEW_TOKENS = 12


@pytest.fixture
def prover(ending_prover):
    return ending_prover(every=10)


def _sample(sampler: Sampler, num_samples: int = 5):
    rngs = [[derive_rng(0, prompt, index) for index in range(num_samples)] for prompt in PROMPTS]
    return sampler.sample(PROMPTS, rngs)


@pytest.mark.parametrize("rows_at_once", [1, 4, 64])
@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.2}]
)
def test_rows_are_those_of_the_loop(prover, rows_at_once, settings):
    """Rows that do not end in one call, as with few rows at once, continue in later ones."""
    settings = {"max_new_tokens": MAX_NEW_TOKENS, **settings}
    static = StaticSampler(*prover, **settings)
    static._max_rows = rows_at_once
    samples = _sample(static)
    assert samples == _sample(Sampler(*prover, **settings))
    assert {sample.is_truncated for row in samples for sample in row} == {True, False}


def test_logprobs_are_those_of_the_loop(prover):
    """Rows continue in later calls here, and keep the log-probabilities of earlier ones."""
    rows = [prover[1](prompt)["input_ids"] for prompt in PROMPTS * 3]
    uniforms = torch.rand(len(rows), MAX_NEW_TOKENS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    static = StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)
    static._max_rows = 4
    tokens, logprobs = static.sample_ids(rows, uniforms)
    expected_tokens, expected = Sampler(*prover, max_new_tokens=MAX_NEW_TOKENS).sample_ids(rows, uniforms)
    assert tokens == expected_tokens
    for row, expected_row in zip(logprobs, expected, strict=True):
        assert row == pytest.approx(expected_row, abs=1e-4)


def test_settings_of_the_models_own_generation_are_ignored_and_kept(prover):
    model, _ = prover
    expected = _sample(Sampler(*prover, max_new_tokens=MAX_NEW_TOKENS))
    model.generation_config.update(do_sample=True, temperature=0.1, repetition_penalty=3.0, suppress_tokens=[7, 8, 9])
    assert _sample(StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)) == expected
    assert model.generation_config.suppress_tokens == [7, 8, 9]


def test_an_adapter_and_a_model_in_training_are_sampled_as_by_the_loop(prover):
    model, tokenizer = prover
    torch.manual_seed(0)
    adapted = get_peft_model(
        model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, lora_dropout=0.5)
    )
    adapted.train()
    samples = _sample(StaticSampler(adapted, tokenizer, max_new_tokens=MAX_NEW_TOKENS))
    assert samples == _sample(Sampler(adapted, tokenizer, max_new_tokens=MAX_NEW_TOKENS))
    assert adapted.training
    with adapted.disable_adapter():
        assert samples != _sample(StaticSampler(adapted, tokenizer, max_new_tokens=MAX_NEW_TOKENS))


def _widths(model) -> list[int]:
    """Collect the shapes of a model's inputs."""
    shapes: list[tuple[int, int]] = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    return shapes


def test_all_steps_after_the_prompts_have_one_shape(prover):
    sampler = StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)
    sampler._max_rows = 4
    shapes = _widths(prover[0])
    for batch in sampler.batches(PROMPTS):
        sampler.sample([PROMPTS[index] for index in batch], [[derive_rng(0, n) for n in range(5)] for _ in batch])
    assert {tuple(shape) for shape in shapes if shape[1] == 1} == {(4, 1)}


def test_rows_that_do_not_fit_in_memory_are_halved(prover, caplog):
    expected = _sample(Sampler(*prover, max_new_tokens=MAX_NEW_TOKENS))

    def refuse(module, args, kwargs):
        if len(kwargs["input_ids"]) > 4:
            raise torch.OutOfMemoryError("no room for a fifth row")

    prover[0].register_forward_pre_hook(refuse, with_kwargs=True)
    sampler = StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)
    with caplog.at_level(logging.WARNING):
        assert _sample(sampler) == expected
        assert _sample(sampler) == expected
    assert caplog.text.count("do not fit in memory") == 2  # from 16 rows to 4, once


class _Stopped(Exception):
    pass


def test_a_stop_is_answered_between_two_tokens(prover):
    asked = []

    def stop():
        asked.append(True)
        if len(asked) == 3:
            raise _Stopped

    sampler = StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)
    with pytest.raises(_Stopped), stoppable(stop):
        _sample(sampler)
    assert _sample(sampler) == _sample(Sampler(*prover, max_new_tokens=MAX_NEW_TOKENS))


@pytest.fixture
def compiled(monkeypatch):
    """Compile on a CPU, too."""
    config = CompileConfig()
    config._compile_all_devices = True
    monkeypatch.setattr(StaticSampler, "compile_config", config)
    torch._dynamo.reset()


@pytest.fixture
def _no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("compiled", "_no_collector")
@pytest.mark.parametrize("is_same", [True, False], ids=["of the same sampler", "of a sampler that is gone"])
def test_an_earlier_cache_is_released_before_a_new_one_is_made(prover, is_same):
    """Compilation leaves references in circles to what it has traced, here without the time of a compiler."""
    StaticSampler.compile_config.backend, StaticSampler.compile_config.mode = "eager", None
    uniforms = torch.rand(2, MAX_NEW_TOKENS, dtype=torch.float64)
    sampler = StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)
    sampler.sample_ids([[7] * 5] * 2, uniforms)
    keys = weakref.ref(sampler._cache.layers[0].keys)
    if not is_same:
        sampler = StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)
    sampler.sample_ids([[7] * 300] * 2, uniforms)
    assert keys() is None


@pytest.mark.usefixtures("compiled")
def test_a_model_that_does_not_compile_is_sampled_by_the_loop(prover, monkeypatch, caplog):
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("/nowhere/no-compiler",))
    monkeypatch.setattr("torch._inductor.config.fx_graph_cache", False)
    sampler = StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)
    with caplog.at_level(logging.WARNING):
        assert _sample(sampler) == _sample(Sampler(*prover, max_new_tokens=MAX_NEW_TOKENS))
        _sample(sampler)
    assert caplog.text.count("cannot be compiled") == 1


@pytest.mark.nightly
@pytest.mark.usefixtures("compiled")
def test_a_compiled_forward_pass_draws_the_same_tokens_and_is_compiled_once(prover):
    from torch._dynamo.utils import counters

    sampler = StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS)
    sampler._max_rows = 4
    counters.clear()
    for _ in range(2):
        assert _sample(sampler) == _sample(Sampler(*prover, max_new_tokens=MAX_NEW_TOKENS))
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.gpu
def test_a_gpu_draws_what_the_loop_draws_up_to_rounding(prover):
    model, tokenizer = prover[0].cuda(), prover[1]
    assert choose_sampler(model)[0] is StaticSampler
    static = _sample(StaticSampler(model, tokenizer, max_new_tokens=MAX_NEW_TOKENS), num_samples=40)
    loop = _sample(Sampler(model, tokenizer, max_new_tokens=MAX_NEW_TOKENS), num_samples=40)
    pairs = [pair for rows in zip(static, loop, strict=True) for pair in zip(*rows, strict=True)]
    assert sum(one == other for one, other in pairs) >= 0.95 * len(pairs)


def test_a_cpu_samples_with_the_loop(prover):
    assert choose_sampler(prover[0]) == (Sampler, "the package's own loop, because there is no GPU")


@pytest.mark.parametrize(
    ("wanted", "device", "obstacle", "name", "reason"),
    [
        ("auto", "cpu", None, "transformers", "no GPU"),
        ("auto", "cuda", None, "transformers", "not installed"),
        ("continuous", "cuda", None, "continuous", "the recipe"),
        ("vllm_server", "cpu", None, "vllm_server", "the recipe"),
    ],
)
def test_the_engine_follows_from_the_machine(wanted, device, obstacle, name, reason):
    choice = choose_generation(wanted, torch.device(device), vllm_obstacle=obstacle)
    assert choice.name == name
    assert reason in choice.reason


@pytest.mark.parametrize(("obstacle", "name"), [(None, "vllm_colocate"), ("4 bits", "transformers")])
def test_vllm_is_taken_if_nothing_is_in_its_way(obstacle, name, tmp_path, monkeypatch):
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    choice = choose_generation("auto", torch.device("cuda"), vllm_obstacle=obstacle)
    assert choice.name == name
    assert (obstacle or "vLLM is installed") in choice.reason


def test_equal_prompts_are_read_once(prover):
    """Five solutions of three problems: the first pass has three rows, and all but the last token of each."""
    shapes = _widths(prover[0])
    longest = max(len(ids) for ids in prover[1](PROMPTS)["input_ids"])
    _sample(StaticSampler(*prover, max_new_tokens=MAX_NEW_TOKENS))
    assert shapes[0][0] == len(PROMPTS)
    assert shapes[0][1] >= longest - 1
    assert {shape[1] for shape in shapes[1:]} == {1}
