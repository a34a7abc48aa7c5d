"""A critic's input and values, the models that can be one, and its files."""

import pytest
import torch
from peft import PeftModel, get_peft_model

from pvg_hf.core.disk_names import CRITIC_FOLDER
from pvg_hf.models.prover_model import load_causal_lm, load_prover
from pvg_hf.models.value_model import load_value_model
from pvg_hf.trainers.ppo.critic import Critic, compact, make_value_model
from tests.support.ppo_training import make_scorer
from tests.support.prover_training import LORA, score_texts
from tests.support.verifier_training import make_tokenizer
from tests.support.weights import weights_of


def _batch(rows: list[tuple[list[int], list[int]]], width: tuple[int, int] = (0, 0), pad: int = 0) -> dict:
    """Prompts filled up on the left and completions on the right, to at least `width`."""
    sides = {"prompt": [row[0] for row in rows], "completion": [row[1] for row in rows]}
    batch = {}
    for name, least in zip(sides, width, strict=True):
        longest = max(least, *map(len, sides[name]))
        filling = [[pad] * (longest - len(ids)) for ids in sides[name]]
        whole = [(f, ids) if name == "prompt" else (ids, f) for f, ids in zip(filling, sides[name], strict=True)]
        ones = [[0] * len(f) + [1] * len(ids) for f, ids in zip(filling, sides[name], strict=True)]
        batch[f"{name}_ids"] = torch.tensor([[*first, *second] for first, second in whole])
        batch[f"{name}_mask"] = torch.tensor([row if name == "prompt" else row[::-1] for row in ones])
    return batch


@pytest.fixture
def critic(tiny_prover) -> Critic:
    """A critic with a random head, so that values differ."""
    model = load_value_model(tiny_prover)
    torch.manual_seed(0)
    with torch.no_grad():
        model.score.weight.normal_()
    return Critic(model)


def test_padding_is_moved_to_the_right():
    ids, mask, states = compact(_batch([([5, 6], [7]), ([8], [9, 10, 11])], width=(3, 5), pad=99))
    assert (ids * mask).tolist() == [[5, 6, 7, 0], [8, 9, 10, 11]]
    assert mask.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert states.tolist() == [[1, 2, 3, 3, 3], [0, 1, 2, 3, 3]]  # where a token counts: the place before it


def test_values_are_those_of_each_solution_alone(critic):
    """A token's value is that of the token before it, whatever rows and padding surround them."""
    rows = [([5, 6, 7, 8], [9, 10]), ([11], [12, 13, 14, 15, 16]), ([17, 18], [19])]
    for width, pad in (((0, 0), 0), ((9, 12), 3)):
        values = critic.values(_batch(rows, width, pad))
        for row, (prompt, completion) in enumerate(rows):
            alone = critic.model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1, 0]
            torch.testing.assert_close(values[row, : len(completion)], alone, atol=1e-5, rtol=1e-5)


def test_values_do_not_depend_on_later_tokens(critic):
    first, second = (critic.values(_batch([([5, 6], [7, 8, last])])) for last in (9, 10))
    assert first.equal(second)


def test_values_do_not_depend_on_the_micro_batch(critic):
    batch = _batch([([5, 6, 7], [9]), ([11], [12, 13]), ([17, 18], [19])])
    found = critic.judge(batch, rows_at_once=2)
    assert not found.requires_grad
    mask = batch["completion_mask"].bool()
    torch.testing.assert_close(found[mask], critic.values(batch).detach()[mask], atol=1e-5, rtol=1e-5)


def _make(critic, prover, tiny_prover, scorer=score_texts) -> torch.nn.Module:
    return make_value_model(critic, prover=prover, tokenizer=load_prover(tiny_prover)[1], scorer=scorer, seed=0)


