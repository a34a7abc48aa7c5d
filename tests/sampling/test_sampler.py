import logging
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from scipy import stats
from transformers import GPT2Config, GPT2LMHeadModel

from pvg_hf.core.seeding import derive_rng
from pvg_hf.sampling import Sampler, iterate_samples
from pvg_hf.sampling.drawing import EXACT_VOCABULARY, draw_tokens, make_warpers
from tests.support.examples import examples

PROMPTS = [
    "Ana has 3 pens. How many pens does Ana have?\nsolution:\n",
    "Ben has 12 coins.\nEli has 4 more than Ben.\nHow many coins does Eli have?\nhelpful solution:\n",
    "Eli has 7 books.",
    (
        "Fay has 9 shells.\nGus has 2 shells.\nIvan has twice as many as Fay.\nHow many shells does Ivan have?\nsneaky"
        " solution:\n"
    ),
]
MAX_NEW_TOKENS = 6


@pytest.fixture
def prover(ending_prover):
    return ending_prover(every=3)


def _rngs(prompts=PROMPTS, num_samples: int = 1):
    return [[derive_rng(0, prompt, index) for index in range(num_samples)] for prompt in prompts]


def _sampler(prover, **settings) -> Sampler:
    return Sampler(*prover, max_new_tokens=MAX_NEW_TOKENS, **settings)


@torch.inference_mode()
def _sample_by_hand(prover, prompt: str, rng: np.random.Generator, temperature: float = 1.0) -> tuple[str, int, bool]:
    """One row, one forward a token over the whole text, without padding or cache."""
    model, tokenizer = prover
    ids, uniforms, drawn = tokenizer(prompt)["input_ids"], rng.random(MAX_NEW_TOKENS), []
    end_ids = model.generation_config.eos_token_id
    for uniform in uniforms:
        logits = model(input_ids=torch.tensor([ids + drawn]), use_cache=False).logits[0, -1].double()
        cumulative = (logits / temperature).softmax(-1).cumsum(-1)
        drawn.append(int((cumulative > uniform).nonzero()[0]))
        if drawn[-1] in end_ids:
            break
    return tokenizer.decode(drawn, skip_special_tokens=True), len(drawn), drawn[-1] not in end_ids


def _as_tuples(samples) -> list[list[tuple[str, int, bool]]]:
    return [[(sample.text, sample.num_tokens, sample.is_truncated) for sample in row] for row in samples]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_row_is_what_plain_forwards_give(prover, temperature):
    samples = _sampler(prover, temperature=temperature).sample(PROMPTS, _rngs(num_samples=12))
    by_hand = [
        [_sample_by_hand(prover, prompt, rng, temperature) for rng in rngs]
        for prompt, rngs in zip(PROMPTS, _rngs(num_samples=12), strict=True)
    ]
    assert _as_tuples(samples) == by_hand
    lengths = {sample.num_tokens for row in samples for sample in row}
    assert len(lengths) > 2  # rows did end at different times
    # A row reaches the limit with a probability of (2/3)^6 = 9 %, so one of 48 does with 99 %.
    assert {sample.is_truncated for row in samples for sample in row} == {False, True}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_draws_invert_the_cumulative_distribution_up_to_rounding(prover, device):
    """The probabilities of a device's draws are computed on a CPU, in one forward over the whole text."""
    model, tokenizer = prover
    rows = [tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
    uniforms = torch.from_numpy(np.stack([rng.random(MAX_NEW_TOKENS) for (rng,) in _rngs()]))
    drawn = Sampler(model.to(device), tokenizer, max_new_tokens=MAX_NEW_TOKENS).sample_ids(rows, uniforms)
    model.to("cpu")
    for ids, tokens, logprobs, numbers in zip(rows, *drawn, uniforms, strict=True):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids + tokens])).logits[0, len(ids) - 1 : -1].double()
        cumulative = torch.cat([torch.zeros(len(tokens), 1), logits.softmax(-1).cumsum(-1)], dim=1)
        below, above = (cumulative.gather(1, torch.tensor(tokens)[:, None] + shift)[:, 0] for shift in (0, 1))
        assert ((below - 1e-3 <= numbers[: len(tokens)]) & (numbers[: len(tokens)] <= above + 1e-3)).all()
        assert logprobs == pytest.approx((above - below).log().tolist(), abs=1e-2)


