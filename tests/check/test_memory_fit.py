"""`auto` for micro-batches and recomputed activations."""

from dataclasses import replace

import pytest

from pvg_hf.check.memory_fit import fit_to_memory
from pvg_hf.check.phase_costs import peak_memory
from tests.support.sized_players import SIZE, SIZES

DEEP = {name: replace(SIZE, num_layers=8) for name in SIZES}  # so that recomputing saves much
STEP = ("verifier.pairs_per_step=32", "verifier.max_length=100", "verifier.tokens_per_batch=1")


def on_gpu(amounts, memory: int):
    return replace(amounts, hardware=replace(amounts.hardware, is_here=False), memory=memory)


@pytest.fixture
def fitted(amounts_of):
    """The settings that are chosen on a GPU on which the training of a verifier with certain settings just fits."""

    def choose(*overrides: str, size: int | None, recomputes: bool, spare: float = 1.01, **options):
        amounts = amounts_of(*STEP, *overrides)
        given = [f"verifier.micro_batch_size={size or 'null'}", f"verifier.gradient_checkpointing={recomputes}"]
        fitting = amounts_of(*STEP, *overrides, *given)
        # Texts of the greatest length: the problems' 24 tokens and `max_completion_length`.
        most = amounts.recipe.prover.max_completion_length
        lengths = replace(amounts.lengths, verifier_input=replace(amounts.lengths.verifier_input, high=33 - 9 + most))
        peak = peak_memory("verifier", on_gpu(replace(fitting, lengths=lengths), 1), DEEP)
        chosen = fit_to_memory(on_gpu(amounts, peak / 0.85 * spare), DEEP, "verifier", **options).verifier
        return chosen.micro_batch_size, chosen.gradient_checkpointing

    return choose


@pytest.mark.parametrize(
    ("size", "recomputes"),
    [(32, False), (16, False), (8, False), (4, False), (16, True), (1, True)],
)
def test_the_largest_micro_batch_that_fits_is_taken(fitted, size, recomputes):
    assert fitted(size=size, recomputes=recomputes) == (size, recomputes)


def test_activations_are_recomputed_if_eight_texts_do_not_fit_otherwise(fitted):
    size, recomputes = fitted(size=2, recomputes=False)
    assert recomputes
    assert size > 2


def test_what_does_not_fit_gets_the_smallest(fitted):
    assert fitted(size=1, recomputes=True, spare=0.5) == (1, True)


def test_a_micro_batch_that_ran_out_of_memory_is_not_taken_again(fitted):
    assert fitted(size=32, recomputes=False, most=16) == (16, False)


def test_explicit_settings_stay(fitted):
    small = "verifier.micro_batch_size=2"
    assert fitted(small, size=1, recomputes=True, spare=0.5)[0] == 2
    assert fitted("verifier.gradient_checkpointing=false", size=1, recomputes=True, spare=0.5) == (1, False)
    assert fitted("verifier.gradient_checkpointing=true", size=32, recomputes=False) == (32, True)


def test_a_penalty_needs_the_whole_step(fitted):
    assert fitted("verifier.invariance.method=vrex", size=1, recomputes=True) == (32, True)


@pytest.mark.parametrize("phase", ["bootstrap", "mint"])
def test_phases_without_a_learner_stay_as_they_are(amounts_of, phase):
    amounts = amounts_of()
    assert fit_to_memory(replace(amounts, memory=1), SIZES, phase) is amounts.recipe


def test_the_cache_of_selection_is_that_of_training(amounts_of):
    """
    Selection would fill the memory that training leaves, so that even the smallest micro-batch would seem too large.
    """
    many = amounts_of("prover.eval_samples=1000", "verifier.tokens_per_batch=1")
    few = amounts_of("prover.eval_samples=1", "verifier.tokens_per_batch=1")
    peaks = [peak_memory("prover", on_gpu(amounts, 10**8), DEEP) for amounts in (many, few)]
    assert peaks[0] == peaks[1]


def test_vllm_leaves_less_memory(amounts_of):
    def least(*overrides: str) -> float:
        """Return the least memory, on a grid, with which activations are not recomputed."""
        amounts = amounts_of("verifier.tokens_per_batch=1", *overrides)
        grid = (1e5 * 1.02**number for number in range(1000))
        return next(
            size for size in grid if not fit_to_memory(on_gpu(amounts, size), DEEP, "prover").prover.recomputes
        )

    vllm, alone = "prover.generation=vllm_colocate", least()
    assert least(vllm) > 1.2 * alone  # .3 of the memory is vLLM's by default
    assert least(vllm, "prover.trainer={vllm_gpu_memory_utilization: 0.6}") > 2 * alone


def test_a_micro_batch_divides_the_step_of_a_process(amounts_of):
    amounts = amounts_of("prover.prompts_per_step=3", "prover.num_generations=4")
    chosen = fit_to_memory(on_gpu(amounts, 1), SIZES, "prover").prover
    assert chosen.micro_batch_size == 1
    # 12 solutions: all of them, or 4, 2 or 1, which are fewer than 8 texts
    for most, expected in ((None, (12, False)), (6, (4, True))):
        chosen = fit_to_memory(on_gpu(amounts, 10**12), SIZES, "prover", most=most).prover
        assert (chosen.micro_batch_size, chosen.gradient_checkpointing) == expected


def test_on_a_cpu_activations_are_recomputed_only_if_one_text_does_not_fit(amounts_of):
    """A CPU gains nothing from many texts at once, and half of the memory is enough if several processes share it."""
    given = [f"verifier.micro_batch_size={size}" for size in (1, 2)]
    one, two = (amounts_of(*STEP, *overrides) for overrides in (given[:1], given[1:]))
    longest = replace(one.lengths.verifier_input, high=33 - 9 + one.recipe.prover.max_completion_length)
    one, two = (replace(each, lengths=replace(each.lengths, verifier_input=longest)) for each in (one, two))
    memory = (peak_memory("verifier", one, DEEP) + peak_memory("verifier", two, DEEP)) / 2 / 0.6
    auto = amounts_of(*STEP)
    chosen = fit_to_memory(replace(auto, memory=memory), DEEP, "verifier").verifier
    assert (chosen.micro_batch_size, chosen.gradient_checkpointing) == (1, False)
    assert fit_to_memory(on_gpu(auto, memory * 0.6 / 0.85), DEEP, "verifier").verifier.gradient_checkpointing
    shared = replace(auto, hardware=replace(auto.hardware, num_processes=2), memory=2 * memory)
    assert fit_to_memory(shared, DEEP, "verifier").verifier == chosen