@pytest.mark.parametrize("critic", [None, "adapter"])
def test_a_critic_may_be_an_adapter_on_the_provers_base(critic, tiny_prover):
    prover = get_peft_model(load_causal_lm(str(tiny_prover)), LORA)
    state = torch.get_rng_state()
    model = _make(critic, prover, tiny_prover)
    assert torch.get_rng_state().equal(state)
    assert isinstance(model, PeftModel)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all("lora_" in name or "modules_to_save" in name for name in trained)
    frozen = {parameter.data_ptr() for parameter in prover.get_base_model().parameters()}
    own = {p.data_ptr() for name, p in model.named_parameters() if name not in trained and "score" not in name}
    assert own <= frozen
    provers = {parameter.data_ptr() for parameter in prover.parameters() if parameter.requires_grad}
    assert provers.isdisjoint(parameter.data_ptr() for parameter in model.parameters())
    assert model.peft_config["default"].r == LORA.r
    again = _make(critic, prover, tiny_prover)
    assert all(weight.equal(weights_of(again)[name]) for name, weight in weights_of(model).items())


@pytest.mark.parametrize("critic", [None, "verifier", "a folder", "a model"])
def test_a_critic_may_be_a_separate_model(critic, tiny_prover):
    prover, scorer = load_causal_lm(str(tiny_prover)), make_scorer(tiny_prover)
    named = {"a folder": str(tiny_prover), "a model": load_value_model(tiny_prover)}.get(critic, critic)
    model = _make(named, prover, tiny_prover, scorer)
    assert all(parameter.requires_grad for parameter in model.parameters())
    others = {parameter.data_ptr() for other in (prover, scorer.model) for parameter in other.parameters()}
    assert others.isdisjoint(parameter.data_ptr() for parameter in model.parameters())
    assert not any(parameter.requires_grad for parameter in scorer.model.parameters())
    assert all(module.p == 0 for module in model.modules() if isinstance(module, torch.nn.Dropout))
    assert not model(input_ids=torch.tensor([[5, 6]])).logits.any()


def test_invalid_critics_are_refused(tiny_prover, tmp_path):
    prover = load_causal_lm(str(tiny_prover))
    with pytest.raises(ValueError, match=r"fully fine-tuned.*`peft_config`"):
        _make("adapter", prover, tiny_prover)
    with pytest.raises(ValueError, match=r"a function.*`VerifierScorer`"):
        _make("verifier", prover, tiny_prover)
    with pytest.raises(ValueError, match="`LlamaForCausalLM` with 2 labels"):
        _make(prover, prover, tiny_prover)
    prover.save_pretrained(tmp_path)
    make_tokenizer(eos_token="[EOS]").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"critic `.*` .*vocabulary \(\d+ tokens\)"):
        _make(str(tmp_path), prover, tiny_prover)


@pytest.mark.parametrize("structure", ["adapter", "whole"])
def test_a_saved_critic_is_loaded_bit_for_bit(structure, tiny_prover, tmp_path):
    prover, tokenizer = load_prover(tiny_prover)
    if structure == "adapter":
        prover = get_peft_model(prover, LORA)
    first, second = (Critic(_make(None, prover, tiny_prover)) for _ in range(2))
    with torch.no_grad():
        for weight in first.trained_parameters.values():
            weight.normal_()
    first.save(tmp_path, tokenizer)
    second.load(tmp_path)
    assert second.trained_parameters.keys() == first.trained_parameters.keys()
    assert all(weight.equal(first.trained_parameters[name]) for name, weight in second.trained_parameters.items())
    assert any("score" in name for name in first.trained_parameters)
    assert (tmp_path / CRITIC_FOLDER / "tokenizer_config.json").exists()
    if structure == "adapter":
        with pytest.raises(ValueError, match=r"an adapter, .*base"):
            _make(str(tmp_path / CRITIC_FOLDER), prover, tiny_prover)
    with pytest.raises(ValueError, match=r"no critic .*\(.*missing\)"):
        second.load(tmp_path / "elsewhere")