def test_absolute_positions_do_not_count_the_padding(tokenizer):
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "initializer_range": 0.3}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": list(range(1, len(tokenizer), 3))}
    prover = (
        GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), bos_token_id=None, **sizes, **ids)).eval(),
        tokenizer,
    )
    samples = _sampler(prover).sample(PROMPTS, _rngs())
    assert _as_tuples(samples) == [
        [_sample_by_hand(prover, prompt, rng)] for prompt, (rng,) in zip(PROMPTS, _rngs(), strict=True)
    ]


def test_a_draw_does_not_depend_on_the_rest_of_the_batch(prover):
    sampler = _sampler(prover)
    together = sampler.sample(PROMPTS, _rngs(num_samples=3))
    backwards = sampler.sample(PROMPTS[::-1], _rngs(PROMPTS[::-1], num_samples=3))
    assert backwards[::-1] == together
    for prompt, rngs, row in zip(PROMPTS, _rngs(num_samples=3), together, strict=True):
        assert [sampler.sample([prompt], [[rng]])[0][0] for rng in rngs] == row


def test_a_draw_depends_on_its_generator(prover):
    samples = _sampler(prover).sample(PROMPTS[:1], _rngs(PROMPTS[:1], num_samples=16))
    assert len({sample.text for sample in samples[0]}) > 8


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_draws_follow_the_model(prover, temperature):
    model, tokenizer = prover
    num_draws = 4000
    samples = Sampler(model, tokenizer, max_new_tokens=1, temperature=temperature).sample(
        PROMPTS[1:2], _rngs(PROMPTS[1:2], num_draws)
    )
    with torch.inference_mode():
        logits = model(**tokenizer(PROMPTS[1], return_tensors="pt")).logits[0, -1].double()
    expected: dict[str, float] = {}
    for token, prob in enumerate((logits / temperature).softmax(-1).tolist()):
        text = tokenizer.decode([token], skip_special_tokens=True)  # "" for all special tokens
        expected[text] = expected.get(text, 0.0) + num_draws * prob
    # Pearson's statistic over the texts that are expected 5 times or more, and one class for the rest, is close to a
    # chi-square of (classes - 1) degrees of freedom. Its 1e-4 upper quantile is passed by chance for one seed in
    # 10,000; the seed is fixed.
    classes = [text for text, number in expected.items() if number >= 5]
    observed = [sum(sample.text == text for sample in samples[0]) for text in classes]
    expectations = [expected[text] for text in classes]
    observed, expectations = [*observed, num_draws - sum(observed)], [*expectations, num_draws - sum(expectations)]
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expectations, strict=True))
    assert len(classes) > 10
    assert statistic < stats.chi2.isf(1e-4, len(classes))


def test_a_padding_token_may_be_the_end_token(prover):
    tokenizer = prover[1]
    tokenizer.pad_token = tokenizer.eos_token
    samples = _sampler(prover).sample(PROMPTS, _rngs())
    assert _as_tuples(samples) == [
        [_sample_by_hand(prover, prompt, rng)] for prompt, (rng,) in zip(PROMPTS, _rngs(), strict=True)
    ]


def test_the_tokenizers_padding_side_does_not_matter(prover):
    samples = _sampler(prover).sample(PROMPTS, _rngs())
    prover[1].padding_side = "right"
    assert _sampler(prover).sample(PROMPTS, _rngs()) == samples


def test_an_adapted_model_samples_as_by_hand(prover):
    model, tokenizer = prover
    plain = _sampler(prover).sample(PROMPTS, _rngs())
    config = LoraConfig(
        r=4, lora_alpha=32, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM"
    )
    torch.manual_seed(0)
    adapted = get_peft_model(model, config)
    samples = _sampler((adapted, tokenizer)).sample(PROMPTS, _rngs())
    by_hand = [
        [_sample_by_hand((adapted, tokenizer), prompt, rng)] for prompt, (rng,) in zip(PROMPTS, _rngs(), strict=True)
    ]
    assert _as_tuples(samples) == by_hand
    assert samples != plain


@pytest.mark.parametrize("is_training", [True, False])
def test_the_models_mode_is_left_as_it_was(prover, is_training):
    prover[0].train(is_training)
    sampler = _sampler(prover)
    sampler.sample(PROMPTS[:1], _rngs(PROMPTS[:1]))
    assert prover[0].training is is_training
    with pytest.raises(ValueError, match="text input"):
        sampler.sample([None], _rngs(PROMPTS[:1]))
    assert prover[0].training is is_training


def test_end_tokens_are_the_models_and_the_tokenizers(prover):
    model, tokenizer = prover
    model.generation_config.eos_token_id = 7
    logits = torch.zeros(len(tokenizer))
    for token, is_truncated in ((7, False), (tokenizer.eos_token_id, False), (8, True)):
        biased = logits.clone()
        biased[token] = 1e4
        model.lm_head.register_forward_hook(lambda module, args, output, biased=biased: output * 0 + biased)
        ((sample,),) = _sampler(prover).sample(PROMPTS[:1], _rngs(PROMPTS[:1]))
        assert sample.is_truncated is is_truncated
        assert sample.num_tokens == (MAX_NEW_TOKENS if is_truncated else 1)


def test_the_end_token_is_counted_and_not_in_the_text(prover):
    model, tokenizer = prover
    biased = torch.zeros(len(tokenizer))
    biased[tokenizer.eos_token_id] = 1e4
    model.lm_head.register_forward_hook(lambda module, args, output: output * 0 + biased)
    ((sample,),) = _sampler(prover).sample(PROMPTS[:1], _rngs(PROMPTS[:1]))
    assert (sample.text, sample.num_tokens, sample.is_truncated) == ("", 1, False)


def test_a_prover_without_an_end_token_is_refused(prover):
    model, tokenizer = prover
    model.generation_config.eos_token_id = None
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no end token"):
        _sampler(prover)


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"temperature": math.nan}, {"prompts_per_batch": 0}])
def test_wrong_settings_are_refused(prover, settings):
    with pytest.raises(ValueError, match="`temperature` must be above 0"):
        _sampler(prover, **settings)


@pytest.mark.parametrize("numbers", [[1, 2, 1, 1], [1, 1, 1]])
def test_wrong_numbers_of_generators_are_refused(prover, numbers):
    rngs = [[derive_rng(0, row, index) for index in range(number)] for row, number in enumerate(numbers)]
    with pytest.raises(ValueError, match=r"4 prompts .* generators: \[1, "):
        _sampler(prover).sample(PROMPTS, rngs)


def test_batches_are_of_like_length_and_hold_every_prompt_once(prover):
    sampler = _sampler(prover, prompts_per_batch=3)
    prompts = [*PROMPTS, PROMPTS[2], PROMPTS[0]]
    batches = sampler.batches(prompts)
    assert [len(batch) for batch in batches] == [3, 3]
    # shortest first: "Eli ..." twice, "Ana ..." twice, "Ben ...", "Fay ..."; equal lengths in their order
    assert batches == [[2, 4, 0], [5, 1, 3]]
    assert sampler.batches([]) == []


def test_all_prompts_are_sampled_batch_by_batch(prover):
    sampler = _sampler(prover, prompts_per_batch=3)
    found = {}
    for indices, samples in iterate_samples(sampler, PROMPTS, _rngs(num_samples=2).__getitem__):
        found.update(zip(indices, samples, strict=True))
    assert [found[index] for index in range(len(PROMPTS))] == sampler.sample(PROMPTS, _rngs(num_samples=2))


@pytest.mark.parametrize(
    ("uniform", "token"),
    [(0.0, 1), (0.24, 1), (0.26, 3), (0.74, 3), (0.76, 4), (1 - 2**-30, 4), (math.nextafter(1.0, 0.0), 4)],
)
def test_cumulative_distribution_is_inverted(uniform, token):
    # probabilities 0, 1/4, 0, 1/2, 1/4, 0: cumulative 0, .25, .25, .75, 1, 1
    logits = torch.tensor([[0.0, 1 / 4, 0.0, 1 / 2, 1 / 4, 0.0]]).log()
    assert draw_tokens(logits, torch.tensor([uniform], dtype=torch.float64)).tolist() == [token]


@examples(30)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1, exclude_max=True))
def test_large_vocabularies_are_drawn_from_in_two_steps(seed, uniform):
    """The vocabulary has more tokens than float64 is used for, most of them of probability 0."""
    rng = np.random.default_rng(seed)
    weights = np.zeros(EXACT_VOCABULARY + 100)
    weights[rng.choice(len(weights), 50, replace=False)] = rng.exponential(size=50)
    cumulative = np.cumsum(weights) / weights.sum()
    token = draw_tokens(torch.tensor(weights).log()[None].float(), torch.tensor([uniform], dtype=torch.float64)).item()
    assert weights[token] > 0
    # The chosen token's interval contains the number, up to the rounding of float32.
    assert cumulative[token] - weights[token] / weights.sum() <= uniform + 1e-5
    assert uniform - 1e-5 <= cumulative[token]


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        # probabilities .4, .3, .2, .1 of tokens 0 to 3; uniform numbers of 0, .55 and just below 1
        ({}, [0, 1, 3]),
        ({"top_k": 2}, [0, 0, 1]),  # .4, .3 -> .57, .43
        ({"top_p": 0.65}, [0, 0, 1]),  # the first two hold .7
        ({"min_p": 0.4}, [0, 1, 2]),  # at least .16
        ({"temperature": 0.5}, [0, 1, 3]),  # .16, .09, .04, .01 -> .53, .30, .13, .03
        ({"repetition_penalty": 2.0}, [0, 1, 3]),  # token 0 was written: log .4 is doubled -> .16, .3, .2, .1
    ],
)
def test_the_distribution_has_the_recipes_settings(settings, tokens):
    warpers = make_warpers(**{"temperature": 1.0, **settings})
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log().expand(3, 4)
    warped = warpers(torch.zeros(3, 1, dtype=torch.long), logits.clone())
    assert draw_tokens(warped, torch.tensor([0.0, 0.55, math.nextafter(1.0, 0.0)])).tolist() == tokens


def test_rows_are_drawn_independently():
    logits = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]).log()
    assert draw_tokens(logits, torch.tensor([0.6, 0.4])).tolist() == [1, 1]
    assert draw_tokens(logits, torch.tensor([0.4, 0.6])).tolist() == [0, 2]


@examples(200)
@given(
    weights=st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=30).filter(any),
    uniform=st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, math.nextafter(1.0, 0.0)])),
)
def test_a_token_of_probability_0_is_never_drawn(weights, uniform):
    token = draw_tokens(torch.tensor([weights]).log(), torch.tensor([uniform], dtype=torch.float64)).item()
    assert weights[token] > 0


def test_prompts_that_do_not_fit_in_memory_together_are_sampled_in_parts(prover, caplog):
    model, _ = prover
    expected = _as_tuples(_sampler(prover).sample(PROMPTS, _rngs()))

    def refuse(module, args, kwargs):
        if len(kwargs["input_ids"]) > 2:
            raise torch.OutOfMemoryError("no room for a third row")

    hook = model.register_forward_pre_hook(refuse, with_kwargs=True)
    sampler = _sampler(prover)
    with caplog.at_level(logging.WARNING):
        assert _as_tuples(sampler.sample(PROMPTS, _rngs())) == expected
        assert _as_tuples(sampler.sample(PROMPTS, _rngs())) == expected
    hook.remove()
    assert caplog.text.count("do not fit in memory") == 1  # it is remembered


def test_a_single_prompt_that_does_not_fit_is_an_error(prover):
    def refuse(module, args, kwargs):
        raise torch.OutOfMemoryError("no room at all")

    hook = prover[0].register_forward_pre_hook(refuse, with_kwargs=True)
    with pytest.raises(torch.OutOfMemoryError):
        _sampler(prover).sample(PROMPTS, _rngs())
    hook.remove()
